// The executor of the graphs of steps, which may leave the other cores to Python.
//
// TensorFlow's own hands what is ready to the threads of a pool, and a kernel shares its work among those of another.
// Beside Python that costs more than it gives where cores are few: Python's thread is pushed aside, and waking a thread
// takes as long as many an operation. So a graph can also be run by one thread, the one that started it.
#ifndef RECGRAPH_CC_PYTHON_EXECUTOR_H_
#define RECGRAPH_CC_PYTHON_EXECUTOR_H_

namespace recgraph {

// The type of executor for the functions of steps, whose first argument is the number of their run.
const char* StepExecutorType();

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_EXECUTOR_H_
