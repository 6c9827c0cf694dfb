// Rows of tensors, for mapped calls: row i in, row i out.
#ifndef RECGRAPH_CC_KERNELS_ROWS_H_
#define RECGRAPH_CC_KERNELS_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/status.h"

namespace recgraph {

// tensor[row], in a buffer of its own (a slice in place could be misaligned).
absl::Status CopyRow(const tensorflow::Tensor& tensor, int64_t row, tensorflow::Tensor* copy);

// The rows stacked along a new first dimension. They must agree in shape; where there are none,
// `shape` (of the whole, unknown dimensions counted as 0) gives the shape. All are of this dtype.
absl::Status StackRows(const std::vector<tensorflow::Tensor>& rows, tensorflow::DataType dtype,
                       const tensorflow::PartialTensorShape& shape, tensorflow::Tensor* stacked);

// The error where the result of a row differs in shape from that of the first one.
absl::Status ResultsDiffer(size_t row, const tensorflow::TensorShape& first, const tensorflow::TensorShape& other);

// A tensor of zero rows: `shape` with its first dimension 0 and unknown dimensions 0.
absl::Status NoRows(tensorflow::DataType dtype, const tensorflow::PartialTensorShape& shape, tensorflow::Tensor* none);

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_ROWS_H_
