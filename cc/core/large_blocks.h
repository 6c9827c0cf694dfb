// Memory for the large buffers of a step: a freed block waits for the next request that it is not much too large for.
// What waits is no more than what was in use at once of late, so that a step finds what the step before has freed, and the
// block that was freed first is the first to be given back. Blocks are in large pages: a step that writes a hundred
// megabytes a few hundred bytes at a time spends its time on address translations otherwise.
#ifndef RECGRAPH_CC_CORE_LARGE_BLOCKS_H_
#define RECGRAPH_CC_CORE_LARGE_BLOCKS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>

namespace recgraph {

// Thread-safe.
class LargeBlocks {
 public:
  struct Block {
    void* memory = nullptr;
    size_t bytes = 0;
  };

  // What was in use before the last `period`, and the one before that, is forgotten.
  explicit LargeBlocks(std::chrono::milliseconds period = std::chrono::seconds(2)) : period_(period) {}
  LargeBlocks(const LargeBlocks&) = delete;
  LargeBlocks& operator=(const LargeBlocks&) = delete;
  ~LargeBlocks() { ReleaseWaiting(); }

  // At least `bytes`, aligned to a large page; its memory is null when there is none.
  Block Allocate(size_t bytes);
  // Takes back what Allocate returned, on any thread.
  void Free(Block block);
  // Gives all that waits back to the system.
  void ReleaseWaiting();

  // What waits, in bytes: at most as much as was in use at once in the last two periods, between these two.
  int64_t waiting() const;
  static constexpr int64_t kLeastWaiting = int64_t{256} << 20;
  static constexpr int64_t kMostWaiting = int64_t{4} << 30;
  // What is in use and what waits, in bytes.
  int64_t held() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Waiting = std::list<Block>;  // the first freed first

  bool Take(size_t bytes, Block* block);
  void NotePeak();
  int64_t Limit() const;
  // What waits beyond a limit, taken out.
  Waiting Beyond(int64_t limit);
  static void Release(const Waiting& blocks);

  mutable std::mutex mutex_;
  Waiting waiting_;
  std::multimap<size_t, Waiting::iterator> by_size_;
  int64_t waiting_bytes_ = 0, used_bytes_ = 0;
  // Of `used_bytes_`: in this period and in the one before.
  int64_t peak_ = 0, peak_before_ = 0;
  const Clock::duration period_;
  Clock::time_point begin_ = Clock::now();  // of this period
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_LARGE_BLOCKS_H_
