// Those who use the same things take turns: calls from outside, say, whose bodies read and write the same variables.
#ifndef RECGRAPH_CC_CORE_TURNS_H_
#define RECGRAPH_CC_CORE_TURNS_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace recgraph {

// Whoever comes first has its turn first; nobody waits for one who uses other things. No thread is blocked, and no lock
// is held while somebody has a turn or is told of it. Threading: all may be called from any thread, at once.
class Turns {
 public:
  // What one waits for, and has until nobody holds it any more: then the next ones begin, on the thread that lets go of
  // it. Who is told of a turn may end what it is for before whoever tells goes on, so each of them holds it.
  class Turn {
   public:
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn();

    // Gives up waiting; false where `begin` is called, or was.
    bool GiveUp();

   private:
    friend class Turns;
    enum class State { kNew, kWaiting, kHeld, kGivenUp };

    Turn(Turns* turns, std::vector<uint64_t> things, std::function<void()> begin)
        : turns_(turns), things_(std::move(things)), begin_(std::move(begin)) {}
    bool Shares(const Turn& other) const;

    Turns* const turns_;
    const std::vector<uint64_t> things_;  // sorted
    std::function<void()> begin_;         // until it is called
    State state_ = State::kNew;           // guarded by turns_->mutex_
  };

  // A place behind those who have come before. `begin` is called once, in `Begin` or, later, where a turn ends: not
  // before `Begin`, so that the owner can put the turn where `begin` looks for it. Nothing happens where it was given up.
  std::shared_ptr<Turn> Take(std::vector<uint64_t> things, std::function<void()> begin);
  static void Begin(const std::shared_ptr<Turn>& turn);

 private:
  // Takes out those that can begin now.
  std::vector<std::function<void()>> Ready();
  void Remove(Turn* turn);

  std::mutex mutex_;
  std::list<Turn*> turns_;  // those that wait or are held, the first one first
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_TURNS_H_
