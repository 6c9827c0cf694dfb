// The counters of live frames and their release without recursion.
#include "cc/core/frame_base.h"

#include "cc/core/thread_counts.h"

namespace recgraph {
namespace {

// Frames come and go by the million.
enum { kEntries, kBytes, kNumbers };
ThreadCounts<kNumbers> counts;

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

FrameBase::FrameBase() { counts.Add(kEntries, 1); }

FrameBase::~FrameBase() {
  counts.Add(kEntries, -1);
  counts.Add(kBytes, -bytes_);
}

void FrameBase::AccountFor(int64_t bytes) {
  bytes_ += bytes;
  counts.Add(kBytes, bytes);
}

LiveFrames FrameBase::Live() {
  return {counts.Sum(kEntries), counts.Sum(kBytes)};
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
