// Declares what TensorFlow's fingerprint.h names of a library whose header the wheel leaves out. None of it is called
// by us: it is there so that the headers of the eager runtime compile.
#ifndef RECGRAPH_CC_PYTHON_SHIM_FARMHASH_H_
#define RECGRAPH_CC_PYTHON_SHIM_FARMHASH_H_

#include <cstddef>
#include <cstdint>
#include <utility>

namespace util {

using uint128_t = std::pair<uint64_t, uint64_t>;

inline uint64_t Uint128Low64(const uint128_t& value) { return value.first; }
inline uint64_t Uint128High64(const uint128_t& value) { return value.second; }
uint64_t Fingerprint64(const char* data, size_t size);
uint32_t Fingerprint32(const char* data, size_t size);
uint128_t Fingerprint128(const char* data, size_t size);

}  // namespace util

namespace farmhash = util;  // the other name that it goes by

#endif  // RECGRAPH_CC_PYTHON_SHIM_FARMHASH_H_
