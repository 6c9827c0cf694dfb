// What nearly every file of `python/` includes, parsed once by setup.py. A file includes what it uses all the same:
// Bazel compiles without this one.
#ifndef RECGRAPH_CC_PYTHON_PRECOMPILED_H_
#define RECGRAPH_CC_PYTHON_PRECOMPILED_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensorflow/core/common_runtime/eager/custom_device.h"
#include "tensorflow/core/common_runtime/eager/eager_operation.h"
#include "tensorflow/core/common_runtime/eager/tensor_handle.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op_kernel.h"

#endif  // RECGRAPH_CC_PYTHON_PRECOMPILED_H_
