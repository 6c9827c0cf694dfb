// Work in parts, which several threads do at once.
#ifndef RECGRAPH_CC_CORE_PARTS_H_
#define RECGRAPH_CC_CORE_PARTS_H_

#include <condition_variable>
#include <exception>
#include <mutex>

namespace recgraph {

// Does `work(0)` here and `work(1)` to `work(count - 1)` on threads that `submit` hands tasks to; returns when all have
// ended. Whether all gave true. An exception is a false: none leaves a part, which on another thread would end the
// process, and what `work` refers to stays until the last part is done. Where a task cannot be handed over, for want of
// memory, this thread does it.
template <typename Submit, typename Work>
bool DoParts(int count, const Submit& submit, const Work& work) {
  std::mutex mutex;
  std::condition_variable changed;
  int left = count;  // guarded by mutex
  bool done = true;  // guarded by mutex
  const auto run = [&](int part) noexcept {
    bool is_done = false;
    try {
      is_done = work(part);
    } catch (const std::exception&) {
    }
    std::lock_guard<std::mutex> lock(mutex);
    done = done && is_done;
    if (--left == 0) changed.notify_one();  // with the lock, without which `changed` may be gone
  };
  for (int part = 1; part < count; ++part) {
    try {
      submit([&run, part] { run(part); });
    } catch (const std::exception&) {
      run(part);
    }
  }
  run(0);
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&left] { return left == 0; });
  return done;
}

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_PARTS_H_
