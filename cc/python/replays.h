// What graphs gave to Python, kept in order to take the same steps without them: for measurements of Python's side.
#ifndef RECGRAPH_CC_PYTHON_REPLAYS_H_
#define RECGRAPH_CC_PYTHON_REPLAYS_H_

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tensorflow/core/framework/tensor.h"

namespace recgraph {

// The values of each slot, in the order in which they came.
using SlotValues = std::vector<std::vector<tensorflow::Tensor>>;

// What a graph gave to Python in one run. Any thread may call anything.
class Recording {
 public:
  void Add(int slot, tensorflow::Tensor value);
  SlotValues Values();

 private:
  std::mutex mutex_;
  SlotValues values_;
};

// The recordings of one plan, each with a key that the caller chooses. Used by one step at a time.
class Replays {
 public:
  enum class Mode { kOff = 0, kRecord = 1, kReplay = 2 };

  // Says what the next steps do.
  void Set(Mode mode, int key);
  Mode mode() const { return mode_; }

  // A new recording with the present key.
  std::shared_ptr<Recording> Record();

  // What the recording with the present key holds. Where it lacks a value, since the program has gone another way, it
  // is that of another recording, or missing.
  const SlotValues& Replay();

 private:
  Mode mode_ = Mode::kOff;
  int key_ = 0;
  std::map<int, std::shared_ptr<Recording>> recordings_;
  std::map<int, SlotValues> completed_;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_PYTHON_REPLAYS_H_
