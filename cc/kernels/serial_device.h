// A device like another one, but whose kernels do their work on the calling thread. In a recursion
// an invocation is the grain of parallelism: a kernel that splits a small matrix product among
// threads and waits for them costs more than the product, and keeps other invocations from the
// threads that it wakes.
#ifndef RECGRAPH_CC_KERNELS_SERIAL_DEVICE_H_
#define RECGRAPH_CC_KERNELS_SERIAL_DEVICE_H_

#include <memory>

#include "tensorflow/core/common_runtime/device_mgr.h"

namespace recgraph {

// A manager of one such device, whose tensors are in the memory pool. It shares resources and name with
// `underlying`, which must outlive it.
std::unique_ptr<tensorflow::DeviceMgr> MakeSerialDevice(tensorflow::Device* underlying);

// The same with kernels that may split their work among the threads of `underlying`.
std::unique_ptr<tensorflow::DeviceMgr> MakeOneDevice(tensorflow::Device* underlying);

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_SERIAL_DEVICE_H_
