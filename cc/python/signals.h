// Signals that come while Python's thread waits for the graph: Ctrl-C above all.
#ifndef RECGRAPH_CC_PYTHON_SIGNALS_H_
#define RECGRAPH_CC_PYTHON_SIGNALS_H_

namespace recgraph {

// Runs Python's handlers of the signals that have come. Returns whether one raised an exception: it is raised again as
// soon as the caller has come back to the interpreter. Without effect in all but the main thread. The interpreter's
// lock may be held or not.
bool HandleSignals();

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_SIGNALS_H_
