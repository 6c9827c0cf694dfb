// Statuses from pieces of text and numbers.
#ifndef RECGRAPH_CC_KERNELS_ERRORS_H_
#define RECGRAPH_CC_KERNELS_ERRORS_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace recgraph {
namespace errors {

#define RECGRAPH_DEFINE_ERROR(Name)                      \
  template <typename... Pieces>                          \
  absl::Status Name(const Pieces&... pieces) {           \
    return absl::Name##Error(absl::StrCat(pieces...));   \
  }

RECGRAPH_DEFINE_ERROR(Cancelled)
RECGRAPH_DEFINE_ERROR(DataLoss)
RECGRAPH_DEFINE_ERROR(FailedPrecondition)
RECGRAPH_DEFINE_ERROR(Internal)
RECGRAPH_DEFINE_ERROR(InvalidArgument)
RECGRAPH_DEFINE_ERROR(NotFound)
RECGRAPH_DEFINE_ERROR(ResourceExhausted)
RECGRAPH_DEFINE_ERROR(Unimplemented)

#undef RECGRAPH_DEFINE_ERROR

}  // namespace errors
}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_ERRORS_H_
