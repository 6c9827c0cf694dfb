// Numbers for variables.
#include "cc/python/resources.h"

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cc/python/tensors.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/type_index.h"

namespace recgraph {
namespace {

using tensorflow::ResourceBase;
using tensorflow::ResourceHandle;
using tensorflow::Tensor;
using tensorflow::core::WeakPtr;

// A variable, by its object, which lives as long as handles of it do; or one of TensorFlow 1, by a handle.
struct Entry {
  WeakPtr<ResourceBase> object;
  std::string container, name, device, type;
  uint64_t hash = 0;  // of the type
  std::vector<tensorflow::DtypeAndPartialTensorShape> parts;
  HandlePtr handle;
};

struct Resources {
  std::mutex mutex;
  std::unordered_map<const void*, int> numbers;
  std::unordered_map<int, std::unique_ptr<Entry>> all;
  int next = 0;
};

Resources& AllResources() {
  static auto* resources = new Resources;
  return *resources;
}

// The object at an address is gone, and another one may come to be there.
void ForgetResource(const void* address) {
  std::unique_ptr<Entry> entry;  // dies without the lock
  std::lock_guard<std::mutex> lock(AllResources().mutex);
  auto found = AllResources().numbers.find(address);
  if (found == AllResources().numbers.end()) return;
  entry = std::move(AllResources().all[found->second]);
  AllResources().all.erase(found->second);
  AllResources().numbers.erase(found);
}

std::unique_ptr<Entry> MakeEntry(const ResourceHandle& resource, const void* key, Handle* handle) {
  auto entry = std::make_unique<Entry>();
  if (resource.IsRefCounting()) {
    entry->object = WeakPtr<ResourceBase>(resource.resource().get(), [key] { ForgetResource(key); });
    entry->container = resource.container();
    entry->name = resource.name();
    entry->device = resource.device();
    entry->type = resource.maybe_type_name();
    entry->hash = resource.hash_code();
    entry->parts = resource.dtypes_and_shapes();
  } else {
    entry->handle = Share(handle);
  }
  return entry;
}

}  // namespace

int ResourceNumber(Handle* handle, bool may_be_new) {
  const Tensor* tensor;
  if (!TensorOf(handle, &tensor).ok() || tensor->NumElements() != 1) return kUnknownResource;
  const auto& resource = tensor->flat<ResourceHandle>()(0);
  const void* key = handle;
  if (resource.IsRefCounting()) key = resource.resource().get();
  Resources& resources = AllResources();
  std::lock_guard<std::mutex> lock(resources.mutex);
  auto found = resources.numbers.find(key);
  if (found != resources.numbers.end()) return found->second;
  if (!may_be_new) return kUnknownResource;
  const int number = resources.next++;
  resources.all[number] = MakeEntry(resource, key, handle);
  resources.numbers[key] = number;
  return number;
}

HandlePtr FindResource(int number) {
  tensorflow::core::RefCountPtr<ResourceBase> object;  // dies, if it is the last reference, without the lock
  ResourceHandle resource;
  {
    std::lock_guard<std::mutex> lock(AllResources().mutex);
    auto found = AllResources().all.find(number);
    if (found == AllResources().all.end()) return nullptr;
    if (found->second->handle != nullptr) return Share(found->second->handle.get());
    const Entry& entry = *found->second;
    object = entry.object.GetNewRef();
    if (object == nullptr) return nullptr;
    resource = ResourceHandle::MakeRefCountingHandle(object.release(), entry.device, tensorflow::TypeIndex::Make<ResourceBase>(), entry.parts);
    resource.set_container(entry.container);
    resource.set_name(entry.name);
    resource.set_maybe_type_name(entry.type);
    resource.set_hash_code(entry.hash);
  }
  Tensor tensor(tensorflow::DT_RESOURCE, {});
  tensor.scalar<ResourceHandle>()() = std::move(resource);
  return HandleOf(tensor);
}

}  // namespace recgraph
