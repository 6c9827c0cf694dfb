// The policies, and the one in use.
#include "cc/core/batch_policy.h"

#include <atomic>
#include <random>

namespace recgraph {
namespace batch {
namespace {

class Agenda : public BatchPolicy {
 public:
  size_t Pick(const std::vector<ReadyBlock>& ready) override {
    size_t best = 0;
    for (size_t i = 1; i < ready.size(); ++i) {
      const bool earlier = ready[i].priority < ready[best].priority;
      const bool larger =
          ready[i].priority == ready[best].priority && ready[i].rows > ready[best].rows;
      if (earlier || larger) best = i;
    }
    return best;
  }
};

class ByDepth : public BatchPolicy {
 public:
  explicit ByDepth(bool deepest) : sign_(deepest ? 1.0 : -1.0) {}
  size_t Pick(const std::vector<ReadyBlock>& ready) override {
    size_t best = 0;
    for (size_t i = 1; i < ready.size(); ++i) {
      if (sign_ * ready[i].depth > sign_ * ready[best].depth) best = i;
    }
    return best;
  }

 private:
  const double sign_;
};

class AtRandom : public BatchPolicy {
 public:
  AtRandom() : random_(std::random_device{}()) {}
  size_t Pick(const std::vector<ReadyBlock>& ready) override { return random_() % ready.size(); }

 private:
  std::mt19937 random_;
};

constexpr struct {
  Order order;
  const char* name;
} kOrders[] = {{Order::kAgenda, "agenda"},
               {Order::kDepth, "depth"},
               {Order::kHeight, "height"},
               {Order::kRandom, "random"}};

std::atomic<Order> default_order{Order::kAgenda};

constexpr struct {
  Way way;
  const char* name;
} kWays[] = {{Way::kScheduled, "scheduled"}, {Way::kRowPrograms, "row_programs"}, {Way::kOperations, "operations"}};

std::atomic<Way> default_way{Way::kScheduled};

}  // namespace

std::unique_ptr<BatchPolicy> MakeBatchPolicy(Order order) {
  switch (order) {
    case Order::kDepth:
      return std::make_unique<ByDepth>(true);
    case Order::kHeight:
      return std::make_unique<ByDepth>(false);
    case Order::kRandom:
      return std::make_unique<AtRandom>();
    case Order::kAgenda:
      break;
  }
  return std::make_unique<Agenda>();
}

bool ParseOrder(const std::string& name, Order* order) {
  for (const auto& entry : kOrders) {
    if (name == entry.name) {
      *order = entry.order;
      return true;
    }
  }
  return false;
}

const char* OrderName(Order order) {
  for (const auto& entry : kOrders) {
    if (order == entry.order) return entry.name;
  }
  return "unknown";
}

Order DefaultOrder() { return default_order.load(std::memory_order_relaxed); }

void SetDefaultOrder(Order order) { default_order.store(order, std::memory_order_relaxed); }

bool ParseWay(const std::string& name, Way* way) {
  for (const auto& entry : kWays) {
    if (name == entry.name) {
      *way = entry.way;
      return true;
    }
  }
  return false;
}

const char* WayName(Way way) {
  for (const auto& entry : kWays) {
    if (way == entry.way) return entry.name;
  }
  return "unknown";
}

Way DefaultWay() { return default_way.load(std::memory_order_relaxed); }

void SetDefaultWay(Way way) { default_way.store(way, std::memory_order_relaxed); }

}  // namespace batch
}  // namespace recgraph
