// The gradients of weights: products of many rows, kept as pairs of tensors until all are there.
#ifndef RECGRAPH_CC_KERNELS_OUTER_PRODUCTS_H_
#define RECGRAPH_CC_KERNELS_OUTER_PRODUCTS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "cc/core/row_kernels.h"
#include "cc/core/slot_sums.h"
#include "cc/kernels/environment.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace recgraph {

// Products of the same step, divided among the threads together.
class OuterProducts {
 public:
  // The sum over the pairs (a [m, k], b [m, n]) of transpose(a) b, in `product`, which is [k, n] and of their dtype;
  // zero where there are no rows. Floats are there after Run, all others at once. `scattered` are more such rows.
  absl::Status Add(SlotSums<tensorflow::Tensor>::Pairs pairs, std::vector<ScatteredFactors> scattered,
                   tensorflow::Tensor* product);
  // On the worker threads of the kernel's device and the calling one. ResourceExhausted where there is no memory.
  absl::Status Run(tensorflow::OpKernelContext* ctx);

 private:
  struct Product {
    SlotSums<tensorflow::Tensor>::Pairs pairs;
    std::vector<ScatteredFactors> scattered;
    std::vector<const float*> a, b;  // by row
    PackedShape shape;
    tensorflow::Tensor out;
  };

  void Keep(SlotSums<tensorflow::Tensor>::Pairs pairs, std::vector<ScatteredFactors> scattered,
            tensorflow::Tensor* out);
  // False where there is no memory.
  bool RunPanels(size_t begin, size_t end) const;

  std::vector<Product> products_;
  std::vector<std::pair<int, int64_t>> panels_;  // product, first column
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_OUTER_PRODUCTS_H_
