// How activations begin, wait, meet in batches and end. Nothing here recurs: depth costs heap.
#include "cc/core/batch_machine.h"

#include <algorithm>
#include <iterator>
#include <new>

#include "cc/core/call_path.h"
#include "cc/core/schedule.h"

namespace recgraph {
namespace batch {
namespace {

// Of an activation with its slots and counters.
size_t SizeOf(const Function& function) {
  return sizeof(Activation) + function.slots * sizeof(Value) + function.nodes.size() * sizeof(uint16_t);
}

const StepFrame& StepOf(const Value& frame) { return *static_cast<const StepFrame*>(frame.holder.get()); }

bool GroupsByShape(const Block& block) { return block.ragged && !block.by_row; }

// What is fired for a loop or map, which has no events but its beginning, when the results of what its node calls are
// all there: -1 for node 0, -2 for node 1.
int ArrivalOf(const Function& function, const Node& node) { return -1 - static_cast<int>(&node - function.nodes.data()); }

}  // namespace

Record::Record(Kind kind, Values values) : Holder(kind), values_(std::move(values)) {
  AccountFor(sizeof(Record) + values_.size() * sizeof(Value));
}

void Record::SetJoined(Value whole) const {
  const Value* expected = nullptr;
  const Value* const mine = new Value(std::move(whole));
  if (!joined_.compare_exchange_strong(expected, mine)) delete mine;
}

Machine::Machine(const Plan& plan, Backend* backend, BatchPolicy* policy, int64_t max_depth)
    : plan_(plan), backend_(backend), policy_(policy), max_depth_(max_depth),
      free_(plan.functions.size()), queues_(plan.blocks.size()), calls_(plan.functions.size()) {
  FindScheduled();
}

Machine::~Machine() {
  // Nothing is kept for later here, which would take memory: perhaps there is none.
  while (live_ != nullptr) {
    Activation* const activation = live_;
    Empty(activation);
    MemoryPool::FreeObject(activation, SizeOf(*activation->function));
  }
  for (auto& list : free_) {
    for (Activation* activation : list) MemoryPool::FreeObject(activation, SizeOf(*activation->function));
  }
}

void Machine::AddRoot(int function, std::vector<Value> arguments) {
  Activation* const root = NewActivation(&plan_.functions[function], nullptr, nullptr);
  root->root = results_.size();
  results_.emplace_back(root->function->results.size());
  std::move(arguments.begin(), arguments.end(), root->slots);
  Begin(root, true);
}

Machine::End Machine::Run() {
  // Roots were added first to last; they begin in that order.
  std::reverse(fired_.begin(), fired_.end());
  const End end = RunNative();
  return end == End::kDone ? RunBlocks() : end;
}

void Machine::FindScheduled() {
  is_scheduled_.clear();
  for (size_t f = 0; f < plan_.functions.size(); ++f) is_scheduled_.push_back(backend_->IsScheduled(static_cast<int>(f)));
}

// Begins to run an activation, or has it wait for others that are scheduled with it.
void Machine::Begin(Activation* activation, bool is_invocation) {
  const size_t function = activation->function - plan_.functions.data();
  if (is_invocation && is_scheduled_[function]) {
    calls_[function].push_back(activation);
  } else {
    Fire(activation, 0);
  }
}

// A function with waiting calls, where no block is ready that could lead to more of them; -1 otherwise. All that a
// scheduled call does comes after the blocks that lead to it, so what is ready can wait for the calls.
int Machine::PickCalls() const {
  for (const int block : with_rows_) {
    if (!is_scheduled_[plan_.blocks[block].function]) return -1;
  }
  for (size_t f = 0; f < calls_.size(); ++f) {
    if (!calls_[f].empty()) return static_cast<int>(f);
  }
  return -1;
}

Machine::End Machine::RunCalls(int function) {
  std::vector<Activation*> calls;
  calls.swap(calls_[function]);
  int64_t invocations = 0;
  switch (backend_->RunCalls(function, calls.data(), calls.size(), &invocations)) {
    case Backend::Scheduled::kCancelled: return End::kCancelled;
    case Backend::Scheduled::kFailed: return End::kFailed;
    case Backend::Scheduled::kGaveUp:
      // As if it had not been tried: the order, and so the last bits of sums, are the same when it is tried no more.
      FindScheduled();
      for (size_t i = calls.size(); i-- > 0;) Fire(calls[i], 0);
      return RunNative();
    case Backend::Scheduled::kDone: break;
  }
  counts_.invocations += invocations;
  counts_.peak = std::max(counts_.peak, counts_.live + invocations);
  for (Activation* call : calls) {
    const size_t groups = call->function->groups.size();
    for (size_t group = 0; group < groups; ++group) Deliver(call, static_cast<int>(group));
    call->outstanding = 1;
    Retire(call);
  }
  return RunNative();
}

Machine::End Machine::RunBlocks() {
  while (true) {
    if (const int function = PickCalls(); function >= 0) {
      const End end = RunCalls(function);
      if (end != End::kDone) return end;
      continue;
    }
    if (with_rows_.empty()) return End::kDone;
    if (backend_->Cancelled()) return End::kCancelled;
    ready_.clear();
    for (int block : with_rows_) {
      const Queue& queue = queues_[block];
      ready_.push_back({block, plan_.blocks[block].priority, queue.rows,
                        static_cast<double>(queue.depths) / queue.rows});
    }
    const size_t picked = with_rows_.size() == 1 ? 0 : policy_->Pick(ready_);
    const int block = with_rows_[picked];
    with_rows_.erase(with_rows_.begin() + picked);
    const End end = RunOne(block);
    if (end != End::kDone) return end;
  }
}

Machine::End Machine::RunOne(int block) {
  const Block& what = plan_.blocks[block];
  const Node& node = plan_.functions[what.function].nodes[what.node];
  std::vector<Activation*> rows = TakeBatch(block);
  if (!backend_->RunBlock(what, node, rows.data(), rows.size())) return End::kFailed;
  Forget(node, rows.data(), rows.size());
  for (size_t i = rows.size(); i-- > 0;) Fire(rows[i], node.event);
  return RunNative();
}

// The rows of the first group, or as many of them as one batch takes.
std::vector<Activation*> Machine::TakeBatch(int block) {
  Queue& queue = queues_[block];
  Group& group = queue.groups.front();
  std::vector<Activation*> rows;
  int64_t depths = group.depths;
  if (group.rows.size() <= kLargestBatch) {
    rows.swap(group.rows);
  } else {
    const auto end = group.rows.begin() + kLargestBatch;
    rows.assign(group.rows.begin(), end);
    group.rows.erase(group.rows.begin(), end);
    depths = 0;
    for (const Activation* row : rows) depths += row->depth;
  }
  queue.rows -= rows.size();
  queue.depths -= depths;
  group.depths -= depths;
  if (group.rows.empty() && GroupsByShape(plan_.blocks[block])) {
    queue.by_key.erase(group.key);
    if (queue.latest == &group) queue.latest = nullptr;
    queue.groups.pop_front();
  }
  if (queue.rows > 0) with_rows_.push_back(block);
  return rows;
}

void Machine::Enqueue(Activation* activation, const Node& node) {
  Queue& queue = queues_[node.block];
  if (queue.rows == 0) with_rows_.push_back(node.block);
  const bool by_shape = GroupsByShape(plan_.blocks[node.block]);
  if (!by_shape && queue.groups.empty()) queue.groups.emplace_back();
  Group& group = by_shape ? *GroupFor(&queue, *activation, node) : queue.groups.front();
  group.rows.push_back(activation);
  group.depths += activation->depth;
  ++queue.rows;
  queue.depths += activation->depth;
}

Machine::Group* Machine::GroupFor(Queue* queue, const Activation& activation, const Node& node) {
  const auto fits = [&](const Group* group) { return backend_->Alike(node, *group->rows.front(), activation); };
  if (queue->latest != nullptr && fits(queue->latest)) return queue->latest;
  // Two shapes may have one number: then the second one takes the next that is free.
  uint64_t key = backend_->ShapesOf(node, activation);
  while (queue->by_key.count(key) > 0 && !fits(queue->by_key[key])) ++key;
  Group*& group = queue->by_key[key];
  if (group == nullptr) {
    queue->groups.emplace_back();
    group = &queue->groups.back();
    group->key = key;
  }
  return queue->latest = group;
}

// Lets go of what only this block needed.
void Machine::Forget(const Node& node, Activation** activations, size_t count) {
  for (size_t i = 0; i < node.reads.size(); ++i) {
    if (!node.only_use[i]) continue;
    for (size_t row = 0; row < count; ++row) activations[row]->slots[node.reads[i]] = Value();
  }
}

// Everything that is not a block, until only blocks are left to run.
Machine::End Machine::RunNative() {
  while (!fired_.empty()) {
    const Fired fired = fired_.back();
    fired_.pop_back();
    Process(fired.activation, fired.event);
    if (end_ != End::kDone) return end_;
    if (++events_ % kEventsPerLook == 0 && backend_->Cancelled()) return End::kCancelled;
  }
  return end_;  // what scheduled calls deliver may end the run without an event
}

void Machine::Stop(End end, const Activation* culprit) {
  if (end_ != End::kDone) return;
  end_ = end;
  culprit_ = culprit;
}

void Machine::Process(Activation* activation, int event) {
  if (event < 0) return Arrive(activation, -1 - event);
  const Event& what = activation->function->events[event];
  for (int group : what.groups) Deliver(activation, group);
  // Loops and maps have no event of their own but their beginning; what arrives from below ends them.
  if (activation->function->kind == FunctionKind::kLoop) return CallFromLoop(activation, 0);
  if (activation->function->kind == FunctionKind::kMap) return BeginMap(activation);
  for (int node : what.consumers) {
    if (--activation->pending[node] == 0) Ready(activation, node);
  }
  Retire(activation);
}

void Machine::Ready(Activation* activation, int index) {
  const Node& node = activation->function->nodes[index];
  Value* const slots = activation->slots;
  switch (node.kind) {
    case NodeKind::kBlock:
      Enqueue(activation, node);
      return;
    case NodeKind::kCall:
      Call(activation, node);
      return;
    case NodeKind::kPack:
    case NodeKind::kJoin: {
      Values values;
      values.reserve(node.reads.size());
      for (size_t i = 0; i < node.reads.size(); ++i) {
        Value& value = slots[node.reads[i]];
        values.push_back(node.only_use[i] ? std::move(value) : value);
      }
      const auto kind =
          node.kind == NodeKind::kPack ? Holder::Kind::kRecord : Holder::Kind::kJoin;
      Value made{FramePtr<Holder>(new Record(kind, std::move(values))), 0};
      if (node.writes[0] >= 0) slots[node.writes[0]] = std::move(made);
      break;
    }
    case NodeKind::kUnpack:
      Unpack(activation, node);
      if (end_ != End::kDone) return;
      break;
    case NodeKind::kIsEmpty: {
      const Value& frame = slots[node.reads[0]];
      const bool of_step = frame.holder->kind == Holder::Kind::kStep;
      const Record* const record = of_step ? nullptr : FrameIn(frame);
      if (record == nullptr && !of_step) return Stop(End::kFailed, activation);
      const bool is_empty = of_step ? StepOf(frame).SizeOf(StepFrame::FrameOf(frame)) == 0 : record->values().empty();
      if (node.writes[0] >= 0) slots[node.writes[0]] = backend_->Bool(is_empty);
      break;
    }
    case NodeKind::kWait:
      break;
  }
  Fire(activation, node.event);
}

// The frame that a value is; null, and the run ends, where it is something else. Frames may come from another call,
// so that no plan shows what they are.
const Record* Machine::FrameIn(const Value& value) {
  if (value.holder->kind == Holder::Kind::kRecord) return static_cast<const Record*>(value.holder.get());
  backend_->BadFrame(-1);
  return nullptr;
}

// The values of a frame that nobody else will read are moved out of it, so that they go when they were used.
void Machine::Unpack(Activation* activation, const Node& node) {
  Value* const slots = activation->slots;
  const Value frame = node.only_use[0] ? std::move(slots[node.reads[0]]) : slots[node.reads[0]];
  if (frame.holder->kind == Holder::Kind::kStep) return UnpackFromStep(activation, node, frame);
  auto* const record = const_cast<Record*>(FrameIn(frame));
  if (record == nullptr) return Stop(End::kFailed, activation);
  for (const int index : node.indices) {
    if (static_cast<size_t>(index) < record->values().size()) continue;
    backend_->BadFrame(record->values().size());
    return Stop(End::kFailed, activation);
  }
  if (record->IsUnique()) {
    Values values = record->TakeValues();
    for (size_t i = 0; i < node.writes.size(); ++i) {
      if (node.writes[i] >= 0) slots[node.writes[i]] = std::move(values[node.indices[i]]);
    }
    return;
  }
  for (size_t i = 0; i < node.writes.size(); ++i) {
    if (node.writes[i] >= 0) slots[node.writes[i]] = record->values()[node.indices[i]];
  }
}

void Machine::UnpackFromStep(Activation* activation, const Node& node, const Value& frame) {
  const StepFrame& step = StepOf(frame);
  const RowRef ref = StepFrame::FrameOf(frame);
  for (size_t i = 0; i < node.writes.size(); ++i) {
    if (static_cast<size_t>(node.indices[i]) >= step.SizeOf(ref)) {
      backend_->BadFrame(step.SizeOf(ref));
      return Stop(End::kFailed, activation);
    }
    if (node.writes[i] >= 0) activation->slots[node.writes[i]] = step.ToValue(step.ValueOf(ref, node.indices[i]));
  }
}

void Machine::Call(Activation* activation, const Node& node) {
  const int first = node.selector == Selector::kNone ? 0 : 1;
  int target = 0;
  if (first == 1) {
    if (!backend_->Select(node.selector, activation->slots[node.reads[0]], &target)) {
      return Stop(End::kFailed, activation);
    }
    // As TensorFlow's Case: out of range means the last branch.
    const int last = static_cast<int>(node.targets.size()) - 1;
    if (target < 0 || target > last) target = last;
  }
  const Function* const callee = &plan_.functions[node.targets[target]];
  Activation* const child = NewActivation(callee, activation, &node);
  for (int i = 0; i < callee->arguments; ++i) {
    Value& value = activation->slots[node.reads[first + i]];
    child->slots[i] = node.only_use[first + i] ? std::move(value) : value;
  }
  Begin(child, node.site != 0);
}

// Hands the results of a group to whoever called.
void Machine::Deliver(Activation* activation, int group) {
  const Function& function = *activation->function;
  Activation* const parent = activation->parent;
  for (int result : function.groups[group]) {
    Value* target = nullptr;
    if (parent == nullptr) {
      target = &results_[activation->root][result];
    } else if (parent->gathered != nullptr) {
      target = &parent->gathered[activation->index * function.results.size() + result];
    } else if (activation->call->writes[result] >= 0) {
      target = &parent->slots[activation->call->writes[result]];
    }
    if (target == nullptr) continue;
    Value& value = activation->slots[function.results[result]];
    *target = function.only_use[result] ? std::move(value) : value;
  }
  if (parent == nullptr) return;
  if (parent->function->kind == FunctionKind::kPlain) {
    Fire(parent, activation->call->event + group);
  } else if (--parent->arriving == 0) {
    Fire(parent, ArrivalOf(*parent->function, *activation->call));  // the end of one may be that of those around it
  }
}

// All that a node of a loop or map has called is there.
void Machine::Arrive(Activation* activation, int node) {
  if (activation->function->kind == FunctionKind::kMap) return EndMap(activation);
  ArriveInLoop(activation, activation->function->nodes[node]);
}

void Machine::CallFromLoop(Activation* loop, int index) {
  const Node& node = loop->function->nodes[index];
  loop->arriving = plan_.functions[node.targets[0]].groups.size();
  Call(loop, node);
}

// The results of the condition or of the body are there.
void Machine::ArriveInLoop(Activation* loop, const Node& node) {
  const Function& function = *loop->function;
  if (&node == &function.nodes[1]) {
    for (int i = 0; i < function.arguments; ++i) {
      loop->slots[i] = loop->slots[function.nodes[1].writes[i]];
    }
    CallFromLoop(loop, 0);
    return;
  }
  int branch = 0;
  if (!backend_->Select(Selector::kBool, loop->slots[function.nodes[0].writes[0]], &branch)) {
    Stop(End::kFailed, loop);
  } else if (branch == 0) {
    CallFromLoop(loop, 1);  // the one for true
  } else {
    for (size_t group = 0; group < function.groups.size(); ++group) Deliver(loop, group);
    Retire(loop);
  }
}

void Machine::BeginMap(Activation* map) {
  const Node& node = map->function->nodes[0];
  const Function& callee = plan_.functions[node.targets[0]];
  std::vector<std::vector<Value>> arguments(callee.arguments);
  for (int i = 0; i < callee.arguments; ++i) {
    const Value& value = map->slots[i];
    if (value.holder->kind == Holder::Kind::kRecord) {
      const Values& rows = static_cast<const Record*>(value.holder.get())->values();
      arguments[i].assign(rows.begin(), rows.end());
    } else if (!backend_->Split(value, &arguments[i])) {
      return Stop(End::kFailed, nullptr);
    }
  }
  const size_t rows = arguments.empty() ? 0 : arguments[0].size();
  for (const auto& argument : arguments) {
    if (argument.size() == rows) continue;
    backend_->Mismatch(rows, argument.size());
    return Stop(End::kFailed, nullptr);
  }
  map->gathered = new Value[rows * callee.results.size() + 1];
  map->arriving = rows * callee.groups.size();
  map->rows = rows;
  const size_t first = fired_.size();
  for (size_t row = 0; row < rows; ++row) {
    Activation* const child = NewActivation(&callee, map, &node);
    child->index = row;
    for (int i = 0; i < callee.arguments; ++i) child->slots[i] = std::move(arguments[i][row]);
    Begin(child, true);
  }
  std::reverse(fired_.begin() + first, fired_.end());  // the first row begins first
  if (map->arriving == 0) EndMap(map);
}

void Machine::EndMap(Activation* map) {
  const Function& function = *map->function;
  const size_t results = function.results.size();
  const Function& callee = plan_.functions[function.nodes[0].targets[0]];
  const size_t rows = map->rows;
  for (size_t result = 0; result < results; ++result) {
    std::vector<Value> values(rows);
    for (size_t row = 0; row < rows; ++row) {
      values[row] = std::move(map->gathered[row * callee.results.size() + result]);
    }
    Value* const whole = &map->slots[function.results[result]];
    if (function.map_results[result].is_frame) {
      Values frames(std::make_move_iterator(values.begin()), std::make_move_iterator(values.end()));
      *whole = {FramePtr<Holder>(new Record(Holder::Kind::kRecord, std::move(frames))), 0};
    } else if (!backend_->Stack(values, function.map_results[result], whole)) {
      return Stop(End::kFailed, nullptr);
    }
  }
  for (size_t group = 0; group < function.groups.size(); ++group) Deliver(map, group);
  Retire(map);
}

Activation* Machine::NewActivation(const Function* function, Activation* parent, const Node* call) {
  const size_t index = function - plan_.functions.data();
  Activation* activation;
  if (!free_[index].empty()) {
    activation = free_[index].back();
    free_[index].pop_back();
  } else {
    char* const memory = static_cast<char*>(MemoryPool::AllocateObject(SizeOf(*function)));
    activation = reinterpret_cast<Activation*>(memory);
    activation->slots = reinterpret_cast<Value*>(memory + sizeof(Activation));
    activation->pending = reinterpret_cast<uint16_t*>(activation->slots + function->slots);
    activation->function = function;
  }
  for (int i = 0; i < function->slots; ++i) new (&activation->slots[i]) Value;
  for (size_t i = 0; i < function->nodes.size(); ++i) {
    activation->pending[i] = function->nodes[i].pending;
  }
  activation->parent = parent;
  activation->call = call;
  activation->root = parent == nullptr ? 0 : parent->root;
  const bool is_invocation = parent == nullptr || call->site != 0;  // and not a branch or a loop
  activation->depth = (parent == nullptr ? 0 : parent->depth) + (is_invocation ? 1 : 0);
  activation->outstanding = function->events.size();
  activation->index = 0;
  activation->gathered = nullptr;
  activation->previous = nullptr;
  activation->next = live_;
  if (live_ != nullptr) live_->previous = activation;
  live_ = activation;
  if (parent != nullptr) ++parent->outstanding;
  if (is_invocation) Count(activation);
  // Branches and loops take memory as invocations do: forty functions that call each other twice are 2^40 of them.
  const bool looks = (++begun_ % kLook == 0 && alive_ >= kMany) || (alive_ >= kFew && growth_.Look());
  ++alive_;
  if (looks && backend_->MemoryIsShort()) Stop(End::kTooMany, activation);
  return activation;
}

void Machine::Count(const Activation* invocation) {
  ++counts_.invocations;
  counts_.peak = std::max(counts_.peak, ++counts_.live);
  if (invocation->depth > max_depth_) Stop(End::kTooDeep, invocation);
}

// One event or child less to wait for; ends the activation, and its callers', when that was the last.
void Machine::Retire(Activation* activation) {
  while (activation != nullptr && --activation->outstanding == 0) {
    Activation* const parent = activation->parent;
    Release(activation);
    activation = parent;
  }
}

void Machine::Release(Activation* activation) {
  Empty(activation);
  free_[activation->function - plan_.functions.data()].push_back(activation);
}

// Lets go of all that a live activation has; it lives no more.
void Machine::Empty(Activation* activation) {
  delete[] activation->gathered;
  for (int i = 0; i < activation->function->slots; ++i) activation->slots[i].~Value();
  (activation->previous == nullptr ? live_ : activation->previous->next) = activation->next;
  if (activation->next != nullptr) activation->next->previous = activation->previous;
  --alive_;
  if (activation->call == nullptr || activation->call->site != 0) --counts_.live;
}

std::vector<std::string> Machine::CallPath(const Activation* activation) const {
  std::vector<std::string> labels;
  for (; activation != nullptr && activation->call != nullptr; activation = activation->parent) {
    const size_t site = activation->call->site;
    // Branches and loops have no label of their own.
    if (site < plan_.labels.size() && !plan_.labels[site].empty()) {
      const bool is_row = activation->parent->gathered != nullptr;
      labels.push_back(WithRow(plan_.labels[site], is_row ? activation->index : -1));
    }
  }
  std::reverse(labels.begin(), labels.end());
  return labels;
}

}  // namespace batch
}  // namespace recgraph
