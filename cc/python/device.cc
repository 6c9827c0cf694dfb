// The device that a step's operations are placed on.
#include "cc/python/device.h"

#include <memory>
#include <utility>

#include "cc/kernels/checked.h"
#include "cc/python/bystanders.h"
#include "cc/python/pending.h"
#include "cc/python/step.h"

namespace recgraph {
namespace {

using tensorflow::EagerOperation;

CoexecutionDevice* registered = nullptr;  // written once, before any step

}  // namespace

absl::Status CoexecutionDevice::Register(tensorflow::EagerContext* context, const std::string& name) {
  if (registered != nullptr) return absl::OkStatus();
  auto device = std::make_unique<CoexecutionDevice>(context, name);
  registered = device.get();
  return context->RegisterCustomDevice(name, std::move(device));
}

CoexecutionDevice* CoexecutionDevice::Registered() { return registered; }

absl::Status CoexecutionDevice::CopyTensorToDevice(Handle* tensor, Handle** result) {
  *result = Share(tensor).release();  // values from outside stay where they are
  return absl::OkStatus();
}

absl::Status CoexecutionDevice::CopyTensorFromDevice(Handle* tensor, const std::string& target, Handle** result) {
  return CatchingAll([&] { return Copy(tensor, target, result); });
}

absl::Status CoexecutionDevice::Copy(Handle* tensor, const std::string& target, Handle** result) {
  HandlePtr value;
  TF_RETURN_IF_ERROR(ValueOf(tensor)->Get(&value));
  absl::Status status;
  if (target.empty() || target == context_->HostCPUName()) {
    *result = value.release();
  } else {
    *result = context_->CopyTensorHandleToDevice(value.get(), target.c_str(), &status);
  }
  return status;
}

absl::Status CoexecutionDevice::Execute(const tensorflow::ImmediateExecutionOperation* operation, Handle** results,
                                        int* count) {
  const auto& eager = *static_cast<const EagerOperation*>(operation);
  return CatchingAll([&]() -> absl::Status {
    Step* step = Step::Current();
    if (step != nullptr) return step->Execute(eager, results, count);
    TF_RETURN_IF_ERROR(SettleBefore(eager));
    return RunEagerly(eager, results, count);
  });
}

absl::Status CoexecutionDevice::Pack(absl::Span<Handle*>, Handle**) {
  return absl::UnimplementedError("tensors of a co-executed step cannot be packed for several devices");
}

absl::StatusOr<bool> CoexecutionDevice::ShallPinToThisDevice(const tensorflow::ImmediateExecutionOperation*) {
  return true;
}

absl::Status RunEagerly(const EagerOperation& operation, Handle** results, int* count) {
  WaitForSteps(operation);
  std::vector<HandlePtr> values;
  std::vector<Handle*> inputs;
  for (Handle* input : operation.Inputs()) {
    if (Value* value = ValueOf(input)) {
      HandlePtr known;
      TF_RETURN_IF_ERROR(value->Get(&known));
      values.push_back(std::move(known));
      inputs.push_back(values.back().get());
    } else {
      inputs.push_back(input);
    }
  }
  return RunWith(operation.Name(), operation.Attrs(), inputs, results, count, operation.GetCancellationManager());
}

absl::Status RunWith(const std::string& name, const tensorflow::AttrBuilder& attributes,
                     const std::vector<Handle*>& inputs, Handle** results, int* count,
                     tensorflow::CancellationManager* cancellation) {
  const Unwatched ours;
  Step::Suspended outside;  // what the operation runs itself, a Python function perhaps, is not part of the step
  tensorflow::ImmediateOpPtr operation(registered->context()->CreateOperation());
  TF_RETURN_IF_ERROR(operation->Reset(name.c_str(), ""));
  operation->AddAttrs(&attributes);
  for (Handle* input : inputs) TF_RETURN_IF_ERROR(operation->AddInput(input));
  if (cancellation != nullptr) operation->SetCancellationManager(cancellation);
  std::vector<tensorflow::AbstractTensorHandle*> made(*count);
  TF_RETURN_IF_ERROR(operation->Execute(absl::MakeSpan(made), count));
  for (int i = 0; i < *count; ++i) results[i] = static_cast<Handle*>(made[i]);
  return absl::OkStatus();
}

}  // namespace recgraph
