// The memory pool as TensorFlow's allocator.
#ifndef RECGRAPH_CC_KERNELS_POOL_ALLOCATOR_H_
#define RECGRAPH_CC_KERNELS_POOL_ALLOCATOR_H_

#include "tensorflow/core/framework/allocator.h"

namespace recgraph {

// One for the process, never destroyed: tensors outlive the devices that made them.
tensorflow::Allocator* ThePoolAllocator();

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_POOL_ALLOCATOR_H_
