// Packing, and knowing again what was packed.
#include "cc/kernels/packed_matrices.h"

#include "cc/core/row_kernels.h"
#include "cc/kernels/errors.h"
#include "cc/kernels/pool_allocator.h"

namespace recgraph {

using tensorflow::Tensor;

absl::Status PackMatrix(const Tensor& matrix, bool transposed, Tensor* packed) {
  if (matrix.dtype() != tensorflow::DT_FLOAT || matrix.dims() != 2) {
    return errors::InvalidArgument("no matrix of floats: ", matrix.DebugString());
  }
  const int inner = transposed ? 1 : 0;
  const PackedShape shape{matrix.dim_size(inner), matrix.dim_size(1 - inner)};
  TF_RETURN_IF_ERROR(Allocate(tensorflow::DT_FLOAT, tensorflow::TensorShape({shape.floats()}), packed));
  BestRowKernels().pack(shape, matrix.flat<float>().data(), transposed, packed->flat<float>().data());
  return absl::OkStatus();
}

absl::Status PackedMatrices::Get(int slot, bool transposed, const Tensor& matrix, Tensor* packed) {
  std::lock_guard<std::mutex> lock(mutex_);
  Known& known = known_[{slot, transposed}];
  // Slices of one tensor share its buffer: only what begins at the same place is the same.
  const bool is_alike = known.matrix.dtype() == matrix.dtype() && known.matrix.shape() == matrix.shape();
  if (known.matrix.data() != matrix.data() || !is_alike) {
    known = {};
    TF_RETURN_IF_ERROR(PackMatrix(matrix, transposed, packed));
    known = {matrix, *packed};
  }
  *packed = known.packed;
  return absl::OkStatus();
}

}  // namespace recgraph
