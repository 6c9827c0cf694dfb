// What nearly every file of `ops/` and `kernels/` includes, parsed once by setup.py. A file includes what it uses all
// the same: Bazel compiles without this one.
#ifndef RECGRAPH_CC_KERNELS_PRECOMPILED_H_
#define RECGRAPH_CC_KERNELS_PRECOMPILED_H_

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/util/work_sharder.h"

#endif  // RECGRAPH_CC_KERNELS_PRECOMPILED_H_
