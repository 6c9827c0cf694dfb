// For ThreadSanitizer, which does not see how TensorFlow's threads hand work to each other, nor TensorFlow's locks:
// TensorFlow is not compiled with it.
#ifndef RECGRAPH_CC_CORE_STRETCH_H_
#define RECGRAPH_CC_CORE_STRETCH_H_

#ifdef RECGRAPH_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace recgraph {

// A stretch of our code in a thread of TensorFlow's, or under a lock of TensorFlow's: what was done before, in stretches
// and until HandOver, comes before it.
class Stretch {
 public:
#ifdef RECGRAPH_THREAD_SANITIZER
  Stretch() { __tsan_acquire(&order_); }
  ~Stretch() { HandOver(); }
  static void HandOver() { __tsan_release(&order_); }

 private:
  inline static char order_;
#else
  Stretch() {}  // not the compiler's, so that one without use is no warning
  static void HandOver() {}
#endif
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_STRETCH_H_
