// A device "GPU:0" for machines without one: placement, copies and memory as with a GPU, kernels of the CPU.
//
// TensorFlow's wheel registers the kernels of GPUs, with their dtypes and arguments in host memory, whether there is a
// GPU or not. So its placer and partitioner do what they would do. Each registration here makes the CPU's kernel
// instead. The memory of the device can be touched only while a kernel or a copy of the device runs: what else reads it
// ends the process, and the stack is printed. What it cannot show: the order of streams, numerics, speed, and who reads
// while another thread runs a kernel.

#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensorflow/core/common_runtime/copy_tensor.h"
#include "tensorflow/core/common_runtime/device_factory.h"
#include "tensorflow/core/common_runtime/local_device.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/public/session_options.h"

namespace tensorflow {

void* GlobalKernelRegistry();

// Of op_kernel.cc, which does not declare them in a header.
struct KernelRegistration {
  const KernelDef def;
  const std::string kernel_class_name;
  std::unique_ptr<kernel_factory::OpKernelFactory> factory;
};

struct KernelRegistry {
  mutex mu;
  std::unordered_multimap<std::string, KernelRegistration> registry;
};

}  // namespace tensorflow

namespace {

using tensorflow::KernelDef;
using tensorflow::KernelRegistration;
using tensorflow::KernelRegistry;
using tensorflow::Tensor;
using tensorflow::kernel_factory::OpKernelFactory;

// Above the factory of TensorFlow's own GPUs, whose priority is 210.
constexpr int kPriority = 250;
constexpr size_t kBytes = size_t{4} << 30;

// The memory of the device: one range of addresses, closed unless a kernel or a copy of the device runs.
class Memory {
 public:
  static Memory& Get() {
    static auto* memory = new Memory;
    return *memory;
  }

  void* Allocate(size_t bytes) {
    const size_t size = std::bit_ceil(std::max(bytes, size_t{256}));
    std::lock_guard lock(mutex_);
    std::vector<char*>& free = free_[size];
    char* block = nullptr;
    if (!free.empty()) {
      block = free.back();
      free.pop_back();
    } else if (size <= kBytes - used_) {
      block = base_ + used_;
      used_ += size;
    }
    if (block != nullptr) sizes_[block] = size;
    return block;
  }

  void Deallocate(void* pointer) {
    std::lock_guard lock(mutex_);
    const auto found = sizes_.find(static_cast<char*>(pointer));
    free_[found->second].push_back(found->first);
    sizes_.erase(found);
  }

  bool Contains(const void* pointer) const { return base_ <= pointer && pointer < base_ + kBytes; }

  void Open() {
    std::lock_guard lock(mutex_);
    if (users_++ == 0) mprotect(base_, kBytes, PROT_READ | PROT_WRITE);
  }

  void Close() {
    std::lock_guard lock(mutex_);
    if (--users_ == 0) mprotect(base_, kBytes, PROT_NONE);
  }

 private:
  Memory()
      : base_(static_cast<char*>(
            mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}

  std::mutex mutex_;
  char* const base_;
  size_t used_ = 0;
  int users_ = 0;
  std::unordered_map<char*, size_t> sizes_;
  std::map<size_t, std::vector<char*>> free_;
};

// Keeps the memory of the device open.
class Opened {
 public:
  Opened() { Memory::Get().Open(); }
  ~Opened() { Memory::Get().Close(); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
};

void Copy(const Tensor& from, Tensor* to) {
  Opened opened;
  if (from.TotalBytes() > 0) memcpy(to->data(), from.data(), from.TotalBytes());
}

class FakeAllocator : public tensorflow::Allocator {
 public:
  std::string Name() override { return "fake_gpu"; }
  void* AllocateRaw(size_t, size_t bytes) override { return Memory::Get().Allocate(bytes); }
  void DeallocateRaw(void* pointer) override { Memory::Get().Deallocate(pointer); }
  tensorflow::AllocatorMemoryType GetMemoryType() const override { return tensorflow::AllocatorMemoryType::kDevice; }
};

void CopyWithin(tensorflow::DeviceContext*, tensorflow::DeviceContext*, tensorflow::Device*, tensorflow::Device*,
                tensorflow::AllocatorAttributes, tensorflow::AllocatorAttributes, const Tensor* from, Tensor* to, int,
                tensorflow::StatusCallback done) {
  Copy(*from, to);
  done(absl::OkStatus());
}

class FakeContext : public tensorflow::DeviceContext {
 public:
  void CopyCPUTensorToDevice(const Tensor* from, tensorflow::Device*, Tensor* to, tensorflow::StatusCallback done,
                             bool) const override {
    Copy(*from, to);
    done(absl::OkStatus());
  }
  void CopyDeviceTensorToCPU(const Tensor* from, absl::string_view, tensorflow::Device*, Tensor* to,
                             tensorflow::StatusCallback done) override {
    Copy(*from, to);
    done(absl::OkStatus());
  }
  void CopyTensorInSameDevice(const Tensor* from, tensorflow::Device*, Tensor* to,
                              tensorflow::StatusCallback done) const override {
    Copy(*from, to);
    done(absl::OkStatus());
  }
};

class FakeGpu : public tensorflow::LocalDevice {
 public:
  FakeGpu(const tensorflow::SessionOptions& options, const std::string& name)
      : LocalDevice(options,
                    Device::BuildDeviceAttributes(name, tensorflow::DEVICE_GPU, tensorflow::Bytes(kBytes),
                                                  tensorflow::DeviceLocality(), "a fake")),
        context_(new FakeContext) {
    info_.default_context = context_;
    info_.gpu_id = 0;
    set_tensorflow_accelerator_device_info(&info_);
  }
  ~FakeGpu() override { context_->Unref(); }

  tensorflow::Allocator* GetAllocator(tensorflow::AllocatorAttributes attributes) override {
    return attributes.on_host() ? tensorflow::cpu_allocator() : &allocator_;
  }

  // Asynchronous kernels call functions, and copy through the context: what they run opens the memory itself.
  void Compute(tensorflow::OpKernel* kernel, tensorflow::OpKernelContext* context) override {
    Opened opened;
    kernel->Compute(context);
  }

  absl::Status Sync() override { return absl::OkStatus(); }

  absl::Status TryGetDeviceContext(tensorflow::DeviceContext** context) override {
    context_->Ref();
    *context = context_;
    return absl::OkStatus();
  }

  absl::Status MakeTensorFromProto(const tensorflow::TensorProto& proto, tensorflow::AllocatorAttributes attributes,
                                   Tensor* tensor) override {
    Tensor parsed(proto.dtype());
    if (!parsed.FromProto(tensorflow::cpu_allocator(), proto)) {
      return absl::InvalidArgumentError("cannot parse a tensor");
    }
    const bool is_on_host = attributes.on_host() || proto.dtype() == tensorflow::DT_VARIANT;
    if (!is_on_host && !tensorflow::DataTypeCanUseMemcpy(proto.dtype())) {
      return absl::InternalError("a GPU holds numbers only");
    }
    *tensor = is_on_host ? parsed : Tensor(&allocator_, parsed.dtype(), parsed.shape());
    if (!is_on_host) Copy(parsed, tensor);
    return absl::OkStatus();
  }

  void CopyTensorInSameDevice(const Tensor* from, Tensor* to, const tensorflow::DeviceContext*,
                              tensorflow::StatusCallback done) override {
    Copy(*from, to);
    done(absl::OkStatus());
  }

 private:
  FakeAllocator allocator_;
  FakeContext* const context_;
  tensorflow::DeviceBase::AcceleratorDeviceInfo info_;
};

class FakeGpuFactory : public tensorflow::DeviceFactory {
 public:
  absl::Status ListPhysicalDevices(std::vector<std::string>* devices) override {
    devices->push_back("/physical_device:GPU:0");
    return absl::OkStatus();
  }

  absl::Status CreateDevices(const tensorflow::SessionOptions& options, const std::string& prefix,
                             std::vector<std::unique_ptr<tensorflow::Device>>* devices) override {
    const auto& counts = options.config.device_count();
    const auto count = counts.find("GPU");
    if (count != counts.end() && count->second == 0) return absl::OkStatus();
    devices->push_back(std::make_unique<FakeGpu>(options, prefix + "/device:GPU:0"));
    return absl::OkStatus();
  }
};

template <typename Values, typename Value>
bool Contains(const Values& values, const Value& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

bool Allows(const KernelDef& def, const tensorflow::NodeDef& node) {
  for (const KernelDef::AttrConstraint& constraint : def.constraint()) {
    const auto attribute = node.attr().find(constraint.name());
    if (attribute == node.attr().end()) return false;
    const auto& allowed = constraint.allowed_values().list();
    const auto& given = attribute->second;
    const auto fits = [&](int type) { return Contains(allowed.type(), type); };
    if (allowed.s_size() > 0 ? !Contains(allowed.s(), given.s()) : !given.has_list() && !fits(given.type())) return false;
    if (!std::all_of(given.list().type().begin(), given.list().type().end(), fits)) return false;
  }
  return true;
}

KernelRegistry& Registry() { return *static_cast<KernelRegistry*>(tensorflow::GlobalKernelRegistry()); }

// Makes the kernel that the CPU, or any device, has for an operation.
class KernelsOfTheCpu : public OpKernelFactory {
 public:
  explicit KernelsOfTheCpu(std::string label) : label_(std::move(label)) {}

  tensorflow::OpKernel* Create(tensorflow::OpKernelConstruction* construction) override {
    OpKernelFactory* const factory = Find(construction->def());
    if (factory != nullptr) return factory->Create(construction);
    construction->SetStatus(absl::UnimplementedError("the fake GPU has kernels of the CPU only, which has none for " +
                                                     construction->def().op()));
    return nullptr;
  }

 private:
  OpKernelFactory* Find(const tensorflow::NodeDef& node) const {
    OpKernelFactory* factory = nullptr;
    tensorflow::mutex_lock lock(Registry().mu);
    for (const auto& [key, each] : Registry().registry) {
      const KernelDef& def = each.def;
      // A label of the GPU's alone says how the kernel was compiled.
      if (def.op() != node.op() || (def.label() != label_ && !def.label().empty()) || !Allows(def, node)) continue;
      if (def.device_type() == tensorflow::DEVICE_CPU && def.label() == label_) return each.factory.get();
      const bool may_be = def.device_type() == tensorflow::DEVICE_CPU || def.device_type() == tensorflow::DEVICE_DEFAULT;
      if (may_be) factory = each.factory.get();
    }
    return factory;
  }

  const std::string label_;
};

// Says which host code touched the memory of the device.
void OnFault(int, siginfo_t* info, void*) {
  if (Memory::Get().Contains(info->si_addr)) {
    dprintf(STDERR_FILENO, "\nfake GPU: host code touched the memory of the device\n");
    void* frames[40];
    backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
  }
  signal(SIGSEGV, SIG_DFL);
}

void Start() {
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  // As a pluggable device it is not asked for CUDA's streams, which it has none of.
  tensorflow::DeviceFactory::Register("GPU", std::make_unique<FakeGpuFactory>(), kPriority, true);
  const absl::Status registered =
      tensorflow::CopyTensor::Register(tensorflow::DEVICE_GPU, tensorflow::DEVICE_GPU, CopyWithin, true);
  if (!registered.ok()) dprintf(STDERR_FILENO, "fake GPU: %s\n", registered.ToString().c_str());
  tensorflow::mutex_lock lock(Registry().mu);
  for (auto& [key, each] : Registry().registry) {
    if (each.def.device_type() == tensorflow::DEVICE_GPU) {
      each.factory = std::make_unique<KernelsOfTheCpu>(each.def.label());
    }
  }
}

const bool is_started = (Start(), true);

}  // namespace
