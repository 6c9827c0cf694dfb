// All that the outputs of a step's operations ever were: numbered cells, each a sequence of values that are read by
// position, as often as they are wanted.
//
// Any thread may call anything, and none is ever blocked. Close ends the run: what waits is told so, and what is put
// later is dropped.
#ifndef RECGRAPH_CC_CORE_HISTORY_H_
#define RECGRAPH_CC_CORE_HISTORY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace recgraph {

template <typename T>
class History {
 public:
  // Called once with the value, or with null when the history is closed: by the thread that puts or closes, or at once.
  // No lock is held meanwhile.
  using Reader = std::function<void(const T*)>;

  explicit History(int cells) : cells_(cells) {}
  int cells() const { return static_cast<int>(cells_.size()); }
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  // Adds the next value of a cell.
  void Put(int cell, T value) {
    std::vector<Reader> readers;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (closed_) return;
      Cell& place = cells_[cell];
      auto [first, last] = place.readers.equal_range(static_cast<int64_t>(place.values.size()));
      for (auto it = first; it != last; ++it) readers.push_back(std::move(it->second));
      place.readers.erase(first, last);
      place.values.push_back(value);
    }
    for (Reader& reader : readers) reader(&value);
  }

  // Hands the value that is put as number `position`, from 0, to `reader`, now or when it is put.
  void Read(int cell, int64_t position, Reader reader) {
    std::unique_lock<std::mutex> lock(mutex_);
    Cell& place = cells_[cell];
    if (position < static_cast<int64_t>(place.values.size())) {
      T value = place.values[position];
      lock.unlock();
      reader(&value);
    } else if (closed_) {
      lock.unlock();
      reader(nullptr);
    } else {
      place.readers.emplace(position, std::move(reader));
    }
  }

  // Ends the run. Idempotent.
  void Close() {
    std::vector<Reader> readers;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (closed_) return;
      closed_ = true;
      for (Cell& place : cells_) {
        for (auto& [position, reader] : place.readers) readers.push_back(std::move(reader));
        place.readers.clear();
      }
    }
    for (Reader& reader : readers) reader(nullptr);
  }

 private:
  struct Cell {
    std::vector<T> values;
    std::multimap<int64_t, Reader> readers;  // by the position that they wait for
  };

  std::mutex mutex_;
  std::vector<Cell> cells_;
  bool closed_ = false;
};

}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_HISTORY_H_
