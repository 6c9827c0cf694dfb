// Lists of free blocks by size class. Blocks with a header have eight classes between two powers of two: at most
// an eighth is unused. Objects, without one, have classes of 16 bytes up to 1 KiB; larger ones are not pooled.
#include "cc/core/memory_pool.h"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

namespace recgraph {
namespace {

// In front of the memory that is handed out, and as large as its alignment; or, while it waits, at the beginning
// of an object.
struct Block {
  Block* next;
  int64_t size_class;  // kUnpooled: freed at once
};
static_assert(sizeof(Block) <= MemoryPool::kAlignment, "the header fits");

constexpr int64_t kUnpooled = -1;
constexpr size_t kSmallest = 64;
constexpr int kSteps = 8;   // classes between powers of two
constexpr int kPowers = 20;  // up to 64 * 2^20 bytes = 64 MiB
constexpr int kBlockClasses = kSteps * kPowers + 1;
constexpr size_t kObjectStep = 16;
constexpr size_t kLargestObject = 1024;
constexpr int kClasses = kBlockClasses + kLargestObject / kObjectStep;
// What a thread keeps to itself of each class.
constexpr size_t kListBytes = 256 << 10;

size_t SizeOf(int size_class) {
  if (size_class >= kBlockClasses) return (size_class - kBlockClasses + 1) * kObjectStep;
  const size_t base = kSmallest << (size_class / kSteps);
  return base + base / kSteps * (size_class % kSteps);
}

int ClassOf(size_t bytes) {
  if (bytes <= kSmallest) return 0;
  const int power = 63 - __builtin_clzll(bytes / kSmallest);
  const size_t base = kSmallest << power;
  const size_t step = base / kSteps;
  return power * kSteps + static_cast<int>((bytes - base + step - 1) / step);
}

int ObjectClassOf(size_t bytes) {
  return kBlockClasses + static_cast<int>((bytes == 0 ? 0 : bytes - 1) / kObjectStep);
}

struct List {
  Block* first = nullptr;
  int count = 0;
};

int ListLength(int size_class) {
  const size_t length = kListBytes / (SizeOf(size_class) + MemoryPool::kAlignment);
  return length < 2 ? 2 : length > 64 ? 64 : static_cast<int>(length);
}

void Destroy(Block* block) { std::free(block); }

// Never destroyed: threads may end after it would be.
struct Shared {
  std::mutex mutex;
  std::vector<List> lists[kClasses];
  std::atomic<int64_t> waiting{0};

  static Shared* Get() {
    static Shared* const shared = new Shared;
    return shared;
  }

  bool Take(int size_class, List* list) {
    std::lock_guard<std::mutex> lock(mutex);
    auto& there = lists[size_class];
    if (there.empty()) return false;
    *list = there.back();
    there.pop_back();
    waiting.fetch_sub(list->count * SizeOf(size_class), std::memory_order_relaxed);
    return true;
  }

  void Give(int size_class, List list) {
    if (list.first == nullptr) return;
    const int64_t bytes = list.count * SizeOf(size_class);
    if (waiting.load(std::memory_order_relaxed) + bytes <= MemoryPool::kMaxWaiting) {
      std::lock_guard<std::mutex> lock(mutex);
      waiting.fetch_add(bytes, std::memory_order_relaxed);
      lists[size_class].push_back(list);
      return;
    }
    for (Block* block = list.first; block != nullptr;) {
      Block* const next = block->next;
      Destroy(block);
      block = next;
    }
  }
};

// A thread's own lists: one to take from and put to, and a full one, so that a thread that goes back and forth
// at the end of a list does not go to the shared ones each time.
struct Own {
  List open[kClasses];
  List full[kClasses];

  ~Own();
};

// Set when the thread's lists are gone, while other objects of the thread are still being destroyed.
thread_local bool own_is_gone = false;
thread_local Own own;

// A waiting block of a class, or null.
Block* Take(int size_class) {
  if (own_is_gone) return nullptr;
  List& open = own.open[size_class];
  List& full = own.full[size_class];
  if (open.first == nullptr) {
    if (full.first != nullptr) {
      open = full;
      full = {};
    } else if (!Shared::Get()->Take(size_class, &open)) {
      return nullptr;
    }
  }
  Block* const block = open.first;
  open.first = block->next;
  --open.count;
  return block;
}

void Give(int size_class, Block* block) {
  if (own_is_gone) return Destroy(block);
  List& open = own.open[size_class];
  if (open.count == ListLength(size_class)) {
    Shared::Get()->Give(size_class, own.full[size_class]);
    own.full[size_class] = open;
    open = {};
  }
  block->next = open.first;
  open.first = block;
  ++open.count;
}

Own::~Own() {
  own_is_gone = true;
  for (int i = 0; i < kClasses; ++i) {
    Shared::Get()->Give(i, open[i]);
    Shared::Get()->Give(i, full[i]);
  }
}

}  // namespace

void* MemoryPool::Allocate(size_t bytes) {
  const bool pooled = bytes <= SizeOf(kBlockClasses - 1);
  const int size_class = pooled ? ClassOf(bytes) : 0;
  Block* block = pooled ? Take(size_class) : nullptr;
  if (block == nullptr) {
    const size_t size = pooled ? SizeOf(size_class) : bytes;
    const size_t rounded = (size + 2 * kAlignment - 1) / kAlignment * kAlignment;
    block = static_cast<Block*>(std::aligned_alloc(kAlignment, rounded));
    if (block == nullptr) return nullptr;
    block->size_class = pooled ? size_class : kUnpooled;
  }
  return reinterpret_cast<char*>(block) + kAlignment;
}

void MemoryPool::Free(void* memory) {
  if (memory == nullptr) return;
  auto* const block = reinterpret_cast<Block*>(static_cast<char*>(memory) - kAlignment);
  if (block->size_class == kUnpooled) return Destroy(block);
  Give(static_cast<int>(block->size_class), block);
}

void* MemoryPool::AllocateObject(size_t bytes) {
  if (bytes > kLargestObject) return ::operator new(bytes);
  const int size_class = ObjectClassOf(bytes);
  Block* const block = Take(size_class);
  if (block != nullptr) return block;
  void* const made = std::malloc(SizeOf(size_class));
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

void MemoryPool::FreeObject(void* memory, size_t bytes) {
  if (memory == nullptr) return;
  if (bytes > kLargestObject) return ::operator delete(memory);
  Give(ObjectClassOf(bytes), static_cast<Block*>(memory));
}

int64_t MemoryPool::Waiting() { return Shared::Get()->waiting.load(std::memory_order_relaxed); }

}  // namespace recgraph
