// The counters of live frames and their release without recursion.
#include "cc/core/frame_base.h"

namespace recgraph {
namespace {

// Every thread counts in one of these, mostly alone: frames come and go by the million.
struct alignas(64) Count {
  std::atomic<int64_t> entries{0};
  std::atomic<int64_t> bytes{0};
};
constexpr int kCounts = 16;
Count counts[kCounts];
std::atomic<int> threads{0};

Count& ThisThreadsCount() {
  thread_local Count& count = counts[threads.fetch_add(1, std::memory_order_relaxed) % kCounts];
  return count;
}

// The frames that this thread has still to destroy, and whether it is at it already.
struct Graveyard {
  FrameBase* head = nullptr;
  bool being_emptied = false;
};

Graveyard& ThisThreadsGraveyard() {
  thread_local Graveyard graveyard;
  return graveyard;
}

}  // namespace

FrameBase::FrameBase() { ThisThreadsCount().entries.fetch_add(1, std::memory_order_relaxed); }

FrameBase::~FrameBase() {
  Count& count = ThisThreadsCount();
  count.entries.fetch_sub(1, std::memory_order_relaxed);
  count.bytes.fetch_sub(bytes_, std::memory_order_relaxed);
}

void FrameBase::AccountFor(int64_t bytes) {
  bytes_ += bytes;
  ThisThreadsCount().bytes.fetch_add(bytes, std::memory_order_relaxed);
}

LiveFrames FrameBase::Live() {
  LiveFrames live;
  for (const Count& count : counts) {
    live.entries += count.entries.load(std::memory_order_relaxed);
    live.bytes += count.bytes.load(std::memory_order_relaxed);
  }
  return live;
}

void FrameBase::Unref() {
  if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) Release();
}

void FrameBase::Release() {
  Graveyard& graveyard = ThisThreadsGraveyard();
  next_released_ = graveyard.head;
  graveyard.head = this;
  if (graveyard.being_emptied) return;
  graveyard.being_emptied = true;
  while (graveyard.head != nullptr) {
    FrameBase* frame = graveyard.head;
    graveyard.head = frame->next_released_;
    delete frame;
  }
  graveyard.being_emptied = false;
}

}  // namespace recgraph
