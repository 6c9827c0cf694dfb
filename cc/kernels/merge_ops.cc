// Matrices put together to one, and taken apart again: weights that a call merges, and their gradients.
#include <cstdint>
#include <cstring>
#include <vector>

#include "cc/kernels/errors.h"
#include "cc/kernels/kept.h"
#include "cc/kernels/sharded.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace recgraph {
namespace {

using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// Where a part lies. A vector is a matrix of one row.
struct PartPlace {
  int64_t row = 0, column = 0, rows = 1, columns = 1;
};

PartPlace Sized(const TensorShape& shape) {
  PartPlace place;
  place.columns = shape.dims() == 0 ? 1 : shape.dim_size(shape.dims() - 1);
  place.rows = shape.dims() == 2 ? shape.dim_size(0) : 1;
  return place;
}

// The places of parts; an error where they do not cover the whole, each number once.
absl::Status FindPlaces(const TensorShape& whole, const std::vector<TensorShape>& parts,
                        const std::vector<int64_t>& begins, std::vector<PartPlace>* places) {
  if (whole.dims() < 1 || whole.dims() > 2 || begins.size() != 2 * parts.size()) {
    return errors::InvalidArgument("a matrix or a vector of ", parts.size(), " parts expected, found shape ",
                                   whole.DebugString(), " and ", begins.size(), " numbers for places");
  }
  const PartPlace all = Sized(whole);
  int64_t left = whole.num_elements();
  for (size_t i = 0; i < parts.size(); ++i) {
    PartPlace place = Sized(parts[i]);
    place.row = begins[2 * i];
    place.column = begins[2 * i + 1];
    const bool fits = parts[i].dims() == whole.dims() && place.row >= 0 && place.column >= 0 &&
                      place.rows <= all.rows - place.row && place.columns <= all.columns - place.column;
    if (!fits) return errors::InvalidArgument("part ", i, " of shape ", parts[i].DebugString(), " does not fit");
    for (const PartPlace& other : *places) {
      if (place.row < other.row + other.rows && other.row < place.row + place.rows &&
          place.column < other.column + other.columns && other.column < place.column + place.columns) {
        return errors::InvalidArgument("part ", i, " lies over another one");
      }
    }
    left -= parts[i].num_elements();
    places->push_back(place);
  }
  return left == 0 ? absl::OkStatus() : errors::InvalidArgument("the parts do not cover the whole");
}

// Copies between a whole and its parts, by the rows of the whole, on several threads where there is enough to copy.
template <typename CopyRow>
void CopyRows(OpKernelContext* ctx, int64_t rows, int64_t bytes_a_row, const CopyRow& copy) {
  const auto* threads = ctx->device()->tensorflow_cpu_worker_threads();
  const auto work = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) copy(row);
  };
  if (threads->num_threads <= 1 || rows * bytes_a_row < 200'000) return work(0, rows);
  Shard(ctx, rows, bytes_a_row / 8, work);
}

template <typename CopyPart>
void ForParts(const std::vector<PartPlace>& places, int64_t width, size_t size, int64_t row, const CopyPart& copy) {
  for (size_t i = 0; i < places.size(); ++i) {
    const PartPlace& place = places[i];
    if (row < place.row || row >= place.row + place.rows) continue;
    const size_t in_whole = (row * width + place.column) * size;
    const size_t in_part = (row - place.row) * place.columns * size;
    copy(i, in_whole, in_part, place.columns * size);
  }
}

class MergeOp : public OpKernel {
 public:
  explicit MergeOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    tensorflow::PartialTensorShape shape;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shape", &shape));
    OP_REQUIRES(ctx, shape.AsTensorShape(&shape_), errors::InvalidArgument("the shape of a whole must be known"));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("begins", &begins_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("keep", &keep_));
  }

  void Compute(OpKernelContext* ctx) override {
    Tensor known;
    if (keep_ && kept_.Give(ctx, &known)) return ctx->set_output(0, known);
    std::vector<TensorShape> shapes;
    for (int i = 0; i < ctx->num_inputs(); ++i) shapes.push_back(ctx->input(i).shape());
    std::vector<PartPlace> places;
    OP_REQUIRES_OK(ctx, FindPlaces(shape_, shapes, begins_, &places));
    Tensor* whole = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, shape_, &whole));
    const size_t size = tensorflow::DataTypeSize(whole->dtype());
    char* const to = static_cast<char*>(whole->data());
    std::vector<const char*> from;
    for (int i = 0; i < ctx->num_inputs(); ++i) from.push_back(static_cast<const char*>(ctx->input(i).data()));
    const PartPlace all = Sized(shape_);
    CopyRows(ctx, all.rows, all.columns * size, [&](int64_t row) {
      ForParts(places, all.columns, size, row, [&](size_t i, size_t in_whole, size_t in_part, size_t bytes) {
        std::memcpy(to + in_whole, from[i] + in_part, bytes);
      });
    });
    if (keep_ && kept_.IsWorthKeeping(ctx)) kept_.Keep(ctx, *whole);
  }

 private:
  TensorShape shape_;
  std::vector<int64_t> begins_;
  bool keep_ = false;
  Kept kept_;
};

class PartsOp : public OpKernel {
 public:
  explicit PartsOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::vector<tensorflow::PartialTensorShape> shapes;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shapes", &shapes));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("begins", &begins_));
    OP_REQUIRES(ctx, static_cast<int>(shapes.size()) == ctx->num_outputs(),
                errors::InvalidArgument("a shape for each part expected, found ", shapes.size()));
    for (const auto& shape : shapes) {
      shapes_.emplace_back();
      OP_REQUIRES(ctx, shape.AsTensorShape(&shapes_.back()),
                  errors::InvalidArgument("the shapes of parts must be known"));
    }
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& whole = ctx->input(0);
    std::vector<PartPlace> places;
    OP_REQUIRES_OK(ctx, FindPlaces(whole.shape(), shapes_, begins_, &places));
    std::vector<char*> to;
    for (size_t i = 0; i < shapes_.size(); ++i) {
      Tensor* part = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, shapes_[i], &part));
      to.push_back(static_cast<char*>(part->data()));
    }
    const size_t size = tensorflow::DataTypeSize(whole.dtype());
    const char* const from = static_cast<const char*>(whole.data());
    const PartPlace all = Sized(whole.shape());
    CopyRows(ctx, all.rows, all.columns * size, [&](int64_t row) {
      ForParts(places, all.columns, size, row, [&](size_t i, size_t in_whole, size_t in_part, size_t bytes) {
        std::memcpy(to[i] + in_part, from + in_whole, bytes);
      });
    });
  }

 private:
  std::vector<int64_t> begins_;
  std::vector<TensorShape> shapes_;
};

REGISTER_KERNEL_BUILDER(Name("Recgraph>Merge").Device(tensorflow::DEVICE_CPU), MergeOp);
REGISTER_KERNEL_BUILDER(Name("Recgraph>Parts").Device(tensorflow::DEVICE_CPU), PartsOp);

}  // namespace
}  // namespace recgraph
