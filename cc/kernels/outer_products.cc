// Rows by their addresses: nothing is stacked. The product packs what it reads anyway.
#include "cc/kernels/outer_products.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <iterator>
#include <set>
#include <utility>

#include "cc/core/memory_pool.h"
#include "cc/core/row_kernels.h"
#include "cc/core/stretch.h"
#include "cc/kernels/errors.h"
#include "cc/kernels/pool_allocator.h"
#include "tsl/profiler/lib/traceme.h"

namespace recgraph {

using tensorflow::Tensor;

namespace {

// What a part multiplies at least, unless all is less: it is to pay for the waking of a thread.
constexpr double kLeast = 500'000;
// Rows that the kernel takes at once.
constexpr int64_t kRows = 8;

void AddRows(const std::vector<Tensor>& parts, int64_t offset, std::vector<const float*>* rows) {
  for (const Tensor& part : parts) {
    const float* const data = part.flat<float>().data() + offset;
    for (int64_t row = 0; row < part.dim_size(0); ++row) rows->push_back(data + row * part.dim_size(1));
  }
}

// By way of a product in `Wide`.
template <typename T, typename Wide>
void AddAllProducts(const std::vector<Tensor>& a, const std::vector<Tensor>& b, Tensor* product) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using WideMatrix = Eigen::Matrix<Wide, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<Matrix> out(product->flat<T>().data(), product->dim_size(0), product->dim_size(1));
  WideMatrix sum = WideMatrix::Zero(out.rows(), out.cols());
  for (size_t i = 0; i < a.size(); ++i) {
    const Eigen::Map<const Matrix> left(a[i].flat<T>().data(), a[i].dim_size(0), a[i].dim_size(1));
    const Eigen::Map<const Matrix> right(b[i].flat<T>().data(), b[i].dim_size(0), b[i].dim_size(1));
    sum.noalias() += left.template cast<Wide>().transpose() * right.template cast<Wide>();
  }
  out = sum.template cast<T>();
}

template <typename T>
absl::Status ToFloats(const std::vector<Tensor>& halves, std::vector<Tensor>* floats) {
  for (const Tensor& half : halves) {
    floats->emplace_back();
    TF_RETURN_IF_ERROR(Allocate(tensorflow::DT_FLOAT, half.shape(), &floats->back()));
    const T* const from = half.flat<T>().data();
    std::copy_n(from, half.NumElements(), floats->back().flat<float>().data());
  }
  return absl::OkStatus();
}

template <typename T>
void RoundTo(const Tensor& floats, Tensor halves) {
  const float* const from = floats.flat<float>().data();
  T* const to = halves.flat<T>().data();
  for (int64_t i = 0; i < floats.NumElements(); ++i) to[i] = static_cast<T>(from[i]);
}

}  // namespace

absl::Status OuterProducts::Add(TensorPairs pairs, std::vector<ScatteredFactors> scattered,
                                Tensor* product) {
  const auto& [a, b] = pairs;
  for (size_t i = 0; i < a.size(); ++i) {
    if (product->dims() == 2 && a[i].dims() == 2 && b[i].dims() == 2 && a[i].dtype() == product->dtype() &&
        b[i].dtype() == product->dtype() && a[i].dim_size(1) == product->dim_size(0) &&
        b[i].dim_size(1) == product->dim_size(1)) {
      continue;
    }
    return errors::InvalidArgument("the gradient of a captured tensor of shape ", product->shape().DebugString(),
                                   " is made of factors of shapes ", a[i].shape().DebugString(), " and ",
                                   b[i].shape().DebugString());
  }
  for (const ScatteredFactors& factors : scattered) {
    if (product->dtype() == tensorflow::DT_FLOAT && product->dims() == 2 && factors.a.size() == factors.b.size() &&
        factors.height == product->dim_size(0) && factors.first >= 0 &&
        factors.first + factors.width_a <= factors.height && factors.width_b == product->dim_size(1)) {
      continue;
    }
    return errors::InvalidArgument("the gradient of a captured tensor of shape ", product->shape().DebugString(),
                                   " is made of rows of ", factors.height, " and of ", factors.width_b, " floats");
  }
  if (a.empty() && scattered.empty()) {
    if (product->TotalBytes() > 0) std::memset(product->data(), 0, product->TotalBytes());
    return absl::OkStatus();
  }
  if (product->dtype() == tensorflow::DT_FLOAT) {
    Keep(std::move(pairs), std::move(scattered), product);
    return absl::OkStatus();
  }
  switch (product->dtype()) {
    case tensorflow::DT_HALF: return KeepHalves<Eigen::half>(pairs, *product);
    case tensorflow::DT_BFLOAT16: return KeepHalves<Eigen::bfloat16>(pairs, *product);
#define PRODUCT_CASE(T, Wide)                \
  case tensorflow::DataTypeToEnum<T>::value: \
    AddAllProducts<T, Wide>(a, b, product);  \
    return absl::OkStatus();
    PRODUCT_CASE(double, double)
    PRODUCT_CASE(tensorflow::complex64, tensorflow::complex128)
    PRODUCT_CASE(tensorflow::complex128, tensorflow::complex128)
#undef PRODUCT_CASE
    default:
      return errors::Unimplemented("no gradient sum for dtype ", tensorflow::DataTypeString(product->dtype()));
  }
}

template <typename T>
absl::Status OuterProducts::KeepHalves(const TensorPairs& pairs, const Tensor& product) {
  TensorPairs floats;
  TF_RETURN_IF_ERROR(ToFloats<T>(pairs.first, &floats.first));
  TF_RETURN_IF_ERROR(ToFloats<T>(pairs.second, &floats.second));
  Tensor out;
  TF_RETURN_IF_ERROR(Allocate(tensorflow::DT_FLOAT, product.shape(), &out));
  Keep(std::move(floats), {}, &out);
  halves_.emplace_back(out, product);
  return absl::OkStatus();
}

void OuterProducts::Keep(TensorPairs pairs, std::vector<ScatteredFactors> scattered, Tensor* out) {
  std::set<int64_t> bounds{0, out->dim_size(0)};
  for (const ScatteredFactors& factors : scattered) bounds.insert({factors.first, factors.first + factors.width_a});
  const int64_t width = out->dim_size(1);
  for (auto first = bounds.begin(); std::next(first) != bounds.end(); ++first) {
    Segment segment{*first, *std::next(first), width, {}, {}, out->flat<float>().data() + *first * width};
    AddRows(pairs.first, segment.first, &segment.a);
    AddRows(pairs.second, 0, &segment.b);
    for (const ScatteredFactors& factors : scattered) {
      if (factors.first > segment.first || factors.first + factors.width_a < segment.last) continue;
      for (const float* const row : factors.a) segment.a.push_back(row + segment.first - factors.first);
      segment.b.insert(segment.b.end(), factors.b.begin(), factors.b.end());
    }
    if (!segment.a.empty()) {
      segments_.push_back(std::move(segment));
    } else {
      std::fill_n(segment.out, (segment.last - segment.first) * width, 0.0f);
    }
  }
  products_.push_back({std::move(pairs), std::move(scattered), *out});
}

// Parts of the same size: each packs its own part of the first factor, and reads all of the second.
std::vector<OuterProducts::Part> OuterProducts::Divided(double multiplications) const {
  std::vector<Part> parts;
  for (const Segment& segment : segments_) {
    const int64_t rows = segment.last - segment.first;
    const double wanted = std::ceil(segment.multiplications() / std::max(multiplications, kLeast));
    const int64_t count = std::clamp<int64_t>(static_cast<int64_t>(wanted), 1, (rows + kRows - 1) / kRows);
    for (int64_t i = 0; i < count; ++i) {
      const auto bound = [&](int64_t part) { return part == count ? rows : rows * part / count / kRows * kRows; };
      if (bound(i) < bound(i + 1)) parts.push_back({&segment, bound(i), bound(i + 1)});
    }
  }
  return parts;
}

absl::Status OuterProducts::Run(tensorflow::OpKernelContext* ctx) {
  TF_RETURN_IF_ERROR(Multiply(ctx));
  for (const auto& [floats, halves] : halves_) {
    halves.dtype() == tensorflow::DT_HALF ? RoundTo<Eigen::half>(floats, halves)
                                          : RoundTo<Eigen::bfloat16>(floats, halves);
  }
  return absl::OkStatus();
}

absl::Status OuterProducts::Multiply(tensorflow::OpKernelContext* ctx) {
  if (segments_.empty()) return absl::OkStatus();
  const tsl::profiler::TraceMe trace("recgraph: outer products", tsl::profiler::kInfo);
  const auto* threads = ctx->device()->tensorflow_cpu_worker_threads();
  double multiplications = 0;
  for (const Segment& segment : segments_) multiplications += segment.multiplications();
  const std::vector<Part> parts = Divided(multiplications / (2 * threads->num_threads));
  std::atomic<bool> done{true};
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (!RunPart(parts[i])) done.store(false, std::memory_order_relaxed);
    }
  };
  if (multiplications < 2 * kLeast) {
    run(0, static_cast<int64_t>(parts.size()));
  } else {
    Stretch::HandOver();
    const auto run_there = [&run](int64_t begin, int64_t end) {
      const Stretch stretch;
      run(begin, end);
    };
    threads->workers->ParallelFor(parts.size(), tsl::thread::ThreadPool::SchedulingParams::Fixed(1), run_there);
    const Stretch stretch;
  }
  return done.load() ? absl::OkStatus() : errors::ResourceExhausted("no memory for the products of a gradient");
}

bool OuterProducts::RunPart(const Part& part) {
  const RowKernels& kernels = BestRowKernels();
  const Segment& segment = *part.segment;
  const int64_t doubles = kernels.outer_scratch(segment.a.size(), segment.width, part.end - part.begin);
  void* const scratch = MemoryPool::Allocate(doubles * sizeof(double));
  if (scratch == nullptr) return false;
  kernels.outer_product(segment.a.size(), segment.width, segment.a.data(), segment.b.data(), part.begin, part.end,
                        static_cast<double*>(scratch), segment.out + part.begin * segment.width);
  MemoryPool::Free(scratch);
  return true;
}

}  // namespace recgraph
