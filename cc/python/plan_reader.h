// Reads a plan from the tuples in which recgraph/coexec/plan.py writes it.
#ifndef RECGRAPH_CC_PYTHON_PLAN_READER_H_
#define RECGRAPH_CC_PYTHON_PLAN_READER_H_

#include <Python.h>

#include <memory>

#include "cc/python/plan.h"

namespace recgraph {

// Null, with a Python exception, if the description is not one. Needs the interpreter's lock.
std::shared_ptr<Plan> ReadPlan(PyObject* described);

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_PLAN_READER_H_
