// The counters of live frames and their release without recursion.
#include "cc/core/frame_base.h"

namespace recgraph {
namespace {

std::atomic<int64_t> live_entries{0};
std::atomic<int64_t> live_bytes{0};

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

FrameBase::FrameBase() { live_entries.fetch_add(1, std::memory_order_relaxed); }

FrameBase::~FrameBase() {
  live_entries.fetch_sub(1, std::memory_order_relaxed);
  live_bytes.fetch_sub(bytes_.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void FrameBase::AccountFor(int64_t bytes) {
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  live_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

LiveFrames FrameBase::Live() {
  return {live_entries.load(std::memory_order_relaxed), live_bytes.load(std::memory_order_relaxed)};
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
