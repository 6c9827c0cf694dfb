// Rows of tensors, for mapped calls: row i in, row i out.
#ifndef RECGRAPH_CC_KERNELS_ROWS_H_
#define RECGRAPH_CC_KERNELS_ROWS_H_

#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/platform/status.h"

namespace recgraph {

// tensor[row], in a buffer of its own (a slice in place could be misaligned).
tensorflow::Tensor CopyRow(const tensorflow::Tensor& tensor, int64_t row);

// The rows stacked along a new first dimension. They must agree in shape; where there are none,
// `shape` (of the whole, unknown dimensions counted as 0) gives the shape.
absl::Status StackRows(const std::vector<tensorflow::Tensor>& rows, tensorflow::DataType dtype,
                       const tensorflow::PartialTensorShape& shape, tensorflow::Tensor* stacked);

// A tensor of zero rows: `shape` with its first dimension 0 and unknown dimensions 0.
tensorflow::Tensor NoRows(tensorflow::DataType dtype, const tensorflow::PartialTensorShape& shape);

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_ROWS_H_
