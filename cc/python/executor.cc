// The executor of the graphs of steps, which may leave the other cores to Python.
#include "cc/python/executor.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "cc/python/run.h"
#include "tensorflow/core/common_runtime/executor.h"
#include "tensorflow/core/common_runtime/executor_factory.h"
#include "tensorflow/core/common_runtime/local_executor_params.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/platform/threadpool.h"
#include "tensorflow/core/platform/threadpool_interface.h"

namespace recgraph {
namespace {

using tensorflow::Executor;
using Closure = Executor::Args::Closure;

// So deep work may be within other work before it goes to another thread after all: a thread has only so much stack.
constexpr int kDeepest = 16;

// What is ready, for one thread.
class Bench {
 public:
  explicit Bench(Executor::Args::Runner elsewhere) : elsewhere_(std::move(elsewhere)) {}

  // Any thread may call it. What comes after the end is done elsewhere.
  void Add(Closure closure) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!has_ended_) {
        waiting_.push_back(std::move(closure));
        if (is_idle_) changed_.notify_one();
        return;
      }
    }
    elsewhere_(std::move(closure));
  }

  // Nothing more will be added that matters.
  void End(const absl::Status& status) {
    std::lock_guard<std::mutex> lock(mutex_);
    status_ = status;
    has_ended_ = true;
    changed_.notify_one();
  }

  // Does everything for a run, until the end.
  absl::Status Work(Run* run) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      is_idle_ = true;
      changed_.wait(lock, [this] { return has_ended_ || !waiting_.empty(); });
      is_idle_ = false;
      if (waiting_.empty()) return status_;
      Closure closure = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      run->Do(closure);
      closure = nullptr;
      lock.lock();
    }
  }

 private:
  const Executor::Args::Runner elsewhere_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Closure> waiting_;
  bool is_idle_ = false;
  bool has_ended_ = false;
  absl::Status status_;
};

// Says that it has as many threads as another pool, and does all work where it is scheduled: kernels divide their work
// as they always do, so that results are the same to the last bit.
class InPlace final : public tensorflow::thread::ThreadPoolInterface {
 public:
  explicit InPlace(tensorflow::thread::ThreadPool* pool) : pool_(pool) {}

  void Schedule(std::function<void()> work) override {
    thread_local int depth = 0;
    if (depth == kDeepest) return pool_->Schedule(std::move(work));
    ++depth;
    work();
    --depth;
  }

  int NumThreads() const override { return pool_->NumThreads(); }
  int CurrentThreadId() const override { return -1; }

 private:
  tensorflow::thread::ThreadPool* const pool_;
};

// The run that a call of a step's function is.
std::shared_ptr<Run> RunOf(const Executor::Args& args) {
  const tensorflow::Tensor* number = nullptr;
  if (args.call_frame == nullptr || !args.call_frame->GetArg(0, &number).ok() || number == nullptr) return nullptr;
  if (number->dtype() != tensorflow::DT_INT64 || number->dims() != 0) return nullptr;
  return Run::Find(number->scalar<int64_t>()());
}

class StepExecutor final : public Executor {
 public:
  StepExecutor(std::unique_ptr<Executor> usual, tensorflow::thread::ThreadPool* pool)
      : usual_(std::move(usual)), in_place_(pool) {}

 private:
  void RunAsyncInternal(const Args& args, DoneCallback done) override {
    const auto run = RunOf(args);
    if (run == nullptr || !run->IsForThisThread()) return usual_->RunAsync(args, std::move(done));
    auto bench = std::make_shared<Bench>(args.runner);
    Args own = args;
    own.runner = [bench](Closure closure) { bench->Add(std::move(closure)); };
    own.user_intra_op_threadpool = &in_place_;
    usual_->RunAsync(own, [bench](const absl::Status& status) { bench->End(status); });
    done(bench->Work(run.get()));
  }

  const std::unique_ptr<Executor> usual_;
  InPlace in_place_;
};

class StepExecutorFactory final : public tensorflow::ExecutorFactory {
 public:
  absl::Status NewExecutor(const tensorflow::LocalExecutorParams& params, const tensorflow::Graph& graph,
                           std::unique_ptr<Executor>* executor) override {
    Executor* usual = nullptr;
    TF_RETURN_IF_ERROR(tensorflow::NewLocalExecutor(params, graph, &usual));
    auto* workers = params.device->tensorflow_cpu_worker_threads();
    if (workers == nullptr) {
      executor->reset(usual);
    } else {
      *executor = std::make_unique<StepExecutor>(std::unique_ptr<Executor>(usual), workers->workers);
    }
    return absl::OkStatus();
  }
};

}  // namespace

const char* StepExecutorType() {
  static const char* const type = [] {
    static constexpr char kType[] = "RECGRAPH_STEP";
    tensorflow::ExecutorFactory::Register(kType, new StepExecutorFactory);
    return kType;
  }();
  return type;
}

}  // namespace recgraph
