// How much memory the process has and may have.
#ifndef RECGRAPH_CC_CORE_PROCESS_MEMORY_H_
#define RECGRAPH_CC_CORE_PROCESS_MEMORY_H_

#include <cstdint>

namespace recgraph {

// Bytes that the process has for itself now, without files that it shares with others; 0 where that is unknown.
int64_t OwnMemory();

// Bytes that it may have: $RECGRAPH_MEMORY_GB or four fifths of the machine's memory, or of what the process's
// control group is allowed, or of what others leave it.
int64_t MemoryLimit();

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_PROCESS_MEMORY_H_
