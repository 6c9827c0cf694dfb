// A device whose kernels run on the calling thread.
#include "cc/kernels/serial_device.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cc/kernels/errors.h"
#include "cc/kernels/pool_allocator.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/common_runtime/renamed_device.h"
#include "tensorflow/core/platform/threadpool_interface.h"

namespace recgraph {

using tensorflow::Device;
using tensorflow::DeviceAttributes;

namespace {

// A pool of no threads: what is scheduled runs at once.
class CallingThread : public tensorflow::thread::ThreadPoolInterface {
 public:
  void Schedule(std::function<void()> task) override { task(); }
  int NumThreads() const override { return 1; }
  int CurrentThreadId() const override { return -1; }
};

CallingThread* TheCallingThread() {
  static CallingThread* const pool = new CallingThread;
  return pool;
}

// Another device with memory from the pool. Variables and tables are the other device's.
class PooledDevice : public Device {
 public:
  explicit PooledDevice(std::unique_ptr<Device> device)
      : Device(device->env(), device->attributes()), device_(std::move(device)) {}

  tensorflow::Allocator* GetAllocator(tensorflow::AllocatorAttributes) override {
    return ThePoolAllocator();
  }

  const CpuWorkerThreads* tensorflow_cpu_worker_threads() const override {
    return device_->tensorflow_cpu_worker_threads();
  }
  tensorflow::thread::ThreadPool* tensorflow_device_thread_pool() override {
    return device_->tensorflow_device_thread_pool();
  }
  const Eigen::ThreadPoolDevice* eigen_cpu_device() override { return device_->eigen_cpu_device(); }
  bool has_eigen_cpu_device() const override { return device_->has_eigen_cpu_device(); }
  absl::Status Sync() override { return device_->Sync(); }
  absl::Status MaybeRewriteGraph(std::unique_ptr<tensorflow::Graph>* graph) override {
    return device_->MaybeRewriteGraph(graph);
  }
  absl::Status TryGetDeviceContext(tensorflow::DeviceContext** context) override {
    return device_->TryGetDeviceContext(context);
  }
  absl::Status MakeTensorFromProto(const tensorflow::TensorProto& proto,
                                   const tensorflow::AllocatorAttributes attributes,
                                   tensorflow::Tensor* tensor) override {
    return device_->MakeTensorFromProto(proto, attributes, tensor);
  }
  void CopyTensorInSameDevice(const tensorflow::Tensor* from, tensorflow::Tensor* to,
                              const tensorflow::DeviceContext* context,
                              tensorflow::StatusCallback done) override {
    device_->CopyTensorInSameDevice(from, to, context, std::move(done));
  }
  tensorflow::ResourceMgr* resource_manager() override { return device_->resource_manager(); }
  const tensorflow::DeviceBase* UnderlyingDevice() const override { return device_->UnderlyingDevice(); }
  tensorflow::DeviceBase* UnderlyingDevice() override { return device_->UnderlyingDevice(); }

 private:
  const std::unique_ptr<Device> device_;
};

class OneDevice : public tensorflow::DeviceMgr {
 public:
  explicit OneDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  void ListDeviceAttributes(std::vector<DeviceAttributes>* devices) const override {
    devices->push_back(device_->attributes());
  }
  std::vector<Device*> ListDevices() const override { return {device_.get()}; }
  std::string DebugString() const override { return device_->name(); }
  std::string DeviceMappingString() const override { return ""; }
  absl::Status LookupDevice(absl::string_view name, Device** device) const override {
    const std::string own = device_->name();
    const bool matches = name == own || (name.size() < own.size() &&
                                         own.substr(own.size() - name.size()) == name);
    if (!matches) return errors::InvalidArgument("a SubGraph runs on ", own, ", not on ", name);
    *device = device_.get();
    return absl::OkStatus();
  }
  bool ContainsDevice(int64_t incarnation) const override {
    return static_cast<int64_t>(device_->attributes().incarnation()) == incarnation;
  }
  // The resources are the underlying device's, and cleared with it.
  void ClearContainers(absl::Span<const std::string>) const override {}
  int NumDeviceType(const std::string& type) const override {
    return device_->device_type() == type ? 1 : 0;
  }
  int NumDevices() const override { return 1; }
  Device* HostCPU() const override { return device_.get(); }

 private:
  const std::unique_ptr<Device> device_;
};

std::unique_ptr<tensorflow::DeviceMgr> PooledLike(Device* underlying,
                                                  tensorflow::thread::ThreadPoolInterface* threads) {
  return std::make_unique<OneDevice>(std::make_unique<PooledDevice>(tensorflow::RenamedDevice::NewRenamedDevice(
      underlying->name(), underlying, /*owns_underlying=*/false, /*isolate_session_state=*/false, threads)));
}

}  // namespace

std::unique_ptr<tensorflow::DeviceMgr> MakeOneDevice(Device* underlying) {
  return PooledLike(underlying, nullptr);
}

std::unique_ptr<tensorflow::DeviceMgr> MakeSerialDevice(Device* underlying) {
  return PooledLike(underlying, TheCallingThread());
}

}  // namespace recgraph
