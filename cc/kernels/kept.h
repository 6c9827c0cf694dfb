// What kernels make of weights, kept while these do not change.
#ifndef RECGRAPH_CC_KERNELS_KEPT_H_
#define RECGRAPH_CC_KERNELS_KEPT_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace recgraph {

// What is made of a kernel's inputs. Inputs that are kept are referred to, so that whoever changes a
// variable writes to another buffer: an input in the same memory has the same numbers. Thread-safe.
class Kept {
 public:
  // Whether it is kept for these inputs; then gives it.
  bool Give(tensorflow::OpKernelContext* ctx, tensorflow::Tensor* made);

  // Whether it should be made to be kept. Weights that change with each step are not kept, or every step would copy
  // them for it: only what has been in one place for a while is, and for a longer while where that was wrong before.
  // To be called once where nothing was given.
  bool IsWorthKeeping(tensorflow::OpKernelContext* ctx);

  void Keep(tensorflow::OpKernelContext* ctx, const tensorflow::Tensor& made);

 private:
  bool AreSame(tensorflow::OpKernelContext* ctx) const;

  std::mutex mutex_;
  std::vector<const void*> places_;        // of the inputs, the last time
  std::vector<tensorflow::Tensor> parts_;  // that are kept
  tensorflow::Tensor made_;
  int64_t seen_ = 0, patience_ = 1;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_KEPT_H_
