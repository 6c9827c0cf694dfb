// Finding the activations of a call, putting the rows of blocks in order, and running them.
#include "cc/core/schedule.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "cc/core/row_hash.h"

namespace recgraph {
namespace batch {
namespace {

// Activations between two looks at the memory of the process.
constexpr int64_t kLook = 1 << 15;
// From so many activations on, memory is looked at.
constexpr int64_t kMany = 1 << 17;
// From so many on, and each time that they have doubled, a cycle is looked for.
constexpr int64_t kSearch = 1 << 16;
// Activations of each segment from which the way up is searched.
constexpr uint32_t kSearched = 8;
}  // namespace

RowRef StepFrame::ValueOf(RowRef frame, size_t index) const {
  const FrameSource& source = frames[frame.source & ~RowRef::kFrame];
  return source.InThisStep(source.step->functions[source.function].of(frame.row)[(*source.packed)[index]]);
}

Value StepFrame::ToValue(RowRef ref) const {
  if (ref.source & RowRef::kFrame) {
    auto* const self = const_cast<StepFrame*>(this);
    self->Ref();  // for the value
    return {FramePtr<Holder>(self), static_cast<int64_t>(ref.source) << 32 | ref.row};
  }
  const RowsOfStep& rows = sources[ref.source];
  if (rows.bytes == 0) return {rows.holder, -1};
  return {rows.holder, rows.order == nullptr ? ref.row : rows.order[ref.row]};
}

void StepFrame::KeepFramesOnly() {
  std::vector<bool> is_kept(own_sources, false);
  for (const FrameSource& source : frames) {
    if (source.step != this) continue;
    const Activations& mine = functions[source.function];
    const size_t count = mine.slots == 0 ? 0 : mine.values.size() / mine.slots;
    for (size_t i = 0; i < count; ++i) {
      for (const int slot : *source.packed) {
        const RowRef ref = mine.of(static_cast<uint32_t>(i))[slot];
        if (ref.source < own_sources) is_kept[ref.source] = true;
      }
    }
  }
  for (size_t source = 0; source < own_sources; ++source) {
    if (!is_kept[source]) sources[source] = {};
  }
}

Schedule::Schedule(const Plan& plan, const Structure& structure, ScheduleBackend* backend, FramePtr<StepFrame> step,
                   int64_t max_depth)
    : plan_(plan), structure_(structure), backend_(backend), step_(std::move(step)), max_depth_(max_depth),
      first_source_(plan.blocks.size()), frame_source_(plan.functions.size()), join_source_(plan.functions.size()),
      functions_(plan.functions.size()), blocks_(plan.blocks.size()), next_search_(kSearch) {
  step_->orders.resize(plan.blocks.size());
  for (size_t f = 0; f < plan.functions.size(); ++f) {
    if (!structure.is_reached[f]) continue;
    const Function& function = plan.functions[f];
    step_->functions[f].slots = function.slots;
    frame_source_[f].resize(function.nodes.size());
    join_source_[f].resize(function.nodes.size());
    for (size_t n = 0; n < function.nodes.size(); ++n) {
      const Node& node = function.nodes[n];
      if (node.kind == NodeKind::kBlock) {
        first_source_[node.block] = step_->sources.size();
        step_->sources.resize(step_->sources.size() + node.writes.size());
        block_of_.resize(step_->sources.size(), node.block);
      } else if (node.kind == NodeKind::kPack) {
        frame_source_[f][n] = RowRef::kFrame | static_cast<uint32_t>(step_->frames.size());
        step_->frames.push_back({step_.get(), static_cast<int>(f), &node.reads, 0, 0});
      } else if (node.kind == NodeKind::kJoin) {
        join_source_[f][n] = RowRef::kJoin | static_cast<uint32_t>(joins_.size());
        joins_.emplace_back(static_cast<int>(f), &node);
      }
    }
  }
  step_->own_sources = step_->sources.size();
}

Schedule::End Schedule::Run(int function, const std::vector<const Value*>& arguments, size_t roots,
                            const std::vector<std::vector<Value>*>& results) {
  const End end = RunAll(function, arguments, roots, results);
  return end == End::kGaveUp ? WhyGivenUp(function, static_cast<uint32_t>(roots)) : end;
}

Schedule::End Schedule::RunAll(int function, const std::vector<const Value*>& arguments, size_t roots,
                               const std::vector<std::vector<Value>*>& results) {
  const End found = DiscoverAll(function, arguments, roots);
  if (found != End::kDone) return found;
  const End end = Execute();
  if (end != End::kDone) return end;
  return Results(function, roots, results) ? End::kDone : End::kGaveUp;
}

Schedule::End Schedule::Discover(int function, const std::vector<const Value*>& arguments, size_t roots) {
  must_explain_ = true;
  const End end = DiscoverAll(function, arguments, roots);
  return end == End::kGaveUp ? WhyGivenUp(function, static_cast<uint32_t>(roots)) : end;
}

Schedule::End Schedule::DiscoverAll(int function, const std::vector<const Value*>& arguments, size_t roots) {
  if (!AddRoots(function, arguments, roots)) return End::kGaveUp;
  const End end = Inspect();
  if (end != End::kDone) return end;
  step_->has_merged |= merged_ > 0;
  if (merged_ > 0 && !is_out_of_order_ && !gradients_are_merged_) {
    PutCallersFirst();
  } else if (merged_ > 0) {
    const std::vector<Edges> edges = FindEdges();
    if (!PutInOrder(edges)) return End::kEndless;
    if (IsTooDeep(function, static_cast<uint32_t>(roots))) return End::kTooDeep;
    if (gradients_are_merged_) GoDown(edges);
  }
  GoUp();
  return End::kDone;
}

Schedule::End Schedule::WhyGivenUp(int function, uint32_t roots) {
  if (may_be_endless_ && FindCycle(std::numeric_limits<int64_t>::max())) return End::kEndless;
  if (merged_ == 0 && !must_explain_) return End::kGaveUp;
  if (has_failed_) return End::kFailed;
  if (!may_be_endless_) return End::kGaveUp;
  if (!is_too_deep_) return End::kTooMany;
  if (!PutInOrder(FindEdges())) return End::kEndless;
  return IsTooDeep(function, roots) ? End::kTooDeep : End::kGaveUp;
}

// `arguments` has those of the first root, then those of the next.
bool Schedule::AddRoots(int function, const std::vector<const Value*>& arguments, size_t roots) {
  const size_t each = plan_.functions[function].arguments;
  for (size_t root = 0; root < roots; ++root) {
    const uint32_t activation = NewActivations(function, 1);
    functions_[function].depths[activation] = 1;
    for (size_t i = 0; i < each; ++i) {
      RowRef ref{};
      if (!ImportValue(*arguments[root * each + i], &ref)) return false;
      step_->functions[function].of(activation)[i] = ref;
    }
  }
  if (structure_.functions[function].merging == Merging::kEqual) NoteRoots(function, static_cast<uint32_t>(roots));
  return true;
}

bool Schedule::ImportValue(const Value& value, RowRef* ref) {
  const Holder* const holder = value.holder.get();
  if (holder->kind == Holder::Kind::kStep) return ImportFrame(value, ref);
  if (holder->kind != Holder::Kind::kBuffer) return false;
  const auto [known, is_new] = imported_.emplace(holder, static_cast<uint32_t>(step_->sources.size()));
  RowsOfStep rows;
  if (!backend_->Import(value, &rows, &ref->row)) return false;
  if (is_new) {
    step_->sources.push_back(std::move(rows));
    block_of_.push_back(-1);
  }
  ref->source = known->second;
  return true;
}

bool Schedule::ImportFrame(const Value& value, RowRef* ref) {
  const auto* const earlier = static_cast<const StepFrame*>(value.holder.get());
  const auto rows = static_cast<uint32_t>(step_->sources.size()), frames = static_cast<uint32_t>(step_->frames.size());
  const auto [known, is_new] = imported_steps_.emplace(earlier, std::make_pair(rows, frames));
  if (is_new) {
    step_->sources.insert(step_->sources.end(), earlier->sources.begin(), earlier->sources.end());
    block_of_.resize(step_->sources.size(), -1);
    for (StepFrame::FrameSource source : earlier->frames) {
      source.rows += rows;
      source.frames += frames;
      step_->frames.push_back(source);
    }
    step_->kept.push_back(value.holder);
    step_->has_merged |= earlier->has_merged;
  }
  *ref = StepFrame::FrameOf(value);
  ref->source += known->second.second;
  return true;
}

uint32_t Schedule::NewActivations(int function, uint32_t count) {
  OfFunction& mine = functions_[function];
  StepFrame::Activations& activations = step_->functions[function];
  activations.values.resize(activations.values.size() + size_t{count} * activations.slots);
  mine.children.resize(mine.children.size() + size_t{count} * structure_.functions[function].call_count);
  mine.depths.resize(mine.depths.size() + count);
  activations_ += count;
  const uint32_t first = mine.count;
  mine.count += count;
  return first;
}

void Schedule::DropActivations(int function, uint32_t from) {
  OfFunction& mine = functions_[function];
  StepFrame::Activations& activations = step_->functions[function];
  activations.values.resize(size_t{from} * activations.slots);
  mine.children.resize(size_t{from} * structure_.functions[function].call_count);
  mine.depths.resize(from);
  activations_ -= mine.count - from;
  mine.count = from;
}

// Round by round: what the activations of one round call is the next.
Schedule::End Schedule::Inspect() {
  int64_t looked = 0;
  for (bool any = true; any;) {
    any = false;
    std::vector<Segment> round;
    for (size_t f = 0; f < functions_.size(); ++f) {
      OfFunction& mine = functions_[f];
      if (mine.begun == mine.count) continue;
      round.push_back({static_cast<int>(f), mine.begun, mine.count});
      mine.begun = mine.count;
    }
    if (!round.empty()) last_round_ = segments_.size();
    for (const Segment& segment : round) {
      any = true;
      segments_.push_back(segment);
      const End end = InspectSegment(segment);
      if (end != End::kDone) return end;
    }
    if (backend_->IsCancelled()) return End::kCancelled;
    // However few they are: rows may be large.
    if ((activations_ >= kMany && activations_ - looked >= kLook) || growth_.Look()) {
      looked = activations_;
      may_be_endless_ = backend_->IsShortOfMemory();
      if (may_be_endless_) return End::kGaveUp;
    }
    if (activations_ >= next_search_) {
      next_search_ = 2 * activations_;
      if (FindCycle(activations_)) return End::kEndless;  // no more steps than it took to come here
    }
  }
  return End::kDone;
}

Schedule::End Schedule::InspectSegment(const Segment& segment) {
  for (const int index : structure_.functions[segment.function].order) {
    if (!InspectNode(segment, index)) return End::kGaveUp;
  }
  return End::kDone;
}

bool Schedule::InspectNode(const Segment& segment, int index) {
  const Structure::OfFunction& known = structure_.functions[segment.function];
  const Node& node = plan_.functions[segment.function].nodes[index];
  StepFrame::Activations& mine = step_->functions[segment.function];
  switch (node.kind) {
    case NodeKind::kBlock: {
      if (known.nodes[index] == Stage::kStructure && !RunNow(segment, node)) return false;
      const uint32_t first = first_source_[node.block];
      const bool is_down = known.nodes[index] == Stage::kDown;
      if (is_down) blocks_[node.block].times.resize(segment.end);
      for (uint32_t i = segment.begin; i < segment.end; ++i) {
        RowRef* const slots = mine.of(i);
        for (size_t w = 0; w < node.writes.size(); ++w) {
          if (node.writes[w] >= 0) slots[node.writes[w]] = {first + static_cast<uint32_t>(w), i};
        }
        if (is_down) TimeOf(node, slots, i);
      }
      return true;
    }
    case NodeKind::kUnpack: {
      bool fits = true;
      Unpack(segment, node, &fits);
      return fits;
    }
    case NodeKind::kPack:
    case NodeKind::kJoin: {
      const auto& sources = node.kind == NodeKind::kPack ? frame_source_ : join_source_;
      const uint32_t source = sources[segment.function][index];
      if (node.writes[0] < 0) return true;
      for (uint32_t i = segment.begin; i < segment.end; ++i) mine.of(i)[node.writes[0]] = {source, i};
      return true;
    }
    case NodeKind::kCall:
      return Call(segment, node, known.calls[index]);
    default:
      return true;
  }
}

bool Schedule::RunNow(const Segment& segment, const Node& node) {
  std::vector<uint32_t> activations(segment.end - segment.begin);
  for (uint32_t i = 0; i < activations.size(); ++i) activations[i] = segment.begin + i;
  const auto count = static_cast<uint32_t>(activations.size());
  return RunRows(node, segment.function, activations.data(), count, segment.begin, segment.end);
}

void Schedule::Unpack(const Segment& segment, const Node& node, bool* fits) {
  *fits = false;
  for (uint32_t i = segment.begin; i < segment.end; ++i) {
    RowRef* const slots = step_->functions[segment.function].of(i);
    const RowRef frame = slots[node.reads[0]];
    if (!(frame.source & RowRef::kFrame)) return;
    const StepFrame::FrameSource& source = step_->frames[frame.source & ~RowRef::kFrame];
    const RowRef* const values = source.step->functions[source.function].of(frame.row);
    for (size_t w = 0; w < node.writes.size(); ++w) {
      const auto index = static_cast<size_t>(node.indices[w]);
      if (index >= source.packed->size()) return;
      if (node.writes[w] < 0) continue;
      const RowRef value = source.InThisStep(values[(*source.packed)[index]]);
      if (!(value.source & RowRef::kFrame) && (value.source & RowRef::kJoin)) return;
      slots[node.writes[w]] = value;
    }
  }
  *fits = true;
}

// Which branch each activation picks, in `branches_`; false where a row is no selector.
bool Schedule::Select(const Segment& segment, const Node& node) {
  const auto last = static_cast<int>(node.targets.size()) - 1;
  branches_.assign(segment.end - segment.begin, 0);
  if (node.selector == Selector::kNone) return true;
  for (uint32_t i = segment.begin; i < segment.end; ++i) {
    const RowsOfStep* rows = nullptr;
    const char* const data = Find(step_->functions[segment.function].of(i)[node.reads[0]], &rows);
    int branch = 0;
    if (data == nullptr || !backend_->SelectRow(node.selector, rows->kind, data, &branch)) return false;
    branches_[i - segment.begin] = branch < 0 || branch > last ? last : branch;  // as TensorFlow's Case
  }
  return true;
}

bool Schedule::Call(const Segment& segment, const Node& node, int call) {
  if (!Select(segment, node)) return false;
  const auto depths = functions_[segment.function].depths.begin();
  const auto deepest = std::max_element(depths + segment.begin, depths + segment.end);
  may_be_endless_ = is_too_deep_ = *deepest + (node.site != 0 ? 1 : 0) > max_depth_;
  const bool is_merged = node.site != 0 && node.targets.size() == 1 && IsMergedWhenEqual(node.targets[0]);
  if (is_merged) {
    CallMerged(segment, node, call);
  } else {
    CallAll(segment, node, call);
  }
  return !is_too_deep_;
}

// Each activation of a segment calls one of its own.
void Schedule::CallAll(const Segment& segment, const Node& node, int call) {
  const int deeper = node.site != 0 ? 1 : 0;
  OfFunction& mine = functions_[segment.function];
  std::vector<uint32_t> counts(node.targets.size(), 0);
  for (const int branch : branches_) ++counts[branch];
  std::vector<uint32_t> next;  // of each branch
  for (size_t branch = 0; branch < counts.size(); ++branch) {
    next.push_back(counts[branch] == 0 ? 0 : NewActivations(node.targets[branch], counts[branch]));
  }
  if (deeper != 0) invocations_ += segment.end - segment.begin;
  const int calls = structure_.functions[segment.function].call_count;
  for (uint32_t i = segment.begin; i < segment.end; ++i) {
    const int branch = branches_[i - segment.begin], target = node.targets[branch];
    const uint32_t child = next[branch]++;
    functions_[target].depths[child] = mine.depths[i] + deeper;
    mine.children[size_t{i} * calls + call] = {target, child};
    PassArguments(step_->functions[segment.function].of(i), node, target, child);
  }
}

void Schedule::PassArguments(const RowRef* from, const Node& node, int target, uint32_t child) {
  RowRef* const to = step_->functions[target].of(child);
  const int arguments = plan_.functions[target].arguments;
  const int first = FirstArgument(node);
  for (int argument = 0; argument < arguments; ++argument) to[argument] = from[node.reads[first + argument]];
}

// From some activations of the last round: what ends has ended before, so that they are in the circle if there is one.
bool Schedule::FindCycle(int64_t steps) {
  const Callers callers = FindCallers();
  for (size_t i = last_round_; i < segments_.size(); ++i) {
    const Segment& segment = segments_[i];
    const uint32_t count = segment.end - segment.begin;
    for (uint32_t k = 0; k < std::min(count, kSearched); ++k) {
      const Child from = InvocationOf(callers, {segment.function, segment.end - 1 - k * (count / kSearched)});
      const int64_t length = FindCycleAbove(callers, from, &steps);
      if (length > 0) SetCycle(callers, from, length);
      if (length > 0) return true;
    }
  }
  return false;
}

Schedule::Callers Schedule::FindCallers() const {
  Callers callers(functions_.size());
  for (size_t f = 0; f < functions_.size(); ++f) callers[f].resize(functions_[f].count);
  for (size_t f = 0; f < functions_.size(); ++f) {
    const Structure::OfFunction& known = structure_.functions[f];
    for (size_t n = 0; n < known.calls.size(); ++n) {
      if (known.calls[n] < 0) continue;
      for (uint32_t i = 0; i < functions_[f].count; ++i) {
        const Child& child = functions_[f].children[size_t{i} * known.call_count + known.calls[n]];
        const size_t call = size_t{i} * known.call_count + known.calls[n];
        if (child.function < 0 || IsMerged(static_cast<int>(f), call)) continue;
        callers[child.function][child.activation] = {static_cast<int32_t>(f), i, &plan_.functions[f].nodes[n]};
      }
    }
  }
  return callers;
}

Schedule::Child Schedule::InvocationOf(const Callers& callers, Child activation) {
  while (activation.function >= 0) {
    const Caller& caller = callers[activation.function][activation.activation];
    if (caller.node == nullptr || caller.node->site != 0) break;
    activation = {caller.function, caller.activation};
  }
  return activation;
}

Schedule::Child Schedule::Above(const Callers& callers, Child invocation) {
  const Caller& caller = callers[invocation.function][invocation.activation];
  return InvocationOf(callers, {caller.function, caller.activation});
}

// By Brent's algorithm: each invocation on the way is compared with one below it, which is another one after 1, 2, 4 ...
// steps. It keeps nothing, and compares rows where their hashes are the same only.
int64_t Schedule::FindCycleAbove(const Callers& callers, Child from, int64_t* steps) const {
  Child below = from, at = from;
  uint64_t hash = HashOf(below);
  for (int64_t length = 1, turn = 1; *steps > 0; ++length, --*steps) {
    at = Above(callers, at);
    if (at.function < 0) return 0;
    const uint64_t other = HashOf(at);
    if (other == hash && IsGivenTheSame(at, below)) return length;
    if (length < turn) continue;
    below = at;
    hash = other;
    length = 0;
    turn *= 2;
  }
  return 0;
}

// The circle begins where, from the root, an invocation is given what it is given `length` further down.
void Schedule::SetCycle(const Callers& callers, Child from, int64_t length) {
  std::vector<Child> path;  // of invocations, upwards and then downwards
  for (; from.function >= 0; from = Above(callers, from)) path.push_back(from);
  std::reverse(path.begin(), path.end());
  size_t first = 0;
  while (first + length + 1 < path.size() && !IsGivenTheSame(path[first], path[first + length])) ++first;
  cycle_.root = path.front().activation;
  for (size_t i = 0; i <= first + length && i < path.size(); ++i) {
    auto& part = i < first ? cycle_.above : cycle_.calls;
    part.push_back(Describe(SiteOf(callers, path[i]), path[i].function, path[i].activation));
  }
}

int Schedule::SiteOf(const Callers& callers, Child activation) {
  const Caller& caller = callers[activation.function][activation.activation];
  return caller.node == nullptr ? 0 : caller.node->site;
}

std::pair<const char*, int64_t> Schedule::BytesOf(RowRef ref) const {
  const RowsOfStep* rows = nullptr;
  const char* const data = Find(ref, &rows);
  return {data, data == nullptr ? 0 : backend_->SizeOf(rows->kind)};
}

bool Schedule::IsGivenTheSame(Child one, Child other) const {
  if (one.function != other.function) return false;
  const std::vector<bool>& decides = structure_.functions[one.function].decides;
  const StepFrame::Activations& all = step_->functions[one.function];
  for (size_t i = 0; i < decides.size(); ++i) {
    if (!decides[i]) continue;
    const RowRef ref = all.of(one.activation)[i], other_ref = all.of(other.activation)[i];
    const auto [data, bytes] = BytesOf(ref);
    const auto [other_data, other_bytes] = BytesOf(other_ref);
    if (data == nullptr || other_data == nullptr) {
      if (data != other_data || ref.source != other_ref.source || ref.row != other_ref.row) return false;
    } else if (bytes != other_bytes || std::memcmp(data, other_data, bytes) != 0) {
      return false;
    }
  }
  return true;
}

uint64_t Schedule::HashOf(Child invocation) const {
  RowHash hash(invocation.function);
  const std::vector<bool>& decides = structure_.functions[invocation.function].decides;
  const RowRef* const slots = step_->functions[invocation.function].of(invocation.activation);
  for (size_t i = 0; i < decides.size(); ++i) {
    if (!decides[i]) continue;
    const auto [data, bytes] = BytesOf(slots[i]);
    if (data == nullptr) {
      hash.Mix(slots[i].row);
    } else {
      hash.MixBytes(data, bytes);
    }
  }
  return hash.value();
}

Schedule::Cycle::Call Schedule::Describe(int site, int function, uint32_t activation) const {
  Cycle::Call call{site, ""};
  const std::vector<bool>& decides = structure_.functions[function].decides;
  for (size_t i = 0; i < decides.size(); ++i) {
    const RowsOfStep* rows = nullptr;
    const char* const data = decides[i] ? Find(step_->functions[function].of(activation)[i], &rows) : nullptr;
    if (data == nullptr) continue;
    call.arguments += (call.arguments.empty() ? "" : ", ") + backend_->TextOf(rows->kind, data);
  }
  return call;
}

// A block runs after those of its component that it reads from; other components have run before.
void Schedule::TimeOf(const Node& node, const RowRef* slots, uint32_t activation) {
  int32_t time = 0;
  const int priority = plan_.blocks[node.block].priority;
  for (const int slot : node.reads) {
    const Moment moment = MomentOf(slots[slot]);
    if (moment.priority == priority) time = std::max(time, moment.time);
  }
  blocks_[node.block].times[activation] = time;
}

Schedule::Moment Schedule::MomentOf(RowRef ref) const {
  if (ref.IsZeros()) ref.source &= ~RowRef::kZeros;
  if (ref.source >= block_of_.size()) return {};  // a frame or a join
  const int block = block_of_[ref.source];
  if (block == kSums) return sums_[sums_of_.at(ref.source)[ref.row]].moment;
  if (block < 0) return {};  // from outside
  const std::vector<int32_t>& times = blocks_[block].times;
  return {plan_.blocks[block].priority, ref.row < times.size() ? times[ref.row] + 1 : 0};
}

// What depends on results of calls, from the last activations to the first: those that are called come later.
void Schedule::GoUp() {
  for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment) {
    const int f = segment->function;
    const Structure::OfFunction& known = structure_.functions[f];
    if (!known.has_up) continue;
    const Function& function = plan_.functions[f];
    for (const int index : known.order) {
      if (known.nodes[index] != Stage::kUp) continue;
      const Node& node = function.nodes[index];
      if (node.kind == NodeKind::kBlock) {
        auto& times = blocks_[node.block].times;
        if (times.size() < functions_[f].count) times.resize(functions_[f].count);
        for (uint32_t i = segment->begin; i < segment->end; ++i) TimeOf(node, step_->functions[f].of(i), i);
      } else if (node.kind == NodeKind::kCall) {
        for (uint32_t i = segment->begin; i < segment->end; ++i) {
          const size_t call = size_t{i} * known.call_count + known.calls[index];
          const Child child = functions_[f].children[call];
          // Those that call it share what it gives, but the gradient of what they have given it: that goes to one.
          const bool is_zero = gradients_are_merged_ && IsMerged(f, call) &&
                               structure_.functions[child.function].merging == Merging::kGradients;
          const RowRef* const from = step_->functions[child.function].of(child.activation);
          const std::vector<int>& results = plan_.functions[child.function].results;
          RowRef* const to = step_->functions[f].of(i);
          for (size_t w = 0; w < node.writes.size(); ++w) {
            if (node.writes[w] >= 0) to[node.writes[w]] = is_zero ? ZerosLike(from[results[w]]) : from[results[w]];
          }
        }
      }
    }
  }
}

// The rows of a block by time, at equal times by activation.
void Schedule::Sort(int block) {
  OfBlock& mine = blocks_[block];
  std::vector<uint32_t>& order = step_->orders[block];
  int32_t latest = 0;
  for (const int32_t time : mine.times) latest = std::max(latest, time);
  mine.ends.assign(latest + 2, 0);
  for (const int32_t time : mine.times) ++mine.ends[time + 1];
  for (int32_t time = 0; time <= latest; ++time) mine.ends[time + 1] += mine.ends[time];
  order.resize(mine.times.size());
  mine.activations.resize(mine.times.size());
  std::vector<uint32_t> next(mine.ends.begin(), mine.ends.end() - 1);
  for (uint32_t i = 0; i < mine.times.size(); ++i) {
    order[i] = next[mine.times[i]]++;
    mine.activations[order[i]] = i;
  }
  mine.ends.erase(mine.ends.begin());
  const Node& node = plan_.functions[plan_.blocks[block].function].nodes[plan_.blocks[block].node];
  for (size_t w = 0; w < node.writes.size(); ++w) step_->sources[first_source_[block] + w].order = order.data();
}

std::map<int, Schedule::Component> Schedule::InOrder() {
  std::map<int, Component> components;
  for (size_t b = 0; b < plan_.blocks.size(); ++b) {
    const Block& block = plan_.blocks[b];
    const Structure::OfFunction& known = structure_.functions[block.function];
    if (!structure_.is_reached[block.function] || known.nodes[block.node] == Stage::kStructure) continue;
    if (blocks_[b].times.empty()) continue;
    Sort(static_cast<int>(b));
    components[block.priority].blocks.push_back(static_cast<int>(b));
  }
  for (uint32_t sum = 0; sum < sums_.size(); ++sum) {
    auto& sums = components[sums_[sum].moment.priority].sums;
    if (sums.size() <= static_cast<size_t>(sums_[sum].moment.time)) sums.resize(sums_[sum].moment.time + 1);
    sums[sums_[sum].moment.time].push_back(sum);
  }
  return components;
}

Schedule::End Schedule::Execute() {
  for (const auto& [priority, component] : InOrder()) {
    const std::vector<int>& members = component.blocks;
    size_t times = component.sums.size();
    for (const int b : members) times = std::max(times, blocks_[b].ends.size());
    for (size_t time = 0; time < times; ++time) {
      if (backend_->IsCancelled()) return End::kCancelled;
      if (time < component.sums.size()) {
        for (const uint32_t sum : component.sums[time]) {
          if (!RunSum(sum)) return End::kGaveUp;
        }
      }
      for (const int b : members) {
        if (time >= blocks_[b].ends.size()) continue;
        const uint32_t first = time == 0 ? 0 : blocks_[b].ends[time - 1], last = blocks_[b].ends[time];
        if (first < last && !RunBlock(b, first, last)) return End::kGaveUp;
      }
    }
  }
  return End::kDone;
}

bool Schedule::RunBlock(int block, uint32_t first, uint32_t last) {
  const int function = plan_.blocks[block].function;
  const Node& node = plan_.functions[function].nodes[plan_.blocks[block].node];
  const auto total = static_cast<uint32_t>(blocks_[block].times.size());
  return RunRows(node, function, blocks_[block].activations.data() + first, last - first, first, total);
}

bool Schedule::RunRows(const Node& node, int function, const uint32_t* activations, uint32_t count, uint32_t first,
                       uint32_t total) {
  const size_t reads = node.reads.size();
  if (pointers_.size() < reads * count) pointers_.resize(reads * count);
  std::vector<const char* const*> inputs(reads);
  std::vector<const void*> kinds(reads);
  const StepFrame::Activations& mine = step_->functions[function];
  for (size_t r = 0; r < reads; ++r) {
    const char** const to = pointers_.data() + r * count;
    const int slot = node.reads[r];
    const void* kind = nullptr;
    for (uint32_t k = 0; k < count; ++k) {
      const RowsOfStep* rows = nullptr;
      to[k] = Find(mine.of(activations[k])[slot], &rows);
      if (to[k] == nullptr) return false;
      if (rows->kind == kind) continue;
      if (k == 0) kinds[r] = rows->kind;
      if (k > 0 && !backend_->IsSameKind(rows->kind, kinds[r])) return false;
      kind = rows->kind;
    }
    inputs[r] = to;
  }
  // What is made of the results may move them.
  RowsOfStep* const results = step_->sources.data() + first_source_[node.block];
  if (backend_->RunScheduled(node.block, count, first, total, inputs.data(), kinds, results)) return true;
  if (merged_ > 0 || must_explain_) FindFailure(node.block, function, activations, count, inputs, kinds);
  return false;
}

void Schedule::FindFailure(int block, int function, const uint32_t* activations, uint32_t count,
                           const std::vector<const char* const*>& inputs, const std::vector<const void*>& kinds) {
  std::vector<const char*> row(inputs.size());
  for (uint32_t k = 0; k < count && !has_failed_; ++k) {
    for (size_t r = 0; r < inputs.size(); ++r) row[r] = inputs[r][k];
    has_failed_ = backend_->IsError(block, row, kinds);
    if (has_failed_) place_ = PlaceOf({function, activations[k]});
  }
}

Schedule::Place Schedule::PlaceOf(Child activation) const {
  const Callers callers = FindCallers();
  Place place;
  for (; activation.function >= 0;) {
    const Caller& caller = callers[activation.function][activation.activation];
    if (caller.node != nullptr && caller.node->site != 0) place.sites.push_back(caller.node->site);
    place.root = activation.activation;
    activation = {caller.function, caller.activation};
  }
  std::reverse(place.sites.begin(), place.sites.end());
  return place;
}

// Where a row is; null for a frame or a join.
const char* Schedule::Find(RowRef ref, const RowsOfStep** rows) const {
  if (ref.source >= step_->sources.size()) return ref.IsZeros() ? FindZeros(ref, rows) : nullptr;
  *rows = &step_->sources[ref.source];
  if ((*rows)->data == nullptr) return nullptr;
  const uint32_t row = (*rows)->order == nullptr ? ref.row : (*rows)->order[ref.row];
  return (*rows)->data + row * (*rows)->bytes;
}

bool Schedule::Results(int function, size_t roots, const std::vector<std::vector<Value>*>& results) {
  const std::vector<int>& slots = plan_.functions[function].results;
  for (uint32_t root = 0; root < roots; ++root) {
    results[root]->resize(slots.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      const RowRef ref = step_->functions[function].of(root)[slots[i]];
      Value* const value = &(*results[root])[i];
      if (!(ref.source & RowRef::kFrame) && (ref.source & RowRef::kJoin)) {
        if (!Join(ref, value)) return false;
      } else if (ref.IsZeros()) {
        const RowsOfStep* rows = nullptr;
        if (Find(ref, &rows) == nullptr) return false;
        *value = {rows->holder, 0};
      } else {
        *value = step_->ToValue(ref);
      }
    }
  }
  return true;
}

// Without recursion: joins may be as deep as the calls.
bool Schedule::Join(RowRef join, Value* whole) {
  std::vector<std::pair<const RowsOfStep*, uint32_t>> parts;
  std::vector<RowRef> stack{join};
  while (!stack.empty()) {
    const RowRef ref = stack.back();
    stack.pop_back();
    if (ref.source & RowRef::kFrame || ref.IsZeros()) return false;
    if (ref.source & RowRef::kJoin) {
      const auto& [function, node] = joins_[ref.source & ~RowRef::kJoin];
      const RowRef* const slots = step_->functions[function].of(ref.row);
      for (size_t i = node->reads.size(); i-- > 0;) stack.push_back(slots[node->reads[i]]);
      continue;
    }
    const RowsOfStep* rows = nullptr;
    if (Find(ref, &rows) == nullptr) return false;
    parts.emplace_back(rows, rows->order == nullptr ? ref.row : rows->order[ref.row]);
  }
  return backend_->JoinRows(parts, whole);
}

}  // namespace batch
}  // namespace recgraph
