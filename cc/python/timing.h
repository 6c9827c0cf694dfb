// What the two runners of a co-executed step do with their time: how long they wait for each other, and for what.
//
// Python's waits are timed where they happen. The graph has no thread of its own that could be asked: TensorFlow tells
// a collector when a thread of its pools begins and ends a piece of work. While none works and the graph has not ended,
// it either waits for Python or is about to go on; it has waited if a value from Python is what ended the silence.
#ifndef RECGRAPH_CC_PYTHON_TIMING_H_
#define RECGRAPH_CC_PYTHON_TIMING_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace recgraph {

// Nanoseconds since some time.
int64_t Now();

// What the device adds to the operations of graphs: how many there were, and how long those took
// that did not wait. Counted while it is on; any thread.
struct DeviceShare {
  std::atomic<bool> is_on{false};
  std::atomic<int64_t> operations{0};
  std::atomic<int64_t> nanoseconds{0};

  static DeviceShare& Get();
};

struct PythonStall {
  int location;  // where the program waited; -1: at the end of the step
  int node;      // of the plan, whose value it waited for; -1: all of the graph
  int64_t nanoseconds;
};

struct GraphTimes {
  bool is_known = false;
  int64_t nanoseconds = 0;         // from its launch to its end
  std::map<int, int64_t> stalls;  // by the slot for which it waited
};

// Any thread may call anything.
class GraphTimer {
 public:
  // The one of this process, or null if it times another graph, or TensorFlow's own profiler is on.
  static GraphTimer* Claim();

  // The graph has ended, or is of no more interest: gives the timer back.
  GraphTimes Release();

  // A thread begins or ends a piece of work.
  void Begins();
  void Ends();

  // Python gives a value.
  void Given(int slot);

 private:
  std::mutex mutex_;  // guards what follows
  bool is_claimed_ = false;
  int working_ = 0;
  int given_ = -1;         // what Python gave last, since nothing works
  int64_t given_at_ = 0;
  int64_t began_at_ = 0;
  int64_t silent_since_ = 0;
  std::map<int, int64_t> stalls_;

  void EndSilence();
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_TIMING_H_
