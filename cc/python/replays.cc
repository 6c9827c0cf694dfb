// What graphs gave to Python, and giving it once more.
#include "cc/python/replays.h"

#include <utility>

namespace recgraph {
namespace {

// Takes over the values that `to` lacks.
void Complete(const SlotValues& from, SlotValues* to) {
  if (to->size() < from.size()) to->resize(from.size());
  for (size_t slot = 0; slot < from.size(); ++slot) {
    for (size_t i = (*to)[slot].size(); i < from[slot].size(); ++i) (*to)[slot].push_back(from[slot][i]);
  }
}

}  // namespace

void Recording::Add(int slot, tensorflow::Tensor value) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (slot >= static_cast<int>(values_.size())) values_.resize(slot + 1);
  values_[slot].push_back(std::move(value));
}

SlotValues Recording::Values() {
  std::lock_guard<std::mutex> lock(mutex_);
  return values_;
}

void Replays::Set(Mode mode, int key) {
  mode_ = mode;
  key_ = key;
}

std::shared_ptr<Recording> Replays::Record() {
  completed_.clear();
  return recordings_[key_] = std::make_shared<Recording>();
}

const SlotValues& Replays::Replay() {
  auto [place, is_new] = completed_.try_emplace(key_);
  if (is_new) {
    auto own = recordings_.find(key_);
    if (own != recordings_.end()) place->second = own->second->Values();
    for (auto& [key, other] : recordings_) Complete(other->Values(), &place->second);
  }
  return place->second;
}

}  // namespace recgraph
