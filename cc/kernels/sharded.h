// Work on many rows that TensorFlow's threads do at once.
#ifndef RECGRAPH_CC_KERNELS_SHARDED_H_
#define RECGRAPH_CC_KERNELS_SHARDED_H_

#include <cstdint>

#include "cc/core/stretch.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/util/work_sharder.h"

namespace recgraph {

// Does `work(begin, end)` for all of 0..`count`, in as many parts as pay where one of them takes so many cycles.
template <typename Work>
void Shard(tensorflow::OpKernelContext* ctx, int64_t count, int64_t cycles_each, const Work& work) {
  const auto& threads = *ctx->device()->tensorflow_cpu_worker_threads();
  Stretch::HandOver();
  tensorflow::Shard(threads.num_threads, threads.workers, count, cycles_each, [&work](int64_t begin, int64_t end) {
    const Stretch stretch;
    work(begin, end);
  });
  const Stretch stretch;
}

}  // namespace recgraph

#endif  // RECGRAPH_CC_KERNELS_SHARDED_H_
