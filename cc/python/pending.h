// Steps that Python is through with while their graphs still compute.
//
// A thread has a line of them, all with the same plan, whose graphs run one after another. What is seen of them goes
// through here: before something else is done with their variables, it waits for them.
#ifndef RECGRAPH_CC_PYTHON_PENDING_H_
#define RECGRAPH_CC_PYTHON_PENDING_H_

#include <cstddef>
#include <memory>

#include "cc/python/step.h"

namespace recgraph {

// Puts a step at the end of this thread's line.
void AddPending(std::unique_ptr<Step> step);

// The last of the line, or null.
const Step* LastPending();

// Waits until the line has at most `most` steps. One whose graph failed is done again, at once. If it fails then as
// well, its error is the result, and the steps behind it have not happened.
absl::Status SettlePending(size_t most);

// The same for all of them, before an operation outside of steps that may use one of their variables.
absl::Status SettleBefore(const tensorflow::EagerOperation& operation);

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_PENDING_H_
