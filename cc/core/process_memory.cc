// What Linux says about memory.
#include "cc/core/process_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

namespace recgraph {
namespace {

constexpr double kShare = 0.8;

// The number in a file, after `name` if that is not empty; a very large one where there is none.
int64_t NumberIn(const char* file, const std::string& name = "") {
  std::ifstream stream(file);
  std::string word;
  while (!name.empty() && word != name && stream >> word) {
  }
  int64_t number = 0;
  return stream >> number ? number : std::numeric_limits<int64_t>::max();
}

}  // namespace

int64_t OwnMemory() {
  std::ifstream stream("/proc/self/statm");
  int64_t size = 0, resident = 0, shared = 0;
  if (!(stream >> size >> resident >> shared)) return 0;
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

int64_t MemoryLimit() {
  const char* const given = std::getenv("RECGRAPH_MEMORY_GB");
  const double wanted = given == nullptr ? 0 : std::strtod(given, nullptr);
  if (wanted > 0) return static_cast<int64_t>(wanted * 1e9);
  const int64_t machine = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  const int64_t group = std::min(NumberIn("/sys/fs/cgroup/memory.max"),
                                 NumberIn("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
  const int64_t available = NumberIn("/proc/meminfo", "MemAvailable:");  // in KiB
  const int64_t left = available < machine / 1024 ? OwnMemory() + available * 1024 : machine;
  return static_cast<int64_t>(kShare * static_cast<double>(std::min({machine, group, left})));
}

}  // namespace recgraph
