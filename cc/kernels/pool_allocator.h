// The memory pool as TensorFlow's allocator.
#ifndef RECGRAPH_CC_KERNELS_POOL_ALLOCATOR_H_
#define RECGRAPH_CC_KERNELS_POOL_ALLOCATOR_H_

#include "absl/status/status.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/tensor.h"

namespace recgraph {

// One for the process, never destroyed: tensors outlive the devices that made them.
tensorflow::Allocator* ThePoolAllocator();

// A tensor in the pool's memory, not initialised; ResourceExhausted where there is no memory for it. `dtype` is that
// of a tensor that exists: TensorFlow ends the process where it is asked for one that tensors cannot have.
absl::Status Allocate(tensorflow::DataType dtype, const tensorflow::TensorShape& shape, tensorflow::Tensor* tensor);

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_POOL_ALLOCATOR_H_
