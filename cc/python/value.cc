// What a tensor of a step stands for.
#include "cc/python/value.h"

#include <chrono>
#include <utility>

#include "cc/python/device.h"
#include "cc/python/interpreter_lock.h"
#include "cc/python/pending.h"
#include "cc/python/signals.h"
#include "cc/python/step.h"
#include "tensorflow/core/common_runtime/eager/tensor_handle.h"

namespace recgraph {
namespace {

// How often who waits for another thread's step looks whether that has left its graph.
constexpr std::chrono::milliseconds kBetweenLooks(20);

}  // namespace

HandlePtr Share(Handle* handle) {
  handle->Ref();
  return HandlePtr(handle);
}

HandlePtr Value::Peek() {
  std::lock_guard lock(mutex_);
  return value_ == nullptr ? HandlePtr() : Share(value_.get());
}

absl::Status Value::Get(HandlePtr* result) {
  was_read_ = true;
  while (true) {
    {
      std::lock_guard lock(mutex_);
      if (!error_.ok()) return error_;
      if (value_ != nullptr) {
        *result = Share(value_.get());
        return absl::OkStatus();
      }
    }
    const InterpreterUnlocked waiting;
    Step* current = Step::Current();
    if (current != nullptr && current->number() == step) {
      TF_RETURN_IF_ERROR(current->Materialise(this));
    } else if (HandleSignals()) {
      return absl::CancelledError("a signal has come");
    } else if (std::shared_ptr<Run> run = this->run()) {
      if (slot() < 0) run->is_unwanted = true;
      const Meeting meeting = Receive(kBetweenLooks);
      if (meeting == Meeting::kTimeout) Step::Attend(*run, this);
      if (meeting != Meeting::kClosed) continue;
      TF_RETURN_IF_ERROR(ThisLine()->Settle(0));  // if it is a step of this thread, its graph has failed
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else {
      std::this_thread::sleep_for(kBetweenLooks);
    }
  }
}

void Value::Set(Handle* value) {
  std::lock_guard lock(mutex_);
  value_ = Share(value);
  run_ = nullptr;
}

void Value::Fail(const absl::Status& error) {
  std::lock_guard lock(mutex_);
  if (value_ == nullptr && error_.ok()) error_ = error;
  run_ = nullptr;
}

void Value::Expect(std::shared_ptr<Run> run, int slot, int position) {
  std::lock_guard lock(mutex_);
  run_ = std::move(run);
  slot_ = slot;
  position_ = position;
}

std::shared_ptr<Run> Value::run() {
  std::lock_guard lock(mutex_);
  return run_;
}

int Value::slot() {
  std::lock_guard lock(mutex_);
  return slot_;
}

Meeting Value::Receive(std::chrono::milliseconds patience) {
  if (Peek() != nullptr) return Meeting::kValue;
  std::shared_ptr<Run> run = this->run();
  const int slot = this->slot();
  if (run == nullptr || slot < 0) {
    std::this_thread::sleep_for(patience);
    return Meeting::kTimeout;
  }
  run->Hurry();
  tensorflow::Tensor tensor;
  const Meeting meeting = run->channels().Wait(slot, position_, patience, &tensor);
  if (meeting == Meeting::kValue) {
    HandlePtr handle(tensorflow::TensorHandle::CreateLocalHandle(tensor));
    Set(handle.get());
  }
  return meeting;
}

void Value::RemoveHandle() {
  if (--handles_ > 0) return;
  std::lock_guard lock(mutex_);
  value_ = nullptr;  // the step may still know the value by its number; it does not need the data
}

ValueHandle::ValueHandle(tensorflow::ImmediateExecutionContext* context, tensorflow::CustomDevice* device,
                         Value* value)
    : CustomDeviceTensorHandle(context, device, value->dtype), value_(value) {
  value_->Ref();
  value_->AddHandle();
}

ValueHandle::~ValueHandle() {
  value_->RemoveHandle();
  value_->Unref();
}

absl::Status ValueHandle::NumDims(int* count) const {
  *count = static_cast<int>(value_->shape.size());
  return absl::OkStatus();
}

absl::Status ValueHandle::Dim(int index, int64_t* size) const {
  *size = value_->shape[index];
  return absl::OkStatus();
}

Value* ValueOf(Handle* handle) {
  if (!tensorflow::CustomDeviceTensorHandle::classof(handle)) return nullptr;
  auto* custom = static_cast<tensorflow::CustomDeviceTensorHandle*>(handle);
  if (custom->device() != CoexecutionDevice::Registered()) return nullptr;
  return static_cast<ValueHandle*>(custom)->value();
}

absl::Status TensorOf(Handle* handle, const tensorflow::Tensor** tensor) {
  return tensorflow::TensorHandleFromInterface(handle)->Tensor(tensor);
}

}  // namespace recgraph
