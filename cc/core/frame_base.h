// A reference-counted node of the activation store. Depth costs heap, never stack: a chain of a
// million frames is released by a loop, because a frame whose last reference goes while another
// frame is being destroyed waits in a per-thread list in place of being destroyed on top of it.
//
// Thread-safe: any thread may Ref and Unref; a frame is destroyed by the thread that drops the
// last reference.
#ifndef RECGRAPH_CC_CORE_FRAME_BASE_H_
#define RECGRAPH_CC_CORE_FRAME_BASE_H_

#include <atomic>
#include <cstdint>

namespace recgraph {

// What the activation store holds, over the whole process; exact when nothing runs.
struct LiveFrames {
  int64_t entries = 0;
  int64_t bytes = 0;
};

class FrameBase {
 public:
  FrameBase();
  FrameBase(const FrameBase&) = delete;
  FrameBase& operator=(const FrameBase&) = delete;

  void Ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void Unref();
  // Whether the caller's reference is the only one, and will be as long as the caller gives none away.
  bool IsUnique() const { return refs_.load(std::memory_order_acquire) == 1; }

  // Adds `bytes` to what this frame accounts for; they leave the counter with the frame. Before others know it.
  void AccountFor(int64_t bytes);

  static LiveFrames Live();

 protected:
  virtual ~FrameBase();

 private:
  void Release();

  std::atomic<int64_t> refs_{1};
  int64_t bytes_ = 0;
  FrameBase* next_released_ = nullptr;
};

// Owns one reference to a frame of type `T`, which derives from FrameBase.
template <typename T>
class FramePtr {
 public:
  FramePtr() = default;
  // Takes over the reference that `frame` was created with.
  explicit FramePtr(T* frame) : frame_(frame) {}
  FramePtr(const FramePtr& other) : frame_(other.frame_) {
    if (frame_ != nullptr) frame_->Ref();
  }
  FramePtr(FramePtr&& other) noexcept : frame_(other.frame_) { other.frame_ = nullptr; }
  FramePtr& operator=(FramePtr other) noexcept {
    T* mine = frame_;
    frame_ = other.frame_;
    other.frame_ = mine;
    return *this;
  }
  ~FramePtr() {
    if (frame_ != nullptr) frame_->Unref();
  }

  T* get() const { return frame_; }
  T* operator->() const { return frame_; }
  T& operator*() const { return *frame_; }
  explicit operator bool() const { return frame_ != nullptr; }

 private:
  T* frame_ = nullptr;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_FRAME_BASE_H_
