// A step of a program: tracing it, walking it along a plan, and leaving the plan.
#include "cc/python/step.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "absl/algorithm/container.h"
#include "cc/core/stretch.h"
#include "cc/kernels/checked.h"
#include "cc/python/bystanders.h"
#include "cc/python/device.h"
#include "cc/python/executor.h"
#include "cc/python/location.h"
#include "cc/python/pending.h"
#include "cc/python/pipelines.h"
#include "cc/python/signals.h"
#include "cc/python/tensors.h"
#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/common_runtime/eager/tensor_handle.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace recgraph {
namespace {

using tensorflow::EagerOperation;
using tensorflow::Tensor;
using tensorflow::TensorHandle;

thread_local Step* current_step = nullptr;

int64_t NextNumber() {
  static std::atomic<int64_t> last{0};
  return ++last;
}

bool IsInGraph(Kind kind) {
  return kind == Kind::kPure || kind == Kind::kRead || kind == Kind::kWrite || kind == Kind::kCall;
}

// NumPy's memory may change as soon as the program goes on: what a graph reads later has to be a copy.
absl::Status KeepFromChanging(Input* input) {
  const tensorflow::TensorBuffer* buffer = tensorflow::DMAHelper::buffer(input->tensor);
  if (buffer == nullptr || buffer->OwnsMemory()) return absl::OkStatus();
  input->external = HandleOf(tensorflow::tensor::DeepCopy(*input->tensor));
  return TensorOf(input->external.get(), &input->tensor);
}

Tensor CountTensor(const Dimensions& values, bool is_scalar, tensorflow::DataType dtype) {
  Tensor tensor(dtype, is_scalar ? tensorflow::TensorShape() : tensorflow::TensorShape({int64_t(values.size())}));
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == tensorflow::DT_INT64) {
      tensor.flat<int64_t>()(i) = values[i];
    } else {
      tensor.flat<int32_t>()(i) = static_cast<int32_t>(values[i]);
    }
  }
  return tensor;
}

// What Shape, Size and Rank give.
Tensor ShapeAnswer(const std::string& name, const Dimensions& shape, tensorflow::DataType dtype) {
  if (name == "Rank") return CountTensor({static_cast<int64_t>(shape.size())}, true, dtype);
  if (name != "Size") return CountTensor(shape, false, dtype);
  int64_t size = 1;
  for (int64_t dimension : shape) size *= dimension;
  return CountTensor({size}, true, dtype);
}

}  // namespace

Step* Step::Current() { return current_step; }

void Step::Detach() {
  current_step = nullptr;
  access_->step = nullptr;
}

Step::Suspended::Suspended() : step_(current_step) { current_step = nullptr; }
Step::Suspended::~Suspended() { current_step = step_; }

Step::Step(PyCodeObject* base, std::shared_ptr<Plan> plan)
    : number_(NextNumber()), base_(base), line_(ThisLine().get()), access_(new Access{{}, this}), plan_(std::move(plan)) {
  current_step = this;
  if (plan_ == nullptr) return;
  try {
    Launch();
  } catch (...) {
    Detach();
    throw;
  }
}

Step::~Step() {
  if (current_step == this) {
    std::lock_guard working(access_->mutex);
    Detach();
  }
  if (HasGraph()) run_->Cancel();
  for (Record& record : records_) {
    for (ValuePtr& value : record.outputs) {
      if (value->is_alive()) value->Fail(absl::CancelledError("the step of this tensor was given up"));
    }
  }
  if (plan_ != nullptr && !was_ahead_) plan_->is_busy = false;
}

void Step::Launch() {
  run_ = Run::New(plan_->slots, plan_->cells, !IsReplayed() && plan_->IsTimed());
  run_->access = access_;
  next_ = &plan_->first;
  last_.assign(plan_->nodes.size(), -1);
  records_.reserve(plan_->nodes.size());
  if (IsReplayed()) return Replay();
  if (plan_->replays.mode() == Replays::Mode::kRecord) run_->RecordIn(plan_->replays.Record());
  if (!plan_->variables->all.empty()) presence_ = std::make_unique<Presence>(run_, plan_->variables, ThisLine());
  auto inputs = std::make_shared<std::vector<HandlePtr>>();
  inputs->push_back(HandleOf(Tensor(run_->id())));
  for (const HandlePtr& variable : plan_->resources) inputs->push_back(Share(variable.get()));
  std::shared_ptr<Run> before = line_->LastRun();
  const bool is_for_one = !plan_->IsLazy() && plan_->threads.Next(Now()) == 1;
  auto body = [run = run_, is_for_one, before, inputs, function = plan_->function, config = plan_->config] {
    if (before != nullptr && !before->Wait().ok()) {
      return run->Finish(absl::CancelledError("the step before this one has failed"));
    }
    tensorflow::AttrBuilder attributes(function.c_str());
    attributes.Set("config_proto", config);
    attributes.Set("executor_type", StepExecutorType());
    std::vector<Handle*> handles;
    for (const HandlePtr& input : *inputs) handles.push_back(input.get());
    int count = 0;
    if (is_for_one) run->WorkHere();
    Stretch::HandOver();
    const absl::Status status =
        CatchingAll([&] { return RunWith(function, attributes, handles, nullptr, &count, run->cancellation()); });
    const Stretch stretch;
    run->Finish(status);
  };
  const Delivery delivery = is_for_one ? Delivery::kSoon : plan_->delivery.load();
  run_->StartBy([runner = &plan_->runner, body] { runner->Launch(body); }, delivery);
}

// In place of running the graph: everything is there that it gave before.
void Step::Replay() {
  const SlotValues& values = plan_->replays.Replay();
  for (size_t slot = 0; slot < values.size(); ++slot) {
    for (const Tensor& value : values[slot]) run_->channels().Put(static_cast<int>(slot), value);
  }
  run_->Finish(absl::OkStatus());
}

absl::Status Step::Execute(const EagerOperation& operation, Handle** results, int* count) {
  access_->Lock();
  const std::lock_guard working(access_->mutex, std::adopt_lock);
  DeviceShare& share = DeviceShare::Get();
  if (!share.is_on || !HasGraph()) return DoExecute(operation, results, count);
  const size_t before = records_.size(), waits = stalls_.size();
  const int64_t began_at = Now();
  const absl::Status status = DoExecute(operation, results, count);
  if (records_.size() > before && records_.back().node >= 0 && stalls_.size() == waits) {
    share.nanoseconds += Now() - began_at;
    ++share.operations;
  }
  return status;
}

absl::Status Step::DoExecute(const EagerOperation& operation, Handle** results, int* count) {
  const Signature& signature = SignatureOf(operation);
  if (signature.kind == Kind::kConstant) {
    *count = 1;
    results[0] = Share(operation.Inputs()[0]).release();
    return absl::OkStatus();
  }
  if (HasGraph() && run_->is_unwanted) TF_RETURN_IF_ERROR(Leave(kAnotherThread));
  Inputs inputs;
  TF_RETURN_IF_ERROR(Classify(signature, operation, &inputs));
  if (signature.kind == Kind::kShape && AnswerShape(signature, inputs, results)) {
    *count = static_cast<int>(signature.outputs.size());
    return absl::OkStatus();
  }
  if (!IsInGraph(signature.kind) || IsImmediate(signature, inputs)) return RunOutside(signature, operation, inputs, results, count);
  if (HasGraph()) {
    bool is_done = false;
    TF_RETURN_IF_ERROR(Walk(signature, &inputs, results, count, &is_done));
    if (is_done) return absl::OkStatus();
  }
  return Trace(signature, operation, std::move(inputs), results, count);
}

absl::Status Step::Classify(const Signature& signature, const EagerOperation& operation,
                            Inputs* inputs) const {
  const bool is_in_graph = IsInGraph(signature.kind);
  inputs->resize(operation.Inputs().size());
  for (size_t i = 0; i < inputs->size(); ++i) {
    Handle* handle = operation.Inputs()[i];
    Input& input = (*inputs)[i];
    input.dtype = handle->DataType();
    Value* value = ValueOf(handle);
    if (value != nullptr && value->step == number_) {
      value->Ref();
      input.value.reset(value);
      continue;
    }
    if (value != nullptr) {
      TF_RETURN_IF_ERROR(value->Get(&input.external));
    } else {
      input.external = Share(handle);
      if (input.dtype == tensorflow::DT_RESOURCE) input.resource = ResourceNumber(handle, is_in_graph);
    }
    if (is_in_graph) TF_RETURN_IF_ERROR(TensorOf(input.external.get(), &input.tensor));
  }
  return absl::OkStatus();
}

bool Step::IsImmediate(const Signature& signature, const Inputs& inputs) const {
  if (signature.kind != Kind::kPure) return false;
  for (const Input& input : inputs) {
    if (input.value != nullptr || !IsCountable(input.dtype) || !IsSmall(*input.tensor)) return false;
  }
  return true;
}

absl::Status Step::RunOutside(const Signature& signature, const EagerOperation& operation,
                              const Inputs& inputs, Handle** results, int* count) {
  bool is_shared = false;
  if (signature.kind == Kind::kOpaque) {
    host_uses_.push_back({&signature, -1});
    is_shared = plan_ != nullptr && !plan_->variables->all.empty();
  } else if (signature.kind != Kind::kHarmless) {
    for (const Input& input : inputs) {
      if (input.resource < 0) continue;
      host_uses_.push_back({&signature, input.resource});
      is_shared |= plan_ != nullptr && plan_->variables->all.count(input.resource) > 0;
    }
  }
  Uses uses;
  AddPipelineUses(operation, &uses);
  is_shared |= HasGraph() && StandsBefore(uses);
  if (HasGraph() && is_shared) TF_RETURN_IF_ERROR(Leave(signature.name + " uses a variable of the graph"));
  const Access::Released others(access_.get());  // it may run Python, and that may wait for another thread
  return RunEagerly(operation, results, count);
}

bool Step::AnswerShape(const Signature& signature, const Inputs& inputs, Handle** results) {
  for (const Input& input : inputs) {
    if (input.value == nullptr) return false;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    results[i] = HandleOf(ShapeAnswer(signature.name, inputs[i].value->shape, signature.outputs[i])).release();
  }
  return true;
}

absl::Status Step::Trace(const Signature& signature, const EagerOperation& operation, Inputs inputs,
                         Handle** results, int* count) {
  std::vector<HandlePtr> held;
  std::vector<Handle*> handles;
  for (Input& input : inputs) {
    HandlePtr handle = input.value == nullptr ? Share(input.external.get()) : input.value->Peek();
    if (handle == nullptr) TF_RETURN_IF_ERROR(input.value->Get(&handle));  // gives the error that it has
    handles.push_back(handle.get());
    held.push_back(std::move(handle));
  }
  Record record{&signature, Locate(base_), -1, 0, true, false, {}, {}};
  std::vector<Dimensions> shapes;
  bool is_complete = false;
  if (InferShapes(signature, KnownOf(inputs), &shapes, &is_complete).ok()) record.has_open_shapes = !is_complete;
  record.is_foreseen = !was_unforeseen_ && IsForeseen(signature, inputs, is_complete);
  was_unforeseen_ = false;
  record.chain = ChainOf(signature, inputs);
  for (Input& input : inputs) Describe(&input);
  WaitForSteps(operation);
  TF_RETURN_IF_ERROR(RunWith(operation.Name(), operation.Attrs(), handles, results, count,
                             operation.GetCancellationManager()));
  auto* device = CoexecutionDevice::Registered();
  for (int i = 0; i < *count; ++i) {
    HandlePtr made(results[i]);
    const Tensor* tensor;
    TF_RETURN_IF_ERROR(TensorOf(made.get(), &tensor));
    ValuePtr value(new Value(number_, static_cast<int>(records_.size()), -1, i, tensor->dtype(), ShapeOf(*tensor)));
    results[i] = new ValueHandle(device->context(), device, value.get());
    value->Set(made.get());
    record.outputs.push_back(std::move(value));
  }
  for (Input& input : inputs) {
    input.external = nullptr;
    input.tensor = nullptr;
  }
  record.inputs = std::move(inputs);
  records_.push_back(std::move(record));
  return absl::OkStatus();
}

absl::Status Step::Walk(const Signature& signature, Inputs* inputs, Handle** results, int* count,
                        bool* is_done) {
  const Way* way = Match(signature, *inputs);
  if (way == nullptr) return Leave("new path: " + signature.name);
  Node& node = plan_->nodes[way->node];
  for (Input& input : *inputs) {
    if (input.external != nullptr && input.resource < 0) TF_RETURN_IF_ERROR(KeepFromChanging(&input));
  }
  const std::vector<Dimensions>* shapes = nullptr;
  bool is_complete = false;
  if (!node.shapes.Infer(signature, *inputs, &shapes, &is_complete).ok()) {
    return Leave("wrong shapes: " + signature.name);
  }
  if (!is_complete && !node.is_sync) return Leave("shapes depend on values: " + signature.name);
  Outcome outcome{node.is_sync, {}};
  if (node.is_sync) outcome = Foresee(signature, *inputs, is_complete);
  if (outcome.is_awaited && absl::c_linear_search(node.fetches, -1)) {
    was_unforeseen_ = true;
    return Leave("Python has to wait, as it never had to: " + signature.name);
  }
  Tell(*way);
  Feed(node, *inputs);
  Send();
  const int last = last_[way->node];
  const int position = last < 0 ? 0 : records_[last].position + 1;
  if (outcome.is_awaited) {
    outcome.values.resize(node.fetches.size());
    for (size_t i = 0; i < node.fetches.size(); ++i) {
      const std::string why = Await(node, way->node, i, position, &outcome.values[i]);
      if (!why.empty()) return Leave(why + ": " + signature.name);
    }
  }
  Record record{&signature, node.location, way->node, position, false, !outcome.is_awaited, std::move(*inputs), {}};
  auto* device = CoexecutionDevice::Registered();
  for (size_t i = 0; i < signature.outputs.size(); ++i) {
    const bool is_there = i < outcome.values.size();
    ValuePtr value(new Value(number_, static_cast<int>(records_.size()), way->node, static_cast<int>(i),
                             signature.outputs[i], is_there ? ShapeOf(outcome.values[i]) : (*shapes)[i]));
    results[i] = new ValueHandle(device->context(), device, value.get());
    if (is_there) {
      value->Set(HandleOf(outcome.values[i]).get());
    } else {
      value->Expect(run_, node.fetches[i], position);
    }
    record.outputs.push_back(std::move(value));
  }
  last_[way->node] = static_cast<int>(records_.size());
  records_.push_back(std::move(record));
  *count = static_cast<int>(signature.outputs.size());
  next_ = &node.next;
  *is_done = true;
  return absl::OkStatus();
}

const Way* Step::Match(const Signature& signature, const Inputs& inputs) const {
  const Way* first = nullptr;
  int location = -1;
  for (const Way& way : *next_) {
    if (way.node == plan_->end()) continue;
    const Node& node = plan_->nodes[way.node];
    if (node.signature != &signature || node.inputs.size() != inputs.size()) continue;
    bool fits = true;
    for (size_t i = 0; fits && i < inputs.size(); ++i) fits = SourceOf(inputs[i], node.inputs[i]) >= 0;
    if (!fits) continue;
    if (next_->size() == 1) return &way;
    if (location < 0) location = Locate(base_);
    if (node.location == location) return &way;
    if (first == nullptr) first = &way;
  }
  return first;  // it computes the same, wherever it stands
}

int Step::SourceOf(const Input& input, const PlannedInput& planned) const {
  for (size_t i = 0; i < planned.sources.size(); ++i) {
    if (Fits(input, planned.sources[i])) return static_cast<int>(i);
  }
  return -1;
}

bool Step::Fits(const Input& input, const Source& source) const {
  if (source.from == Source::From::kResource) return input.resource == source.number;
  if (source.from == Source::From::kOperation || source.from == Source::From::kHistory) {
    if (input.value == nullptr || input.value->output != source.output) return false;
    if (input.value->node != source.number) return false;
    return source.from == Source::From::kHistory || last_[source.number] == input.value->record;
  }
  if (input.external == nullptr || input.resource >= 0 || input.dtype != source.dtype) return false;
  if (source.has_rank) {
    if (input.tensor->dims() != static_cast<int>(source.shape.size())) return false;
    for (int i = 0; i < input.tensor->dims(); ++i) {
      if (source.shape[i] >= 0 && source.shape[i] != input.tensor->dim_size(i)) return false;
    }
  }
  return source.from == Source::From::kFeed || input.tensor->tensor_data() == source.bytes;
}

void Step::Tell(int slot, int index) { outbox_.emplace_back(slot, Tensor(static_cast<int32_t>(index))); }

void Step::Tell(const Way& way) {
  for (const Message& message : way.messages) Tell(message.slot, message.value);
}

void Step::Feed(const Node& node, const Inputs& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const PlannedInput& planned = node.inputs[i];
    const int chosen = planned.sources.size() == 1 ? 0 : SourceOf(inputs[i], planned);
    for (size_t j = 0; j < planned.sources.size(); ++j) {
      const Source& source = planned.sources[j];
      const bool is_chosen = static_cast<int>(j) == chosen;
      if (source.from == Source::From::kHistory) {
        Tell(source.slot, is_chosen ? records_[inputs[i].value->record].position : kNoPosition);
      } else if (source.from == Source::From::kFeed) {
        outbox_.emplace_back(source.slot, is_chosen ? *inputs[i].tensor : Tensor(source.dtype, {0}));
      }
    }
    if (planned.select >= 0) Tell(planned.select, chosen);
  }
}

}  // namespace recgraph
