// Equal calls of a schedule as one: finding them, putting callers before what they call, and the gradients of merged
// calls. A recursion over a graph with shared nodes then costs what the graph has of nodes, not of paths.
//
// A forward call is one with another if its integers and booleans are equal, as far as they are known with the structure,
// and all else that it is given are the same rows. A gradient is one with another if both are of the same frame. It is
// linear in the gradients that it is given, so that it runs once for their sum; and since its callers have given the
// merged call the same rows, it does not matter which of them hands the gradient of these rows up: one does, the others
// hand up zeros.
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "cc/core/row_hash.h"
#include "cc/core/schedule.h"

namespace recgraph {
namespace batch {

size_t Schedule::KeysOf(int function) const {
  const bool is_gradient = structure_.functions[function].merging == Merging::kGradients;
  const auto arguments = static_cast<size_t>(plan_.functions[function].arguments);
  return is_gradient ? std::min<size_t>(1, arguments) : arguments;
}

std::pair<const char*, int64_t> Schedule::ValueOf(RowRef ref) const {
  if (ref.source >= step_->sources.size()) return {nullptr, 0};  // zeros, which are in no source
  const RowsOfStep* rows = nullptr;
  const char* const data = Find(ref, &rows);
  if (data == nullptr) return {nullptr, 0};
  if (is_discrete_.size() <= ref.source) is_discrete_.resize(step_->sources.size(), -1);
  int8_t& is_discrete = is_discrete_[ref.source];
  if (is_discrete < 0) is_discrete = backend_->IsDiscrete(rows->kind) ? 1 : 0;
  if (is_discrete == 0) return {nullptr, 0};
  return {data, backend_->SizeOf(rows->kind)};
}

bool Schedule::IsOneForAll(uint32_t source) const {
  if (source >= block_of_.size() || block_of_[source] < 0) return false;
  const std::vector<bool>& shared = plan_.blocks[block_of_[source]].shared;
  const size_t result = source - first_source_[block_of_[source]];
  return result < shared.size() && shared[result];
}

bool Schedule::IsCalledWith(const RowRef* from, const Node& node, uint32_t activation) const {
  const int target = node.targets[0];
  const RowRef* const known = step_->functions[target].of(activation);
  for (size_t i = 0; i < KeysOf(target); ++i) {
    const RowRef mine = known[i], other = from[node.reads[FirstArgument(node) + i]];
    if (IsSameRow(mine, other)) continue;
    const auto [data, bytes] = ValueOf(mine);
    const auto [other_data, other_bytes] = ValueOf(other);
    if (data == nullptr || other_data == nullptr || bytes != other_bytes) return false;
    if (!backend_->IsSameKind(step_->sources[mine.source].kind, step_->sources[other.source].kind)) return false;
    if (std::memcmp(data, other_data, bytes) != 0) return false;
  }
  return true;
}

uint64_t Schedule::HashOfArgument(RowRef ref) const {
  RowHash hash(0);
  const auto [data, bytes] = ValueOf(ref);
  if (data == nullptr) {
    hash.Mix(uint64_t{ref.source} << 32 | (IsOneForAll(ref.source) ? 0 : ref.row));
  } else {
    hash.MixBytes(data, bytes);
  }
  return hash.value();
}

uint32_t Schedule::FindCall(const RowRef* from, const Node& node, uint32_t next, std::vector<KnownHash>* known) {
  const int target = node.targets[0];
  RowHash hash(target);
  known->resize(KeysOf(target));
  for (size_t i = 0; i < known->size(); ++i) {
    const RowRef ref = from[node.reads[FirstArgument(node) + i]];
    KnownHash& last = (*known)[i];  // what is handed down as it is, is the same from call to call
    if (!(last.ref == ref)) last = {ref, HashOfArgument(ref)};
    hash.Mix(last.hash);
  }
  return functions_[target].table.FindOrAdd(
      hash.value(), next, [&](uint32_t activation) { return IsCalledWith(from, node, activation); });
}

void Schedule::NoteRoots(int function, uint32_t roots) {
  Node node{};  // that calls the function with what the root is given
  node.targets = {function};
  for (size_t i = 0; i < KeysOf(function); ++i) node.reads.push_back(static_cast<int>(i));
  std::vector<KnownHash> known;
  for (uint32_t root = 0; root < roots; ++root) FindCall(step_->functions[function].of(root), node, root, &known);
}

void Schedule::CallMerged(const Segment& segment, const Node& node, int call) {
  const int target = node.targets[0];
  OfFunction& mine = functions_[segment.function];
  const int calls = structure_.functions[segment.function].call_count;
  uint32_t next = NewActivations(target, segment.end - segment.begin);
  const uint32_t first = next;
  const bool is_last = structure_.functions[target].call_count == 0;
  std::vector<KnownHash> known;
  for (uint32_t i = segment.begin; i < segment.end; ++i) {
    const RowRef* const from = step_->functions[segment.function].of(i);
    const uint32_t child = FindCall(from, node, next, &known);
    mine.children[size_t{i} * calls + call] = {target, child};
    if (child == next) {
      functions_[target].depths[child] = mine.depths[i] + 1;
      PassArguments(from, node, target, child);
      ++next;
      continue;
    }
    if (mine.is_merged.size() < mine.children.size()) mine.is_merged.resize(mine.children.size(), false);
    mine.is_merged[size_t{i} * calls + call] = true;
    ++merged_;
    is_out_of_order_ |= !is_last;
    gradients_are_merged_ |= structure_.functions[target].merging == Merging::kGradients;
  }
  invocations_ += next - first;
  DropActivations(target, next);
}

std::vector<Schedule::Edges> Schedule::FindEdges() const {
  std::vector<Edges> edges(functions_.size());
  for (size_t f = 0; f < functions_.size(); ++f) edges[f].ends.assign(functions_[f].count, 0);
  for (const OfFunction& mine : functions_) {
    for (const Child& child : mine.children) {
      if (child.function >= 0) ++edges[child.function].ends[child.activation];
    }
  }
  for (Edges& of : edges) {
    uint32_t end = 0;
    for (uint32_t& next : of.ends) {  // the beginning of each, at first
      const uint32_t count = next;
      next = end;
      end += count;
    }
    of.callers.resize(end);
  }
  for (size_t f = 0; f < functions_.size(); ++f) {
    const Structure::OfFunction& known = structure_.functions[f];
    for (size_t n = 0; n < known.calls.size(); ++n) {
      if (known.calls[n] < 0) continue;
      for (uint32_t i = 0; i < functions_[f].count; ++i) {
        const Child child = functions_[f].children[size_t{i} * known.call_count + known.calls[n]];
        if (child.function < 0) continue;
        Edges& of = edges[child.function];
        of.callers[of.ends[child.activation]++] = {static_cast<int32_t>(f), i, &plan_.functions[f].nodes[n]};
      }
    }
  }
  return edges;
}

void Schedule::PutCallersFirst() {
  std::stable_partition(segments_.begin(), segments_.end(), [this](const Segment& segment) {
    return structure_.functions[segment.function].call_count > 0;
  });
}

// By rounds: an activation comes in the round after the last of its callers. What lies in a circle never comes.
bool Schedule::PutInOrder(const std::vector<Edges>& edges) {
  std::vector<std::vector<uint32_t>> open(functions_.size());  // callers of each activation that have not come
  std::vector<std::pair<int, uint32_t>> round, next;
  int64_t left = 0;
  for (size_t f = 0; f < functions_.size(); ++f) {
    for (uint32_t i = 0; i < functions_[f].count; ++i) {
      open[f].push_back(static_cast<uint32_t>(edges[f].count(i)));
      if (open[f].back() == 0) round.emplace_back(f, i);
    }
    left += functions_[f].count;
  }
  segments_.clear();
  for (; !round.empty(); std::swap(round, next)) {
    std::sort(round.begin(), round.end());
    next.clear();
    for (const auto& [f, i] : round) {
      const bool goes_on = !segments_.empty() && segments_.back().function == f && segments_.back().end == i;
      if (goes_on) {
        ++segments_.back().end;
      } else {
        segments_.push_back({f, i, i + 1});
      }
      const auto calls = static_cast<size_t>(structure_.functions[f].call_count);
      for (size_t call = i * calls; call < (i + 1) * calls; ++call) {
        const Child child = functions_[f].children[call];
        if (child.function >= 0 && --open[child.function][child.activation] == 0) {
          next.emplace_back(child.function, child.activation);
        }
      }
    }
    left -= static_cast<int64_t>(round.size());
  }
  if (left > 0) SetCycleOf(edges, open);
  return left == 0;
}

std::vector<int> Schedule::SitesOf(int function) const {
  const Structure::OfFunction& known = structure_.functions[function];
  std::vector<int> sites(known.call_count, 0);
  for (size_t n = 0; n < known.calls.size(); ++n) {
    if (known.calls[n] >= 0) sites[known.calls[n]] = plan_.functions[function].nodes[n].site;
  }
  return sites;
}

Schedule::Levels Schedule::LevelsBelow() const {
  Levels below(functions_.size());
  for (size_t f = 0; f < functions_.size(); ++f) below[f].assign(functions_[f].count, 0);
  for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment) {
    const std::vector<int> sites = SitesOf(segment->function);
    for (uint32_t i = segment->begin; i < segment->end; ++i) {
      int32_t& deepest = below[segment->function][i];
      for (size_t call = 0; call < sites.size(); ++call) {
        const Child child = functions_[segment->function].children[i * sites.size() + call];
        if (child.function < 0) continue;
        deepest = std::max(deepest, below[child.function][child.activation] + (sites[call] != 0 ? 1 : 0));
      }
    }
  }
  return below;
}

// An activation was found by a shortest way; how deep a call is, is a matter of the longest.
bool Schedule::IsTooDeep(int function, uint32_t roots) {
  const Levels below = LevelsBelow();
  uint32_t root = 0;
  while (root < roots && 1 + int64_t{below[function][root]} <= max_depth_) ++root;
  if (root == roots) return false;
  place_ = {root, {}};
  Child at{function, root};
  for (int64_t left = max_depth_; left > 0;) {
    const std::vector<int> sites = SitesOf(at.function);
    const Child* const children = functions_[at.function].children.data() + at.activation * sites.size();
    const auto levels = [&](size_t call) {
      return below[children[call].function][children[call].activation] + (sites[call] != 0 ? 1 : 0);
    };
    size_t call = 0;
    while (children[call].function < 0 || levels(call) < left) ++call;
    if (sites[call] != 0) {
      place_.sites.push_back(sites[call]);
      --left;
    }
    at = children[call];
  }
  return true;
}

// What has not come has a caller that has not come either: upwards, one of them comes a second time.
void Schedule::SetCycleOf(const std::vector<Edges>& edges, const std::vector<std::vector<uint32_t>>& open) {
  std::pair<int32_t, uint32_t> at{0, 0};
  while (std::none_of(open[at.first].begin(), open[at.first].end(), [](uint32_t count) { return count > 0; })) ++at.first;
  while (open[at.first][at.second] == 0) ++at.second;
  std::map<std::pair<int32_t, uint32_t>, size_t> place;  // on the way up
  std::vector<std::pair<Child, int>> way;                // with the site that each was called by
  while (place.emplace(at, way.size()).second) {
    const Edges& of = edges[at.first];
    size_t edge = of.begin(at.second);
    while (open[of.callers[edge].function][of.callers[edge].activation] == 0) ++edge;
    way.push_back({{at.first, at.second}, of.callers[edge].node->site});
    at = {of.callers[edge].function, of.callers[edge].activation};
  }
  std::vector<std::pair<Child, int>> circle(way.begin() + place[at], way.end());
  std::reverse(circle.begin(), circle.end());
  circle.erase(std::remove_if(circle.begin(), circle.end(), [](const auto& one) { return one.second == 0; }), circle.end());
  const auto depth_of = [this](const auto& one) { return functions_[one.first.function].depths[one.first.activation]; };
  const auto first = std::min_element(circle.begin(), circle.end(),
                                      [&](const auto& a, const auto& b) { return depth_of(a) < depth_of(b); });
  std::rotate(circle.begin(), first, circle.end());
  const Callers callers = FindCallers();
  std::vector<Child> path;
  for (Child child = circle.front().first; child.function >= 0; child = Above(callers, child)) path.push_back(child);
  cycle_.root = path.back().activation;
  for (size_t i = path.size(); i-- > 1;) {
    cycle_.above.push_back(Describe(SiteOf(callers, path[i]), path[i].function, path[i].activation));
  }
  cycle_.calls.push_back(Describe(SiteOf(callers, path[0]), path[0].function, path[0].activation));
  for (size_t i = 1; i <= circle.size(); ++i) {
    const auto& [child, site] = circle[i % circle.size()];
    cycle_.calls.push_back(Describe(site, child.function, child.activation));
  }
}

// What an activation hands on was copied when its callers were not all known.
void Schedule::GoDown(const std::vector<Edges>& edges) {
  for (const Segment& segment : segments_) {
    const int f = segment.function;
    const Structure::OfFunction& known = structure_.functions[f];
    for (uint32_t i = segment.begin; i < segment.end; ++i) {
      const size_t callers = edges[f].count(i);
      if (callers == 1) {
        const Caller& caller = edges[f].callers[edges[f].begin(i)];
        PassArguments(step_->functions[caller.function].of(caller.activation), *caller.node, f, i);
      } else if (callers > 1 && known.merging == Merging::kGradients) {
        AddUp(f, i, edges[f]);
      }
    }
    for (const int index : known.order) {
      const Node& node = plan_.functions[f].nodes[index];
      if (node.kind != NodeKind::kBlock || known.nodes[index] != Stage::kDown) continue;
      for (uint32_t i = segment.begin; i < segment.end; ++i) TimeOf(node, step_->functions[f].of(i), i);
    }
  }
}

void Schedule::AddUp(int function, uint32_t activation, const Edges& edges) {
  const auto arguments = static_cast<size_t>(plan_.functions[function].arguments);
  for (size_t argument = KeysOf(function); argument < arguments; ++argument) {
    Moment moment;
    for (size_t edge = edges.begin(activation); edge < edges.ends[activation]; ++edge) {
      const Caller& caller = edges.callers[edge];
      const RowRef part =
          step_->functions[caller.function].of(caller.activation)[caller.node->reads[FirstArgument(*caller.node) + argument]];
      parts_.push_back(part);
      const Moment of_part = MomentOf(part);
      const bool is_later = of_part.priority != moment.priority ? of_part.priority > moment.priority
                                                                : of_part.time > moment.time;
      if (is_later) moment = of_part;
    }
    const RowRef sum = NewSum(function, argument);
    sums_.push_back({sum.source, sum.row, static_cast<uint32_t>(parts_.size()), moment});
    step_->functions[function].of(activation)[argument] = sum;
  }
}

RowRef Schedule::NewSum(int function, size_t argument) {
  const auto [known, is_new] =
      sum_source_.emplace(std::make_pair(function, argument), static_cast<uint32_t>(step_->sources.size()));
  if (is_new) {
    step_->sources.emplace_back();
    block_of_.push_back(kSums);
  }
  std::vector<uint32_t>& rows = sums_of_[known->second];
  rows.push_back(static_cast<uint32_t>(sums_.size()));
  return {known->second, static_cast<uint32_t>(rows.size() - 1)};
}

bool Schedule::RunSum(uint32_t number) {
  const Sum& sum = sums_[number];
  std::vector<const char*> rows;
  const void* kind = nullptr;
  for (uint32_t part = number == 0 ? 0 : sums_[number - 1].parts_end; part < sum.parts_end; ++part) {
    const RowsOfStep* from = nullptr;
    rows.push_back(Find(parts_[part], &from));
    if (rows.back() == nullptr) return false;
    if (kind != nullptr && !backend_->IsSameKind(from->kind, kind)) return false;
    kind = from->kind;
  }
  RowsOfStep& all = step_->sources[sum.source];
  if (all.data == nullptr && !backend_->MakeRows(kind, static_cast<int64_t>(sums_of_[sum.source].size()), &all)) return false;
  if (!backend_->IsSameKind(all.kind, kind)) return false;
  return backend_->AddRows(kind, rows, const_cast<char*>(all.data) + sum.row * all.bytes);
}

RowRef Schedule::ZerosLike(RowRef ref) {
  if ((ref.source & (RowRef::kFrame | RowRef::kJoin)) == 0) ref.source |= RowRef::kZeros;
  return ref;
}

const char* Schedule::FindZeros(RowRef ref, const RowsOfStep** rows) const {
  const uint32_t source = ref.source & ~RowRef::kZeros;
  const auto known = zeros_.find(source);
  if (known != zeros_.end()) {
    *rows = &known->second;
    return known->second.data;
  }
  if (source >= step_->sources.size() || step_->sources[source].data == nullptr) return nullptr;
  RowsOfStep made;
  if (!backend_->MakeRows(step_->sources[source].kind, 1, &made)) return nullptr;
  step_->kept.push_back(made.holder);  // for what refers to rows of the step when it has ended
  *rows = &zeros_.emplace(source, std::move(made)).first->second;
  return (*rows)->data;
}

}  // namespace batch
}  // namespace recgraph
