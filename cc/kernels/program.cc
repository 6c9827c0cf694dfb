// Programs and their registry. A runtime of the program's own keeps one
// instantiation for all levels of a recursion; instantiating through a nested kernel's own runtime
// would make a new one at every level.
#include "cc/kernels/program.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "cc/core/sha256.h"
#include "cc/kernels/serial_device.h"
#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/platform/cpu_info.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tensorflow/core/public/version.h"
#include "cc/kernels/checked.h"
#include "cc/kernels/errors.h"
#include "cc/kernels/host.h"

namespace recgraph {

using tensorflow::FunctionDefLibrary;
using tensorflow::FunctionLibraryRuntime;

namespace {

// The function that carries the plan of the batched engine in its attributes. No SubGraph can have its name. In
// programs of an earlier version it has the second one.
constexpr char kPlan[] = "recgraph.plan";
constexpr char kEarlierPlan[] = "recgraph_plan";

// The attribute of functions whose invocations run one after another.
constexpr char kInOrder[] = "_recgraph_in_order";
constexpr char kTakesTurns[] = "_recgraph_takes_turns";
// Of functions whose equal calls are one, and of gradients that are added up.
constexpr char kMemoized[] = "_recgraph_memoized";

constexpr size_t kKeyDigits = 32;

// A program that was registered, until whoever did so forgets it.
struct Source {
  std::shared_ptr<const std::string> library;
  int64_t uses = 0;
  std::vector<std::shared_ptr<Program>> made;  // one for each device that has used it
};

// Where a program is made on a device: whoever wants the same one waits, and nobody else.
struct ProgramPlace {
  std::mutex mutex;
  std::weak_ptr<Program> program;  // guarded by mutex
};

// Sources by key, and the programs in use by device and key. Order of locks: a place's, then the registry's.
struct Registry {
  std::mutex mutex;
  std::unordered_map<std::string, Source> sources;
  std::map<std::pair<const void*, std::string>, std::shared_ptr<ProgramPlace>> in_use;

  // Takes a place away where nobody is at it. The caller holds the lock.
  void Tidy(const void* device, const std::string& key) {
    const auto found = in_use.find({device, key});
    if (found != in_use.end() && found->second.use_count() == 1 && found->second->program.expired()) in_use.erase(found);
  }
};

Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

}  // namespace

namespace {

// More tensors than any operation is given or gives.
constexpr int64_t kMostTensors = 1 << 20;

// Whether numbers of inputs and outputs in a function make sense: TensorFlow takes memory for so many before it looks,
// also where it is its own kernel, such as If, that has a function made ready.
absl::Status CheckCounts(const tensorflow::FunctionDef& function) {
  for (const tensorflow::NodeDef& node : function.node_def()) {
    const tensorflow::OpDef* op = nullptr;
    if (!tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &op).ok()) continue;  // a function
    for (const auto* arguments : {&op->input_arg(), &op->output_arg()}) {
      for (const tensorflow::OpDef::ArgDef& argument : *arguments) {
        const auto count = node.attr().find(argument.number_attr());
        if (argument.number_attr().empty() || count == node.attr().end()) continue;
        if (count->second.i() >= 0 && count->second.i() <= kMostTensors) continue;
        return errors::DataLoss("the program of this SubGraph is damaged: ", node.name(), " in ",
                                function.signature().name(), " has ", count->second.i(), " tensors");
      }
    }
  }
  return absl::OkStatus();
}

// Functions that an operation may be given as an attribute, one in the other, at most: each level takes stack when the
// innermost one ends.
constexpr int kMostNested = 1000;

// Whether functions lead to themselves by branches, loops and plain calls, which no limit of a recursion counts: only
// invocations do, which name a body and do not have it as an attribute. In time in proportion to the library.
class CallVerifier {
 public:
  explicit CallVerifier(const FunctionDefLibrary& library) {
    for (const tensorflow::FunctionDef& function : library.function()) {
      numbers_.emplace(function.signature().name(), static_cast<int>(numbers_.size()));
    }
    functions_.resize(numbers_.size());
    for (const tensorflow::FunctionDef& function : library.function()) {
      Function& mine = functions_[numbers_[function.signature().name()]];
      mine.name = &function.signature().name();
      for (const tensorflow::NodeDef& node : function.node_def()) AddCalls(node, &mine.callees);
    }
  }

  absl::Status Verify() {
    for (Function& root : functions_) {
      std::vector<Function*> path;
      if (root.height == kNew) path.push_back(&root);
      while (!path.empty()) {
        Function* const function = path.back();
        function->height = kOpen;
        if (function->next == function->callees.size()) {
          TF_RETURN_IF_ERROR(Close(function));
          path.pop_back();
          continue;
        }
        Function* const callee = &functions_[function->callees[function->next++]];
        if (callee->height == kOpen) {
          return errors::DataLoss("the program of this SubGraph is damaged: its function ", *callee->name,
                                  " calls itself, and no call is an invocation");
        }
        if (callee->height == kNew) path.push_back(callee);
      }
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int kNew = -2, kOpen = -1;
  struct Function {
    const std::string* name = nullptr;
    std::vector<int> callees;
    size_t next = 0;
    int height = kNew;  // once it is done: the functions below it that are in each other
  };

  void AddCall(const std::string& name, std::vector<int>* callees) const {
    const auto found = numbers_.find(name);
    if (found != numbers_.end()) callees->push_back(found->second);
  }

  void AddCalls(const tensorflow::NodeDef& node, std::vector<int>* callees) const {
    AddCall(node.op(), callees);
    for (const auto& [name, value] : node.attr()) {
      if (value.has_func()) AddCall(value.func().name(), callees);
      for (const tensorflow::NameAttrList& function : value.list().func()) AddCall(function.name(), callees);
    }
  }

  absl::Status Close(Function* function) const {
    function->height = 0;
    for (const int callee : function->callees) {
      function->height = std::max(function->height, functions_[callee].height + 1);
    }
    if (function->height <= kMostNested) return absl::OkStatus();
    return errors::DataLoss("the program of this SubGraph is damaged: below its function ", *function->name,
                            " are more than ", kMostNested, " functions in each other");
  }

  std::unordered_map<std::string, int> numbers_;
  std::vector<Function> functions_;
};

int InterOpThreads(FunctionLibraryRuntime* runtime) {
  const tensorflow::ConfigProto* config = runtime->config_proto();
  const int configured = config == nullptr ? 0 : config->inter_op_parallelism_threads();
  return configured > 0 ? configured : tensorflow::port::MaxParallelism();
}

// Whether a node may run Python code: itself, by a dataset, or by a program of its own.
bool MayRunPython(const tensorflow::NodeDef& node) {
  for (const char* part : {"PyFunc", "Iterator", "Dataset"}) {
    if (node.op().find(part) != std::string::npos) return true;
  }
  const auto program = node.attr().find("program");
  return program != node.attr().end() && !program->second.s().empty();
}

bool MayRunPython(const FunctionDefLibrary& functions) {
  for (const tensorflow::FunctionDef& function : functions.function()) {
    for (const tensorflow::NodeDef& node : function.node_def()) {
      if (MayRunPython(node)) return true;
    }
  }
  return false;
}

// TensorFlow takes memory by the numbers that it finds in a function, before it has looked whether they make sense.
absl::Status Instantiate(FunctionLibraryRuntime* runtime, const std::string& name,
                         const FunctionLibraryRuntime::InstantiateOptions& how, Program::Handle* handle) {
  return CatchingAll([&] { return runtime->Instantiate(name, tensorflow::AttrSlice(), how, handle); });
}

// Whether `key` is that of the library.
absl::Status CheckKey(const std::string& key, const std::string& library) {
  const std::string own = Sha256(library).substr(0, kKeyDigits);
  if (key == own) return absl::OkStatus();
  return errors::DataLoss("the program of this SubGraph is not the one that its key is for: the key is '", key,
                          "', that of its ", library.size(), " bytes is '", own,
                          "'. The model is damaged, or was changed after it was saved; save it again");
}

}  // namespace

absl::Status RegisterProgram(const std::string& key, const std::string& library) {
  TF_RETURN_IF_ERROR(CheckKey(key, library));
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  Source& source = registry.sources[key];
  if (source.library == nullptr) source.library = std::make_shared<const std::string>(library);
  ++source.uses;
  return absl::OkStatus();
}

void ForgetProgram(const std::string& key) {
  Source forgotten;  // what it holds is freed without the lock
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  const auto found = registry.sources.find(key);
  if (found == registry.sources.end() || --found->second.uses > 0) return;
  forgotten = std::move(found->second);
  registry.sources.erase(found);
}

std::pair<int64_t, int64_t> CountPrograms() {
  Registry& registry = TheRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  return {static_cast<int64_t>(registry.sources.size()), static_cast<int64_t>(registry.in_use.size())};
}

absl::Status Program::Get(FunctionLibraryRuntime* parent, const std::string& key,
                          const std::string& library, std::shared_ptr<Program>* program) {
  if (parent == nullptr) {
    return errors::Internal("a SubGraph needs a device with a function runtime");
  }
  if (!library.empty()) TF_RETURN_IF_ERROR(CheckKey(key, library));
  tensorflow::Device* const device = HostDevice(*parent);
  Registry& registry = TheRegistry();
  std::shared_ptr<ProgramPlace> place;
  std::shared_ptr<const std::string> source;
  {
    std::lock_guard<std::mutex> lock(registry.mutex);
    std::shared_ptr<ProgramPlace>& known = registry.in_use[{device, key}];
    if (known == nullptr) known = std::make_shared<ProgramPlace>();
    place = known;
    const auto found = registry.sources.find(key);
    if (library.empty() && found != registry.sources.end()) source = found->second.library;
  }
  absl::Status status;
  {
    std::lock_guard<std::mutex> lock(place->mutex);
    *program = place->program.lock();
    if (*program == nullptr) {
      if (library.empty() && source == nullptr) {
        status = errors::FailedPrecondition(
            "the program of this SubGraph is not known to this process (key ", key,
            "): it was made by another process, or its SubGraph is gone, and its operation does not carry it");
      } else {
        status = CatchingAll([&] { return Make(parent, library.empty() ? *source : library, program); });
      }
      if (status.ok()) {
        (*program)->key_ = key;
        (*program)->parent_device_ = device;
        place->program = *program;
      }
    }
  }
  place = nullptr;
  std::lock_guard<std::mutex> lock(registry.mutex);
  if (!status.ok()) {
    registry.Tidy(device, key);
    return status;
  }
  const auto found = registry.sources.find(key);
  if (library.empty() && found != registry.sources.end()) {
    auto& made = found->second.made;
    if (std::find(made.begin(), made.end(), *program) == made.end()) made.push_back(*program);
  }
  return absl::OkStatus();
}

absl::Status Program::Make(FunctionLibraryRuntime* parent, const std::string& library,
                           std::shared_ptr<Program>* program) {
  FunctionDefLibrary functions;
  if (!functions.ParseFromString(library)) {
    return errors::DataLoss("the program of this SubGraph cannot be read (",
                                        library.size(), " bytes)");
  }
  for (const tensorflow::FunctionDef& function : functions.function()) TF_RETURN_IF_ERROR(CheckCounts(function));
  TF_RETURN_IF_ERROR(CallVerifier(functions).Verify());
  std::shared_ptr<Program> made(new Program);
  tensorflow::Device* const device = HostDevice(*parent);
  made->device_ = MakeSerialDevice(device);
  made->definitions_ = std::make_unique<tensorflow::FunctionLibraryDefinition>(
      tensorflow::OpRegistry::Global(), functions);
  made->process_runtime_ = std::make_unique<tensorflow::ProcessFunctionLibraryRuntime>(
      made->device_.get(), parent->env(), parent->config_proto(), TF_GRAPH_DEF_VERSION,
      made->definitions_.get(), tensorflow::OptimizerOptions());
  made->runtime_ = made->process_runtime_->GetFLR(device->name());
  if (made->runtime_ == nullptr) {
    return errors::Internal("no function runtime for device ", device->name());
  }
  made->threads_ = InterOpThreads(made->runtime_);
  made->runs_python_ = MayRunPython(functions);
  made->memoizes_ = std::any_of(functions.function().begin(), functions.function().end(),
                                [](const auto& function) { return function.attr().count(kMemoized) > 0; });
  TF_RETURN_IF_ERROR(made->ReadPlan(parent));
  *program = std::move(made);
  return absl::OkStatus();
}

Program::~Program() {
  if (parent_device_ != nullptr) {
    Registry& registry = TheRegistry();
    std::lock_guard<std::mutex> lock(registry.mutex);
    registry.Tidy(parent_device_, key_);
  }
  for (const auto& [name, handle] : handles_) runtime_->ReleaseHandle(handle).IgnoreError();
  for (size_t i = 0; i < block_handles_.size(); ++i) {
    const Handle handle = block_handles_[i].load();
    if (handle == tensorflow::kInvalidHandle) continue;
    (i % 3 == 1 ? batch_runtime_ : runtime_)->ReleaseHandle(handle).IgnoreError();
  }
}

absl::Status Program::ReadPlan(FunctionLibraryRuntime* parent) {
  const tensorflow::FunctionDef* carrier = definitions_->Find(kPlan);
  if (carrier == nullptr) carrier = definitions_->Find(kEarlierPlan);
  if (carrier == nullptr) return absl::OkStatus();
  const auto with_code = carrier->attr().find("code"), with_strings = carrier->attr().find("strings");
  if (with_code == carrier->attr().end() || with_strings == carrier->attr().end()) {
    if (carrier->signature().name() == kEarlierPlan) return absl::OkStatus();  // a SubGraph of the user's
    return errors::DataLoss("the program of this SubGraph holds a damaged plan: it has no code");
  }
  const auto& code = with_code->second.list().i();
  const auto& strings = with_strings->second.list().s();
  plan_ = std::make_unique<batch::Plan>();
  const std::string wrong =
      batch::DecodePlan({code.begin(), code.end()}, {strings.begin(), strings.end()}, plan_.get());
  if (!wrong.empty()) return errors::DataLoss("the program of this SubGraph holds ", wrong);
  row_blocks_ = std::make_unique<batch::RowBlocks>(plan_.get(), definitions_.get());
  structures_ = std::make_unique<const batch::Structures>(*plan_);
  scheduling_ = std::vector<Scheduling>(plan_->functions.size());
  block_handles_ = std::vector<std::atomic<Handle>>(3 * plan_->blocks.size());
  for (auto& handle : block_handles_) handle.store(tensorflow::kInvalidHandle);
  block_types_.resize(block_handles_.size());
  block_counts_ = std::vector<BlockCounts>(plan_->blocks.size());
  tensorflow::Device* const device = HostDevice(*parent);
  batch_device_ = MakeOneDevice(device);
  batch_process_runtime_ = std::make_unique<tensorflow::ProcessFunctionLibraryRuntime>(
      batch_device_.get(), parent->env(), parent->config_proto(), TF_GRAPH_DEF_VERSION,
      definitions_.get(), tensorflow::OptimizerOptions());
  batch_runtime_ = batch_process_runtime_->GetFLR(device->name());
  return absl::OkStatus();
}

const batch::Structure* Program::StructureOf(int function) {
  if (!IsScheduled(function)) return nullptr;
  Scheduling& known = scheduling_[function];
  std::call_once(known.made, [&] { known.structure = structures_->Of(function); });
  return known.structure.get();
}

std::vector<std::shared_ptr<Program>> Program::InUse(const std::string& key) {
  std::vector<std::shared_ptr<ProgramPlace>> places;
  {
    Registry& registry = TheRegistry();
    std::lock_guard<std::mutex> lock(registry.mutex);
    for (const auto& [where, place] : registry.in_use) {
      if (where.second == key) places.push_back(place);
    }
  }
  std::vector<std::shared_ptr<Program>> found;
  for (const auto& place : places) {
    std::lock_guard<std::mutex> lock(place->mutex);
    if (auto program = place->program.lock()) found.push_back(std::move(program));
  }
  return found;
}

std::string Program::ChoiceReport(const std::string& key) {
  std::string report;
  for (const auto& program : InUse(key)) {
    report += program->choice_.Report() + program->ScheduleReport() + program->MemoReport();
  }
  return report;
}

// Branches and loops are parts of other functions.
std::string Program::ScheduleReport() const {
  std::string report;
  for (size_t f = 0; f < scheduling_.size(); ++f) {
    const std::string& name = plan_->names[f];
    if (name.find('/') != std::string::npos) continue;
    const bool is_scheduled = IsScheduled(static_cast<int>(f));
    const std::string& known = structures_->Why(static_cast<int>(f));
    const std::string why = known.empty() ? "a row or a block did not fit" : known;
    report += absl::StrCat(name, is_scheduled ? ": scheduled" : ": not scheduled, ", is_scheduled ? "" : why);
    const int64_t calls = scheduling_[f].calls.load(std::memory_order_relaxed);
    const int64_t merged = scheduling_[f].merged.load(std::memory_order_relaxed);
    if (merged > 0) {
      absl::StrAppend(&report, ", ", calls, " calls asked for, ", calls - merged, " computed: the others were equal");
    }
    report += "\n";
  }
  return report;
}

void Program::NoteMemoized(Handle function, int64_t asked, int64_t computed) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto& [all, own] = memoized_[function];
  all += asked;
  own += computed;
}

std::string Program::MemoReport() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::map<std::string, std::pair<int64_t, int64_t>> by_name;
  for (const auto& [name, handle] : handles_) {
    const auto found = memoized_.find(handle);
    if (found != memoized_.end()) by_name.emplace(name, found->second);
  }
  std::string report;
  for (const auto& [name, counts] : by_name) {
    const char* const others = counts.first > counts.second ? ": the others were equal\n" : "\n";
    absl::StrAppend(&report, name, ": memoized, ", counts.first, " calls asked for, ", counts.second, " computed", others);
  }
  return report;
}

std::vector<Program::BlockFacts> Program::BlockReport(const std::string& key) {
  std::vector<BlockFacts> report;
  for (const auto& program : InUse(key)) {
    const auto& blocks = program->block_counts_;
    report.resize(blocks.size());
    for (size_t i = 0; i < blocks.size(); ++i) {
      report[i].runs += blocks[i].runs.load(std::memory_order_relaxed);
      report[i].rows += blocks[i].rows.load(std::memory_order_relaxed);
      report[i].nanoseconds += blocks[i].nanoseconds.load(std::memory_order_relaxed);
      report[i].reason = program->row_blocks_->Why(program->plan_->blocks[i]);
    }
  }
  return report;
}

// The executor that runs blocks hands arguments to kernels as they are; and kernels end the process where a tensor is
// of another dtype than they were made for.
absl::Status Program::CheckFrame(const batch::Block& block, const BlockTypes& types,
                                 const tensorflow::CallFrameInterface& frame) {
  if (types.arguments.size() != frame.num_args() || types.results != frame.num_retvals()) {
    return errors::InvalidArgument("block ", block.name, " has ", types.arguments.size(), " arguments and ",
                                   types.results, " results, and the plan ", frame.num_args(), " and ",
                                   frame.num_retvals());
  }
  for (size_t i = 0; i < types.arguments.size(); ++i) {
    const tensorflow::Tensor* value = nullptr;
    // A frame gives its arguments to whoever asks, and is not changed by it.
    TF_RETURN_IF_ERROR(const_cast<tensorflow::CallFrameInterface&>(frame).GetArg(static_cast<int>(i), &value));
    if (value->dtype() == types.arguments[i]) continue;
    return errors::InvalidArgument("block ", block.name, ": argument ", i, " is ",
                                   tensorflow::DataTypeString(value->dtype()), ", not ",
                                   tensorflow::DataTypeString(types.arguments[i]));
  }
  return absl::OkStatus();
}

absl::Status Program::RunBlock(const batch::Block& block, BlockMode mode,
                               FunctionLibraryRuntime::Options options,
                               tensorflow::CallFrameInterface* frame) {
  FunctionLibraryRuntime* const runtime = mode == BlockMode::kLarge ? batch_runtime_ : runtime_;
  const size_t place = 3 * IndexOf(block) + static_cast<size_t>(mode);
  std::atomic<Handle>& known = block_handles_[place];
  Handle handle = known.load(std::memory_order_acquire);
  if (handle == tensorflow::kInvalidHandle) {
    std::lock_guard<std::mutex> lock(mutex_);
    handle = known.load(std::memory_order_relaxed);
    if (handle == tensorflow::kInvalidHandle) {
      FunctionLibraryRuntime::InstantiateOptions how;
      if (mode != BlockMode::kDiagnosis) how.executor_type = "SINGLE_THREADED_EXECUTOR";
      TF_RETURN_IF_ERROR(Instantiate(runtime, block.name, how, &handle));
      const tensorflow::FunctionBody* const body = runtime->GetFunctionBody(handle);
      if (body == nullptr) return errors::Internal("block ", block.name, " has no body");
      block_types_[place] = {{body->arg_types.begin(), body->arg_types.end()}, body->ret_types.size()};
      known.store(handle, std::memory_order_release);
    }
  }
  TF_RETURN_IF_ERROR(CheckFrame(block, block_types_[place], *frame));
  return runtime->RunSync(std::move(options), handle, frame);
}

absl::Status Program::Function(const std::string& name, Handle* handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = handles_.find(name);
  if (found != handles_.end()) {
    *handle = found->second;
    return absl::OkStatus();
  }
  if (definitions_->Find(name) == nullptr) {
    return errors::NotFound("the program of this SubGraph has no function ", name);
  }
  TF_RETURN_IF_ERROR(Instantiate(runtime_, name, {}, handle));
  handles_.emplace(name, *handle);
  return absl::OkStatus();
}

bool Program::RunsInOrder(const std::string& name) const {
  const tensorflow::FunctionDef* const function = definitions_->Find(name);
  return function != nullptr && function->attr().count(kInOrder) > 0;
}

bool Program::TakesTurns(const std::string& name) const {
  for (const char* suffix : {"", ".rec", ".grad"}) {
    const tensorflow::FunctionDef* const function = definitions_->Find(name + suffix);
    if (function != nullptr && function->attr().count(kTakesTurns) > 0) return true;
  }
  return false;
}

bool Program::IsMemoized(const std::string& name) const {
  const tensorflow::FunctionDef* const function = definitions_->Find(name);
  return function != nullptr && function->attr().count(kMemoized) > 0;
}

std::string Program::Origin(const std::string& node) const {
  for (const std::string& name : definitions_->ListFunctionNames()) {
    const tensorflow::FunctionDef* function = definitions_->Find(name);
    for (const tensorflow::NodeDef& candidate : function->node_def()) {
      if (candidate.name() != node) continue;
      const auto origin = candidate.attr().find("_recgraph_origin");
      return origin == candidate.attr().end() ? "" : origin->second.s();
    }
  }
  return "";
}

}  // namespace recgraph
