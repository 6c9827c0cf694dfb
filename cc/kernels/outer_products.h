// The gradients of weights: products of many rows, kept as pairs of tensors until all are there.
#ifndef RECGRAPH_CC_KERNELS_OUTER_PRODUCTS_H_
#define RECGRAPH_CC_KERNELS_OUTER_PRODUCTS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "cc/core/slot_sums.h"
#include "cc/kernels/environment.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace recgraph {

// Products of the same step, divided among the threads together.
class OuterProducts {
 public:
  // The sum over the pairs (a [m, k], b [m, n]) of transpose(a) b, in `product`, which is [k, n] and of their dtype;
  // zero where there are no rows. It is there after Run; `scattered` are more such rows. Half types are multiplied as
  // floats; an error does not grow with the number of rows.
  absl::Status Add(TensorPairs pairs, std::vector<ScatteredFactors> scattered,
                   tensorflow::Tensor* product);
  // On the worker threads of the kernel's device and the calling one. ResourceExhausted where there is no memory.
  absl::Status Run(tensorflow::OpKernelContext* ctx);

 private:
  struct Product {
    TensorPairs pairs;
    std::vector<ScatteredFactors> scattered;
    tensorflow::Tensor out;
  };
  // Rows `first` to `last` of a product, which are of the same factors; `a` points to the floats for `first`.
  struct Segment {
    int64_t first, last;
    int64_t width;
    std::vector<const float*> a, b;
    float* out;
    double multiplications() const { return static_cast<double>(a.size()) * (last - first) * width; }
  };
  // Part of a segment.
  struct Part {
    const Segment* segment;
    int64_t begin, end;  // rows, from `first`
  };

  // The same for pairs of a half type T.
  template <typename T>
  absl::Status KeepHalves(const TensorPairs& pairs, const tensorflow::Tensor& product);
  void Keep(TensorPairs pairs, std::vector<ScatteredFactors> scattered,
            tensorflow::Tensor* out);
  absl::Status Multiply(tensorflow::OpKernelContext* ctx);
  std::vector<Part> Divided(double multiplications) const;
  // False where there is no memory.
  static bool RunPart(const Part& part);

  std::vector<Product> products_;
  std::vector<Segment> segments_;
  std::vector<std::pair<tensorflow::Tensor, tensorflow::Tensor>> halves_;  // a product in floats, and where it is to go
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_OUTER_PRODUCTS_H_
