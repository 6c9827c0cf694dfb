// The batched engine on plans written by hand, with integers for tensors.
#include "cc/core/batch_machine.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/schedule.h"
#include "cc/core/plan_verifier.h"
#include "gtest/gtest.h"

namespace recgraph {
namespace batch {
namespace {

// A holder of one number.
class Number final : public Holder {
 public:
  explicit Number(int64_t number) : Holder(Kind::kBuffer), number(number) {}
  const int64_t number;
};

Value Of(int64_t number) { return {FramePtr<Holder>(new Number(number)), -1}; }
int64_t In(const Value& value) { return static_cast<const Number*>(value.holder.get())->number; }

int64_t FibonacciOf(int64_t n) { return n < 2 ? n : FibonacciOf(n - 1) + FibonacciOf(n - 2); }

// Blocks are named; each does one thing to the numbers it reads. Calls that are scheduled as wholes are of Fibonacci.
class Numbers : public Backend {
 public:
  bool RunBlock(const Block& block, const Node& node, Activation** activations, size_t count) override {
    batches.push_back({block.name, count});
    for (size_t i = 0; i < count; ++i) {
      EXPECT_TRUE(!block.ragged || Alike(node, *activations[0], *activations[i]));
      Value* const slots = activations[i]->slots;
      const int64_t first = In(slots[node.reads[0]]);
      if (block.name == "split") {  // n -> n < 2, n - 1, n - 2
        slots[node.writes[0]] = Of(first < 2 ? 1 : 0);
        slots[node.writes[1]] = Of(first - 1);
        slots[node.writes[2]] = Of(first - 2);
      } else if (block.name == "add") {
        slots[node.writes[0]] = Of(first + In(slots[node.reads[1]]));
      } else if (block.name == "fail") {
        return false;
      }
    }
    return true;
  }
  // The shape of a number is what it leaves when divided.
  bool Alike(const Node& node, const Activation& one, const Activation& other) override {
    return In(one.slots[node.reads[0]]) % shapes == In(other.slots[node.reads[0]]) % shapes;
  }
  uint64_t ShapesOf(const Node& node, const Activation& activation) override {
    return In(activation.slots[node.reads[0]]) % shapes / 2;  // some shapes have one number
  }
  bool Select(Selector, const Value& value, int* branch) override {
    *branch = In(value) != 0 ? 0 : 1;
    return !select_fails;
  }
  Value Bool(bool value) override { return Of(value ? 1 : 0); }
  void Mismatch(size_t, size_t) override {}
  void BadFrame(int64_t values) override { bad_frame = values; }
  bool Split(const Value& value, std::vector<Value>* rows) override {
    for (int64_t i = 0; i < In(value); ++i) rows->push_back(Of(i));
    return true;
  }
  bool Stack(const std::vector<Value>& values, const MapResult&, Value* whole) override {
    int64_t sum = 0;
    for (const Value& value : values) sum = sum * 10 + In(value);
    *whole = Of(sum);
    return !stack_fails;
  }
  bool IsScheduled(int function) override { return scheduled.count(function) > 0 && !gave_up; }
  Scheduled RunCalls(int function, Activation** activations, size_t count, int64_t* invocations) override {
    EXPECT_TRUE(IsScheduled(function));
    batches.push_back({"calls", count});
    gave_up = ends_as == Scheduled::kGaveUp;
    if (ends_as != Scheduled::kDone) return ends_as;
    for (size_t i = 0; i < count; ++i) {
      const Function& callee = *activations[i]->function;
      Value* const slots = activations[i]->slots;
      slots[callee.results[0]] = Of(FibonacciOf(In(slots[0])));
    }
    *invocations = 1000;
    return Scheduled::kDone;
  }
  bool Cancelled() override { return batches.size() >= cancel_after; }
  bool MemoryIsShort() override { return ++looks > 2; }

  int64_t shapes = 1;
  bool select_fails = false;
  bool stack_fails = false;
  std::set<int> scheduled;
  Scheduled ends_as = Scheduled::kDone;
  bool gave_up = false;
  int64_t bad_frame = -2;
  int looks = 0;
  size_t cancel_after = 1 << 20;
  std::vector<std::pair<std::string, size_t>> batches;
};

Node BlockNode(int block, std::vector<int> reads, std::vector<int> writes, int pending, int event) {
  Node node;
  node.kind = NodeKind::kBlock;
  node.block = block;
  node.reads = std::move(reads);
  node.writes = std::move(writes);
  node.pending = pending;
  node.event = event;
  return node;
}

Node CallNode(std::vector<int> targets, std::vector<int> reads, std::vector<int> writes, int event,
              Selector selector, int site) {
  Node node;
  node.kind = NodeKind::kCall;
  node.targets = std::move(targets);
  node.reads = std::move(reads);
  node.writes = std::move(writes);
  node.pending = 1;
  node.event = event;
  node.selector = selector;
  node.site = site;
  return node;
}

Block Named(std::string name, int function, int node, int priority) {
  Block block{};
  block.function = function;
  block.node = node;
  block.priority = priority;
  block.name = std::move(name);
  block.shared.assign(3, false);
  return block;
}

// fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2), with its branches as functions 1 and 2.
Plan Fibonacci() {
  Plan plan;
  Function fib{};
  fib.arguments = 1;
  fib.slots = 5;
  fib.results = {4};
  fib.groups = {{0}};
  fib.nodes = {BlockNode(0, {0}, {1, 2, 3}, 1, 1),
               CallNode({1, 2}, {1, 0, 2, 3}, {4}, 2, Selector::kBool, 0)};
  fib.events = {{{0}, {}}, {{1}, {}}, {{}, {0}}};
  Function leaf{};
  leaf.arguments = 3;
  leaf.slots = 3;
  leaf.results = {0};
  leaf.groups = {{0}};
  leaf.events = {{{}, {0}}};
  Function inner{};
  inner.arguments = 3;
  inner.slots = 6;
  inner.results = {5};
  inner.groups = {{0}};
  inner.nodes = {CallNode({0}, {1}, {3}, 1, Selector::kNone, 1),
                 CallNode({0}, {2}, {4}, 2, Selector::kNone, 1), BlockNode(1, {3, 4}, {5}, 2, 3)};
  inner.events = {{{0, 1}, {}}, {{2}, {}}, {{2}, {}}, {{}, {0}}};
  plan.functions = {fib, leaf, inner};
  plan.names = {"fib", "leaf", "inner"};
  plan.labels = {"", "below"};
  plan.blocks = {Named("split", 0, 0, 0), Named("add", 2, 2, 1)};
  FindOnlyUses(&plan);
  return plan;
}

class MachineTest : public ::testing::TestWithParam<Order> {};

TEST_P(MachineTest, RecursionGivesTheRightNumbers) {
  Plan plan = Fibonacci();
  for (const int64_t shapes : {1, 2, 5, 1000}) {
    Numbers numbers;
    numbers.shapes = shapes;
    for (Block& block : plan.blocks) block.ragged = shapes > 1;
    const auto policy = MakeBatchPolicy(GetParam());
    Machine machine(plan, &numbers, policy.get(), 1000);
    machine.AddRoot(0, {Of(10)});
    machine.AddRoot(0, {Of(1)});
    ASSERT_EQ(machine.Run(), Machine::End::kDone);
    EXPECT_EQ(In(machine.results(0)[0]), 55);
    EXPECT_EQ(In(machine.results(1)[0]), 1);
    EXPECT_EQ(machine.counts().invocations, 177 + 1);
    EXPECT_EQ(machine.counts().live, 0);
  }
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

INSTANTIATE_TEST_SUITE_P(Orders, MachineTest,
                         ::testing::Values(Order::kAgenda, Order::kDepth, Order::kHeight,
                                           Order::kRandom));

TEST(Machine, TheAgendaFillsItsBatches) {
  const Plan plan = Fibonacci();
  Numbers numbers;
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  Machine machine(plan, &numbers, policy.get(), 1000);
  for (int i = 0; i < 100; ++i) machine.AddRoot(0, {Of(10)});
  ASSERT_EQ(machine.Run(), Machine::End::kDone);
  // One "split" a level on the way down, one "add" a height on the way up.
  EXPECT_EQ(numbers.batches.size(), 10u + 9u);
  EXPECT_EQ(numbers.batches[0].second, 100u);
}

TEST(Machine, AWaitGathersEvents) {
  Plan plan = Fibonacci();
  Function& inner = plan.functions[2];
  Node wait;
  wait.kind = NodeKind::kWait;
  wait.pending = 3;
  wait.event = 4;
  inner.nodes.push_back(wait);
  inner.events = {{{0, 1}, {}}, {{2, 3}, {}}, {{2, 3}, {}}, {{3}, {}}, {{}, {0}}};
  Numbers numbers;
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  Machine machine(plan, &numbers, policy.get(), 1000);
  machine.AddRoot(0, {Of(10)});
  ASSERT_EQ(machine.Run(), Machine::End::kDone);
  EXPECT_EQ(In(machine.results(0)[0]), 55);
}

TEST(Machine, RowsOfOneShapeShareABatch) {
  Plan plan = Fibonacci();
  for (Block& block : plan.blocks) block.ragged = true;
  Numbers numbers;
  numbers.shapes = 7;
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  Machine machine(plan, &numbers, policy.get(), 1000);
  for (int i = 0; i < 70; ++i) machine.AddRoot(0, {Of(-i)});
  ASSERT_EQ(machine.Run(), Machine::End::kDone);
  EXPECT_EQ(numbers.batches, (std::vector<std::pair<std::string, size_t>>(7, {"split", 10})));
}

TEST(Machine, ABatchHasABound) {
  const Plan plan = Fibonacci();
  Numbers numbers;
  numbers.looks = -1000;
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  Machine machine(plan, &numbers, policy.get(), 1000);
  const int roots = Machine::kLargestBatch + 100;
  for (int i = 0; i < roots; ++i) machine.AddRoot(0, {Of(1)});
  ASSERT_EQ(machine.Run(), Machine::End::kDone);
  ASSERT_EQ(numbers.batches.size(), 2u);
  EXPECT_EQ(numbers.batches[0].second, Machine::kLargestBatch);
  EXPECT_EQ(numbers.batches[1].second, 100u);
  EXPECT_EQ(In(machine.results(roots - 1)[0]), 1);
}

TEST(Machine, EndsWhenABlockFails) {
  Plan plan = Fibonacci();
  plan.blocks[1].name = "fail";
  Numbers numbers;
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  {
    Machine machine(plan, &numbers, policy.get(), 1000);
    machine.AddRoot(0, {Of(10)});
    EXPECT_EQ(machine.Run(), Machine::End::kFailed);
  }
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

TEST(Machine, EndsWhenItIsCancelled) {
  const Plan plan = Fibonacci();
  Numbers numbers;
  numbers.cancel_after = 5;
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  {
    Machine machine(plan, &numbers, policy.get(), 1000);
    machine.AddRoot(0, {Of(20)});
    EXPECT_EQ(machine.Run(), Machine::End::kCancelled);
  }
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

TEST(Machine, EndsWhereItIsTooDeep) {
  const Plan plan = Fibonacci();
  Numbers numbers;
  const auto policy = MakeBatchPolicy(Order::kDepth);
  Machine machine(plan, &numbers, policy.get(), 7);
  machine.AddRoot(0, {Of(10)});
  ASSERT_EQ(machine.Run(), Machine::End::kTooDeep);
  EXPECT_EQ(machine.CallPath(machine.culprit()), std::vector<std::string>(7, "below"));
}

TEST(Machine, EndsWhenMemoryIsShort) {
  const Plan plan = Fibonacci();
  Numbers numbers;
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  {
    Machine machine(plan, &numbers, policy.get(), 1000);
    machine.AddRoot(0, {Of(1000)});
    ASSERT_EQ(machine.Run(), Machine::End::kTooMany);
    EXPECT_EQ(numbers.looks, 3);
    EXPECT_LE(machine.counts().live, Machine::kMany + 3 * Machine::kLook);
    EXPECT_EQ(machine.CallPath(machine.culprit()).front(), "below");
  }
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

// count(n): while n < 2 is false, n = n - 1, by a loop; its condition is function 1, its body function 2.
TEST(Machine, Loops) {
  Plan plan;
  Function loop{};
  loop.kind = FunctionKind::kLoop;
  loop.arguments = 1;
  loop.slots = 3;
  loop.results = {0};
  loop.groups = {{0}};
  loop.events = {{{}, {}}};
  loop.nodes = {CallNode({1}, {0}, {1}, -1, Selector::kNone, 0),
                CallNode({2}, {0}, {2}, -1, Selector::kNone, 0)};
  Function condition{};
  condition.arguments = 1;
  condition.slots = 4;
  condition.results = {3};  // n - 2, false when n is 2
  condition.groups = {{0}};
  condition.nodes = {BlockNode(0, {0}, {1, 2, 3}, 1, 1)};
  condition.events = {{{0}, {}}, {{}, {0}}};
  Function body = condition;
  body.results = {2};  // n - 1
  body.nodes[0].block = 1;
  plan.functions = {loop, condition, body};
  plan.blocks = {Named("split", 1, 0, 0), Named("split", 2, 0, 0)};
  FindOnlyUses(&plan);
  Numbers numbers;
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  Machine machine(plan, &numbers, policy.get(), 10);
  machine.AddRoot(0, {Of(9)});
  machine.AddRoot(0, {Of(2)});
  ASSERT_EQ(machine.Run(), Machine::End::kDone);
  EXPECT_EQ(In(machine.results(0)[0]), 2);
  EXPECT_EQ(In(machine.results(1)[0]), 2);
}

// Function 1 hands its argument back; function 0 maps it over the rows 0, 1, 2, ... of its own.
TEST(Machine, MapsOverRows) {
  Plan plan;
  Function map{};
  map.kind = FunctionKind::kMap;
  map.arguments = 1;
  map.slots = 2;
  map.results = {1};
  map.groups = {{0}};
  map.events = {{{}, {}}};
  map.nodes = {CallNode({1}, {0}, {1}, -1, Selector::kNone, 1)};
  map.map_results = {MapResult{false, 1, {}}};
  Function same{};
  same.arguments = 1;
  same.slots = 1;
  same.results = {0};
  same.groups = {{0}};
  same.events = {{{}, {0}}};
  plan.functions = {map, same};
  FindOnlyUses(&plan);
  Numbers numbers;
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  Machine machine(plan, &numbers, policy.get(), 10);
  machine.AddRoot(0, {Of(4)});
  machine.AddRoot(0, {Of(0)});
  ASSERT_EQ(machine.Run(), Machine::End::kDone);
  EXPECT_EQ(In(machine.results(0)[0]), 123);  // 0123
  EXPECT_EQ(In(machine.results(1)[0]), 0);
}

// unpack(x): values 0 and 1 of the frame x.
Plan Unpacking() {
  Plan plan;
  Node unpack;
  unpack.kind = NodeKind::kUnpack;
  unpack.pending = 1;
  unpack.reads = {0};
  unpack.writes = {1, 2};
  unpack.indices = {0, 1};
  unpack.event = 1;
  Function function{};
  function.arguments = 1;
  function.slots = 3;
  function.results = {1, 2};
  function.groups = {{0, 1}};
  function.events = {{{0}, {}}, {{}, {0}}};
  function.nodes = {unpack};
  plan.functions = {function};
  FindOnlyUses(&plan);
  return plan;
}

// Where frames come from no plan shows.
TEST(Machine, EndsWhereAFrameIsNone) {
  const Plan plan = Unpacking();
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  const auto record = [](Holder::Kind kind, int values) {
    return Value{FramePtr<Holder>(new Record(kind, Values(values, Of(7)))), 0};
  };
  const struct {
    Value argument;
    Machine::End end;
    int64_t told;
  } kCases[] = {{Of(1), Machine::End::kFailed, -1},
                {record(Holder::Kind::kJoin, 2), Machine::End::kFailed, -1},
                {record(Holder::Kind::kRecord, 1), Machine::End::kFailed, 1},
                {record(Holder::Kind::kRecord, 2), Machine::End::kDone, -2}};
  for (const auto& [argument, end, told] : kCases) {
    Numbers numbers;
    Machine machine(plan, &numbers, policy.get(), 10);
    machine.AddRoot(0, {argument});
    EXPECT_EQ(machine.Run(), end);
    EXPECT_EQ(numbers.bad_frame, told);
  }
}

TEST(Machine, EndsWhereNoBranchCanBePicked) {
  const Plan plan = Fibonacci();
  Numbers numbers;
  numbers.select_fails = true;
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  Machine machine(plan, &numbers, policy.get(), 10);
  machine.AddRoot(0, {Of(4)});
  EXPECT_EQ(machine.Run(), Machine::End::kFailed);
}

// A loop that runs no block at all, and never ends.
TEST(Machine, ALoopWithoutBlocksCanBeCancelled) {
  Plan plan;
  Function loop{};
  loop.kind = FunctionKind::kLoop;
  loop.arguments = 1;
  loop.slots = 3;
  loop.results = {0};
  loop.groups = {{0}};
  loop.events = {{{}, {}}};
  loop.nodes = {CallNode({1}, {0}, {1}, -1, Selector::kNone, 0), CallNode({1}, {0}, {2}, -1, Selector::kNone, 0)};
  Function same{};
  same.arguments = 1;
  same.slots = 1;
  same.results = {0};
  same.groups = {{0}};
  same.events = {{{}, {0}}};
  plan.functions = {loop, same};
  FindOnlyUses(&plan);
  Numbers numbers;
  numbers.cancel_after = 0;
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  Machine machine(plan, &numbers, policy.get(), 10);
  machine.AddRoot(0, {Of(1)});
  EXPECT_EQ(machine.Run(), Machine::End::kCancelled);
}

// above(n) = fib(n - 1) + fib(n - 2), as function 3, after a block of its own.
Plan AboveFibonacci() {
  Plan plan = Fibonacci();
  Function above{};
  above.arguments = 1;
  above.slots = 7;
  above.results = {6};
  above.groups = {{0}};
  above.nodes = {BlockNode(2, {0}, {1, 2, 3}, 1, 1), CallNode({0}, {2}, {4}, 2, Selector::kNone, 1),
                 CallNode({0}, {3}, {5}, 3, Selector::kNone, 1), BlockNode(3, {4, 5}, {6}, 2, 4)};
  above.events = {{{0}, {}}, {{1, 2}, {}}, {{3}, {}}, {{3}, {}}, {{}, {0}}};
  plan.functions.push_back(above);
  plan.names.push_back("above");
  plan.blocks.push_back(Named("split", 3, 0, 2));
  plan.blocks.push_back(Named("add", 3, 3, 3));
  for (Function& function : plan.functions) {
    for (Node& node : function.nodes) node.only_use.clear();
    function.only_use.clear();
  }
  FindOnlyUses(&plan);
  return plan;
}

using Batches = std::vector<std::pair<std::string, size_t>>;

int64_t RunsOf(const std::string& what, const Batches& batches) {
  return std::count_if(batches.begin(), batches.end(), [&](const auto& batch) { return batch.first == what; });
}

TEST(Machine, CallsThatAreScheduledWaitForOneAnother) {
  const Plan plan = AboveFibonacci();
  Numbers numbers;
  numbers.scheduled = {0};
  const auto policy = MakeBatchPolicy(Order::kRandom);
  {
    Machine machine(plan, &numbers, policy.get(), 1000);
    for (int i = 0; i < 100; ++i) machine.AddRoot(i % 2 == 0 ? 3 : 0, {Of(10 + i % 3)});
    ASSERT_EQ(machine.Run(), Machine::End::kDone);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(In(machine.results(i)[0]), FibonacciOf(10 + i % 3));
    EXPECT_EQ(numbers.batches, (Batches{{"split", 50}, {"calls", 50 + 2 * 50}, {"add", 50}}));
    EXPECT_EQ(machine.counts().invocations, 100 + 2 * 50 + 1000) << "those below the calls, too";
    EXPECT_EQ(machine.counts().peak, 100 + 2 * 50 + 1000);
    EXPECT_EQ(machine.counts().live, 0);
  }
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

// A branch is no invocation: what is scheduled is the call of the function that it belongs to.
TEST(Machine, BranchesAreNotScheduled) {
  const Plan plan = Fibonacci();
  Numbers numbers;
  numbers.scheduled = {1, 2};
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  Machine machine(plan, &numbers, policy.get(), 1000);
  machine.AddRoot(0, {Of(10)});
  ASSERT_EQ(machine.Run(), Machine::End::kDone);
  EXPECT_EQ(In(machine.results(0)[0]), 55);
  EXPECT_EQ(RunsOf("calls", numbers.batches), 0);
}

TEST(Machine, CallsThatAreGivenUpRunAsOthers) {
  const Plan plan = AboveFibonacci();
  Numbers numbers;
  numbers.scheduled = {0};
  numbers.ends_as = Backend::Scheduled::kGaveUp;
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  {
    Machine machine(plan, &numbers, policy.get(), 1000);
    for (int i = 0; i < 10; ++i) machine.AddRoot(3, {Of(10 + i)});
    ASSERT_EQ(machine.Run(), Machine::End::kDone);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(In(machine.results(i)[0]), FibonacciOf(10 + i));
    EXPECT_EQ(RunsOf("calls", numbers.batches), 1) << "tried once";
    EXPECT_EQ(machine.counts().live, 0);
  }
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

TEST(Machine, EndsAsItsScheduledCallsDo) {
  const Plan plan = AboveFibonacci();
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  for (const auto& [calls, end] : {std::pair(Backend::Scheduled::kFailed, Machine::End::kFailed),
                                   std::pair(Backend::Scheduled::kCancelled, Machine::End::kCancelled)}) {
    Numbers numbers;
    numbers.scheduled = {0};
    numbers.ends_as = calls;
    {
      Machine machine(plan, &numbers, policy.get(), 1000);
      for (int i = 0; i < 10; ++i) machine.AddRoot(3, {Of(10)});
      EXPECT_EQ(machine.Run(), end);
    }
    EXPECT_EQ(numbers.batches, (Batches{{"split", 10}, {"calls", 20}}));
    EXPECT_EQ(FrameBase::Live().entries, 0);
  }
}

// Its rows are the calls.
TEST(Machine, TheRowsOfAMapAreScheduledTogether) {
  Plan plan = Fibonacci();
  Function map{};
  map.kind = FunctionKind::kMap;
  map.arguments = 1;
  map.slots = 2;
  map.results = {1};
  map.groups = {{0}};
  map.events = {{{}, {}}};
  map.nodes = {CallNode({0}, {0}, {1}, -1, Selector::kNone, 1)};
  map.nodes[0].only_use = {false};
  map.only_use = {false};
  map.map_results = {MapResult{false, 1, {}}};
  plan.functions.push_back(map);
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  for (const bool stack_fails : {false, true}) {
    Numbers numbers;
    numbers.scheduled = {0};
    numbers.stack_fails = stack_fails;
    {
      Machine machine(plan, &numbers, policy.get(), 10);
      machine.AddRoot(3, {Of(7)});
      EXPECT_EQ(machine.Run(), stack_fails ? Machine::End::kFailed : Machine::End::kDone);
      if (!stack_fails) {
        EXPECT_EQ(In(machine.results(0)[0]), 112358);
      }
    }
    EXPECT_EQ(numbers.batches, (Batches{{"calls", 7}}));
    EXPECT_EQ(FrameBase::Live().entries, 0);
  }
}

// A frame of a step: a whole value, row 1 of a table, the same where another order has put it, and an empty frame.
Value FrameOfStep(const Plan& plan) {
  static const std::vector<int> packed{0, 1, 2, 3}, nothing;
  static const std::vector<uint32_t> order{5, 4};
  FramePtr<StepFrame> step(new StepFrame(plan));
  step->functions[0].slots = 4;
  step->functions[0].values = {{9, 9}, {9, 9}, {9, 9}, {9, 9}, {0, 0}, {1, 1}, {2, 1}, {RowRef::kFrame | 1, 0}};
  step->sources.resize(3);
  for (int64_t i = 0; i < 3; ++i) step->sources[i].holder = Of(10 + i).holder;
  step->sources[1].bytes = step->sources[2].bytes = 8;
  step->sources[2].order = order.data();
  step->frames = {{step.get(), 0, &packed, 0, 0}, {step.get(), 0, &nothing, 0, 0}};
  return step->ToValue({RowRef::kFrame, 1});
}

TEST(Machine, UnpacksFramesOfSteps) {
  Plan plan = Unpacking();
  Node& unpack = plan.functions[0].nodes[0];
  unpack.writes = {1, -1, 2, 3, 4};
  unpack.indices = {0, 0, 1, 2, 3};
  plan.functions[0].slots = 5;
  plan.functions[0].results = {1, 2, 3, 4};
  plan.functions[0].only_use.assign(4, true);
  plan.functions[0].groups = {{0, 1, 2, 3}};
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  {
    Numbers numbers;
    Machine machine(plan, &numbers, policy.get(), 10);
    machine.AddRoot(0, {FrameOfStep(plan)});
    ASSERT_EQ(machine.Run(), Machine::End::kDone);
    const std::vector<Value>& results = machine.results(0);
    EXPECT_EQ(In(results[0]), 10);
    EXPECT_EQ(results[0].row, -1);
    EXPECT_EQ(In(results[1]), 11);
    EXPECT_EQ(results[1].row, 1);
    EXPECT_EQ(In(results[2]), 12);
    EXPECT_EQ(results[2].row, 4);
    EXPECT_EQ(results[3].holder->kind, Holder::Kind::kStep);
    const Value nested = results[3];
    Machine again(plan, &numbers, policy.get(), 10);
    again.AddRoot(0, {nested});
    EXPECT_EQ(again.Run(), Machine::End::kFailed);
    EXPECT_EQ(numbers.bad_frame, 0) << "the nested frame is empty";
  }
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

TEST(Machine, SeesWhetherAFrameOfAStepIsEmpty) {
  Plan plan = Unpacking();
  Node& node = plan.functions[0].nodes[0];
  node.kind = NodeKind::kIsEmpty;
  node.writes = {1};
  node.indices = {};
  plan.functions[0].results = {1};
  plan.functions[0].only_use = {true};
  plan.functions[0].groups = {{0}};
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  const Value frame = FrameOfStep(plan);
  const auto& step = static_cast<const StepFrame&>(*frame.holder);
  Numbers numbers;
  Machine machine(plan, &numbers, policy.get(), 10);
  machine.AddRoot(0, {frame});
  machine.AddRoot(0, {step.ToValue(step.ValueOf(StepFrame::FrameOf(frame), 3))});
  machine.AddRoot(0, {Value{FramePtr<Holder>(new Record(Holder::Kind::kRecord, {})), 0}});
  ASSERT_EQ(machine.Run(), Machine::End::kDone);
  EXPECT_EQ(In(machine.results(0)[0]), 0);
  EXPECT_EQ(In(machine.results(1)[0]), 1);
  EXPECT_EQ(In(machine.results(2)[0]), 1);
}

// A map of its own argument's rows by itself, over a frame in a frame in a frame: the innermost one ends all of them.
TEST(Machine, EndsMapsInMapsOfAnyDepth) {
  constexpr int kDepth = 200'000;
  Plan plan;
  Function map{};
  map.kind = FunctionKind::kMap;
  map.arguments = 1;
  map.slots = 2;
  map.results = {1};
  map.groups = {{0}};
  map.events.resize(1);
  map.nodes.push_back(CallNode({0}, {0}, {1}, 0, Selector::kNone, 1));
  map.nodes[0].pending = 0;
  map.map_results = {{true, 1, {}}};
  plan.functions = {map};
  plan.names = {"map"};
  plan.labels = {"", "call"};
  FindOnlyUses(&plan);
  ASSERT_EQ(VerifyPlan(plan), "");
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  {
    Value frame{FramePtr<Holder>(new Record(Holder::Kind::kRecord, {})), 0};
    for (int i = 0; i < kDepth; ++i) {
      Values values;
      values.push_back(std::move(frame));
      frame = {FramePtr<Holder>(new Record(Holder::Kind::kRecord, std::move(values))), 0};
    }
    Numbers numbers;
    Machine machine(plan, &numbers, policy.get(), 10 * kDepth);
    machine.AddRoot(0, {std::move(frame)});
    EXPECT_EQ(machine.Run(), Machine::End::kDone);
    EXPECT_EQ(machine.counts().invocations, kDepth + 1);
  }
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

// Each is the condition of the one around it, and the innermost answer ends all of them.
TEST(Machine, EndsLoopsInConditionsOfAnyDepth) {
  constexpr int kDepth = 50'000;
  Plan plan;
  plan.labels = {""};
  for (int f = 0; f < kDepth; ++f) {
    Function loop{};
    loop.kind = FunctionKind::kLoop;
    loop.arguments = 1;
    loop.slots = 3;
    loop.results = {0};
    loop.groups = {{0}};
    loop.events.resize(1);
    for (const int slot : {1, 2}) {
      loop.nodes.push_back(CallNode({slot == 1 ? f + 1 : kDepth}, {0}, {slot}, 0, Selector::kNone, 0));
      loop.nodes.back().pending = 0;
    }
    plan.functions.push_back(loop);
    plan.names.push_back("loop");
  }
  Function same{};  // f(x) = x
  same.arguments = same.slots = 1;
  same.results = {0};
  same.groups = {{0}};
  same.events.resize(1);
  same.events[0].groups = {0};
  plan.functions.push_back(same);
  plan.names.push_back("same");
  FindOnlyUses(&plan);
  ASSERT_EQ(VerifyPlan(plan), "");
  Numbers numbers;
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  Machine machine(plan, &numbers, policy.get(), 10);
  machine.AddRoot(0, {Of(0)});
  ASSERT_EQ(machine.Run(), Machine::End::kDone);
  EXPECT_EQ(In(machine.results(0)[0]), 0);
}

// Forty functions that call each other twice by calls that are no invocations: 2^40 activations.
TEST(Machine, LooksAtMemoryForBranchesToo) {
  constexpr int kFunctions = 40;
  Plan plan;
  plan.labels = {""};
  for (int f = 0; f < kFunctions; ++f) {
    Function function{};
    function.arguments = 1;
    function.slots = 1;
    function.events.resize(3);
    if (f + 1 < kFunctions) {
      function.slots = 3;
      for (int i = 0; i < 2; ++i) {
        function.nodes.push_back(CallNode({f + 1}, {0}, {1 + i}, 1 + i, Selector::kNone, 0));
        function.events[0].consumers.push_back(i);
      }
      function.events[1].groups = {0};
    } else {
      function.events.resize(1);
      function.events[0].groups = {0};
    }
    function.results = {function.slots > 1 ? 1 : 0};
    function.groups = {{0}};
    plan.functions.push_back(function);
    plan.names.push_back("twice");
  }
  FindOnlyUses(&plan);
  ASSERT_EQ(VerifyPlan(plan), "");
  Numbers numbers;
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  Machine machine(plan, &numbers, policy.get(), 10);
  for (int root = 0; root < (1 << 18); ++root) machine.AddRoot(0, {Of(0)});
  EXPECT_EQ(machine.Run(), Machine::End::kTooMany);
}

}  // namespace
}  // namespace batch
}  // namespace recgraph
