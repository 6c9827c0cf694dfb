// Costs and the choice by them.
#include "cc/core/engine_choice.h"

#include <algorithm>
#include <cstdio>

namespace recgraph {
namespace {

constexpr int64_t kTrials = 8;           // calls that alternate before the first choice
constexpr int64_t kLookAgain = 256;      // calls between two runs of the engine that is not chosen
constexpr double kWeightOfNewest = 0.25;

}  // namespace

void EngineChoice::Cost::Add(double value) {
  // The first run of each engine also makes kernels, so that it does not count.
  if (samples++ == 0) return;
  mean = samples == 2 ? value : mean + kWeightOfNewest * (value - mean);
}

int EngineChoice::Bucket(int64_t roots) {
  int bucket = 0;
  while (roots > 1 && bucket < kBuckets - 1) {
    roots /= 2;
    ++bucket;
  }
  return bucket;
}

Engine EngineChoice::Pick(const CallClass& call) {
  std::lock_guard<std::mutex> lock(mutex_);
  Cell& cell = cells_[call.recorded ? 1 : 0][Bucket(call.roots)];
  const int64_t number = cell.picked++;
  if (number < kTrials) return number % 2 == 0 ? Engine::kBatched : Engine::kParallel;
  const bool batched = cell.Total(1) <= cell.Total(0);
  const bool look_again = number % kLookAgain == 0;
  return batched != look_again ? Engine::kBatched : Engine::kParallel;
}

bool EngineChoice::HasPicked(const CallClass& call) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return cells_[call.recorded ? 1 : 0][Bucket(call.roots)].picked > 0;
}

void EngineChoice::Add(const CallClass& call, Engine engine, bool gradient, double seconds,
                       int64_t invocations) {
  if (invocations <= 0) return;
  std::lock_guard<std::mutex> lock(mutex_);
  Cell& cell = cells_[call.recorded ? 1 : 0][Bucket(call.roots)];
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
      std::snprintf(line, sizeof(line),
                    "%s of %d or more roots: %s, %.2f us an invocation parallel, %.2f batched (%lld calls)\n",
                    recorded == 1 ? "training" : "inference", 1 << bucket,
                    cell.picked < kTrials                ? "still trying both"
                    : cell.Total(1) <= cell.Total(0) ? "batched"
                                                         : "parallel",
                    cell.Total(0) * 1e6, cell.Total(1) * 1e6, static_cast<long long>(cell.picked));
      report += line;
    }
  }
  return report;
}

}  // namespace recgraph
