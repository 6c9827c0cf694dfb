// Blocks of a program as row programs: lowered at their first run, kept with the program, and run for a call with what
// that has captured.
#ifndef RECGRAPH_CC_KERNELS_ROW_BLOCKS_H_
#define RECGRAPH_CC_KERNELS_ROW_BLOCKS_H_

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/batch_plan.h"
#include "cc/kernels/environment.h"
#include "cc/kernels/row_lowering.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"

namespace recgraph {
namespace batch {

// Thread-safe.
class RowBlocks {
 public:
  RowBlocks(const Plan* plan, const tensorflow::FunctionLibraryDefinition* definitions);

  // The block for such inputs and captures; null where TensorFlow has to run it.
  std::shared_ptr<const LoweredBlock> Get(const Block& block, const std::vector<RowKind>& inputs,
                                          const std::vector<LoweredCapture>& captures);

  // Which operation keeps a block from being lowered; "" where none was found to do so.
  std::string Why(const Block& block) const;

 private:
  struct Entry {
    mutable std::mutex mutex;
    std::vector<std::shared_ptr<const LoweredBlock>> forms;  // for inputs of several shapes
    std::string why;
  };
  size_t IndexOf(const Block& block) const { return &block - plan_->blocks.data(); }

  const Plan* const plan_;
  const tensorflow::FunctionLibraryDefinition* const definitions_;
  std::vector<Entry> entries_;
};

// The row programs of one call, on one thread.
class RowBlockRunner {
 public:
  RowBlockRunner(RowBlocks* blocks, const Plan& plan, std::shared_ptr<const Environment> environment,
                 PackedMatrices* kept, tensorflow::Device* device)
      : blocks_(blocks), plan_(plan), environment_(std::move(environment)), kept_(kept), device_(device),
        ready_(plan.blocks.size()) {}

  // The block for rows of such inputs, ready to be run; null where TensorFlow has to run it.
  const LoweredBlock* Prepare(const Block& block, const std::vector<RowKind>& inputs);

  // Runs what was prepared, with its rows divided among `workers` threads. `inputs[i][row]` is where a row is, and
  // `outputs` are those of the program, shared ones filled with zeros. False where a row cannot be computed so.
  bool Run(const Block& block, int64_t rows, const char* const* const* inputs, char* const* outputs, int workers);

 private:
  struct Ready {
    bool is_tried = false;
    std::shared_ptr<const LoweredBlock> lowered;
    std::vector<RowProgram::Shared> shared;
    std::vector<tensorflow::Tensor> tensors;  // what `shared` points to
    std::vector<std::pair<int, tensorflow::core::RefCountPtr<tensorflow::Var>>> variables;  // by capture
    std::vector<tensorflow::Var*> locked;  // each of these once, in the order in which they are locked
  };
  std::vector<std::shared_ptr<const LoweredBlock>> used_;  // whoever has been given one may compare it with another
  bool Capture(const Block& block, Ready* ready, std::vector<LoweredCapture>* captures) const;
  bool RunParts(const LoweredBlock& block, const std::vector<RowProgram::Shared>& shared, int64_t rows,
                const char* const* const* inputs, char* const* outputs, int workers) const;

  RowBlocks* const blocks_;
  const Plan& plan_;
  const std::shared_ptr<const Environment> environment_;
  PackedMatrices* const kept_;
  tensorflow::Device* const device_;
  std::vector<Ready> ready_;
};

}  // namespace batch
}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_ROW_BLOCKS_H_
