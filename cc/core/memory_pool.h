// Memory for the buffers of a step. A step takes thousands of buffers of the same few sizes and gives all of
// them back at its end, which general allocators answer with splitting and merging. Here a freed block waits for
// the next request of its size: first in a list of its thread, then, in whole lists, in one that all share. Large
// blocks go to the shared lists at once, and a thread keeps little: there may be many threads. The largest have lists of
// their own (large_blocks.h).
#ifndef RECGRAPH_CC_CORE_MEMORY_POOL_H_
#define RECGRAPH_CC_CORE_MEMORY_POOL_H_

#include <cstddef>
#include <cstdint>

namespace recgraph {

class MemoryPool {
 public:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kObjectAlignment = 16;
  // The first bytes of a process come from large pages, which spare a step most of its address translations.
  static constexpr size_t kRegion = size_t{256} << 20;

  // At least `bytes`, aligned; null when there is no memory. Thread-safe, as is Free.
  static void* Allocate(size_t bytes);
  // Takes back what Allocate returned, on any thread.
  static void Free(void* memory);

  // The same for objects whose size is known when they are freed: aligned to kObjectAlignment, no header.
  static void* AllocateObject(size_t bytes);
  static void FreeObject(void* memory, size_t bytes);

  // Gives large blocks that wait (large_blocks.h) back to the system.
  static void ReleaseLarge();

  // What waits in the shared lists, in bytes; at most kMaxWaiting, but for what the region has.
  static int64_t Waiting();
  static constexpr int64_t kMaxWaiting = int64_t{256} << 20;
  // What waits in lists of threads, in bytes; each keeps no more than kMaxKept, but for a list.
  static int64_t Kept();
  static constexpr int64_t kMaxKept = int64_t{8} << 20;
  // All that the pool has, in bytes: what was handed out, and what waits.
  static int64_t Held();
};

// Tells now and then whether the pool has grown much, for those who look at the memory of the process then. For one
// thread.
class PoolGrowth {
 public:
  static constexpr int64_t kMuch = int64_t{256} << 20;

  // Whether the pool has so much more than at the last time that this said so, or than the least since then.
  bool Look() {
    const int64_t held = MemoryPool::Held();
    if (held < known_) known_ = held;
    if (held - known_ < kMuch) return false;
    known_ = held;
    return true;
  }

 private:
  int64_t known_ = MemoryPool::Held();
};

// For classes whose objects come and go with every invocation; sized deletion, so that derived classes work, too.
#define RECGRAPH_POOLED_OBJECT                                                         \
  static void* operator new(size_t bytes) { return MemoryPool::AllocateObject(bytes); } \
  static void operator delete(void* memory, size_t bytes) { MemoryPool::FreeObject(memory, bytes); }

// The same for what containers of the standard library hold.
template <typename T>
struct PooledElements {
  using value_type = T;
  PooledElements() = default;
  template <typename Other>
  PooledElements(const PooledElements<Other>&) {}
  T* allocate(size_t count) { return static_cast<T*>(MemoryPool::AllocateObject(count * sizeof(T))); }
  void deallocate(T* memory, size_t count) { MemoryPool::FreeObject(memory, count * sizeof(T)); }
  template <typename Other>
  bool operator==(const PooledElements<Other>&) const { return true; }
  template <typename Other>
  bool operator!=(const PooledElements<Other>&) const { return false; }
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_MEMORY_POOL_H_
