// Blocks as TensorFlow functions: their inputs gathered, their outputs kept as buffers.
#include "cc/kernels/batch_run.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "cc/core/call_path.h"
#include "cc/kernels/batch_schedule.h"
#include "cc/kernels/checked.h"
#include "cc/kernels/errors.h"
#include "cc/kernels/rows.h"
#include "tensorflow/core/framework/function.h"
#include "tsl/profiler/lib/traceme.h"

namespace recgraph {
namespace batch {

using tensorflow::FunctionLibraryRuntime;
using tensorflow::Tensor;

namespace {

// A block's inputs and outputs. An input that was copied for the block may be overwritten by it.
class BlockFrame final : public tensorflow::CallFrameInterface {
 public:
  BlockFrame(std::vector<Tensor> inputs, std::vector<bool> fresh, size_t outputs)
      : inputs_(std::move(inputs)), fresh_(std::move(fresh)), outputs_(outputs) {}

  std::vector<Tensor>* outputs() { return &outputs_; }

  size_t num_args() const override { return inputs_.size(); }
  size_t num_retvals() const override { return outputs_.size(); }
  absl::Status GetArg(int index, const Tensor** value) override {
    if (static_cast<size_t>(index) >= inputs_.size()) return OutOfRange("argument", index);
    *value = &inputs_[index];
    return absl::OkStatus();
  }
  bool CanConsumeArg(int index) const override {
    return static_cast<size_t>(index) < fresh_.size() && fresh_[index];
  }
  void ConsumeArg(int index, Tensor* value) override { *value = std::move(inputs_[index]); }
  absl::Status SetRetval(int index, const Tensor& value) override {
    if (static_cast<size_t>(index) >= outputs_.size()) return OutOfRange("result", index);
    outputs_[index] = value;
    return absl::OkStatus();
  }

 private:
  static absl::Status OutOfRange(const char* what, int index) {
    return errors::InvalidArgument("a block has no ", what, " ", index);
  }

  std::vector<Tensor> inputs_;
  const std::vector<bool> fresh_;
  std::vector<Tensor> outputs_;
};

// Results of a map, stacked: an error where they differ in shape.
absl::Status GatherAlike(std::vector<const Value*> values, Tensor* stacked) {
  const Buffer* first = nullptr;
  for (size_t row = 0; row < values.size(); ++row) {
    const Buffer* buffer = nullptr;
    TF_RETURN_IF_ERROR(BufferOf(&values[row], &buffer));
    if (row == 0) first = buffer;
    if (buffer->shape() != first->shape()) {
      return ResultsDiffer(row, first->shape(), buffer->shape());
    }
  }
  bool fresh = false;
  return Gather(std::move(values), stacked, &fresh);
}

// Null where there is none, which is an error that running the block will meet.
const tensorflow::TensorShape* ShapeOf(const Value& value) {
  const Buffer* buffer = nullptr;
  const Value* settled = &value;
  return BufferOf(&settled, &buffer).ok() ? &buffer->shape() : nullptr;
}

// Fewer roots than this are not worth a thread of their own.
constexpr size_t kRootsPerRun = 4;

void RunHere(std::function<void()> task) { task(); }

}  // namespace

Run::Run(const Scope& scope, int64_t max_depth, std::atomic<bool>* stop, bool alone, bool records)
    : scope_(scope), plan_(*scope.root->program()->plan()), max_depth_(max_depth),
      way_(DefaultWay()), policy_(MakeBatchPolicy(DefaultOrder())),
      machine_(std::make_unique<Machine>(plan_, this, policy_.get(), max_depth)), stop_(stop),
      alone_(alone), kept_(scope.sums == nullptr && !records ? scope.root->program()->packed() : nullptr),
      row_blocks_(scope.root->program()->row_blocks(), plan_, scope.environment, kept_,
                  scope.root->program()->batch_device()) {}

Run::~Run() {
  machine_.reset();
  Publish({published_.invocations, 0, published_.peak});
}

bool Run::IsScheduled(int function) {
  const bool is_given_up = !is_given_up_.empty() && is_given_up_[function];
  return way_ == Way::kScheduled && !is_given_up && scope_.root->program()->IsScheduled(function);
}

Backend::Scheduled Run::RunCalls(int function, Activation** activations, size_t count, int64_t* invocations) {
  Scheduled done = Scheduled::kGaveUp;
  const absl::Status status = CatchingAll([&] {
    done = ScheduleFor(function, activations, count, invocations);
    return absl::OkStatus();
  });
  if (!status.ok()) {
    NoteError(status, nullptr);
    return Scheduled::kFailed;
  }
  if (done == Scheduled::kGaveUp) GiveUp(function);
  return done;
}

// Calls of a function, and of what is to blame, are not scheduled any more in this run.
void Run::GiveUp(int function) {
  is_given_up_.resize(plan_.functions.size(), false);
  is_given_up_[function] = true;
  const Structure* const structure = scope_.root->program()->StructureOf(function);
  if (structure == nullptr) return;  // meanwhile, by another thread, and all below it
  given_up_.push_back(structure);
  for (size_t f = 0; f < is_given_up_.size(); ++f) is_given_up_[f] = is_given_up_[f] || structure->is_blamed[f];
}

// Counts what a schedule has found so far.
bool Run::Look(const Schedule* schedule) {
  MachineCounts counts = machine_->counts();
  counts.invocations += schedule->invocations();
  counts.live += schedule->invocations();
  counts.peak = std::max(counts.peak, counts.live);
  Publish(counts);
  return Cancelled();
}

Backend::Scheduled Run::Endless(const Schedule::Cycle& cycle, const Activation* root) {
  const auto label_of = [this](const Schedule::Cycle::Call& call) {
    const bool has_label = call.site > 0 && static_cast<size_t>(call.site) < plan_.labels.size();
    return has_label ? plan_.labels[call.site] : *scope_.label;
  };
  std::vector<std::string> above, around;
  for (const auto& call : cycle.above) {
    if (call.site > 0) above.push_back(label_of(call));
  }
  bool is_decided = false;
  for (const auto& call : cycle.calls) {
    around.push_back(label_of(call) + "(" + call.arguments + ")");
    is_decided = is_decided || !call.arguments.empty();
  }
  if (!is_decided) {
    NoteError(errors::InvalidArgument("the recursion never ends: there is a call whatever the arguments are. Give the "
                                      "SubGraph a branch that calls nothing"),
              root, above);
    return Scheduled::kFailed;
  }
  NoteError(errors::InvalidArgument("the recursion never ends, since it goes round in a circle: ",
                                    JoinLabels(around), ". No node of a tree or graph may be below itself"),
            root, above);
  return Scheduled::kFailed;
}

Backend::Scheduled Run::FailedAt(const Schedule::Place& place, Activation** roots, const absl::Status& status) {
  std::vector<std::string> below;
  for (const int site : place.sites) below.push_back(plan_.labels[site]);
  NoteError(status, roots[place.root], below);
  return Scheduled::kFailed;
}

// What is given up has changed nothing: it is run again in another way, which finds errors and where they are.
Backend::Scheduled Run::ScheduleFor(int function, Activation** activations, size_t count, int64_t* invocations) {
  Program* const program = scope_.root->program();
  const Structure* const structure = program->StructureOf(function);
  if (structure == nullptr) return Scheduled::kGaveUp;  // meanwhile, by another thread
  const batch::Function& callee = plan_.functions[function];
  FramePtr<StepFrame> step(new StepFrame(plan_));
  step->program = scope_.root->shared_program();
  const Schedule* running = nullptr;
  const auto run_operations = [this](const Block& block, Program::BlockMode mode, std::vector<Tensor> inputs,
                                     std::vector<Tensor>* outputs) {
    std::vector<bool> fresh(inputs.size(), true);
    return RunOperations(block, mode, std::move(inputs), std::move(fresh), outputs);
  };
  TensorSchedule backend(program, &row_blocks_, run_operations, scope_.sums, alone_ ? scope_.root->threads() : 1,
                         [this, &running] { return Look(running); }, [this, &running] {
                           return recgraph::MemoryIsShort(machine_->counts().live + running->invocations());
                         });
  std::vector<const Value*> arguments;
  std::vector<std::vector<Value>> results(count);
  std::vector<std::vector<Value>*> targets;
  int64_t depth = 0;
  for (size_t i = 0; i < count; ++i) {
    for (int argument = 0; argument < callee.arguments; ++argument) arguments.push_back(&activations[i]->slots[argument]);
    targets.push_back(&results[i]);
    depth = std::max<int64_t>(depth, activations[i]->depth);
  }
  Schedule schedule(plan_, *structure, &backend, step, max_depth_ - depth + 1);
  running = &schedule;
  switch (schedule.Run(function, arguments, count, targets)) {
    case Schedule::End::kGaveUp: return Scheduled::kGaveUp;
    case Schedule::End::kCancelled: return Scheduled::kCancelled;
    case Schedule::End::kEndless: return Endless(schedule.cycle(), activations[schedule.cycle().root]);
    case Schedule::End::kFailed: return FailedAt(schedule.place(), activations, backend.error());
    case Schedule::End::kTooDeep: return FailedAt(schedule.place(), activations, TooDeep(max_depth_));
    case Schedule::End::kTooMany:
      return FailedAt({}, activations, TooMany(machine_->counts().live + schedule.invocations()));
    case Schedule::End::kDone: break;
  }
  if (!Succeeded(backend.AddSums(step))) return Scheduled::kFailed;
  if (scope_.sums == nullptr) step->KeepFramesOnly();  // sums may have factors anywhere
  for (size_t i = 0; i < count; ++i) {
    for (size_t result = 0; result < callee.results.size(); ++result) {
      activations[i]->slots[callee.results[result]] = results[i][result];
    }
  }
  *invocations = schedule.invocations();
  program->NoteCalls(function, static_cast<int64_t>(count) + schedule.invocations() + schedule.merged(), schedule.merged());
  return Scheduled::kDone;
}

absl::Status Run::Tabulate(const std::string& function, std::vector<std::vector<Value>> roots, bool records,
                           const LevelLayout& layout, LevelTables* tables, FramePtr<StepFrame>* step,
                           std::vector<Value>* frames) {
  int index = -1;
  TF_RETURN_IF_ERROR(Check(function, roots, 0, &index));
  *step = FramePtr<StepFrame>(new StepFrame(plan_));
  (*step)->program = scope_.root->shared_program();
  std::vector<const Value*> arguments;
  for (const auto& root : roots) {
    for (const Value& argument : root) arguments.push_back(&argument);
  }
  return TabulateAll(index, arguments, roots.size(), records, layout, tables, step->get(), frames);
}

absl::Status Run::TabulateAll(int function, const std::vector<const Value*>& arguments, size_t roots, bool records,
                              const LevelLayout& layout, LevelTables* tables, StepFrame* step,
                              std::vector<Value>* frames) {
  Program* const program = scope_.root->program();
  const Structure* const structure = program->StructureOf(function);
  const std::string& name = plan_.names[function];
  if (structure == nullptr) return errors::InvalidArgument(name, " has no structure that is known before its values");
  const Schedule* running = nullptr;
  const auto run_operations = [this](const Block& block, Program::BlockMode mode, std::vector<Tensor> inputs,
                                     std::vector<Tensor>* outputs) {
    std::vector<bool> fresh(inputs.size(), true);
    return RunOperations(block, mode, std::move(inputs), std::move(fresh), outputs);
  };
  TensorSchedule backend(program, &row_blocks_, run_operations, nullptr, 1, [this, &running] { return Look(running); },
                         [this, &running] {
                           return recgraph::MemoryIsShort(machine_->counts().live + running->invocations());
                         });
  step->Ref();  // for the schedule
  Schedule schedule(plan_, *structure, &backend, FramePtr<StepFrame>(step), max_depth_);
  running = &schedule;
  const auto failed = [this](absl::Status status, const std::vector<int>& sites) {
    std::vector<std::string> below;
    for (const int site : sites) below.push_back(plan_.labels[site]);
    NoteError(status, nullptr, below);
    return scope_.root->FirstError(status_);
  };
  switch (schedule.Discover(function, arguments, roots)) {
    case Schedule::End::kCancelled: return errors::Cancelled("the step was cancelled");
    case Schedule::End::kEndless:
      Endless(schedule.cycle(), nullptr);
      return scope_.root->FirstError(status_);
    case Schedule::End::kFailed: return failed(backend.error(), schedule.place().sites);
    case Schedule::End::kTooDeep: return failed(TooDeep(max_depth_), schedule.place().sites);
    case Schedule::End::kTooMany: return failed(TooMany(schedule.invocations()), {});
    case Schedule::End::kGaveUp:
      return errors::InvalidArgument("the structure of this call of ", name, " cannot be found before its values");
    case Schedule::End::kDone: break;
  }
  if (!schedule.Tabulate(function, roots, layout, tables) || !schedule.FindResults(function, roots, records, tables, frames)) {
    return errors::Unimplemented("calls of ", name, " share results, whose gradients have no form in levels, or a value is "
                                 "the concatenation of any number of parts. Use engine=\"batched\" here");
  }
  program->NoteCalls(function, static_cast<int64_t>(roots) + schedule.invocations() + schedule.merged(), schedule.merged());
  return absl::OkStatus();
}

absl::Status Run::Check(const std::string& function, const std::vector<std::vector<Value>>& roots, size_t results,
                        int* index) const {
  *index = plan_.Find(function);
  if (*index < 0) return errors::NotFound("the batched program has no function ", function);
  const batch::Function& callee = plan_.functions[*index];
  if (callee.results.size() < results) {
    return errors::InvalidArgument(function, " has ", callee.results.size(), " results, not ", results);
  }
  for (const auto& root : roots) {
    if (root.size() != static_cast<size_t>(callee.arguments)) {
      return errors::InvalidArgument(function, " was given ", root.size(), " arguments, not ", callee.arguments);
    }
  }
  if (scope_.environment == nullptr || scope_.environment->slots().size() < static_cast<size_t>(plan_.captures)) {
    return errors::InvalidArgument(
        "the program captures ", plan_.captures, " tensors, the call has ",
        scope_.environment == nullptr ? 0 : scope_.environment->slots().size());
  }
  return absl::OkStatus();
}

absl::Status Run::Call(const std::string& function, std::vector<std::vector<Value>> roots, size_t results) {
  int index = -1;
  absl::Status status = Check(function, roots, results, &index);
  if (!status.ok()) {
    stop_->store(true, std::memory_order_relaxed);
    return status;
  }
  return CatchingAll([&] { return RunMachine(index, std::move(roots)); });
}

absl::Status Run::RunMachine(int index, std::vector<std::vector<Value>> roots) {
  for (auto& root : roots) machine_->AddRoot(index, std::move(root));
  const Machine::End end = machine_->Run();
  scope_.root->CountInvocations(machine_->counts().invocations);
  Publish(machine_->counts());
  switch (end) {
    case Machine::End::kDone:
      // What fails in every way says nothing against schedules.
      for (const Structure* const structure : given_up_) scope_.root->program()->NoteGivenUp(*structure);
      return absl::OkStatus();
    case Machine::End::kCancelled:
      return errors::Cancelled("the step was cancelled");
    case Machine::End::kTooDeep:
      NoteError(TooDeep(max_depth_), machine_->culprit());
      break;
    case Machine::End::kTooMany:
      NoteError(TooMany(machine_->counts().live), machine_->culprit());
      break;
    case Machine::End::kFailed:
      break;
  }
  stop_->store(true, std::memory_order_relaxed);
  return scope_.root->FirstError(status_);
}

void Run::Publish(const MachineCounts& counts) {
  const bool new_peak = counts.peak > published_.peak;
  CountBatchedInvocations(counts.invocations - published_.invocations, counts.live - published_.live,
                          new_peak ? counts.peak - counts.live : 0);
  published_ = counts;
}

bool Run::RunBlock(const Block& block, const Node& node, Activation** activations, size_t count) {
  Publish(machine_->counts());
  const auto start = std::chrono::steady_clock::now();
  const bool done = RunRows(block, node, activations, count);
  const std::chrono::nanoseconds elapsed = std::chrono::steady_clock::now() - start;
  BlockCounts* const counts = scope_.root->program()->counts(block);
  counts->runs.fetch_add(block.by_row ? count : 1, std::memory_order_relaxed);
  counts->rows.fetch_add(count, std::memory_order_relaxed);
  counts->nanoseconds.fetch_add(elapsed.count(), std::memory_order_relaxed);
  return done;
}

bool Run::RunRows(const Block& block, const Node& node, Activation** activations, size_t count) {
  const bool large =
      alone_ && static_cast<int64_t>(block.work) * static_cast<int64_t>(count) >= kLarge;
  // What has an effect is not run again to find out which operation has failed.
  const auto mode = block.has_effect ? Program::BlockMode::kDiagnosis
                    : large          ? Program::BlockMode::kLarge
                                     : Program::BlockMode::kSmall;
  const size_t step = block.by_row ? 1 : count;
  for (size_t i = 0; i < count; i += step) {
    const absl::Status status = TryBlock(block, node, activations + i, step, mode);
    if (status.ok()) continue;
    if (block.has_effect) {
      NoteError(status, activations[i]);
    } else {
      FindFailure(block, node, activations + i, step, status);
    }
    return false;
  }
  return true;
}

// Which row was it, and which operation? They are run once more, one by one, until one fails.
void Run::FindFailure(const Block& block, const Node& node, Activation** activations, size_t count,
                      const absl::Status& status) {
  for (size_t row = 0; row < count; ++row) {
    const absl::Status alone =
        TryBlock(block, node, activations + row, 1, Program::BlockMode::kDiagnosis);
    if (!alone.ok()) return NoteError(alone, activations[row]);
  }
  NoteError(status, activations[0]);
}

absl::Status Run::TryBlock(const Block& block, const Node& node, Activation** activations,
                           size_t count, Program::BlockMode mode) {
  const tsl::profiler::TraceMe trace(
      [&] { return tsl::profiler::TraceMeEncode("recgraph: " + block.name, {{"rows", count}}); },
      tsl::profiler::kInfo);
  if (mode != Program::BlockMode::kDiagnosis && way_ != Way::kOperations) {
    bool is_done = false;
    const bool is_large = mode == Program::BlockMode::kLarge;
    TF_RETURN_IF_ERROR(TryRowProgram(block, node, activations, count, is_large, &is_done));
    if (is_done) return absl::OkStatus();
  }
  std::vector<Tensor> inputs;
  std::vector<bool> fresh;
  TF_RETURN_IF_ERROR(Inputs(block, node, activations, count, &inputs, &fresh));
  std::vector<Tensor> outputs;
  TF_RETURN_IF_ERROR(RunOperations(block, mode, std::move(inputs), std::move(fresh), &outputs));
  TF_RETURN_IF_ERROR(Keep(block, node, activations, count, &outputs));
  return AddSums(block, outputs);
}

absl::Status Run::RunOperations(const Block& block, Program::BlockMode mode, std::vector<Tensor> inputs,
                                std::vector<bool> fresh, std::vector<Tensor>* outputs) {
  for (const Capture& capture : block.captures) {
    inputs.emplace_back();
    fresh.push_back(false);
    if (capture.form == Form::kRaw) {
      inputs.back() = scope_.environment->slots()[capture.slot];
    } else {
      const bool transposed = capture.form == Form::kPackedTransposed;
      TF_RETURN_IF_ERROR(scope_.environment->Packed(capture.slot, transposed, kept_, &inputs.back()));
    }
  }
  size_t count = block.shared.size();
  for (size_t i = 0; i < block.sums.size(); i += 3) {
    const bool pair = block.sums[i] != static_cast<int>(SumKind::kDense);
    count = std::max<size_t>(count, block.sums[i + 2] + (pair ? 2 : 1));
  }
  BlockFrame frame(std::move(inputs), std::move(fresh), count);
  FunctionLibraryRuntime::Options options = scope_.root->options();
  std::function<void(std::function<void()>)> runner = RunHere;
  options.runner = &runner;
  TF_RETURN_IF_ERROR(scope_.root->program()->RunBlock(block, mode, std::move(options), &frame));
  *outputs = std::move(*frame.outputs());
  return absl::OkStatus();
}

absl::Status Run::TryRowProgram(const Block& block, const Node& node, Activation** activations, size_t count,
                                bool is_large, bool* is_done) {
  if (block.by_row || block.ragged || block.has_effect) return absl::OkStatus();
  const size_t reads = node.reads.size();
  std::vector<RowKind> kinds(reads);
  std::vector<const char*> rows(reads * count);
  std::vector<const char* const*> inputs(reads);
  for (size_t i = 0; i < reads; ++i) {
    inputs[i] = rows.data() + i * count;
    const Buffer* known = nullptr;  // whose kind is that of the rows before
    for (size_t row = 0; row < count; ++row) {
      const Value* value = &activations[row]->slots[node.reads[i]];
      const Buffer* buffer = nullptr;
      TF_RETURN_IF_ERROR(BufferOf(&value, &buffer));
      if (buffer != known) {
        if (known == nullptr) kinds[i] = {buffer->tensor().dtype(), buffer->shape()};
        if (buffer->tensor().dtype() != kinds[i].dtype || buffer->shape() != kinds[i].shape) return absl::OkStatus();
        known = buffer;
      }
      rows[i * count + row] = buffer->data(value->row);
    }
  }
  const LoweredBlock* const lowered = row_blocks_.Prepare(block, kinds);
  if (lowered == nullptr) return absl::OkStatus();
  std::vector<Tensor> outputs;
  TF_RETURN_IF_ERROR(lowered->Allocate(count, &outputs));
  std::vector<char*> data;
  for (const Tensor& output : outputs) data.push_back(static_cast<char*>(output.data()));
  if (!row_blocks_.Run(block, count, inputs.data(), data.data(), is_large ? scope_.root->threads() : 1)) {
    return absl::OkStatus();  // TensorFlow's operations say what is wrong
  }
  *is_done = true;
  return KeepResults(block, node, activations, count, *lowered, inputs.data(), std::move(outputs));
}

absl::Status Run::KeepResults(const Block& block, const Node& node, Activation** activations, size_t count,
                              const LoweredBlock& lowered, const char* const* const* inputs,
                              std::vector<Tensor> outputs) {
  std::vector<Tensor> results(lowered.results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const LoweredBlock::Result& result = lowered.results[i];
    if (!result.factor.empty()) {
      TF_RETURN_IF_ERROR(lowered.CopyOfFactor(result, count, inputs, &results[i]));
      continue;
    }
    if (result.input >= 0) {
      const int from = node.reads[result.input], to = node.writes[i];
      for (size_t row = 0; row < count; ++row) activations[row]->slots[to] = activations[row]->slots[from];
      continue;
    }
    results[i] = result.output >= 0 ? outputs[result.output] : result.constant;
    if (i >= node.writes.size()) continue;
    const FramePtr<Holder> buffer(new Buffer(results[i], result.shared));
    for (size_t row = 0; row < count; ++row) {
      activations[row]->slots[node.writes[i]] = {buffer, result.shared ? -1 : static_cast<int64_t>(row)};
    }
  }
  return AddSums(block, results);
}

absl::Status Run::Inputs(const Block& block, const Node& node, Activation** activations,
                         size_t count, std::vector<Tensor>* inputs, std::vector<bool>* fresh) {
  inputs->resize(node.reads.size());
  std::vector<const Value*> values(count);
  for (size_t i = 0; i < node.reads.size(); ++i) {
    bool copied = false;
    for (size_t row = 0; row < count; ++row) values[row] = &activations[row]->slots[node.reads[i]];
    if (block.by_row) {
      TF_RETURN_IF_ERROR(TensorOf(*values[0], &(*inputs)[i]));
    } else {
      TF_RETURN_IF_ERROR(Gather(values, &(*inputs)[i], &copied));
    }
    fresh->push_back(copied);
  }
  return absl::OkStatus();
}

absl::Status Run::Keep(const Block& block, const Node& node, Activation** activations, size_t count,
                       std::vector<Tensor>* outputs) {
  for (size_t i = 0; i < node.writes.size(); ++i) {
    const bool shared = block.shared[i] || block.by_row;
    Tensor& output = (*outputs)[i];
    if (!shared && (output.dims() == 0 || output.dim_size(0) != static_cast<int64_t>(count))) {
      return errors::Internal("block ", block.name, ": output ", i, " has shape ",
                              output.shape().DebugString(), " for ", count, " rows");
    }
    const FramePtr<Holder> buffer(new Buffer(std::move(output), shared));
    for (size_t row = 0; row < count; ++row) {
      activations[row]->slots[node.writes[i]] = {buffer, shared ? -1 : static_cast<int64_t>(row)};
    }
  }
  return absl::OkStatus();
}

absl::Status Run::AddSums(const Block& block, const std::vector<Tensor>& outputs) {
  for (size_t i = 0; i < block.sums.size(); i += 3) {
    if (scope_.sums == nullptr) return errors::InvalidArgument("block ", block.name, " adds to sums in a forward call");
    const auto kind = static_cast<SumKind>(block.sums[i]);
    const int slot = block.sums[i + 1];
    const Tensor& first = outputs[block.sums[i + 2]];
    if (kind == SumKind::kDense) {
      TF_RETURN_IF_ERROR(scope_.sums->AddDense(slot, first));
    } else {
      TF_RETURN_IF_ERROR(scope_.sums->AddPair(kind, slot, first, outputs[block.sums[i + 2] + 1]));
    }
  }
  return absl::OkStatus();
}

bool Run::Alike(const Node& node, const Activation& one, const Activation& other) {
  for (int slot : node.reads) {
    const auto* mine = ShapeOf(one.slots[slot]);
    const auto* theirs = ShapeOf(other.slots[slot]);
    if (mine != nullptr && theirs != nullptr && *mine != *theirs) return false;
  }
  return true;
}

uint64_t Run::ShapesOf(const Node& node, const Activation& activation) {
  uint64_t shapes = node.reads.size();
  for (int slot : node.reads) {
    const auto* shape = ShapeOf(activation.slots[slot]);
    if (shape == nullptr) continue;
    shapes = tensorflow::Hash64Combine(shapes, shape->dims());
    for (const int64_t size : shape->dim_sizes()) shapes = tensorflow::Hash64Combine(shapes, size);
  }
  return shapes;
}

bool Run::Select(Selector selector, const Value& value, int* branch) {
  const Buffer* buffer = nullptr;
  const Value* settled = &value;
  if (!Succeeded(BufferOf(&settled, &buffer))) return false;
  const bool by_bool = selector == Selector::kBool;
  const auto dtype = by_bool ? tensorflow::DT_BOOL : tensorflow::DT_INT32;
  // As in TensorFlow's If, what is no scalar is true where it has elements.
  const bool is_scalar = buffer->shape().dims() == 0;
  if (by_bool && !is_scalar) {
    *branch = buffer->value_elements() > 0 ? 0 : 1;
    return true;
  }
  if (buffer->tensor().dtype() != dtype || buffer->value_elements() == 0) {
    return Succeeded(errors::InvalidArgument("a branch is picked by a ", tensorflow::DataTypeString(dtype), ", found ",
                                             buffer->tensor().DebugString()));
  }
  const char* const data = buffer->data(settled->row);
  *branch = by_bool ? (*data != 0 ? 0 : 1) : *reinterpret_cast<const int32_t*>(data);
  return true;
}

Value Run::Bool(bool value) {
  Value& known = bools_[value ? 1 : 0];
  if (!known.holder) {
    Tensor tensor(tensorflow::DT_BOOL, tensorflow::TensorShape({}));
    tensor.scalar<bool>()() = value;
    known = Whole(std::move(tensor));
  }
  return known;
}

void Run::Mismatch(size_t rows, size_t others) {
  Succeeded(errors::InvalidArgument("map: the arguments must have the same first dimension, found ",
                                    rows, " and ", others));
}

void Run::BadFrame(int64_t values) {
  Succeeded(values < 0 ? errors::InvalidArgument("a tensor where a frame was expected")
                       : errors::InvalidArgument("a frame of another invocation: it has ", values, " values"));
}

bool Run::Split(const Value& value, std::vector<Value>* rows) {
  Tensor tensor;
  if (!Succeeded(TensorOf(value, &tensor))) return false;
  if (tensor.dims() == 0) return Succeeded(errors::InvalidArgument("map: an argument is a scalar"));
  const int64_t count = tensor.dim_size(0);
  const FramePtr<Holder> buffer(new Buffer(std::move(tensor), false));
  for (int64_t row = 0; row < count; ++row) rows->push_back({buffer, row});
  return true;
}

bool Run::Stack(const std::vector<Value>& values, const MapResult& like, Value* whole) {
  Tensor stacked;
  if (values.empty()) {
    tensorflow::TensorShape shape({0});
    for (int dim : like.shape) {
      if (!Succeeded(shape.AddDimWithStatus(dim))) return false;
    }
    const auto dtype = static_cast<tensorflow::DataType>(like.dtype);
    if (!Succeeded(Tensor::BuildTensor(dtype, shape, &stacked))) return false;
  } else {
    std::vector<const Value*> pointers;
    for (const Value& value : values) pointers.push_back(&value);
    if (!Succeeded(GatherAlike(pointers, &stacked))) return false;
  }
  *whole = Whole(std::move(stacked));
  return true;
}

// Keeps an error that no activation of its own is to blame for.
bool Run::Succeeded(const absl::Status& status) {
  if (!status.ok()) NoteError(status, nullptr);
  return status.ok();
}

absl::Status RootsOf(const tensorflow::OpInputList& inputs, bool map,
                     std::vector<std::vector<Value>>* roots) {
  if (!map) {
    roots->emplace_back();
    for (const Tensor& input : inputs) roots->back().push_back(Whole(input));
    return absl::OkStatus();
  }
  for (int i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dims() == 0 || inputs[i].dim_size(0) != inputs[0].dim_size(0)) {
      return errors::InvalidArgument(
          "map: the arguments must have the same first dimension, found shapes ",
          inputs[0].shape().DebugString(), " and ", inputs[i].shape().DebugString());
    }
  }
  if (inputs.size() == 0) return errors::InvalidArgument("map: no arguments to map over");
  roots->resize(inputs[0].dim_size(0));
  for (const Tensor& input : inputs) {
    const FramePtr<Holder> buffer(new Buffer(input, false));
    for (size_t row = 0; row < roots->size(); ++row) {
      (*roots)[row].push_back({buffer, static_cast<int64_t>(row)});
    }
  }
  return absl::OkStatus();
}

void Runs::Start(const std::string& function, std::vector<std::vector<Value>> roots, size_t results, Done done) {
  function_ = function;
  results_ = results;
  done_ = std::move(done);
  const absl::Status divided = CatchingAll([&] {
    Divide(std::move(roots));
    return absl::OkStatus();
  });
  if (!divided.ok()) {
    const Done ended = std::move(done_);
    return ended(this, divided);
  }
  const size_t count = parts_.size();
  pending_.store(count, std::memory_order_relaxed);
  for (size_t i = 1; i < count; ++i) {
    scope_.root->Schedule([this, part = &parts_[i]] { RunPart(part); });
  }
  RunPart(&parts_[0]);
}

void Runs::Divide(std::vector<std::vector<Value>> roots) {
  const Plan& plan = *scope_.root->program()->plan();
  const int index = plan.Find(function_);
  // What has effects is run by one machine, so that the order of its rows does not depend on threads.
  const bool in_order = index >= 0 && plan.functions[index].has_effects;
  const size_t threads = in_order ? 1 : scope_.root->threads();
  const size_t wanted = std::min<size_t>(threads, roots.size() / kRootsPerRun);
  parts_ = std::vector<Part>(std::max<size_t>(wanted, 1));
  const size_t count = parts_.size();
  for (size_t i = 0; i < count; ++i) {
    Part& part = parts_[i];
    Scope scope = scope_;
    if (i > 0 && scope_.sums != nullptr) {
      part.sums = std::make_unique<Sums>(scope_.environment->slots().size());
      scope.sums = part.sums.get();
    }
    if (scope.row >= 0) scope.row = roots.size() * i / count;
    const auto begin = roots.begin() + roots.size() * i / count;
    const auto end = roots.begin() + roots.size() * (i + 1) / count;
    part.roots.assign(std::make_move_iterator(begin), std::make_move_iterator(end));
    part.count = part.roots.size();
    part.run = std::make_unique<Run>(scope, max_depth_, &stop_, count == 1, records_);
  }
}

void Runs::RunPart(Part* part) {
  {
    const tsl::profiler::TraceMe trace(
        [&] { return tsl::profiler::TraceMeEncode("recgraph: " + function_, {{"roots", part->count}}); },
        tsl::profiler::kInfo);
    part->status = part->run->Call(function_, std::move(part->roots), results_);
  }
  if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) End();
}

void Runs::End() {
  absl::Status status;
  for (Part& part : parts_) {
    // The others were told to stop by the one that failed.
    if (!part.status.ok() && (status.ok() || absl::IsCancelled(status))) status = part.status;
  }
  for (Part& part : parts_) {
    if (!status.ok() || part.sums == nullptr) continue;
    status = CatchingAll([&] { return scope_.sums->Absorb(part.sums.get()); });
  }
  const Done done = std::move(done_);
  done(this, status);
}

std::vector<Value> Runs::Raw(size_t index) const {
  std::vector<Value> values;
  for (const Part& part : parts_) {
    for (int root = 0; root < part.count; ++root) values.push_back(part.run->result(root, index));
  }
  return values;
}

absl::Status Runs::Stacked(size_t index, tensorflow::DataType dtype,
                           const tensorflow::PartialTensorShape& shape, Tensor* result) const {
  const std::vector<Value> values = Raw(index);
  if (values.empty()) {
    return NoRows(dtype, shape, result);
  }
  std::vector<const Value*> pointers;
  for (const Value& value : values) pointers.push_back(&value);
  return GatherAlike(std::move(pointers), result);
}

absl::Status Runs::Single(size_t index, Tensor* result) const {
  return TensorOf(parts_[0].run->result(0, index), result);
}

absl::Status SetResults(tensorflow::OpKernelContext* ctx, const Runs& runs, bool map,
                        const std::vector<tensorflow::PartialTensorShape>& shapes) {
  for (size_t i = 0; i < shapes.size(); ++i) {
    Tensor result;
    if (map) {
      TF_RETURN_IF_ERROR(runs.Stacked(i, ctx->expected_output_dtype(i), shapes[i], &result));
    } else {
      TF_RETURN_IF_ERROR(runs.Single(i, &result));
    }
    TF_RETURN_IF_ERROR(SetOutput(ctx, i, std::move(result)));
  }
  return absl::OkStatus();
}

void Run::NoteError(const absl::Status& status, const Activation* activation, const std::vector<std::string>& below) {
  status_ = status;
  const auto call_path = [this, activation, &below] {
    std::vector<std::string> path = machine_->CallPath(activation);
    path.insert(path.end(), below.begin(), below.end());
    const bool has_row = scope_.row >= 0 && activation != nullptr;
    path.insert(path.begin(), WithRow(*scope_.label, has_row ? scope_.row + activation->root : -1));
    return path;
  };
  scope_.root->NoteError(call_path, status);
}

}  // namespace batch
}  // namespace recgraph
