// Scheduled calls of the batched engine: their rows as tensors, their blocks as row programs.
#ifndef RECGRAPH_CC_KERNELS_BATCH_SCHEDULE_H_
#define RECGRAPH_CC_KERNELS_BATCH_SCHEDULE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/schedule.h"
#include "cc/kernels/batch_buffer.h"
#include "cc/kernels/environment.h"
#include "cc/kernels/program.h"
#include "cc/kernels/row_blocks.h"

namespace recgraph {
namespace batch {

// Multiplications from which on a batch is worth the waking of other threads.
constexpr int64_t kLarge = 4'000'000;

class TensorSchedule final : public ScheduleBackend {
 public:
  // Runs a block's function for stacked rows, which it may write to.
  using RunOperations = std::function<absl::Status(const Block& block, Program::BlockMode mode,
                                                   std::vector<tensorflow::Tensor> inputs,
                                                   std::vector<tensorflow::Tensor>* outputs)>;

  // `sums` is null in a forward run; large batches are divided among `workers` threads.
  TensorSchedule(Program* program, RowBlockRunner* blocks, RunOperations run_operations, Sums* sums, int workers,
                 std::function<bool()> is_cancelled, std::function<bool()> is_short_of_memory)
      : program_(program), plan_(*program->plan()), blocks_(blocks), run_operations_(std::move(run_operations)),
        sums_(sums), workers_(workers),
        is_cancelled_(std::move(is_cancelled)), is_short_of_memory_(std::move(is_short_of_memory)),
        arenas_(plan_.blocks.size()) {}

  bool Import(const Value& value, RowsOfStep* rows, uint32_t* row) override;
  bool IsSameKind(const void* one, const void* other) override;
  bool RunScheduled(int block, int64_t count, int64_t first, int64_t total, const char* const* const* inputs,
                    const std::vector<const void*>& kinds, RowsOfStep* results) override;
  bool IsError(int block, const std::vector<const char*>& row, const std::vector<const void*>& kinds) override;
  bool SelectRow(Selector selector, const void* kind, const char* data, int* branch) override;
  bool IsDiscrete(const void* kind) override;
  bool MakeRows(const void* kind, int64_t count, RowsOfStep* rows) override;
  bool AddRows(const void* kind, const std::vector<const char*>& rows, char* sum) override;
  int64_t SizeOf(const void* kind) override;
  std::string TextOf(const void* kind, const char* data) override;
  bool JoinRows(const std::vector<std::pair<const RowsOfStep*, uint32_t>>& parts, Value* whole) override;
  bool IsCancelled() override { return is_cancelled_(); }
  bool IsShortOfMemory() override { return is_short_of_memory_(); }

  // What IsError has found.
  const absl::Status& error() const { return error_; }

  // Adds what the blocks have contributed to the sums, once all have run; `step` has the rows that they read.
  absl::Status AddSums(const FramePtr<StepFrame>& step);

 private:
  // What a block has computed: by its row program or, where it has none, by operations.
  struct Arena {
    const LoweredBlock* lowered = nullptr;
    std::vector<tensorflow::Tensor> outputs;  // of its program, or its results
    std::vector<std::vector<tensorflow::Tensor>> to_sum;  // of each run by operations, its results
    std::vector<tensorflow::Tensor> copies;   // of each result of the block that is an input as it is
    std::vector<std::vector<std::vector<const float*>>> factors;  // of each result that is one, the rows of its parts
    int64_t capacity = 0;                     // rows
    int64_t rows = 0;                         // so far
  };
  bool RunProgram(const Block& block, int64_t count, int64_t first, int64_t total, const char* const* const* inputs,
                  Arena* arena, RowsOfStep* results);
  bool RunByOperations(const Block& block, int64_t count, int64_t first, int64_t total,
                       const char* const* const* inputs, const std::vector<RowKind>& kinds, Arena* arena,
                       RowsOfStep* results);
  bool KeepRows(const tensorflow::Tensor& output, int64_t count, int64_t first, int64_t total, const Arena& arena,
                tensorflow::Tensor* all, RowsOfStep* result);
  // Rows of each input, stacked.
  static absl::Status Stack(int64_t count, const char* const* const* inputs, const std::vector<RowKind>& kinds,
                            std::vector<tensorflow::Tensor>* stacked);
  bool IsLarge(const Block& block, int64_t count) const { return block.work * count >= kLarge && workers_ > 1; }
  absl::Status AddOwnSum(const std::vector<tensorflow::Tensor>& outputs, SumKind kind, int slot, int first);
  bool Grow(const Block& block, int64_t total, Arena* arena, RowsOfStep* results);
  bool Replace(int64_t kept, int64_t capacity, tensorflow::Tensor* tensor);
  absl::Status AddSum(const FramePtr<StepFrame>& step, const Arena& arena, SumKind kind, int slot, int first);

  absl::Status error_;
  Program* const program_;
  const Plan& plan_;
  RowBlockRunner* const blocks_;
  const RunOperations run_operations_;
  Sums* const sums_;
  const int workers_;
  const std::function<bool()> is_cancelled_;
  const std::function<bool()> is_short_of_memory_;
  std::vector<Arena> arenas_;
  // What has become too small: inputs of the block that runs, and factors of a weight's gradient, are rows of it.
  std::vector<tensorflow::Tensor> replaced_;
};

}  // namespace batch
}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_BATCH_SCHEDULE_H_
