// Plans decoded, and damaged in every number: what is not refused runs, whatever it does, within its memory.
#include "cc/core/batch_plan.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/batch_machine.h"
#include "cc/core/plan_for_tests.h"
#include "gtest/gtest.h"

namespace recgraph {
namespace batch {
namespace {

class Anything final : public Holder {
 public:
  Anything() : Holder(Kind::kBuffer) {}
};

Value Some() { return {FramePtr<Holder>(new Anything), -1}; }

// Blocks give something, branches are picked at random, and sometimes something fails. It touches all that it is given.
class Careless : public Backend {
 public:
  explicit Careless(unsigned seed) : random_(seed) {}

  bool RunBlock(const Block& block, const Node& node, Activation** activations, size_t count) override {
    ++batches_;
    for (size_t row = 0; row < count; ++row) {
      for (int slot : node.reads) EXPECT_TRUE(activations[row]->slots[slot].holder);
      for (int slot : node.writes) activations[row]->slots[slot] = Some();
    }
    return block.shared.size() == node.writes.size() && random_() % 50 != 0;
  }
  bool Alike(const Node&, const Activation&, const Activation&) override { return random_() % 2 == 0; }
  uint64_t ShapesOf(const Node&, const Activation&) override { return random_() % 2; }
  bool Select(Selector, const Value& value, int* branch) override {
    EXPECT_TRUE(value.holder);
    *branch = static_cast<int>(random_() % 4) - 1;
    return true;
  }
  Value Bool(bool) override { return Some(); }
  void Mismatch(size_t, size_t) override {}
  void BadFrame(int64_t) override {}
  bool Split(const Value& value, std::vector<Value>* rows) override {
    EXPECT_TRUE(value.holder);
    for (unsigned i = random_() % 3; i-- > 0;) rows->push_back(Some());
    return true;
  }
  bool Stack(const std::vector<Value>& values, const MapResult&, Value* whole) override {
    for (const Value& value : values) EXPECT_TRUE(value.holder);
    *whole = Some();
    return true;
  }
  bool IsScheduled(int) override { return random_() % 8 == 0; }
  Scheduled RunCalls(int, Activation** activations, size_t count, int64_t*) override {
    ++batches_;
    for (size_t i = 0; i < count; ++i) {
      const Function& function = *activations[i]->function;
      for (int slot = 0; slot < function.arguments; ++slot) EXPECT_TRUE(activations[i]->slots[slot].holder);
      for (int slot : function.results) activations[i]->slots[slot] = Some();
    }
    return random_() % 2 == 0 ? Scheduled::kDone : random_() % 4 == 0 ? Scheduled::kFailed : Scheduled::kGaveUp;
  }
  bool Cancelled() override { return batches_ > 60; }
  bool MemoryIsShort() override { return true; }

 private:
  std::mt19937 random_;
  int batches_ = 0;
};

// Runs a function once for something, and then `gradient` for the frame that was its last result.
void RunPlan(const Plan& plan, const std::string& function, const std::string& gradient, unsigned seed) {
  const auto policy = MakeBatchPolicy(Order::kAgenda);
  Value frame = Some();
  for (const std::string& name : {function, gradient}) {
    const int index = plan.Find(name);
    if (index < 0) continue;
    Careless backend(seed);
    Machine machine(plan, &backend, policy.get(), 20);
    std::vector<Value> arguments(plan.functions[index].arguments);
    for (Value& argument : arguments) argument = Some();
    if (name == gradient && !arguments.empty()) arguments[0] = frame;
    machine.AddRoot(index, std::move(arguments));
    if (machine.Run() != Machine::End::kDone) return;
    for (const Value& result : machine.results(0)) EXPECT_TRUE(result.holder);
    if (!machine.results(0).empty()) frame = machine.results(0).back();
  }
}

TEST(DecodePlan, ReadsWhatPythonWrites) {
  Plan plan;
  ASSERT_EQ(DecodePlan(PlanCode(), PlanStrings(), &plan), "");
  EXPECT_EQ(plan.functions.size(), 21u);
  EXPECT_EQ(plan.blocks.size(), 19u);
  EXPECT_EQ(plan.captures, 2);
  EXPECT_EQ(plan.labels, (std::vector<std::string>{"", "n"}));
  EXPECT_EQ(plan.Find("f.grad"), 2);
  EXPECT_EQ(plan.Find("g"), -1);
  for (unsigned seed = 0; seed < 50; ++seed) {
    RunPlan(plan, "f", "", seed);
    RunPlan(plan, "f.rec", "f.grad", seed);
  }
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

TEST(DecodePlan, SaysWhatIsWrong) {
  const auto wrong = [](std::vector<int64_t> code, std::vector<std::string> strings) {
    Plan plan;
    return DecodePlan(code, strings, &plan);
  };
  EXPECT_EQ(wrong({}, {}), "a plan of another version of recgraph");
  EXPECT_EQ(wrong({1, 0, 0, 0}, {}), "a plan of another version of recgraph");
  EXPECT_EQ(wrong({3, 1, 0, 0, 0}, {"f"}), "a damaged plan: number 5 of 5 is not what it should be");
  EXPECT_EQ(wrong({3, 0, 0, 0, 0}, {}), "a damaged plan: number 4 of 5 is not what it should be");
  EXPECT_EQ(wrong({3, 0, 0, 0}, {}), "");
  // Function 'f' says that it has a million slots, which nobody writes.
  EXPECT_EQ(wrong({3, 1, 0, 1, 0, 0, 0, 0, 1000000, 0, 0, 0, 1, 0, 0, 0}, {"f"}),
            "a damaged plan: number 9 of 16 is not what it should be");
}

TEST(DecodePlan, RefusesWhatEndsEarly) {
  const std::vector<int64_t> code = PlanCode();
  for (size_t length = 0; length < code.size(); ++length) {
    Plan plan;
    EXPECT_NE(DecodePlan({code.begin(), code.begin() + length}, PlanStrings(), &plan), "");
  }
}

// One or two numbers are replaced: by their neighbours, by small ones, by others of the plan, by huge ones.
TEST(DecodePlan, WhatItLetsThroughStaysWithinItsMemory) {
  std::mt19937 random(21);
  const std::vector<int64_t> good = PlanCode();
  int through = 0;
  for (int round = 0; round < 6000; ++round) {
    std::vector<int64_t> code = good;
    for (unsigned changes = 1 + random() % 2; changes-- > 0;) {
      int64_t& number = code[random() % code.size()];
      switch (random() % 4) {
        case 0: number += random() % 2 == 0 ? 1 : -1; break;
        case 1: number = static_cast<int64_t>(random() % 8) - 1; break;
        case 2: number = code[random() % code.size()]; break;
        default: number = (int64_t{1} << random() % 63) - 1; break;
      }
    }
    Plan plan;
    if (!DecodePlan(code, PlanStrings(), &plan).empty()) continue;
    ++through;
    RunPlan(plan, "f", "", round);
    RunPlan(plan, "f.rec", "f.grad", round);
  }
  EXPECT_GT(through, 100);  // otherwise nothing was run
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

// Strings cost memory each time that they are named, nodes before they are read.
TEST(DecodePlan, RefusesNumbersThatAskForMemory) {
  const std::string large(1 << 20, 'x');
  Plan plan;
  std::vector<int64_t> code{3, 0, 0, 100'000};
  code.resize(code.size() + 100'000, 0);
  EXPECT_NE(DecodePlan(code, {large}, &plan), "");
  EXPECT_LT(plan.labels.size(), 100u);
  std::vector<int64_t> nodes{3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1000};
  nodes.resize(1013, 0);
  EXPECT_EQ(DecodePlan(nodes, {"f"}, &plan), "a damaged plan: number 12 of 1013 is not what it should be");
}

}  // namespace
}  // namespace batch
}  // namespace recgraph
