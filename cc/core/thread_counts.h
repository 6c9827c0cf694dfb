// Counts that many threads change all the time. Each thread has a line of memory to itself, mostly: two threads
// that write to one line pay more for that than for everything else that an invocation does.
#ifndef RECGRAPH_CC_CORE_THREAD_COUNTS_H_
#define RECGRAPH_CC_CORE_THREAD_COUNTS_H_

#include <atomic>
#include <cstdint>
#include <mutex>

namespace recgraph {

constexpr int kThreadLines = 16;

// Which line is the calling thread's.
int ThreadLine();

// Some numbers, by thread; whoever asks adds them up. Thread-safe.
template <int kNumbers>
class ThreadCounts {
 public:
  void Add(int which, int64_t amount) {
    lines_[ThreadLine()].numbers[which].fetch_add(amount, std::memory_order_relaxed);
  }
  int64_t Sum(int which) const {
    int64_t sum = 0;
    for (const Line& line : lines_) sum += line.numbers[which].load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(64) Line {
    std::atomic<int64_t> numbers[kNumbers] = {};
  };
  Line lines_[kThreadLines];
};

// How many of something have begun, are live, and were at once. Thread-safe. The peak is exact where one thread
// counts, and may be too large by twice `kOwn` for each one else.
class LiveCount {
 public:
  // `begun` more; `live` more are live, or fewer; `above` more than that were in the meantime.
  void Add(int64_t begun, int64_t live, int64_t above = 0);

  int64_t begun() const { return begun_.Sum(0); }
  int64_t live() const;
  int64_t peak() const;
  // The peak starts again from what is live.
  void ResetPeak();

  // What a thread keeps to itself at most before all know.
  static constexpr int64_t kOwn = 32;

 private:
  // Of a thread, since it last told.
  struct alignas(64) Line {
    std::atomic<int64_t> live{0};
    std::atomic<int64_t> most{0};
  };
  int64_t PeakNow() const;
  void Tell(Line* line);

  ThreadCounts<1> begun_;
  Line lines_[kThreadLines];
  mutable std::mutex mutex_;
  int64_t live_ = 0;  // what was told
  int64_t peak_ = 0;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_THREAD_COUNTS_H_
