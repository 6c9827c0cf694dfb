// Memoized calls: of those in one call from outside that are given the same, one is run and all have its results.
// Their gradients are added up and taken once.
#ifndef RECGRAPH_CC_KERNELS_SHARED_CALLS_H_
#define RECGRAPH_CC_KERNELS_SHARED_CALLS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cc/kernels/frame.h"
#include "cc/kernels/invocation.h"
#include "cc/kernels/program.h"

namespace recgraph {

// Of one call from outside. Thread-safe.
//
// A call waits for another one without a thread. When no thread is at work for the call from outside, those that wait
// are looked at: it may be that they wait for each other in a circle.
class SharedCalls : public std::enable_shared_from_this<SharedCalls> {
 public:
  // `root` is there as long as something waits.
  explicit SharedCalls(RootCall* root) : root_(root) {}

  // Gives `invocation` the results of `body`, which runs only where no invocation before was given the same: equal
  // integers, booleans and strings, and otherwise the same tensors. `adds_up`: whether the last result is a frame, and
  // gradients are added up.
  void Start(Invocation* invocation, Program::Handle body, bool adds_up, Invocation::Done done);

  // Notes how many gradients will be asked for of each shared invocation below `root`, before the first one is.
  void ExpectGradients(const Frame& root);
  // Takes the gradient of an invocation, which is given its frame and gradients of its results. Of those that are given
  // the frame of one shared invocation the last one gets the gradients of the arguments, for all, and the others get
  // zeros, at once: what is given the same is of one origin, where all these are added up.
  void StartGradient(Invocation* invocation, Program::Handle body, Invocation::Done done);
  // An Internal error where some were expected and not asked for.
  absl::Status CheckGradients();

  // The task; a thread is at work as long as it runs or waits to run.
  Task Counted(Task task);
  // As one that has begun, and as one that has ended.
  void BeginWork() { tasks_.fetch_add(1, std::memory_order_relaxed); }
  void EndWork();

  // Lets go all results and tells the program how many calls there were. When nothing waits.
  void Clear();

 private:
  struct Waiting {
    Invocation* invocation;
    Invocation::Done done;
  };
  struct Key {
    Program::Handle body;
    const Environment* environment;
    Tensors arguments;  // these keep their addresses from being used again
    uint64_t hash;
    bool operator==(const Key& other) const;
  };
  struct HashOfKey {
    size_t operator()(const Key& key) const { return key.hash; }
  };
  struct Entry {
    Invocation* runs = nullptr;  // null when it has ended
    absl::Status status;
    Tensors results;
    std::vector<Waiting> waiting;
  };
  using Table = std::unordered_map<Key, Entry, HashOfKey>;
  // Of one shared invocation, by its results.
  struct Gradients {
    int64_t expected = 0, added = 0;
    std::unique_ptr<Sums> sums;
  };
  struct Counts {
    int64_t asked = 0, computed = 0;
  };
  enum class Found { kNew, kRuns, kEnded };
  // An invocation that lies on a circle, and the text of that.
  struct Circle {
    Waiting call;
    std::string text;
  };

  static Key KeyOf(Program::Handle body, const Invocation& invocation);
  Found Find(Invocation* invocation, Program::Handle body, const Invocation::Done& done, Table::value_type** entry);
  // Returns how it has ended.
  absl::Status End(const Key& key, Entry* entry, Invocation* invocation, bool adds_up, absl::Status status);
  static absl::Status MarkFrame(const Key& key, Invocation* invocation);
  static void GiveResults(const Entry& entry, Invocation* invocation) { invocation->results() = entry.results; }
  // Adds what an invocation is given, or gives it what is to be taken the gradient of, where it is the last: it is to run.
  absl::Status AddGradients(const Frame& frame, Program::Handle body, Invocation* invocation, bool* runs);
  static absl::Status TakeSums(Sums* sums, Tensors* arguments);
  // Has those that wait go on.
  void Release(std::vector<Waiting> waiting, const absl::Status& status);
  void LookAtWaiting();
  // A circle that nothing comes out of. The caller holds the lock, and nobody is at work.
  bool TakeCircle(Circle* circle);
  static std::string Describe(const Invocation& call, const Key& key);

  RootCall* const root_;
  std::atomic<int64_t> tasks_{0};
  std::mutex mutex_;  // guards what follows
  Table table_;
  int64_t waiting_ = 0;  // in the table
  std::unordered_map<const Frame*, Gradients> gradients_;
  std::unordered_map<Program::Handle, Counts> counts_;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_SHARED_CALLS_H_
