// Which calls have a structure that is known before their values, and why others have none.
#include "cc/core/structure.h"

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cc/core/plan_for_tests.h"
#include "cc/core/plan_maker_for_tests.h"
#include "cc/core/plan_verifier.h"
#include "gtest/gtest.h"

namespace recgraph {
namespace batch {
namespace {

// A structure, with what it refers to.
class Known {
 public:
  Known(const Plan& plan, int root) : all_(plan), structure_(all_.Of(root)) {
    EXPECT_EQ(VerifyPlan(plan), "");
    EXPECT_EQ(all_.Why(root), "");
  }
  bool is_there() const { return structure_ != nullptr; }
  const Structure* operator->() const { return structure_.get(); }

 private:
  const Structures all_;
  const std::unique_ptr<const Structure> structure_;
};

std::string WhyNot(const Plan& plan, int root = 0) {
  const Structures structures(plan);
  EXPECT_EQ(structures.Of(root), nullptr);
  return structures.Why(root);
}

using Stages = std::vector<Stage>;

TEST(Structure, OfATreeRecursionIsKnown) {
  Plan plan = TreePlan();
  plan.functions.push_back(plan.functions[1]);  // not reached
  plan.names.push_back("other");
  plan.functions[3].nodes[0].block = 4;
  plan.blocks.push_back(plan.blocks[1]);
  plan.blocks[4].function = 3;
  const Known structure(plan, 0);
  ASSERT_TRUE(structure.is_there());
  const auto& [tree, leaf, inner, other] =
      std::tie(structure->functions[0], structure->functions[1], structure->functions[2], structure->functions[3]);
  EXPECT_EQ(tree.nodes, (Stages{Stage::kStructure, Stage::kUp}));
  EXPECT_EQ(tree.calls, (std::vector<int>{-1, 0}));
  EXPECT_EQ(tree.call_count, 1);
  EXPECT_TRUE(tree.has_up);
  EXPECT_EQ(leaf.nodes, (Stages{Stage::kDown}));
  EXPECT_FALSE(leaf.has_up);
  EXPECT_EQ(inner.nodes, (Stages{Stage::kDown, Stage::kUp, Stage::kUp, Stage::kUp}));
  EXPECT_EQ(inner.calls, (std::vector<int>{-1, 0, 1, -1}));
  EXPECT_EQ(inner.call_count, 2);
  EXPECT_TRUE(other.order.size() == 1);
  EXPECT_EQ(structure->is_reached, (std::vector<bool>{true, true, true, false}));
}

// What decides may be handed down through calls, and be computed from what is.
TEST(Structure, WhatDecidesIsFoundThroughArguments) {
  Plan plan = EmptyPlan(3);
  FunctionMaker walk(&plan, 0), end(&plan, 1), more(&plan, 2);
  {
    const Slots in = walk.Arguments(2);
    walk.Return(walk.Branch({1, 2}, {in[0], in[0], in[1]}, 1, Selector::kIndex));
  }
  end.Return({end.Arguments(2)[1]});
  {
    const Slots in = more.Arguments(2);
    const int next = more.Block("less", {in[0]}, 1, 0)[0], value = more.Block("value", {in[1]}, 1, 1)[0];
    more.Return(more.Call(0, {next, value}, 1));
  }
  FindOnlyUses(&plan);
  const Known structure(plan, 0);
  ASSERT_TRUE(structure.is_there());
  EXPECT_EQ(structure->functions[2].nodes, (Stages{Stage::kStructure, Stage::kDown, Stage::kUp}));
}

// Nodes come in any order.
TEST(Structure, NodesAreOrderedByWhatTheyRead) {
  Plan plan = TreePlan();
  Function& inner = plan.functions[2];
  std::swap(inner.nodes[0], inner.nodes[3]);
  for (Event& event : inner.events) {
    for (int& node : event.consumers) node = node == 0 ? 3 : node == 3 ? 0 : node;
  }
  plan.blocks[2].node = 3;
  plan.blocks[3].node = 0;
  const Known structure(plan, 0);
  ASSERT_TRUE(structure.is_there());
  EXPECT_EQ(structure->functions[2].order, (std::vector<int>{3, 1, 2, 0}));
  EXPECT_EQ(structure->functions[2].nodes, (Stages{Stage::kUp, Stage::kUp, Stage::kUp, Stage::kDown}));
}

TEST(Structure, PlansAreRefusedWithTheirReasons) {
  const struct {
    const char* what;
    std::function<void(Plan*)> change;
    std::string why;
  } kCases[] = {
      {"no recursion",
       [](Plan* plan) { plan->functions[2].nodes[1].targets = plan->functions[2].nodes[2].targets = {1}; },
       "no recursion"},
      {"effects", [](Plan* plan) { plan->functions[1].has_effects = true; }, "effects"},
      {"an effect of a block", [](Plan* plan) { plan->blocks[3].has_effect = true; }, "up runs row by row"},
      {"by row", [](Plan* plan) { plan->blocks[0].by_row = true; }, "look runs row by row"},
      {"a loop", [](Plan* plan) { plan->functions[1].kind = FunctionKind::kLoop; }, "a loop or a map in a body"},
      {"a map", [](Plan* plan) { plan->functions[2].kind = FunctionKind::kMap; }, "a loop or a map in a body"},
      {"a slot that nobody writes",
       [](Plan* plan) { plan->functions[2].nodes[3].reads[2] = plan->functions[2].slots++; },
       "its nodes wait for one another"},
      {"a result that nobody writes", [](Plan* plan) { plan->functions[1].results = {plan->functions[1].slots++}; },
       "its nodes wait for one another"},
      {"a circle",
       [](Plan* plan) { plan->functions[2].nodes[0].reads[0] = plan->functions[2].nodes[3].writes[0]; },
       "its nodes wait for one another"},
      {"an argument that is another call's result",
       [](Plan* plan) { plan->functions[2].nodes[2].reads[1] = plan->functions[2].nodes[1].writes[0]; },
       "a call is given results of another one"},
      {"a node that is another call's result",
       [](Plan* plan) { plan->functions[2].nodes[2].reads[0] = plan->functions[2].nodes[1].writes[0]; },
       "results of calls decide which calls there are"},
  };
  for (const auto& [what, change, why] : kCases) {
    Plan plan = TreePlan();
    change(&plan);
    EXPECT_EQ(WhyNot(plan), why) << what;
  }
}

// sum(n): where a result decides whether there is a second call.
TEST(Structure, ResultsMustNotDecide) {
  Plan plan = TreePlan();
  plan.functions[2] = Function{};
  plan.blocks.resize(2);
  FunctionMaker inner(&plan, 2);
  const Slots in = inner.Arguments(4);
  const int a = inner.Call(0, {in[2], in[1]}, 1)[0];
  const int is_small = inner.Block("is_small", {a}, 1, 3)[0];
  inner.Return(inner.Branch({1, 0}, {is_small, in[0], in[1], in[2], in[3]}, 1));
  EXPECT_EQ(WhyNot(plan), "results of calls decide which calls there are");
}

TEST(Structure, LoopsOverFramesAreRefused) {
  Plan plan = TreePlan();
  plan.functions[1] = Function{};
  FunctionMaker leaf(&plan, 1);
  const Slots in = leaf.Arguments(4);
  leaf.Return({leaf.IsEmpty(in[0])});
  EXPECT_EQ(WhyNot(plan), "a loop's frames");
}

// In one body, and in two.
TEST(Structure, PacksAndJoinsDoNotGoTogether) {
  for (const bool pack : {false, true}) {
    for (const bool join : {false, true}) {
      Plan plan = TreePlan();
      plan.functions[1] = Function{};
      plan.blocks.erase(plan.blocks.begin() + 1);
      plan.functions[2].nodes[0].block = 1;
      plan.functions[2].nodes[3].block = 2;
      FunctionMaker leaf(&plan, 1);
      const Slots in = leaf.Arguments(4);
      if (pack) leaf.Pack({in[0]});
      leaf.Return({join ? leaf.Join({in[0], in[1]}) : in[0]});
      if (pack && join) {
        EXPECT_EQ(WhyNot(plan), "a gradient through a concatenation of any length");
      } else {
        EXPECT_TRUE(Known(plan, 0).is_there());
      }
    }
  }
}

// walk(n): a frame of a call's result, handed to another call, read where it is made, or given back.
Plan FramesOfResults(const std::string& how) {
  Plan plan = EmptyPlan(4);
  FunctionMaker walk(&plan, 0), end(&plan, 1), more(&plan, 2), reader(&plan, 3);
  {
    const Slots in = walk.Arguments(1);
    const Slots look = walk.Block("look", in, 2, 0);
    walk.Return(walk.Branch({1, 2}, {look[0], in[0], look[1]}, 2));
  }
  {
    const Slots in = end.Arguments(2);
    end.Return({in[0], end.Pack({in[0]})});
  }
  {
    const Slots in = more.Arguments(2);
    const Slots below = more.Call(0, {in[1]}, 2);
    const int value = more.Block("value", {below[0]}, 1, 1)[0];
    const int frame = more.Pack({how == "arguments" ? in[0] : value});
    int result = value;
    if (how == "handed on" || how == "arguments") result = more.Call(3, {frame}, 1)[0];
    if (how == "read here") result = more.Unpack(frame, {0})[0];
    more.Return({result, frame});
  }
  {
    const Slots in = reader.Arguments(1);
    reader.Return(reader.Block("reader", reader.Unpack(in[0], {0}), 1, 2));
  }
  FindOnlyUses(&plan);
  return plan;
}

TEST(Structure, FramesOfResultsAreNotReadInTheirStep) {
  {
    const Plan plan = FramesOfResults("given back");
    EXPECT_TRUE(Known(plan, 0).is_there());
  }
  {
    const Plan plan = FramesOfResults("arguments");
    EXPECT_TRUE(Known(plan, 0).is_there());
  }
  EXPECT_EQ(WhyNot(FramesOfResults("handed on")), "a call is given results of another one");
  EXPECT_EQ(WhyNot(FramesOfResults("read here")), "a frame of results is read where it is made");
}

// What is wrong with one function is wrong with all that lead to it, and with no other.
TEST(Structure, ReasonsGoToThoseThatLeadToThem) {
  Plan plan = EmptyPlan(4);
  FunctionMaker good(&plan, 0), loops(&plan, 1), above(&plan, 2), plain(&plan, 3);
  good.Return(good.Call(0, good.Arguments(1), 1));
  {
    const Slots in = loops.Arguments(1);
    loops.IsEmpty(in[0]);
    loops.Return(loops.Call(1, {in[0]}, 1));
  }
  above.Return(above.Call(1, above.Arguments(1), 1));
  plain.Return(plain.Arguments(1));
  FindOnlyUses(&plan);
  const Structures structures(plan);
  EXPECT_EQ(structures.Why(0), "");
  EXPECT_EQ(structures.Why(1), "a loop's frames");
  EXPECT_EQ(structures.Why(2), "a loop's frames");
  EXPECT_EQ(structures.Why(3), "no recursion");
}

// A file of a megabyte may hold forty thousand functions, each of which leads to all that come after it.
TEST(Structure, OfManyFunctionsIsLinear) {
  constexpr int kFunctions = 40'000;
  Plan plan = EmptyPlan(kFunctions);
  for (int f = 0; f < kFunctions; ++f) {
    FunctionMaker maker(&plan, f);
    maker.Return(maker.Call(f + 1 < kFunctions ? f + 1 : f, maker.Arguments(1), 1));
  }
  FindOnlyUses(&plan);
  EXPECT_EQ(VerifyPlan(plan), "");
  const Structures structures(plan);
  EXPECT_EQ(structures.Why(0), "");
  EXPECT_EQ(structures.Of(kFunctions - 2)->is_reached[0], false);
}

TEST(Structure, OfWhatRecgraphMakes) {
  Plan plan;
  ASSERT_EQ(DecodePlan(PlanCode(), PlanStrings(), &plan), "");
  const Structures structures(plan);
  for (int f = 0; f < static_cast<int>(plan.functions.size()); ++f) {
    EXPECT_EQ(structures.Of(f) == nullptr, !structures.Why(f).empty()) << plan.names[f];
  }
  EXPECT_EQ(WhyNot(plan, plan.Find("f")), "a loop or a map in a body");
}

}  // namespace
}  // namespace batch
}  // namespace recgraph
