// Where in the program an operation is: the stack of call sites from the step down to it.
#ifndef RECGRAPH_CC_PYTHON_LOCATION_H_
#define RECGRAPH_CC_PYTHON_LOCATION_H_

#include <Python.h>

namespace recgraph {

// The number of the stack of this thread, each frame with its instruction; the same stack has the same number until it
// is forgotten. The frame of `base`, which begins the step, is left out, and so is what called it. Takes the interpreter's lock.
int Locate(PyCodeObject* base);

// The frames of a location, innermost first, as (file, line, function). Needs the lock; null with an error if there is
// no such location.
PyObject* DescribeLocation(int location);

// The same as (code, offset of the instruction).
PyObject* CallSites(int location);

// Forgets the locations in code that nobody else has any more, and gives their numbers. What is asked of them later is
// that they are nowhere. With the interpreter's lock.
PyObject* ForgetLocations();

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_LOCATION_H_
