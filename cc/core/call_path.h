// The readable form of a call path: the labels of the call sites from the root to an invocation.
#ifndef RECGRAPH_CC_CORE_CALL_PATH_H_
#define RECGRAPH_CC_CORE_CALL_PATH_H_

#include <cstdint>
#include <string>
#include <vector>

namespace recgraph {

// "trees[3]", the label of a row of a mapped call; the label alone where `row` is -1.
std::string WithRow(const std::string& label, int64_t row);

// "tree_lstm > right > left". A long path keeps its first and last labels and says how many it leaves out.
std::string JoinLabels(const std::vector<std::string>& labels);

// "tree_lstm > right > left, 3 levels". `labels` run from the root to the invocation.
std::string FormatCallPath(const std::vector<std::string>& labels);

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_CALL_PATH_H_
