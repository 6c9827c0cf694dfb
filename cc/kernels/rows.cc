// Rows of tensors.
#include "cc/kernels/rows.h"

#include <algorithm>

#include "cc/kernels/checked.h"
#include "cc/kernels/errors.h"
#include "tensorflow/core/util/batch_util.h"

namespace recgraph {

using tensorflow::PartialTensorShape;
using tensorflow::Tensor;
using tensorflow::TensorShape;

absl::Status CopyRow(const Tensor& tensor, int64_t row, Tensor* copy) { return Copy(tensor.SubSlice(row), copy); }

absl::Status NoRows(tensorflow::DataType dtype, const PartialTensorShape& shape, Tensor* none) {
  TensorShape known({0});
  for (int i = 1; i < shape.dims(); ++i) {
    TF_RETURN_IF_ERROR(known.AddDimWithStatus(std::max<int64_t>(shape.dim_size(i), 0)));
  }
  return Tensor::BuildTensor(dtype, known, none);
}

absl::Status ResultsDiffer(size_t row, const TensorShape& first, const TensorShape& other) {
  return errors::InvalidArgument("map: the results of rows 0 and ", row, " differ in shape: ", first.DebugString(),
                                 " and ", other.DebugString(),
                                 ". Let the body fill them up to one shape, or call the SubGraph for one row at a time");
}

absl::Status StackRows(const std::vector<Tensor>& rows, tensorflow::DataType dtype,
                       const PartialTensorShape& shape, Tensor* stacked) {
  if (rows.empty()) {
    return NoRows(dtype, shape, stacked);
  }
  TensorShape whole = rows[0].shape();
  TF_RETURN_IF_ERROR(whole.InsertDimWithStatus(0, rows.size()));
  TF_RETURN_IF_ERROR(Tensor::BuildTensor(dtype, whole, stacked));
  if (!stacked->IsInitialized()) {
    return errors::ResourceExhausted("map: no memory for results of shape ", whole.DebugString());
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].shape() != rows[0].shape()) {
      return ResultsDiffer(i, rows[0].shape(), rows[i].shape());
    }
    if (rows[i].dtype() != dtype) {
      return errors::InvalidArgument("map: the result of row ", i, " is ", tensorflow::DataTypeString(rows[i].dtype()),
                                     ", not ", tensorflow::DataTypeString(dtype));
    }
    TF_RETURN_IF_ERROR(tensorflow::batch_util::CopyElementToSlice(rows[i], stacked, i));
  }
  return absl::OkStatus();
}

}  // namespace recgraph
