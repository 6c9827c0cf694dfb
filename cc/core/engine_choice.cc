// Costs and the choice by them.
#include "cc/core/engine_choice.h"

#include <algorithm>
#include <cstdio>

namespace recgraph {
namespace {

constexpr int64_t kTrials = 8;  // calls that alternate before the first choice
// Calls between two runs of the engine that is not chosen: few at first, for a choice by few trials may be wrong.
constexpr int64_t kFirstInterval = 16;
constexpr int64_t kLastInterval = 256;
constexpr double kWeightOfNewest = 0.25;
// A call that costs more than so many of the others has been interrupted, and counts as so many.
constexpr double kMost = 2;

Engine Other(Engine engine) { return engine == Engine::kBatched ? Engine::kParallel : Engine::kBatched; }

}  // namespace

void EngineChoice::Cost::Add(double value) {
  // The first run of each engine also makes kernels, so that it does not count. Of the other trials the best one does.
  if (samples++ == 0) return;
  if (samples <= kTrials / 2) {
    mean = samples == 2 ? value : std::min(mean, value);
  } else {
    mean += kWeightOfNewest * (std::min(value, kMost * mean) - mean);
  }
}

EngineChoice::Cell::Cell() : next_look(kTrials + kFirstInterval), interval(kFirstInterval) {}

double EngineChoice::Cell::Total(Engine engine) const {
  return forward[static_cast<int>(engine)].mean + gradient[static_cast<int>(engine)].mean;
}

Engine EngineChoice::Cell::Cheaper() const {
  return Total(Engine::kBatched) <= Total(Engine::kParallel) ? Engine::kBatched : Engine::kParallel;
}

Engine EngineChoice::Cell::Pick(Engine first) {
  const int64_t number = picked++;
  if (number < kTrials) return number % 2 == 0 ? first : Other(first);
  const Engine cheaper = Cheaper();
  if (number < next_look) return cheaper;
  interval = std::min(2 * interval, kLastInterval);
  // The dearer engine is tried the more rarely, so that all of these calls together cost little.
  const double dearer = Total(cheaper) > 0 ? Total(Other(cheaper)) / Total(cheaper) : 1;
  next_look = number + static_cast<int64_t>(static_cast<double>(interval) * std::clamp(dearer, 1.0, 1e3));
  return Other(cheaper);
}

int EngineChoice::Bucket(const CallClass& call) {
  if (!call.map) return 0;
  int bucket = 1;
  for (int64_t roots = call.roots; roots > 1 && bucket < kBuckets - 1; roots /= 2) ++bucket;
  return bucket;
}

std::string EngineChoice::Name(int bucket) {
  return bucket == 0 ? "single calls" : std::to_string(1 << (bucket - 1)) + " or more roots";
}

Engine EngineChoice::Pick(const CallClass& call) {
  std::lock_guard<std::mutex> lock(mutex_);
  // A single call may be the only one: it is run by the engine that has fewer kernels to make.
  return CellOf(call).Pick(call.map ? Engine::kBatched : Engine::kParallel);
}

bool EngineChoice::HasPicked(const CallClass& call) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return cells_[call.recorded ? 1 : 0][Bucket(call)].picked > 0;
}

void EngineChoice::Add(const CallClass& call, Engine engine, bool gradient, double seconds,
                       int64_t invocations) {
  if (invocations <= 0) return;
  std::lock_guard<std::mutex> lock(mutex_);
  Cell& cell = CellOf(call);
  Cost* const costs = gradient ? cell.gradient : cell.forward;
  costs[static_cast<int>(engine)].Add(seconds / static_cast<double>(invocations));
}

std::string EngineChoice::Report() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::string report;
  for (int recorded = 0; recorded < 2; ++recorded) {
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      const Cell& cell = cells_[recorded][bucket];
      if (cell.picked == 0) continue;
      char line[200];
      std::snprintf(line, sizeof(line), "%s, %s: %s, %.2f us an invocation parallel, %.2f batched (%lld calls)\n",
                    recorded == 1 ? "training" : "inference", Name(bucket).c_str(),
                    cell.picked < kTrials                ? "still trying both"
                    : cell.Cheaper() == Engine::kBatched ? "batched"
                                                         : "parallel",
                    cell.Total(Engine::kParallel) * 1e6, cell.Total(Engine::kBatched) * 1e6,
                    static_cast<long long>(cell.picked));
      report += line;
    }
  }
  return report;
}

}  // namespace recgraph
