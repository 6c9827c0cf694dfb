// What the device knows of functions that the program calls: `tf.function`s, and what gradients make of them.
#ifndef RECGRAPH_CC_PYTHON_FUNCTION_BODY_H_
#define RECGRAPH_CC_PYTHON_FUNCTION_BODY_H_

#include <string>
#include <vector>

#include "cc/python/shapes.h"
#include "cc/python/signature.h"
#include "tensorflow/core/framework/function.h"

namespace recgraph {

// Whether a graph may call a function where the program does: all that happens in it, and in functions that it calls,
// is pure, or reads and writes variables that are its arguments; and whether it writes.
bool MayBeInGraph(const std::string& function, const tensorflow::FunctionLibraryDefinition& library,
                  const KindTable& kinds, bool* may_write);

// Whether functions among an operation's attributes may write variables that they are given. What runs Python does not
// count: the operations of that are seen themselves.
bool MayWrite(const tensorflow::AttrValueMap& attributes, const tensorflow::FunctionLibraryDefinition& library,
              const KindTable& kinds);

// The dtypes of its results.
tensorflow::DataTypeVector ResultTypes(const tensorflow::FunctionDef& function);

// As InferShapes, for the results of a call.
absl::Status InferCall(const std::string& function, const KnownInputs& inputs,
                       std::vector<Dimensions>* outputs, bool* is_complete);

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_FUNCTION_BODY_H_
