// Knowing weights again.
#include "cc/kernels/kept.h"

#include <algorithm>

namespace recgraph {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

namespace {
constexpr int64_t kMostPatience = int64_t{1} << 20;
}  // namespace

bool Kept::AreSame(OpKernelContext* ctx) const {
  if (places_.empty()) return false;
  for (int i = 0; i < ctx->num_inputs(); ++i) {
    if (ctx->input(i).data() != places_[i]) return false;
  }
  return true;
}

bool Kept::Give(OpKernelContext* ctx, Tensor* made) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (parts_.empty()) return false;
  if (AreSame(ctx)) {
    *made = made_;
    return true;
  }
  parts_.clear();
  made_ = Tensor();
  patience_ = std::min(2 * patience_, kMostPatience);
  return false;
}

bool Kept::IsWorthKeeping(OpKernelContext* ctx) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool same = AreSame(ctx);
  seen_ = same ? seen_ + 1 : 0;
  if (!same) {  // what another thread has kept meanwhile is of other inputs than the places that follow
    parts_.clear();
    made_ = Tensor();
  }
  places_.clear();
  for (int i = 0; i < ctx->num_inputs(); ++i) places_.push_back(ctx->input(i).data());
  return seen_ >= patience_;
}

void Kept::Keep(OpKernelContext* ctx, const Tensor& made) {
  const std::lock_guard<std::mutex> lock(mutex_);
  seen_ = 0;
  places_.clear();
  parts_.clear();
  for (int i = 0; i < ctx->num_inputs(); ++i) {
    places_.push_back(ctx->input(i).data());
    parts_.push_back(ctx->input(i));
  }
  made_ = made;
}

}  // namespace recgraph
