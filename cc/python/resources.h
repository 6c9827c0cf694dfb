// Numbers for variables.
#ifndef RECGRAPH_CC_PYTHON_RESOURCES_H_
#define RECGRAPH_CC_PYTHON_RESOURCES_H_

#include "cc/python/value.h"

namespace recgraph {

constexpr int kUnknownResource = -1;

// What somebody does with a variable.
struct Use {
  int resource;
  bool is_write;  // or may be
};

using Uses = absl::InlinedVector<Use, 2>;

// The number of the variable behind a handle; the same as long as the variable exists, which is not kept alive by it.
// One that has none gets one if it may be new: variables that operations of traces use. What else has handles,
// iterators perhaps, has no number.
int ResourceNumber(Handle* handle, bool may_be_new);

// A handle of the variable with this number, or null if it is gone.
HandlePtr FindResource(int number);

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_RESOURCES_H_
