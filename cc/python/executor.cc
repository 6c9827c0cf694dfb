// Who executes the graph of a step.
#include "cc/python/executor.h"

#include <memory>
#include <utility>

#include "tensorflow/core/common_runtime/executor.h"
#include "tensorflow/core/common_runtime/executor_factory.h"
#include "tensorflow/core/platform/cpu_info.h"
#include "tsl/platform/tracing.h"

namespace recgraph {
namespace {

using tensorflow::Executor;
using tensorflow::LocalExecutorParams;

void RunOnGraphThreads(Executor::Args::Closure closure) {
  GraphThreads().Schedule([closure = std::move(closure)] {
    const tsl::tracing::ScopedRegion timed(tsl::tracing::EventCategory::kRunClosure);
    closure();
  });
}

class CoexecutionExecutor : public Executor {
 public:
  explicit CoexecutionExecutor(std::unique_ptr<Executor> executor) : executor_(std::move(executor)) {}

 private:
  void RunAsyncInternal(const Args& args, DoneCallback done) override {
    Args changed = args;
    changed.runner = RunOnGraphThreads;
    executor_->RunAsync(changed, std::move(done));
  }

  const std::unique_ptr<Executor> executor_;
};

class CoexecutionExecutorFactory : public tensorflow::ExecutorFactory {
 public:
  absl::Status NewExecutor(const LocalExecutorParams& params, const tensorflow::Graph& graph,
                           std::unique_ptr<Executor>* executor) override {
    Executor* made = nullptr;
    TF_RETURN_IF_ERROR(tensorflow::NewLocalExecutor(params, graph, &made));
    *executor = std::make_unique<CoexecutionExecutor>(std::unique_ptr<Executor>(made));
    return absl::OkStatus();
  }
};

const bool registered = [] {
  tensorflow::ExecutorFactory::Register(kExecutorType, new CoexecutionExecutorFactory);
  return true;
}();

}  // namespace

PatientPool& GraphThreads() {
  static auto* threads = new PatientPool(tensorflow::port::MaxParallelism());
  return *threads;
}

}  // namespace recgraph
