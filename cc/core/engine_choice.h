// Which engine runs a call of engine "auto": the one that has cost less per invocation so far. Each is
// tried a few times first, and the other one again now and then, for programs and inputs change.
#ifndef RECGRAPH_CC_CORE_ENGINE_CHOICE_H_
#define RECGRAPH_CC_CORE_ENGINE_CHOICE_H_

#include <cstdint>
#include <mutex>
#include <string>

namespace recgraph {

enum class Engine { kParallel = 0, kBatched = 1 };

// What calls are compared with each other: with and without a gradient to come; single ones, and those of a map by
// number of roots.
struct CallClass {
  bool recorded;
  bool map;
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
  static constexpr int kBuckets = 21;  // single calls, then those of a map by powers of two
  struct Cost {
    int samples = 0;
    double mean = 0;  // seconds an invocation, the recent ones count most
    void Add(double value);
  };
  struct Cell {
    int64_t picked = 0;
    int64_t next_look;  // the number of the call that tries the engine that is not chosen
    int64_t interval;   // from one such call to the next
    Cost forward[2];
    Cost gradient[2];
    Cell();
    double Total(Engine engine) const;
    Engine Cheaper() const;
    Engine Pick(Engine first);
  };
  static int Bucket(const CallClass& call);
  static std::string Name(int bucket);
  Cell& CellOf(const CallClass& call) { return cells_[call.recorded ? 1 : 0][Bucket(call)]; }

  mutable std::mutex mutex_;
  Cell cells_[2][kBuckets];
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_ENGINE_CHOICE_H_
