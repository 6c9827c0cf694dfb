// Numbers for variables.
#ifndef RECGRAPH_CC_PYTHON_RESOURCES_H_
#define RECGRAPH_CC_PYTHON_RESOURCES_H_

#include "cc/python/value.h"

namespace recgraph {

constexpr int kUnknownResource = -1;

// The number of a resource, by its handle; the same for ever. One that has none gets one if it may be new: variables
// that operations of traces use. Others, iterators perhaps, are not kept alive.
int ResourceNumber(Handle* handle, bool may_be_new);

// By number, or null.
Handle* FindResource(int number);

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_RESOURCES_H_
