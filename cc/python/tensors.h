// Small helpers around tensors of the CPU.
#ifndef RECGRAPH_CC_PYTHON_TENSORS_H_
#define RECGRAPH_CC_PYTHON_TENSORS_H_

#include "cc/python/value.h"
#include "tensorflow/core/common_runtime/eager/tensor_handle.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace recgraph {

inline Dimensions ShapeOf(const tensorflow::Tensor& tensor) {
  Dimensions shape;
  for (int i = 0; i < tensor.dims(); ++i) shape.push_back(tensor.dim_size(i));
  return shape;
}

inline HandlePtr HandleOf(const tensorflow::Tensor& tensor) {
  return HandlePtr(tensorflow::TensorHandle::CreateLocalHandle(tensor));
}

// Whole numbers and truth values: what programs compute indices and shapes with.
inline bool IsCountable(tensorflow::DataType dtype) {
  return tensorflow::DataTypeIsInteger(dtype) || dtype == tensorflow::DT_BOOL;
}

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_TENSORS_H_
