// A block's function as a row program, for rows of given shapes.
#ifndef RECGRAPH_CC_KERNELS_ROW_LOWERING_H_
#define RECGRAPH_CC_KERNELS_ROW_LOWERING_H_

#include <memory>
#include <string>
#include <vector>

#include "cc/core/batch_plan.h"
#include "cc/core/row_program.h"
#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace recgraph {
namespace batch {

// Of the rows of a value that a block reads: their dtype, and the shape of one.
struct RowKind {
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  tensorflow::TensorShape shape;

  bool operator==(const RowKind& other) const { return dtype == other.dtype && shape == other.shape; }
  bool operator!=(const RowKind& other) const { return !(*this == other); }
};

// A captured tensor as a lowered block reads it: the tensor itself, what is packed of it, or its variable's value.
struct LoweredCapture {
  tensorflow::Tensor tensor;
  bool is_packed = false;
  bool is_variable = false;
};

struct LoweredBlock {
  // Floats of an input's row.
  struct FactorPart {
    int input;
    int64_t offset, width;
  };
  // A result of the function: an input as it is, the factor of a weight's gradient that inputs are side by side, an
  // output of the program, or the same tensor in every run.
  struct Result {
    int input = -1;
    std::vector<FactorPart> factor;
    int output = -1;
    tensorflow::Tensor constant;
    RowKind kind;            // of a row or, shared, of the whole
    int64_t parts = 1;       // rows of that kind for each row of the block, one after the other
    bool shared = false;
  };

  // Tensors for the outputs of the program. Sums over rows are doubles, zeros at first: they are rounded once, when all
  // that others contribute is added up.
  absl::Status Allocate(int64_t rows, std::vector<tensorflow::Tensor>* outputs) const;

  // The rows of a result that is a factor, in a tensor of their own.
  static absl::Status CopyOfFactor(const Result& result, int64_t rows, const char* const* const* inputs,
                                   tensorflow::Tensor* copy);

  RowProgram program;
  std::vector<RowKind> inputs;
  // What must be the same of a captured tensor's shape: of one whose rows are looked up, the shape of a row.
  enum class Need { kNothing, kRow, kShape };
  struct CaptureKind {
    tensorflow::DataType dtype;
    bool is_packed, is_variable;
    tensorflow::TensorShape shape;
    Need need = Need::kNothing;
  };
  std::vector<CaptureKind> captures;

  // Whether capture `i` is as it was when the block was lowered. Dtype and form are compared whatever is needed: the
  // same program may be given other tensors by each call.
  bool Fits(size_t i, const LoweredCapture& capture) const;
  std::vector<Result> results;
};

// Null where an operation has no step of ours: then `why` names it.
std::unique_ptr<const LoweredBlock> Lower(const Block& block, const tensorflow::FunctionBody& body,
                                          const std::vector<RowKind>& inputs,
                                          const std::vector<LoweredCapture>& captures, std::string* why);

}  // namespace batch
}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_ROW_LOWERING_H_
