// A list of free blocks in the order in which they were freed, and an index by size.
#include "cc/core/large_blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace recgraph {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;
constexpr size_t kPage = 4096;
// A block may be larger than was asked for by this share of it.
constexpr size_t kSpare = 4;

}  // namespace

LargeBlocks::Block LargeBlocks::Allocate(size_t bytes) {
  Block block{nullptr, (bytes + kPage - 1) / kPage * kPage};
  if (Take(block.bytes, &block)) return block;
  if (posix_memalign(&block.memory, kLargePage, block.bytes) != 0) {
    ReleaseWaiting();
    if (posix_memalign(&block.memory, kLargePage, block.bytes) != 0) return {};
  }
  madvise(block.memory, block.bytes, MADV_HUGEPAGE);
  std::lock_guard<std::mutex> lock(mutex_);
  used_bytes_ += static_cast<int64_t>(block.bytes);
  NotePeak();
  return block;
}

bool LargeBlocks::Take(size_t bytes, Block* block) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto smallest = by_size_.lower_bound(bytes);
  if (smallest == by_size_.end() || smallest->first > bytes + bytes / kSpare) return false;
  *block = *smallest->second;
  waiting_.erase(smallest->second);
  by_size_.erase(smallest);
  waiting_bytes_ -= static_cast<int64_t>(block->bytes);
  used_bytes_ += static_cast<int64_t>(block->bytes);
  NotePeak();
  return true;
}

void LargeBlocks::Free(Block block) {
  Waiting beyond;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    NotePeak();
    const auto bytes = static_cast<int64_t>(block.bytes);
    used_bytes_ -= bytes;
    waiting_bytes_ += bytes;
    by_size_.emplace(block.bytes, waiting_.insert(waiting_.end(), block));
    beyond = Beyond(Limit());
  }
  Release(beyond);
}

void LargeBlocks::ReleaseWaiting() {
  Waiting all;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    all = Beyond(0);
  }
  Release(all);
}

int64_t LargeBlocks::waiting() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return waiting_bytes_;
}

int64_t LargeBlocks::held() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return waiting_bytes_ + used_bytes_;
}

void LargeBlocks::NotePeak() {
  const Clock::time_point now = Clock::now();
  if (now - begin_ > period_) {
    peak_before_ = now - begin_ > 2 * period_ ? used_bytes_ : peak_;
    peak_ = 0;
    begin_ = now;
  }
  peak_ = std::max(peak_, used_bytes_);
}

int64_t LargeBlocks::Limit() const {
  return std::clamp(std::max(peak_, peak_before_), kLeastWaiting, kMostWaiting);
}

LargeBlocks::Waiting LargeBlocks::Beyond(int64_t limit) {
  Waiting beyond;
  while (waiting_bytes_ > limit) {
    const auto first = waiting_.begin();
    const auto [begin, end] = by_size_.equal_range(first->bytes);
    by_size_.erase(std::find_if(begin, end, [&](const auto& entry) { return entry.second == first; }));
    waiting_bytes_ -= static_cast<int64_t>(first->bytes);
    beyond.splice(beyond.end(), waiting_, first);
  }
  return beyond;
}

void LargeBlocks::Release(const Waiting& blocks) {
  for (const Block& block : blocks) std::free(block.memory);
}

}  // namespace recgraph
