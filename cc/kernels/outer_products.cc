// Rows by their addresses: nothing is stacked. The product packs what it reads anyway.
#include "cc/kernels/outer_products.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include "cc/core/memory_pool.h"
#include "cc/kernels/errors.h"
#include "tensorflow/core/framework/register_types.h"
#include "tsl/profiler/lib/traceme.h"

namespace recgraph {

using tensorflow::Tensor;

namespace {

void RowsOf(const std::vector<Tensor>& parts, std::vector<const float*>* rows) {
  for (const Tensor& part : parts) {
    const float* const data = part.flat<float>().data();
    for (int64_t row = 0; row < part.dim_size(0); ++row) rows->push_back(data + row * part.dim_size(1));
  }
}

template <typename T>
void AddAllProducts(const std::vector<Tensor>& a, const std::vector<Tensor>& b, Tensor* product) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<Matrix> out(product->flat<T>().data(), product->dim_size(0), product->dim_size(1));
  for (size_t i = 0; i < a.size(); ++i) {
    const Eigen::Map<const Matrix> left(a[i].flat<T>().data(), a[i].dim_size(0), a[i].dim_size(1));
    const Eigen::Map<const Matrix> right(b[i].flat<T>().data(), b[i].dim_size(0), b[i].dim_size(1));
    out.noalias() += left.transpose() * right;
  }
}

}  // namespace

absl::Status OuterProducts::Add(SlotSums<Tensor>::Pairs pairs, std::vector<ScatteredFactors> scattered,
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
        factors.width_a == product->dim_size(0) && factors.width_b == product->dim_size(1)) {
      continue;
    }
    return errors::InvalidArgument("the gradient of a captured tensor of shape ", product->shape().DebugString(),
                                   " is made of rows of ", factors.width_a, " and of ", factors.width_b, " floats");
  }
  if (a.empty() && scattered.empty()) {
    if (product->TotalBytes() > 0) std::memset(product->data(), 0, product->TotalBytes());
    return absl::OkStatus();
  }
  if (product->dtype() == tensorflow::DT_FLOAT) {
    Keep(std::move(pairs), std::move(scattered), product);
    return absl::OkStatus();
  }
  if (product->TotalBytes() > 0) std::memset(product->data(), 0, product->TotalBytes());
  switch (product->dtype()) {
#define PRODUCT_CASE(T)                      \
  case tensorflow::DataTypeToEnum<T>::value: \
    AddAllProducts<T>(a, b, product);        \
    return absl::OkStatus();
    TF_CALL_FLOAT_TYPES(PRODUCT_CASE)
    TF_CALL_COMPLEX_TYPES(PRODUCT_CASE)
#undef PRODUCT_CASE
    default:
      return errors::Unimplemented("no gradient sum for dtype ", tensorflow::DataTypeString(product->dtype()));
  }
}

void OuterProducts::Keep(SlotSums<Tensor>::Pairs pairs, std::vector<ScatteredFactors> scattered, Tensor* out) {
  Product product;
  RowsOf(pairs.first, &product.a);
  RowsOf(pairs.second, &product.b);
  for (const ScatteredFactors& factors : scattered) {
    product.a.insert(product.a.end(), factors.a.begin(), factors.a.end());
    product.b.insert(product.b.end(), factors.b.begin(), factors.b.end());
  }
  product.scattered = std::move(scattered);
  if (product.a.empty()) {
    if (out->TotalBytes() > 0) std::memset(out->data(), 0, out->TotalBytes());
    return;
  }
  product.pairs = std::move(pairs);
  product.shape = {out->dim_size(0), out->dim_size(1)};
  product.out = *out;
  for (int64_t column = 0; column < product.shape.width; column += BestRowKernels().panel) {
    panels_.emplace_back(products_.size(), column);
  }
  products_.push_back(std::move(product));
}

absl::Status OuterProducts::Run(tensorflow::OpKernelContext* ctx) {
  if (panels_.empty()) return absl::OkStatus();
  const auto no_memory = [] { return errors::ResourceExhausted("no memory for the products of a gradient"); };
  const tsl::profiler::TraceMe trace("recgraph: outer products", tsl::profiler::kInfo);
  double multiplications = 0;
  for (const Product& product : products_) {
    multiplications += static_cast<double>(product.a.size()) * product.shape.inner * product.shape.width;
  }
  if (multiplications < 1'000'000) return RunPanels(0, panels_.size()) ? absl::OkStatus() : no_memory();
  // Each part packs the first factor for itself, so there are few.
  const auto* threads = ctx->device()->tensorflow_cpu_worker_threads();
  const int64_t parts = threads->num_threads;
  const auto few = tsl::thread::ThreadPool::SchedulingParams::Fixed((panels_.size() + parts - 1) / parts);
  std::atomic<bool> done{true};
  threads->workers->ParallelFor(panels_.size(), few, [&](int64_t begin, int64_t end) {
    if (!RunPanels(begin, end)) done.store(false, std::memory_order_relaxed);
  });
  return done.load() ? absl::OkStatus() : no_memory();
}

bool OuterProducts::RunPanels(size_t begin, size_t end) const {
  const RowKernels& kernels = BestRowKernels();
  while (begin < end) {
    const auto [index, first] = panels_[begin];
    const Product& product = products_[index];
    size_t next = begin;
    while (next < end && panels_[next].first == index) ++next;
    const int64_t last = std::min<int64_t>(panels_[next - 1].second + kernels.panel, product.shape.width);
    void* const scratch = MemoryPool::Allocate(kernels.outer_rows * product.shape.inner * sizeof(float));
    if (scratch == nullptr) return false;
    kernels.outer_product(product.a.size(), product.shape, product.a.data(), product.b.data(), first, last,
                          static_cast<float*>(scratch), const_cast<Tensor&>(product.out).flat<float>().data());
    MemoryPool::Free(scratch);
    begin = next;
  }
  return true;
}

}  // namespace recgraph
