// Variables of accelerators on the host.
#include "cc/kernels/host.h"

#include <utility>

#include "cc/kernels/checked.h"
#include "cc/kernels/errors.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace recgraph {

using tensorflow::Device;
using tensorflow::ResourceHandle;
using tensorflow::Tensor;
using tensorflow::Var;

namespace {

tensorflow::DeviceContext* ContextOf(const Device& device) {
  const auto* info = device.tensorflow_accelerator_device_info();
  return info == nullptr ? nullptr : info->default_context;
}

absl::Status NoCopies(const Device& device) {
  return errors::Unimplemented("a SubGraph runs on the host and captures a variable on ", device.name(),
                               ", from which nothing can be copied; make the variable in tf.device(\"CPU:0\")");
}

}  // namespace

Device* HostDevice(const tensorflow::FunctionLibraryRuntime& runtime) {
  Device* const own = runtime.device_mgr()->HostCPU();
  const Device* const given = runtime.device();
  return given->device_type() == tensorflow::DEVICE_CPU || own == nullptr ? const_cast<Device*>(given) : own;
}

bool IsOnAccelerator(tensorflow::OpKernelContext* ctx, const ResourceHandle& handle) {
  Device* device = nullptr;
  const absl::Status found = ctx->function_library()->device_mgr()->LookupDevice(handle.device(), &device);
  return found.ok() && device->device_type() != tensorflow::DEVICE_CPU;
}

absl::Status FindVariable(tensorflow::OpKernelContext* ctx, const Tensor& handle, HeldVariable* found) {
  const ResourceHandle* resource = nullptr;
  TF_RETURN_IF_ERROR(ScalarOf(handle, &resource));
  const tensorflow::DeviceAttributes& own = ctx->device()->attributes();
  if (own.device_type() == tensorflow::DEVICE_CPU && own.name() == resource->device()) {
    return tensorflow::LookupResource(ctx, *resource, &found->variable);
  }
  Device* device = nullptr;
  TF_RETURN_IF_ERROR(ctx->function_library()->device_mgr()->LookupDevice(resource->device(), &device));
  if (resource->IsRefCounting()) {
    const auto known = resource->GetResource<Var>();
    TF_RETURN_IF_ERROR(known.status());
    found->variable = tsl::core::GetNewRef(known.value());
  } else {
    Var* known = nullptr;
    TF_RETURN_IF_ERROR(
        (device->resource_manager()->Lookup<Var, true>(resource->container(), resource->name(), &known)));
    found->variable.reset(known);
  }
  found->accelerator = device->device_type() == tensorflow::DEVICE_CPU ? nullptr : device;
  return absl::OkStatus();
}

absl::Status ValueOnHost(const HeldVariable& held, Tensor* value) {
  const Tensor& tensor = *held.variable->tensor();
  if (held.accelerator == nullptr) {
    *value = tensor;
    return absl::OkStatus();
  }
  tensorflow::DeviceContext* const context = ContextOf(*held.accelerator);
  if (context == nullptr) return NoCopies(*held.accelerator);
  Tensor copy(tensor.dtype(), tensor.shape());
  if (!copy.IsInitialized()) {
    return errors::ResourceExhausted("no memory for a tensor of shape ", tensor.shape().DebugString());
  }
  if (copy.TotalBytes() > 0) {
    TF_RETURN_IF_ERROR(context->CopyDeviceTensorToCPUSync(&tensor, "captured", held.accelerator, &copy));
  }
  *value = std::move(copy);
  return absl::OkStatus();
}

absl::Status HostMirror::Make(HeldVariable original, const std::string& host, const ResourceHandle& of,
                              HostMirror* mirror, Tensor* handle) {
  Var* const variable = original.variable.get();
  mirror->copy_.reset(new Var(variable->tensor()->dtype()));
  {
    tensorflow::tf_shared_lock lock(*variable->mu());
    mirror->copy_->is_initialized = variable->is_initialized;
    if (variable->is_initialized) TF_RETURN_IF_ERROR(ValueOnHost(original, &mirror->first_));
  }
  *mirror->copy_->tensor() = mirror->first_;
  *handle = Tensor(tensorflow::DT_RESOURCE, {});
  handle->scalar<ResourceHandle>()() =
      ResourceHandle::MakeRefCountingHandle(tsl::core::GetNewRef(mirror->copy_.get()).release(), host,
                                            of.dtypes_and_shapes());
  mirror->original_ = std::move(original);
  return absl::OkStatus();
}

absl::Status HostMirror::WriteBack() const {
  tensorflow::tf_shared_lock lock(*copy_->mu());
  const Tensor& value = *copy_->tensor();
  if (!copy_->is_initialized || value.SharesBufferWith(first_) || value.NumElements() == 0) return absl::OkStatus();
  Device* const device = original_.accelerator;
  tensorflow::DeviceContext* const context = ContextOf(*device);
  if (context == nullptr) return NoCopies(*device);
  Tensor assigned(device->GetAllocator({}), value.dtype(), value.shape());
  if (!assigned.IsInitialized()) {
    return errors::ResourceExhausted("no memory on ", device->name(), " for a tensor of shape ",
                                     value.shape().DebugString());
  }
  TF_RETURN_IF_ERROR(context->CopyCPUTensorToDeviceSync(&value, device, &assigned));
  tensorflow::mutex_lock assigning(*original_.variable->mu());
  *original_.variable->tensor() = std::move(assigned);
  original_.variable->is_initialized = true;
  return absl::OkStatus();
}

}  // namespace recgraph
