// Locks of several mutexes for reading. Whoever takes several, for reading or writing, takes them in the order of their
// addresses, as TensorFlow does with those of variables: a reader who waits for a writer then has none that the writer
// waits for.
#ifndef RECGRAPH_CC_CORE_SHARED_LOCKS_H_
#define RECGRAPH_CC_CORE_SHARED_LOCKS_H_

#include <algorithm>
#include <vector>

#include "cc/core/stretch.h"

namespace recgraph {

// Sorts owners of mutexes into that order, and leaves each once: a mutex that one thread takes twice for reading waits for
// a writer that came in between, which waits for the first time. `mu()` gives an owner's mutex.
template <typename Owner>
void PutInOrder(std::vector<Owner*>* owners) {
  const auto is_before = [](Owner* one, Owner* other) { return one->mu() < other->mu(); };
  const auto is_same = [](Owner* one, Owner* other) { return one->mu() == other->mu(); };
  std::sort(owners->begin(), owners->end(), is_before);
  owners->erase(std::unique(owners->begin(), owners->end(), is_same), owners->end());
}

// While it lives, this thread has the mutexes of owners that are in order, also where an exception goes through it.
template <typename Owner>
class SharedLocks {
 public:
  explicit SharedLocks(const std::vector<Owner*>& owners) : owners_(owners) {
    for (Owner* owner : owners_) {
      owner->mu()->lock_shared();
      Stretch::TakeOver(owner);
    }
  }
  ~SharedLocks() {
    for (Owner* owner : owners_) {
      Stretch::HandOver(owner);
      owner->mu()->unlock_shared();
    }
  }
  SharedLocks(const SharedLocks&) = delete;
  SharedLocks& operator=(const SharedLocks&) = delete;

 private:
  const std::vector<Owner*>& owners_;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_SHARED_LOCKS_H_
