// A program: the bodies of a SubGraph and of all that it calls, with their gradients, as one
// function library. Instantiated once per device, however deep the recursion; freed with the last
// kernel that uses it.
#ifndef RECGRAPH_CC_KERNELS_PROGRAM_H_
#define RECGRAPH_CC_KERNELS_PROGRAM_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cc/core/batch_plan.h"
#include "cc/core/engine_choice.h"
#include "cc/core/structure.h"
#include "cc/kernels/packed_matrices.h"
#include "cc/kernels/row_blocks.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/common_runtime/process_function_library_runtime.h"
#include "tensorflow/core/framework/function.h"

namespace recgraph {

// What a block of the batched engine has done so far. Each is a line of memory: threads that run different blocks do not
// wait for each other's counts.
struct alignas(64) BlockCounts {
  std::atomic<int64_t> runs{0};
  std::atomic<int64_t> rows{0};
  std::atomic<int64_t> nanoseconds{0};
};

// Makes a program known to this process, so that an op can name it by key alone: `key` is the hash
// of `library`, a serialised FunctionDefLibrary, or it is an error. Thread-safe.
absl::Status RegisterProgram(const std::string& key, const std::string& library);
// To be called as often as that: then the program is freed when its last call ends.
void ForgetProgram(const std::string& key);
// How many are registered, and how many are known, on any device.
std::pair<int64_t, int64_t> CountPrograms();

class Program {
 public:
  using Handle = tensorflow::FunctionLibraryRuntime::Handle;

  // Releases its functions first: kernels that hold functions themselves, such as If, must find
  // the runtime alive.
  ~Program();

  // The program `key` on the device of `parent`. `library` may be empty where the program has been
  // registered; where it is not, `key` is its hash, or it is an error: of two programs, which may come out of files,
  // neither can pass for the other.
  static absl::Status Get(tensorflow::FunctionLibraryRuntime* parent, const std::string& key,
                          const std::string& library, std::shared_ptr<Program>* program);

  // The hash of its library.
  const std::string& key() const { return key_; }

  // A function of the program, instantiated at its first use.
  absl::Status Function(const std::string& name, Handle* handle);

  // Whether invocations of a function run one after another: it says so in its attributes.
  bool RunsInOrder(const std::string& name) const;
  // Whether calls of a function, or of its gradient, from outside take turns where they use the same state.
  bool TakesTurns(const std::string& name) const;
  // Whether equal calls of a function are one; of a gradient, whether those of one call are added up.
  bool IsMemoized(const std::string& name) const;
  // Whether there is such a function.
  bool memoizes() const { return memoizes_; }
  // Counts calls of such a function, and those of them that were run.
  void NoteMemoized(Handle function, int64_t asked, int64_t computed);

  // The user's "file:line" that made `node`, or "" where that is not known.
  std::string Origin(const std::string& node) const;

  tensorflow::FunctionLibraryRuntime* runtime() const { return runtime_; }
  // How many inter-op threads there are.
  int threads() const { return threads_; }
  // Whether a function may run Python code, which must not see what belongs to the thread that calls from outside.
  bool runs_python() const { return runs_python_; }

  // What the batched engine runs; null for a program without it.
  const batch::Plan* plan() const { return plan_.get(); }
  // Blocks that need no operation of TensorFlow; as `plan`.
  batch::RowBlocks* row_blocks() const { return row_blocks_.get(); }
  // Whether calls of a function are scheduled.
  bool IsScheduled(int function) const {
    return structures_->Why(function).empty() &&
           scheduling_[function].given_up.load(std::memory_order_relaxed) < kMostGivenUp;
  }
  // What calls of a function are scheduled by; null where they are not. Made at the first call of the function.
  const batch::Structure* StructureOf(int function);
  // A schedule of calls was of no use: after some of those there are no more of what is to blame.
  void NoteGivenUp(const batch::Structure& structure) {
    for (size_t other = 0; other < scheduling_.size(); ++other) {
      if (structure.is_blamed[other]) scheduling_[other].given_up.fetch_add(1, std::memory_order_relaxed);
    }
  }
  // Counts calls of a function that its schedules have found, and those of them that were one with another.
  void NoteCalls(int function, int64_t calls, int64_t merged) {
    scheduling_[function].calls.fetch_add(calls, std::memory_order_relaxed);
    scheduling_[function].merged.fetch_add(merged, std::memory_order_relaxed);
  }
  // The device whose threads large batches are divided among.
  tensorflow::Device* batch_device() const { return batch_runtime_->device(); }
  // What its calls without a gradient have packed.
  PackedMatrices* packed() { return &packed_; }
  // What its calls have cost by either engine.
  EngineChoice* choice() { return &choice_; }
  // The report of the program with this key, on any device; "" where there is none.
  static std::string ChoiceReport(const std::string& key);

  // How the kernels of a block run: on the calling thread, with their work split among threads, or on the
  // calling thread by an executor that is slower and says in its errors which operation failed.
  enum class BlockMode { kSmall = 0, kLarge = 1, kDiagnosis = 2 };
  // Runs a block of the plan.
  absl::Status RunBlock(const batch::Block& block, BlockMode mode,
                        tensorflow::FunctionLibraryRuntime::Options options,
                        tensorflow::CallFrameInterface* frame);
  BlockCounts* counts(const batch::Block& block) { return &block_counts_[IndexOf(block)]; }
  // What each block of the program with this key has done, on all devices; empty where there is none.
  struct BlockFacts {
    int64_t runs = 0;
    int64_t rows = 0;
    int64_t nanoseconds = 0;
    std::string reason;  // why it is no row program; "" where none is known
  };
  static std::vector<BlockFacts> BlockReport(const std::string& key);

 private:
  Program() = default;
  // The programs with this key, one for each device that has used it.
  static std::vector<std::shared_ptr<Program>> InUse(const std::string& key);
  std::string ScheduleReport() const;
  std::string MemoReport();
  absl::Status ReadPlan(tensorflow::FunctionLibraryRuntime* parent);
  size_t IndexOf(const batch::Block& block) const { return &block - plan_->blocks.data(); }
  static absl::Status Make(tensorflow::FunctionLibraryRuntime* parent, const std::string& library,
                           std::shared_ptr<Program>* program);

  std::unique_ptr<tensorflow::DeviceMgr> device_;
  std::unique_ptr<tensorflow::FunctionLibraryDefinition> definitions_;
  std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> process_runtime_;
  tensorflow::FunctionLibraryRuntime* runtime_ = nullptr;  // owned by process_runtime_

  int threads_ = 1;
  bool runs_python_ = false;
  bool memoizes_ = false;
  std::string key_;
  const void* parent_device_ = nullptr;  // set once it is known by its key
  EngineChoice choice_;
  PackedMatrices packed_;
  std::unique_ptr<batch::Plan> plan_;
  std::unique_ptr<batch::RowBlocks> row_blocks_;
  static constexpr int kMostGivenUp = 3;
  struct Scheduling {
    std::once_flag made;
    std::unique_ptr<const batch::Structure> structure;
    std::atomic<int> given_up{0};
    std::atomic<int64_t> calls{0}, merged{0};
  };
  std::unique_ptr<const batch::Structures> structures_;
  std::vector<Scheduling> scheduling_;  // of each function of the plan
  std::unique_ptr<tensorflow::DeviceMgr> batch_device_;
  std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> batch_process_runtime_;
  tensorflow::FunctionLibraryRuntime* batch_runtime_ = nullptr;
  // Per block and mode; kInvalidHandle before the first use.
  std::vector<std::atomic<Handle>> block_handles_;
  // Set before its handle is.
  struct BlockTypes {
    tensorflow::DataTypeVector arguments;
    size_t results = 0;
  };
  std::vector<BlockTypes> block_types_;
  std::vector<BlockCounts> block_counts_;

  static absl::Status CheckFrame(const batch::Block& block, const BlockTypes& types,
                                 const tensorflow::CallFrameInterface& frame);

  std::mutex mutex_;
  std::unordered_map<std::string, Handle> handles_;
  std::map<Handle, std::pair<int64_t, int64_t>> memoized_;  // calls that were asked for, and computed
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_PROGRAM_H_
