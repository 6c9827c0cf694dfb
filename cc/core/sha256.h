// SHA-256 (FIPS 180-4): what names a program by its content.
#ifndef RECGRAPH_CC_CORE_SHA256_H_
#define RECGRAPH_CC_CORE_SHA256_H_

#include <string>
#include <string_view>

namespace recgraph {

// The hash of `bytes` as 64 hexadecimal digits, as Python's hashlib gives it.
std::string Sha256(std::string_view bytes);

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_SHA256_H_
