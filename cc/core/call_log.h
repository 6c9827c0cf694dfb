// What gradient="recompute" writes down of the calls that an invocation makes, to answer them from
// when its body is run again. A call is known by its call site and its occurrence: the n-th call
// from one place, for places inside of loops.
//
// Thread-safe: the calls of one invocation end on any thread.
#ifndef RECGRAPH_CC_CORE_CALL_LOG_H_
#define RECGRAPH_CC_CORE_CALL_LOG_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

namespace recgraph {

struct CallKey {
  int64_t site;
  int64_t occurrence;

  bool operator<(const CallKey& other) const {
    return std::tie(site, occurrence) < std::tie(other.site, other.occurrence);
  }
};

// Numbers the calls from each call site, from 0.
class Occurrences {
 public:
  CallKey Next(int64_t site) {
    std::lock_guard<std::mutex> lock(mutex_);
    return {site, next_[site]++};
  }

 private:
  std::mutex mutex_;
  std::map<int64_t, int64_t> next_;
};

template <typename Recorded>
class CallLog {
 public:
  void Write(CallKey key, Recorded recorded) {
    std::lock_guard<std::mutex> lock(mutex_);
    calls_.emplace(key, std::move(recorded));
  }

  // A copy of what was written for a call; false where nothing was.
  bool Read(CallKey key, Recorded* recorded) const {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = calls_.find(key);
    if (found == calls_.end()) return false;
    *recorded = found->second;
    return true;
  }

 private:
  mutable std::mutex mutex_;
  std::map<CallKey, Recorded> calls_;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_CALL_LOG_H_
