// What kind of operation an eager operation is: its type and attributes, each combination with a number.
#ifndef RECGRAPH_CC_PYTHON_SIGNATURE_H_
#define RECGRAPH_CC_PYTHON_SIGNATURE_H_

#include <string>
#include <unordered_map>

#include "tensorflow/core/common_runtime/eager/attr_builder.h"
#include "tensorflow/core/common_runtime/eager/eager_operation.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op.h"

namespace recgraph {

// What is done with an operation in a step; `recgraph/coexec/operations.py` has the same numbers.
enum class Kind {
  kPure = 0,      // part of the graph: its outputs depend on its inputs alone
  kWrite = 1,     // part of the graph: reads and writes the variables among its inputs
  kHost = 2,      // runs at once, in Python's thread
  kOpaque = 3,    // the same, and may do anything to any variable: runs Python
  kHarmless = 4,  // runs at once, and may look at a variable that the graph changes
  kShape = 5,     // depends on shapes alone
  kConstant = 6,  // a value from Python
  kInBody = 7,    // runs at once, and may be in a function that is part of the graph
  kCall = 8,      // part of the graph: calls a function, which may read and write variables
  kRead = 9,      // part of the graph: reads the variables among its inputs
};

using KindTable = std::unordered_map<std::string, Kind>;

struct Signature {
  int number;
  std::string name;
  Kind kind;
  bool may_write;  // variables among its inputs
  const tensorflow::OpRegistrationData* registration;  // null for a function
  tensorflow::AttrBuilder attributes;
  tensorflow::NodeDef definition;  // all attributes, defaults too
  tensorflow::DataTypeVector outputs;
};

// Overrides what the registration says: by it, what is neither stateful nor has resources or functions is kPure, and
// everything else kHost. To be called once, before the first operation.
void SetKinds(KindTable kinds);
const KindTable& Kinds();

// The signature of an operation. Any thread; the result lives for ever.
const Signature& SignatureOf(const tensorflow::EagerOperation& operation);

// By number, or null.
const Signature* FindSignature(int number);

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_SIGNATURE_H_
