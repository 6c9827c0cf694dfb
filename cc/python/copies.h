// Copies of memory that may change.
#ifndef RECGRAPH_CC_PYTHON_COPIES_H_
#define RECGRAPH_CC_PYTHON_COPIES_H_

#include <cstring>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "tensorflow/core/framework/types.h"

namespace recgraph {

// A copy is used again while the memory has the same bytes: to compare them takes far less than to copy, most of
// which goes into new pages. One user at a time.
class Copies {
 public:
  // A tensor of its own with the same elements.
  tensorflow::Tensor Of(const tensorflow::Tensor& tensor) {
    if (!tensorflow::DataTypeCanUseMemcpy(tensor.dtype())) return tensorflow::tensor::DeepCopy(tensor);
    Copy& copy = copies_[tensor.data()];
    if (!IsCopyOf(tensor, copy.tensor)) copy.tensor = tensorflow::tensor::DeepCopy(tensor);
    copy.is_used = true;
    return copy.tensor;
  }

  // Another step begins: what has not been used since the last call is let go of.
  void NextStep() {
    for (auto each = copies_.begin(); each != copies_.end();) {
      each = std::exchange(each->second.is_used, false) ? std::next(each) : copies_.erase(each);
    }
  }

 private:
  struct Copy {
    tensorflow::Tensor tensor;
    bool is_used = false;
  };

  static bool IsCopyOf(const tensorflow::Tensor& tensor, const tensorflow::Tensor& copy) {
    return tensor.dtype() == copy.dtype() && tensor.shape() == copy.shape() && copy.IsInitialized() &&
           std::memcmp(tensor.data(), copy.data(), tensor.TotalBytes()) == 0;
  }

  std::unordered_map<const void*, Copy> copies_;  // by the memory that they were made of
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_COPIES_H_
