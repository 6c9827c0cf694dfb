// Rows of tensors.
#include "cc/kernels/rows.h"

#include <algorithm>

#include "tensorflow/core/framework/tensor_util.h"
#include "cc/kernels/errors.h"
#include "tensorflow/core/util/batch_util.h"

namespace recgraph {

using tensorflow::PartialTensorShape;
using tensorflow::Tensor;
using tensorflow::TensorShape;

Tensor CopyRow(const Tensor& tensor, int64_t row) {
  return tensorflow::tensor::DeepCopy(tensor.SubSlice(row));
}

Tensor NoRows(tensorflow::DataType dtype, const PartialTensorShape& shape) {
  TensorShape known;
  known.AddDim(0);
  for (int i = 1; i < std::max(shape.dims(), 1); ++i) {
    known.AddDim(std::max<int64_t>(shape.dim_size(i), 0));
  }
  return Tensor(dtype, known);
}

absl::Status StackRows(const std::vector<Tensor>& rows, tensorflow::DataType dtype,
                       const PartialTensorShape& shape, Tensor* stacked) {
  if (rows.empty()) {
    *stacked = NoRows(dtype, shape);
    return absl::OkStatus();
  }
  TensorShape whole = rows[0].shape();
  whole.InsertDim(0, rows.size());
  *stacked = Tensor(dtype, whole);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].shape() != rows[0].shape()) {
      return errors::InvalidArgument(
          "map: the results of rows 0 and ", i, " differ in shape: ",
          rows[0].shape().DebugString(), " and ", rows[i].shape().DebugString());
    }
    TF_RETURN_IF_ERROR(tensorflow::batch_util::CopyElementToSlice(rows[i], stacked, i));
  }
  return absl::OkStatus();
}

}  // namespace recgraph
