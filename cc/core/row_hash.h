// The hash of rows: equal rows have equal hashes, and long ones are told apart by their ends alone.
#ifndef RECGRAPH_CC_CORE_ROW_HASH_H_
#define RECGRAPH_CC_CORE_ROW_HASH_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace recgraph {
namespace batch {

class RowHash {
 public:
  explicit RowHash(uint64_t seed) : hash_(seed) {}

  void Mix(uint64_t more) {
    hash_ = (hash_ ^ more) * 0x9E3779B97F4A7C15u;
    hash_ ^= hash_ >> 29;
  }

  // Whoever finds equal hashes compares the rows.
  void MixBytes(const char* data, int64_t bytes) {
    Mix(bytes);
    MixAll(data, std::min(bytes, kEnd));
    if (bytes > kEnd) MixAll(data + std::max(kEnd, bytes - kEnd), std::min(kEnd, bytes - kEnd));
  }

  uint64_t value() const { return hash_; }

 private:
  static constexpr int64_t kEnd = 64;

  void MixAll(const char* data, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, data + i, std::min<int64_t>(8, bytes - i));
      Mix(word);
    }
  }

  uint64_t hash_;
};

}  // namespace batch
}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_ROW_HASH_H_
