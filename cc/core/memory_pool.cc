// Lists of free blocks by size class. Blocks with a header have eight classes between two powers of two: at most
// an eighth is unused. Objects, without one, have classes of 16 bytes up to 1 KiB; larger ones are not pooled. Blocks of
// more than 2 MiB are in large_blocks.h.
#include "cc/core/memory_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>
#include <set>
#include <vector>

#include "cc/core/large_blocks.h"

namespace recgraph {
namespace {

// In front of the memory that is handed out, and as large as its alignment; or, while it waits, at the beginning
// of an object.
struct Block {
  union {
    Block* next;
    size_t bytes;  // of a large one
  };
  int64_t size_class;  // or kLarge
};
static_assert(sizeof(Block) <= MemoryPool::kAlignment, "the header fits");

constexpr int64_t kLarge = -1;
// Without a pool a sanitizer sees what is read after it was freed.
#ifdef RECGRAPH_NO_POOL
constexpr bool kPools = false;
#else
constexpr bool kPools = true;
#endif
constexpr size_t kSmallest = 64;
constexpr int kSteps = 8;   // classes between powers of two
constexpr int kPowers = 15;  // up to 64 * 2^15 bytes = 2 MiB
constexpr int kBlockClasses = kSteps * kPowers + 1;
constexpr size_t kObjectStep = MemoryPool::kObjectAlignment;
constexpr size_t kLargestObject = 1024;
constexpr int kClasses = kBlockClasses + kLargestObject / kObjectStep;
// What a thread keeps to itself of each class, twice; of larger blocks nothing.
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
  return static_cast<int>(std::clamp<size_t>(length, 1, 1024));
}

// A lock is nothing beside such a block.
bool IsShared(int size_class) { return SizeOf(size_class) > kListBytes; }

// What a thread cuts from the region at once, where blocks are smaller.
constexpr size_t kSlab = 32 << 10;

// Where memory comes from first: large pages, because a step reads a few hundred bytes here and there of all that
// it has computed. What is cut off is never given back.
class Region {
 public:
  // Null when it is used up, or when there is none.
  void* Cut(size_t bytes) {
    if (base_ == nullptr) return nullptr;
    const size_t rounded = (bytes + MemoryPool::kAlignment - 1) / MemoryPool::kAlignment * MemoryPool::kAlignment;
    size_t at = used_.load(std::memory_order_relaxed);
    do {  // what does not fit leaves the rest to others
      if (rounded > kBytes - at) return nullptr;
    } while (!used_.compare_exchange_weak(at, at + rounded, std::memory_order_relaxed));
    return base_ + at;
  }
  bool Has(const void* memory) const {
    const char* const at = static_cast<const char*>(memory);
    return base_ != nullptr && at >= base_ && at < base_ + kBytes;
  }

  static Region* Get() {
    static Region* const region = new Region;
    return region;
  }

 private:
  static constexpr size_t kBytes = MemoryPool::kRegion;
  static constexpr size_t kPage = size_t{2} << 20;

  Region() {
#if defined(__SANITIZE_ADDRESS__)
    return;  // its blocks have no red zones, and the leak checker does not look for pointers in it
#endif
    void* const memory =
        mmap(nullptr, kBytes + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;
    base_ = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory) + kPage - 1) / kPage * kPage);
    madvise(base_, kBytes, MADV_HUGEPAGE);
  }

  char* base_ = nullptr;
  std::atomic<size_t> used_{0};
};

// Of a block with its header.
size_t BytesOf(int size_class) {
  const bool is_object = size_class >= kBlockClasses;
  const size_t step = is_object ? MemoryPool::kObjectAlignment : MemoryPool::kAlignment;
  return (SizeOf(size_class) + (is_object ? 0 : MemoryPool::kAlignment) + step - 1) / step * step;
}

struct Own;

// Never destroyed: threads may end after it would be.
struct Shared {
  std::mutex mutex;
  std::vector<List> lists[kClasses];
  std::atomic<int64_t> waiting{0};
  std::atomic<int64_t> held{0};
  std::set<const Own*> threads;  // guarded by mutex
  LargeBlocks large;

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
    waiting.fetch_sub(Bytes(size_class, *list), std::memory_order_relaxed);
    return true;
  }

  void Give(int size_class, List list) {
    if (list.first == nullptr) return;
    if (waiting.load(std::memory_order_relaxed) + Bytes(size_class, list) > MemoryPool::kMaxWaiting) {
      list = FreedOutsideOfTheRegion(size_class, list);
      if (list.first == nullptr) return;
    }
    std::lock_guard<std::mutex> lock(mutex);
    waiting.fetch_add(Bytes(size_class, list), std::memory_order_relaxed);
    lists[size_class].push_back(list);
  }

 private:
  static int64_t Bytes(int size_class, const List& list) { return list.count * SizeOf(size_class); }

  // What cannot be freed is left over.
  List FreedOutsideOfTheRegion(int size_class, List list) {
    List left;
    for (Block* block = list.first; block != nullptr;) {
      Block* const next = block->next;
      if (Region::Get()->Has(block)) {
        block->next = left.first;
        left = {block, left.count + 1};
      } else {
        held.fetch_sub(BytesOf(size_class), std::memory_order_relaxed);
        std::free(block);
      }
      block = next;
    }
    return left;
  }
};

// A thread's own lists: one to take from and put to, and a full one, so that a thread that goes back and forth
// at the end of a list does not go to the shared ones each time.
struct Own {
  List open[kClasses];
  List full[kClasses];
  std::atomic<int64_t> bytes{0};  // in these lists; written by the thread alone

  Own();
  ~Own();
  void Count(int size_class, int blocks) {
    const int64_t now = bytes.load(std::memory_order_relaxed) + blocks * static_cast<int64_t>(SizeOf(size_class));
    bytes.store(now, std::memory_order_relaxed);
  }
};

// Set when the thread's lists are gone, while other objects of the thread are still being destroyed.
thread_local bool own_is_gone = false;
thread_local Own own;

// A waiting block of a class, or null.
Block* Take(int size_class) {
  if (own_is_gone || IsShared(size_class)) {
    List list;
    if (!IsShared(size_class) || !Shared::Get()->Take(size_class, &list)) return nullptr;
    return list.first;
  }
  List& open = own.open[size_class];
  List& full = own.full[size_class];
  if (open.first == nullptr) {
    if (full.first != nullptr) {
      open = full;
      full = {};
    } else if (Shared::Get()->Take(size_class, &open)) {
      own.Count(size_class, open.count);
    } else {
      return nullptr;
    }
  }
  Block* const block = open.first;
  open.first = block->next;
  --open.count;
  own.Count(size_class, -1);
  return block;
}

void GiveAway(int size_class, List* list) {
  if (list->first == nullptr) return;
  own.Count(size_class, -list->count);
  Shared::Get()->Give(size_class, *list);
  *list = {};
}

void Give(int size_class, Block* block) {
  if (own_is_gone || IsShared(size_class)) {
    block->next = nullptr;
    return Shared::Get()->Give(size_class, {block, 1});
  }
  List& open = own.open[size_class];
  if (open.count == ListLength(size_class)) {
    GiveAway(size_class, &own.full[size_class]);
    own.full[size_class] = open;
    open = {};
  }
  block->next = open.first;
  open.first = block;
  ++open.count;
  own.Count(size_class, 1);
  if (own.bytes.load(std::memory_order_relaxed) <= MemoryPool::kMaxKept) return;
  GiveAway(size_class, &own.full[size_class]);
  if (own.bytes.load(std::memory_order_relaxed) > MemoryPool::kMaxKept) GiveAway(size_class, &open);
}

Own::Own() {
  std::lock_guard<std::mutex> lock(Shared::Get()->mutex);
  Shared::Get()->threads.insert(this);
}

Own::~Own() {
  own_is_gone = true;
  for (int i = 0; i < kClasses; ++i) {
    Shared::Get()->Give(i, open[i]);
    Shared::Get()->Give(i, full[i]);
  }
  std::lock_guard<std::mutex> lock(Shared::Get()->mutex);
  Shared::Get()->threads.erase(this);
}

// A new block of a class; small ones are cut from the region side by side. Null when there is no memory.
Block* New(int size_class) {
  const bool is_object = size_class >= kBlockClasses;
  const size_t step = is_object ? MemoryPool::kObjectAlignment : MemoryPool::kAlignment;
  const size_t bytes = BytesOf(size_class);
  const int count = own_is_gone || bytes > kSlab ? 1 : std::min<int>(kSlab / bytes, ListLength(size_class));
  char* const memory = static_cast<char*>(Region::Get()->Cut(count * bytes));
  if (memory == nullptr) {
    auto* const alone = static_cast<Block*>(std::aligned_alloc(step, bytes));
    if (alone == nullptr) return nullptr;
    if (!is_object) alone->size_class = size_class;
    Shared::Get()->held.fetch_add(bytes, std::memory_order_relaxed);
    return alone;
  }
  Shared::Get()->held.fetch_add(count * bytes, std::memory_order_relaxed);
  for (int i = count; i-- > 0;) {
    auto* const block = reinterpret_cast<Block*>(memory + i * bytes);
    if (!is_object) block->size_class = size_class;
    if (i > 0) Give(size_class, block);
  }
  return reinterpret_cast<Block*>(memory);
}

LargeBlocks::Block NewLarge(size_t bytes) {
  if (kPools) return Shared::Get()->large.Allocate(bytes);
  const size_t rounded = (bytes + MemoryPool::kAlignment - 1) / MemoryPool::kAlignment * MemoryPool::kAlignment;
  void* const memory = std::aligned_alloc(MemoryPool::kAlignment, rounded);
  if (memory != nullptr) Shared::Get()->held.fetch_add(rounded, std::memory_order_relaxed);
  return {memory, rounded};
}

void FreeLarge(LargeBlocks::Block block) {
  if (kPools) return Shared::Get()->large.Free(block);
  Shared::Get()->held.fetch_sub(block.bytes, std::memory_order_relaxed);
  std::free(block.memory);
}

}  // namespace

void* MemoryPool::Allocate(size_t bytes) {
  Block* block = nullptr;
  if (kPools && bytes <= SizeOf(kBlockClasses - 1)) {
    const int size_class = ClassOf(bytes);
    block = Take(size_class);
    if (block == nullptr) block = New(size_class);
    if (block == nullptr) return nullptr;
  } else {
    if (bytes > SIZE_MAX / 2) return nullptr;
    const LargeBlocks::Block large = NewLarge(bytes + kAlignment);
    if (large.memory == nullptr) return nullptr;
    block = static_cast<Block*>(large.memory);
    block->size_class = kLarge;
    block->bytes = large.bytes;
  }
  return reinterpret_cast<char*>(block) + kAlignment;
}

void MemoryPool::Free(void* memory) {
  if (memory == nullptr) return;
  auto* const block = reinterpret_cast<Block*>(static_cast<char*>(memory) - kAlignment);
  if (block->size_class == kLarge) return FreeLarge({block, block->bytes});
  Give(static_cast<int>(block->size_class), block);
}

void* MemoryPool::AllocateObject(size_t bytes) {
  if (!kPools || bytes > kLargestObject) return ::operator new(bytes);
  const int size_class = ObjectClassOf(bytes);
  Block* block = Take(size_class);
  if (block == nullptr) block = New(size_class);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void MemoryPool::FreeObject(void* memory, size_t bytes) {
  if (memory == nullptr) return;
  if (!kPools || bytes > kLargestObject) return ::operator delete(memory);
  Give(ObjectClassOf(bytes), static_cast<Block*>(memory));
}

int64_t MemoryPool::Waiting() { return Shared::Get()->waiting.load(std::memory_order_relaxed); }

int64_t MemoryPool::Held() {
  return Shared::Get()->held.load(std::memory_order_relaxed) + Shared::Get()->large.held();
}

void MemoryPool::ReleaseLarge() { Shared::Get()->large.ReleaseWaiting(); }

int64_t MemoryPool::Kept() {
  std::lock_guard<std::mutex> lock(Shared::Get()->mutex);
  int64_t kept = 0;
  for (const Own* thread : Shared::Get()->threads) kept += thread->bytes.load(std::memory_order_relaxed);
  return kept;
}

}  // namespace recgraph
