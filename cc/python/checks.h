// Operations whose errors depend on values, where Python's thread knows the values that decide.
#ifndef RECGRAPH_CC_PYTHON_CHECKS_H_
#define RECGRAPH_CC_PYTHON_CHECKS_H_

#include <functional>
#include <vector>

#include "cc/python/shapes.h"
#include "cc/python/signature.h"

namespace recgraph {

// Gives the value of an input, or null if it is not known.
using ValueOfInput = std::function<HandlePtr(int)>;

// Whether an operation whose shapes fit cannot fail: it has a rule, and the values that the rule needs are known and
// good. Indices of lookups and places of sparse matrices are in
// range, divisors are not zero.
bool CannotFail(const Signature& signature, const KnownInputs& inputs, const ValueOfInput& value);

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_CHECKS_H_
