// How much of a thread's C stack is left.
#ifndef RECGRAPH_CC_INTERPRETER_STACK_LIMIT_H_
#define RECGRAPH_CC_INTERPRETER_STACK_LIMIT_H_

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace recgraph {

// The stack of the calling thread, as the system knows it; of size 0 where that does not tell.
struct Stack {
  uintptr_t lowest = 0;  // it grows down to there
  size_t size = 0;

  static Stack OfThisThread() {
    Stack stack;
#ifdef __APPLE__
    const pthread_t self = pthread_self();
    stack.size = pthread_get_stacksize_np(self);
    stack.lowest = reinterpret_cast<uintptr_t>(pthread_get_stackaddr_np(self)) - stack.size;
#else
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return stack;
    void* address = nullptr;
    size_t size = 0, guard = 0;
    if (pthread_attr_getstack(&attributes, &address, &size) == 0 &&
        pthread_attr_getguardsize(&attributes, &guard) == 0 && guard < size) {
      stack.lowest = reinterpret_cast<uintptr_t>(address) + guard;  // which some systems count as a part of the stack
      stack.size = size - guard;
    }
    pthread_attr_destroy(&attributes);
#endif
    return stack;
  }

  // What is kept for calls that are no longer counted: into TensorFlow, say. Less where there is little.
  size_t Reserve() const { return std::min<size_t>(size / 4, 512 * 1024); }
  bool IsShort(uintptr_t here) const { return here - lowest < Reserve(); }  // also false outside of it, on a fiber's
};

// Whether this thread has nearly come to the end of its C stack. It is cheap.
inline bool IsStackShort() {
  thread_local Stack stack = Stack::OfThisThread();
  const char marker = 0;
  const auto here = reinterpret_cast<uintptr_t>(&marker);
  if (!stack.IsShort(here)) return false;
  stack = Stack::OfThisThread();  // the main thread's may have been made larger meanwhile
  return stack.IsShort(here);
}

}  // namespace recgraph

#endif  // RECGRAPH_CC_INTERPRETER_STACK_LIMIT_H_
