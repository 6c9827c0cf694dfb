// Captured matrices, packed for products with rows (cc/core/row_kernels.h).
#ifndef RECGRAPH_CC_KERNELS_PACKED_MATRICES_H_
#define RECGRAPH_CC_KERNELS_PACKED_MATRICES_H_

#include <map>
#include <mutex>
#include <utility>

#include "cc/core/row_kernels.h"
#include "tensorflow/core/framework/tensor.h"

namespace recgraph {

// Whether a packed matrix may have this shape, which comes out of a file: then what it takes can be counted.
inline bool IsPackable(const PackedShape& shape) {
  constexpr int64_t kLargestSide = int64_t{1} << 30;
  const auto fits = [](int64_t side) { return side >= 1 && side <= kLargestSide; };
  return fits(shape.inner) && fits(shape.width);
}

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
