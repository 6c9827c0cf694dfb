// Captured matrices, packed for products with rows (cc/core/row_kernels.h).
#ifndef RECGRAPH_CC_KERNELS_PACKED_MATRICES_H_
#define RECGRAPH_CC_KERNELS_PACKED_MATRICES_H_

#include <map>
#include <mutex>
#include <utility>

#include "tensorflow/core/framework/tensor.h"

namespace recgraph {

// Packs a matrix of floats [inner, width] or, transposed, [width, inner].
absl::Status PackMatrix(const tensorflow::Tensor& matrix, bool transposed, tensorflow::Tensor* packed);

// What calls without a gradient have packed, for the next ones: inference finds its weights packed already. A
// matrix that is kept here is referred to, so that whoever changes its variable writes to a new buffer; calls
// with a gradient keep nothing, or every step of training would copy its weights for it. Thread-safe.
class PackedMatrices {
 public:
  absl::Status Get(int slot, bool transposed, const tensorflow::Tensor& matrix, tensorflow::Tensor* packed);

 private:
  struct Known {
    tensorflow::Tensor matrix;
    tensorflow::Tensor packed;
  };
  std::mutex mutex_;
  std::map<std::pair<int, bool>, Known> known_;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_PACKED_MATRICES_H_
