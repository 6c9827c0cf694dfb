// Tensors in blocks of the memory pool.
#include "cc/kernels/pool_allocator.h"

#include <string>

#include "cc/core/memory_pool.h"
#include "cc/kernels/errors.h"

namespace recgraph {
namespace {

class PoolAllocator : public tensorflow::Allocator {
 public:
  std::string Name() override { return "recgraph_pool"; }
  void* AllocateRaw(size_t alignment, size_t bytes) override {
    return alignment <= MemoryPool::kAlignment ? MemoryPool::Allocate(bytes) : nullptr;
  }
  void DeallocateRaw(void* memory) override { MemoryPool::Free(memory); }
};

}  // namespace

tensorflow::Allocator* ThePoolAllocator() {
  static PoolAllocator* const allocator = new PoolAllocator;
  return allocator;
}

absl::Status Allocate(tensorflow::DataType dtype, const tensorflow::TensorShape& shape, tensorflow::Tensor* tensor) {
  *tensor = tensorflow::Tensor(ThePoolAllocator(), dtype, shape);
  if (tensor->IsInitialized()) return absl::OkStatus();
  return errors::ResourceExhausted("no memory for a tensor of shape ", shape.DebugString(), " and type ",
                                   tensorflow::DataTypeString(dtype));
}

}  // namespace recgraph
