// Turns of those who use the same things.
#include "cc/core/turns.h"

#include <algorithm>
#include <utility>

namespace recgraph {

bool Turns::Turn::Shares(const Turn& other) const {
  auto one = things_.begin();
  auto two = other.things_.begin();
  while (one != things_.end() && two != other.things_.end()) {
    if (*one == *two) return true;
    *one < *two ? ++one : ++two;
  }
  return false;
}

Turns::Turn::~Turn() { turns_->Remove(this); }

bool Turns::Turn::GiveUp() {
  {
    std::lock_guard<std::mutex> lock(turns_->mutex_);
    if (state_ != State::kNew && state_ != State::kWaiting) return false;
    state_ = State::kGivenUp;
  }
  turns_->Remove(this);
  return true;
}

std::shared_ptr<Turns::Turn> Turns::Take(std::vector<uint64_t> things, std::function<void()> begin) {
  std::sort(things.begin(), things.end());
  std::shared_ptr<Turn> turn(new Turn(this, std::move(things), std::move(begin)));
  std::lock_guard<std::mutex> lock(mutex_);
  turns_.push_back(turn.get());
  return turn;
}

// The owner's reference may be gone as soon as the turn waits: another thread that ends its own turn begins this one.
void Turns::Begin(const std::shared_ptr<Turn>& turn) {
  const std::shared_ptr<Turn> held = turn;
  {
    std::lock_guard<std::mutex> lock(held->turns_->mutex_);
    if (held->state_ == Turn::State::kNew) held->state_ = Turn::State::kWaiting;
  }
  for (auto& begin : held->turns_->Ready()) begin();
}

std::vector<std::function<void()>> Turns::Ready() {
  std::vector<std::function<void()>> ready;
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
    if ((*turn)->state_ != Turn::State::kWaiting) continue;
    const auto is_before = [&](const Turn* earlier) { return earlier->Shares(**turn); };
    if (std::any_of(turns_.begin(), turn, is_before)) continue;
    (*turn)->state_ = Turn::State::kHeld;
    ready.push_back(std::move((*turn)->begin_));
  }
  return ready;
}

void Turns::Remove(Turn* turn) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    turns_.remove(turn);
  }
  for (auto& begin : Ready()) begin();
}

}  // namespace recgraph
