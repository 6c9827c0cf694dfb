// How the inputs of a node are written in a GraphDef.
#ifndef RECGRAPH_CC_KERNELS_NODE_INPUTS_H_
#define RECGRAPH_CC_KERNELS_NODE_INPUTS_H_

#include <string>

namespace recgraph {

// Whether an input says only that a node comes first: `^name`.
inline bool IsControl(const std::string& input) { return input[0] == '^'; }

// The node whose output an input is, which is `name` or `name:1`.
inline std::string ProducerOf(const std::string& input) { return input.substr(0, input.find(':')); }

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_NODE_INPUTS_H_
