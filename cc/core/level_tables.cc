// A schedule as tables of integers, for an executor that is made of another runtime's operations: where the rows of all
// values are in arenas, which rows each block reads, and in which steps the blocks are run.
//
// A step runs a block for rows that lie one after another in its tables and writes each result as one range of an arena.
// The ranges are in the order of the steps. So a step may write more rows than it has, as one of a fixed width does:
// what lies behind its range is written later.
#include <algorithm>
#include <map>
#include <utility>

#include "cc/core/schedule.h"

namespace recgraph {
namespace batch {

// 1 or 1.5 times a power of two.
int64_t LevelLayout::Room(int64_t rows, const std::vector<int64_t>& least, size_t i) const {
  if (!is_padded) return rows;
  int64_t room = 8;
  while (room < rows) room = (room & (room - 1)) == 0 ? room + room / 2 : room / 3 * 4;
  return i < least.size() ? std::max(room, least[i]) : room;
}

bool Schedule::Tabulate(int function, size_t roots, const LevelLayout& layout, LevelTables* tables) {
  if (gradients_are_merged_) return false;
  InOrder();  // sorts the rows of all blocks
  std::vector<int64_t> next;
  PlaceImports(function, roots, layout, &next, tables);
  std::map<int, std::vector<int>> components;  // by priority, also those without rows
  for (const int b : tables->blocks) components[plan_.blocks[b].priority].push_back(b);
  for (const auto& [priority, members] : components) PlaceComponent(members, layout, &next, tables);
  for (size_t i = 0; i < next.size(); ++i) {
    tables->sizes.push_back(layout.Room(next[i] + layout.width, layout.least_arenas, i));
  }
  step_->arena_sizes = tables->sizes;
  return FindReads(tables);
}

bool Schedule::IsTabulated(int block) const {
  const Block& mine = plan_.blocks[block];
  return structure_.is_reached[mine.function] &&
         structure_.functions[mine.function].nodes[mine.node] != Stage::kStructure;
}

void Schedule::PlaceImports(int function, size_t roots, const LevelLayout& layout, std::vector<int64_t>* next,
                            LevelTables* tables) {
  next->assign(layout.classes, 1);
  std::vector<StepFrame::InArena>& places = step_->in_arenas;
  places.resize(step_->sources.size());
  for (const auto& [holder, first] : imported_steps_) {
    const auto* const earlier = static_cast<const StepFrame*>(holder);
    std::copy(earlier->in_arenas.begin(), earlier->in_arenas.end(), places.begin() + first.first);
    for (size_t i = 0; i < layout.classes && i < earlier->arena_sizes.size(); ++i) {
      (*next)[i] = std::max((*next)[i], earlier->arena_sizes[i]);
    }
  }
  const auto arguments = static_cast<size_t>(plan_.functions[function].arguments);
  for (size_t i = 0; i < std::min(arguments, layout.of_arguments.size()) && roots > 0; ++i) {
    const uint32_t source = step_->functions[function].of(0)[i].source;
    if (layout.of_arguments[i] < 0 || source >= places.size()) continue;  // a frame has no row
    int64_t& end = (*next)[layout.of_arguments[i]];
    places[source] = {end, step_->sources[source].bytes == 0, {}};
    end += places[source].is_one ? 1 : static_cast<int64_t>(roots);
  }
  size_t known = 0;
  for (size_t b = 0; b < plan_.blocks.size(); ++b) {
    const Block& block = plan_.blocks[b];
    if (!structure_.is_reached[block.function]) continue;
    const bool is_known = !IsTabulated(static_cast<int>(b));
    const int64_t rows = functions_[block.function].count;
    if (is_known) {
      tables->known.push_back(static_cast<int>(b));
      tables->known_rows.push_back(rows);
      tables->known_sources.push_back(first_source_[b]);
    } else {
      tables->blocks.push_back(static_cast<int>(b));
      tables->rows.push_back(static_cast<int32_t>(rows));
    }
    for (size_t w = 0; w < block.shared.size(); ++w) {
      const int of = layout.of_blocks[b][w];
      if (of < 0 || (!is_known && !block.shared[w])) continue;
      places[first_source_[b] + w] = {(*next)[of], block.shared[w], {}};
      const int64_t room = is_known ? layout.Room(rows, layout.least_known, known++) : 1;
      (*next)[of] += block.shared[w] ? 1 : room;
    }
  }
}

void Schedule::PlaceComponent(const std::vector<int>& members, const LevelLayout& layout, std::vector<int64_t>* next,
                              LevelTables* tables) {
  tables->components.emplace_back();
  LevelTables::Component& made = tables->components.back();
  made.members = members;
  size_t times = 0, writes = 0;
  for (const int b : members) {
    times = std::max(times, blocks_[b].ends.size());
    writes = std::max(writes, plan_.blocks[b].shared.size());
    for (size_t w = 0; w < plan_.blocks[b].shared.size(); ++w) {
      if (!plan_.blocks[b].shared[w]) step_->in_arenas[first_source_[b] + w].places.resize(blocks_[b].times.size());
    }
  }
  made.columns = 3 + writes;
  for (size_t time = 0; time < times; ++time) {
    for (size_t member = 0; member < members.size(); ++member) {
      const OfBlock& block = blocks_[members[member]];
      if (time >= block.ends.size()) continue;
      const uint32_t end = block.ends[time];
      for (uint32_t first = time == 0 ? 0 : block.ends[time - 1]; first < end;) {
        const uint32_t last = layout.width == 0 ? end : static_cast<uint32_t>(std::min<int64_t>(end, first + layout.width));
        PlaceChunk(members[member], first, last, static_cast<int>(member), layout, next, &made);
        first = last;
      }
    }
  }
}

void Schedule::PlaceChunk(int block, uint32_t first, uint32_t last, int member, const LevelLayout& layout,
                          std::vector<int64_t>* next, LevelTables::Component* made) {
  std::vector<int32_t> step{member, static_cast<int32_t>(first), static_cast<int32_t>(last - first)};
  const std::vector<bool>& shared = plan_.blocks[block].shared;
  for (size_t w = 0; w < shared.size(); ++w) {
    const int of = layout.of_blocks[block][w];
    StepFrame::InArena& place = step_->in_arenas[first_source_[block] + w];
    if (of < 0) {
      step.push_back(0);
    } else if (shared[w]) {
      step.push_back(static_cast<int32_t>(place.first));
    } else {
      const int64_t begin = (*next)[of];
      step.push_back(static_cast<int32_t>(begin));
      for (uint32_t row = first; row < last; ++row) {
        place.places[blocks_[block].activations[row]] = static_cast<uint32_t>(begin + row - first);
      }
      (*next)[of] += last - first;
    }
  }
  step.resize(made->columns);
  made->steps.insert(made->steps.end(), step.begin(), step.end());
}

int64_t Schedule::ArenaRow(RowRef ref) const {
  if (ref.IsZeros()) return 0;
  return ref.source < step_->in_arenas.size() ? step_->in_arenas[ref.source].of(ref.row) : -1;
}

bool Schedule::FindReads(LevelTables* tables) const {
  for (const int b : tables->blocks) {
    const Block& block = plan_.blocks[b];
    const std::vector<int>& slots = plan_.functions[block.function].nodes[block.node].reads;
    tables->reads.emplace_back(slots.size());
    for (size_t r = 0; r < slots.size(); ++r) {
      std::vector<int32_t>& rows = tables->reads.back()[r];
      rows.reserve(blocks_[b].activations.size());
      for (const uint32_t activation : blocks_[b].activations) {
        const int64_t row = ArenaRow(step_->functions[block.function].of(activation)[slots[r]]);
        if (row < 0) return false;
        rows.push_back(static_cast<int32_t>(row));
      }
    }
  }
  return true;
}

bool Schedule::FindResults(int function, size_t roots, bool records, LevelTables* tables,
                           std::vector<Value>* frames) const {
  const std::vector<int>& slots = plan_.functions[function].results;
  for (size_t i = 0; i < slots.size(); ++i) {
    const bool is_frame = records && i + 1 == slots.size();
    std::vector<int32_t> rows;
    for (uint32_t root = 0; root < roots; ++root) {
      const RowRef ref = step_->functions[function].of(root)[slots[i]];
      if (((ref.source & RowRef::kFrame) != 0) != is_frame) return false;
      if (is_frame) {
        frames->push_back(step_->ToValue(ref));
        continue;
      }
      const int64_t row = ArenaRow(ref);
      if (row < 0) return false;
      rows.push_back(static_cast<int32_t>(row));
    }
    if (!is_frame) tables->results.push_back(std::move(rows));
  }
  return true;
}

}  // namespace batch
}  // namespace recgraph
