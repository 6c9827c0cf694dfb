// What TensorFlow leaves to the caller: it ends the process, or goes on with wrong memory, where a kernel's output is
// not of its dtype, where an input that is read as a scalar is none, and where an exception reaches it.
#ifndef RECGRAPH_CC_KERNELS_CHECKED_H_
#define RECGRAPH_CC_KERNELS_CHECKED_H_

#include <exception>
#include <new>
#include <utility>

#include "cc/kernels/errors.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace recgraph {

// Sets an output; InvalidArgument where the kernel has none of that number, or one of another dtype.
inline absl::Status SetOutput(tensorflow::OpKernelContext* ctx, int index, tensorflow::Tensor value) {
  if (index < 0 || index >= ctx->num_outputs()) {
    return errors::InvalidArgument("there is no output ", index, " among ", ctx->num_outputs());
  }
  if (value.dtype() != ctx->expected_output_dtype(index)) {
    return errors::InvalidArgument("output ", index, " is ", tensorflow::DataTypeString(value.dtype()), ", not ",
                                   tensorflow::DataTypeString(ctx->expected_output_dtype(index)));
  }
  ctx->set_output(index, std::move(value));
  return absl::OkStatus();
}

// The only element of a tensor, whose dtype an op's registration fixes.
template <typename T>
absl::Status ScalarOf(const tensorflow::Tensor& tensor, const T** value) {
  if (tensor.NumElements() != 1 || tensor.dtype() != tensorflow::DataTypeToEnum<T>::value) {
    return errors::InvalidArgument("a scalar of type ",
                                   tensorflow::DataTypeString(tensorflow::DataTypeToEnum<T>::value),
                                   " was expected, found ", tensorflow::DataTypeString(tensor.dtype()), " of shape ",
                                   tensor.shape().DebugString());
  }
  *value = tensor.flat<T>().data();
  return absl::OkStatus();
}

// `from` in a buffer of its own; ResourceExhausted where there is no memory for it.
inline absl::Status Copy(const tensorflow::Tensor& from, tensorflow::Tensor* to) {
  tensorflow::Tensor made(from.dtype(), from.shape());
  if (!made.IsInitialized()) {
    return errors::ResourceExhausted("no memory for a tensor of shape ", from.shape().DebugString());
  }
  if (from.dtype() == tensorflow::DT_RESOURCE) {  // which TensorFlow does not copy
    made.unaligned_flat<tensorflow::ResourceHandle>() = from.unaligned_flat<tensorflow::ResourceHandle>();
  } else {
    tensorflow::tensor::DeepCopy(from, &made);
  }
  *to = std::move(made);
  return absl::OkStatus();
}

// What `work()` returns; of an exception, which must not reach TensorFlow, the error that it stands for.
template <typename Work>
absl::Status CatchingAll(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return errors::ResourceExhausted("no memory left");
  } catch (const std::exception& error) {
    return errors::Internal("an exception: ", error.what());
  }
}

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_CHECKED_H_
