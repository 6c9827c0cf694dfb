// Who executes the graph of a step: TensorFlow's executor, on threads that leave Python its core.
//
// The threads of TensorFlow's own pool spin when they have nothing to do, which a graph often has for a moment that
// waits for Python, and giving one of them work costs Python a call of the kernel.
#ifndef RECGRAPH_CC_PYTHON_EXECUTOR_H_
#define RECGRAPH_CC_PYTHON_EXECUTOR_H_

#include "cc/core/patient_pool.h"

namespace recgraph {

// The type of executor that a function asks for.
constexpr char kExecutorType[] = "RECGRAPH_COEXECUTION";

// The threads of all graphs.
PatientPool& GraphThreads();

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_EXECUTOR_H_
