// The activations of a function by the hash of what they are given: a hash table with open addressing.
#ifndef RECGRAPH_CC_CORE_CALL_TABLE_H_
#define RECGRAPH_CC_CORE_CALL_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace recgraph {
namespace batch {

class CallTable {
 public:
  // The activation with this hash that `is_same` accepts; if there is none, `next`, which is kept.
  template <typename IsSame>
  uint32_t FindOrAdd(uint64_t hash, uint32_t next, const IsSame& is_same) {
    if (2 * (size_ + 1) > entries_.size()) Grow();
    for (size_t at = hash & mask_;; at = (at + 1) & mask_) {
      Entry& entry = entries_[at];
      if (entry.activation == kNone) {
        entry = {hash, next};
        ++size_;
        return next;
      }
      if (entry.hash == hash && is_same(entry.activation)) return entry.activation;
    }
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Entry {
    uint64_t hash;
    uint32_t activation;
  };

  void Grow() {
    const std::vector<Entry> before = std::move(entries_);
    entries_.assign(before.empty() ? 64 : 2 * before.size(), Entry{0, kNone});
    mask_ = entries_.size() - 1;
    for (const Entry& entry : before) {
      if (entry.activation == kNone) continue;
      size_t at = entry.hash & mask_;
      while (entries_[at].activation != kNone) at = (at + 1) & mask_;
      entries_[at] = entry;
    }
  }

  std::vector<Entry> entries_;  // at most half of them used
  size_t mask_ = 0;
  size_t size_ = 0;
};

}  // namespace batch
}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_CALL_TABLE_H_
