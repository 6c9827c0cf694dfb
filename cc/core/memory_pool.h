// Memory for the buffers of a step. A step takes thousands of buffers of the same few sizes and gives all of
// them back at its end, which general allocators answer with splitting and merging. Here a freed block waits for
// the next request of its size: first in a list of its thread, then, in whole lists, in one that all share.
#ifndef RECGRAPH_CC_CORE_MEMORY_POOL_H_
#define RECGRAPH_CC_CORE_MEMORY_POOL_H_

#include <cstddef>
#include <cstdint>

namespace recgraph {

class MemoryPool {
 public:
  static constexpr size_t kAlignment = 64;

  // At least `bytes`, aligned; null when there is no memory. Thread-safe, as is Free.
  static void* Allocate(size_t bytes);
  // Takes back what Allocate returned, on any thread.
  static void Free(void* memory);

  // What waits in the shared lists, in bytes; at most kMaxWaiting.
  static int64_t Waiting();
  static constexpr int64_t kMaxWaiting = int64_t{256} << 20;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_MEMORY_POOL_H_
