// Which engine runs a call of engine "auto": the one that has cost less per invocation so far. Each is
// tried a few times first, and the other one again now and then, for programs and inputs change.
#ifndef RECGRAPH_CC_CORE_ENGINE_CHOICE_H_
#define RECGRAPH_CC_CORE_ENGINE_CHOICE_H_

#include <cstdint>
#include <mutex>
#include <string>

namespace recgraph {

enum class Engine { kParallel = 0, kBatched = 1 };

// What calls are compared with each other: with and without a gradient to come, by number of roots.
struct CallClass {
  bool recorded;
  int64_t roots;
};

// Thread-safe.
class EngineChoice {
 public:
  Engine Pick(const CallClass& call);
  // Whether an engine was ever picked for such calls: others need not be measured.
  bool HasPicked(const CallClass& call) const;
  // Adds the measured cost of a forward run, or of the gradient that followed one.
  void Add(const CallClass& call, Engine engine, bool gradient, double seconds, int64_t invocations);
  // A line for each class of calls that there have been.
  std::string Report() const;

 private:
  static constexpr int kBuckets = 20;  // of roots, by powers of two
  struct Cost {
    int samples = 0;
    double mean = 0;  // seconds an invocation, the recent ones count most
    void Add(double value);
  };
  struct Cell {
    int64_t picked = 0;
    Cost forward[2];
    Cost gradient[2];
    double Total(int engine) const { return forward[engine].mean + gradient[engine].mean; }
  };
  static int Bucket(int64_t roots);

  mutable std::mutex mutex_;
  Cell cells_[2][kBuckets];
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_ENGINE_CHOICE_H_
