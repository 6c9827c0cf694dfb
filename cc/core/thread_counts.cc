// Lines of threads, and what they tell each other.
#include "cc/core/thread_counts.h"

#include <algorithm>

namespace recgraph {

int ThreadLine() {
  static std::atomic<int> threads{0};
  thread_local const int line = threads.fetch_add(1, std::memory_order_relaxed) % kThreadLines;
  return line;
}

void LiveCount::Add(int64_t begun, int64_t live, int64_t above) {
  if (begun > 0) begun_.Add(0, begun);
  Line& line = lines_[ThreadLine()];
  const int64_t now = line.live.fetch_add(live, std::memory_order_relaxed) + live;
  int64_t most = line.most.load(std::memory_order_relaxed);
  while (now + above > most && !line.most.compare_exchange_weak(most, now + above, std::memory_order_relaxed)) {
  }
  if (now > kOwn || now < -kOwn || above > 0) Tell(&line);
}

void LiveCount::Tell(Line* line) {
  std::lock_guard<std::mutex> lock(mutex_);
  peak_ = PeakNow();
  line->most.store(0, std::memory_order_relaxed);
  live_ += line->live.exchange(0, std::memory_order_relaxed);
}

// No less than what was live at any time: while `live_` stays as it is, no thread has more to add than its most.
int64_t LiveCount::PeakNow() const {
  int64_t most = live_;
  for (const Line& line : lines_) most += line.most.load(std::memory_order_relaxed);
  return std::max(peak_, most);
}

int64_t LiveCount::live() const {
  std::lock_guard<std::mutex> lock(mutex_);
  int64_t live = live_;
  for (const Line& line : lines_) live += line.live.load(std::memory_order_relaxed);
  return live;
}

int64_t LiveCount::peak() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return PeakNow();
}

void LiveCount::ResetPeak() {
  for (Line& line : lines_) Tell(&line);
  std::lock_guard<std::mutex> lock(mutex_);
  peak_ = live_;
}

}  // namespace recgraph
