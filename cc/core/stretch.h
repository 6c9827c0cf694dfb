// For ThreadSanitizer, which does not see how TensorFlow's threads hand work to each other, nor TensorFlow's locks:
// TensorFlow is not compiled with it.
#ifndef RECGRAPH_CC_CORE_STRETCH_H_
#define RECGRAPH_CC_CORE_STRETCH_H_

#include <functional>
#include <utility>

#ifdef RECGRAPH_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace recgraph {

// A stretch of our code in a thread of TensorFlow's, or under a lock of TensorFlow's: what was done before, in stretches
// and until HandOver, comes before it. Stretches of one thing, say of a call or of a variable, have an order with each
// other only: what several calls share is guarded by locks of our own. Null stands for all that is TensorFlow's.
class Stretch {
 public:
  explicit Stretch(const void* what = nullptr);
  ~Stretch();
  Stretch(const Stretch&) = delete;
  Stretch& operator=(const Stretch&) = delete;

  // The two ends of a stretch, where it is none of a scope.
  static void TakeOver(const void* what = nullptr);
  static void HandOver(const void* what = nullptr);

#ifdef RECGRAPH_THREAD_SANITIZER
 private:
  static void* Order(const void* what) { return what == nullptr ? &all_ : const_cast<void*>(what); }

  inline static char all_;
  const void* const what_;
#endif
};

// `task`, which TensorFlow is to run once: it comes after what was done before TensorFlow had it.
inline std::function<void()> Following(std::function<void()> task);

// A way to TensorFlow's threads, for tasks that come after what was done before they were sent.
inline std::function<void(std::function<void()>)> Sending(std::function<void(std::function<void()>)> submit);

#ifdef RECGRAPH_THREAD_SANITIZER

inline void Stretch::TakeOver(const void* what) { __tsan_acquire(Order(what)); }
inline void Stretch::HandOver(const void* what) { __tsan_release(Order(what)); }
inline Stretch::Stretch(const void* what) : what_(what) { TakeOver(what_); }
inline Stretch::~Stretch() { HandOver(what_); }

// What TensorFlow copies, and runs once.
class SentTask {
 public:
  explicit SentTask(std::function<void()> task) : task_(std::move(task)) {}
  SentTask(const SentTask& other) : sent_(other.sent_), task_(other.task_) { Stretch::HandOver(sent_); }
  SentTask(SentTask&& other) : sent_(other.sent_), task_(std::move(other.task_)) { Stretch::HandOver(sent_); }
  // The task itself must not be looked at before it is known to have been handed over.
  __attribute__((no_sanitize("thread"))) void operator()() const {
    Stretch::TakeOver(sent_);
    delete sent_;
    task_();
  }

 private:
  const char* const sent_ = new char;  // stays where the task is given up
  std::function<void()> task_;
};

inline std::function<void()> Following(std::function<void()> task) { return SentTask(std::move(task)); }

inline std::function<void(std::function<void()>)> Sending(std::function<void(std::function<void()>)> submit) {
  return [submit = std::move(submit)](std::function<void()> task) { submit(Following(std::move(task))); };
}

#else

inline void Stretch::TakeOver(const void*) {}
inline void Stretch::HandOver(const void*) {}
inline Stretch::Stretch(const void*) {}
inline Stretch::~Stretch() {}
inline std::function<void()> Following(std::function<void()> task) { return task; }
inline std::function<void(std::function<void()>)> Sending(std::function<void(std::function<void()>)> submit) {
  return submit;
}

#endif

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_STRETCH_H_
