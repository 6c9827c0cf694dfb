// Each rule of the verifier, broken in a plan that is good otherwise.
#include "cc/core/plan_verifier.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/plan_for_tests.h"
#include "gtest/gtest.h"

namespace recgraph {
namespace batch {
namespace {

constexpr int kF = 0, kRecorded = 1, kGradient = 2, kElse = 4, kLoop = 15, kMap = 16;

Plan Good() {
  Plan plan;
  EXPECT_EQ(DecodePlan(PlanCode(), PlanStrings(), &plan), "");
  return plan;
}

struct Rule {
  const char* text;
  std::function<void(Plan*)> break_it;
};

Function& F(Plan* plan, int index) { return plan->functions[index]; }
Node& N(Plan* plan, int function, int node) { return plan->functions[function].nodes[node]; }

// 'f' has a block that writes slot 2, and a call that picks by it and writes slot 3; 'f.rec' and 'f.grad' have a frame
// packed and unpacked, 'part4' a loop and a map.
const std::vector<Rule>& Rules() {
  static const auto* const rules = new std::vector<Rule>{
      {"functions without names", [](Plan* p) { p->names.pop_back(); }},
      {"no kind of function: 3", [](Plan* p) { F(p, kF).kind = static_cast<FunctionKind>(3); }},
      {"1 slots for 2 arguments", [](Plan* p) { F(p, kF).slots = 1; }},
      {"5 slots for 4 values", [](Plan* p) { F(p, kF).slots = 5; }},
      {"a result is no slot", [](Plan* p) { F(p, kF).results[0] = 4; }},
      {"it has no event for its beginning", [](Plan* p) { F(p, kF).events.clear(); }},
      {"an event is for a node that does not exist", [](Plan* p) { F(p, kF).events[0].consumers = {2}; }},
      {"an event tells of a group that does not exist", [](Plan* p) { F(p, kF).events[0].groups = {1}; }},
      {"a node reads a slot that does not exist", [](Plan* p) { N(p, kF, 0).reads = {4}; }},
      {"a node writes a slot that does not exist", [](Plan* p) { N(p, kF, 0).writes = {4}; }},
      {"node 0 writes to an argument", [](Plan* p) { N(p, kF, 0).writes = {1}; }},
      {"slot 2 is written twice", [](Plan* p) { N(p, kF, 1).writes = {2}; }},
      {"it unpacks nothing and has indices", [](Plan* p) { N(p, kF, 0).indices = {0}; }},
      {"it is no call and has targets", [](Plan* p) { N(p, kF, 0).targets = {0}; }},
      {"it is no block and names one", [](Plan* p) { N(p, kF, 1).block = 0; }},
      {"it runs a block that does not exist", [](Plan* p) { N(p, kF, 0).block = 99; }},
      {"it runs block 1, which names another node", [](Plan* p) { N(p, kF, 0).block = 1; }},
      {"block 0 has other outputs", [](Plan* p) { p->blocks[0].shared = {}; }},
      {"a block writes a value that nobody reads",
       [](Plan* p) { N(p, kF, 0).writes = {-1}, F(p, kF).slots = 3, N(p, kF, 1).writes = {2}, F(p, kF).results = {2}; }},
      {"a frame is packed into 0 slots", [](Plan* p) { N(p, kRecorded, 2).writes = {}, F(p, kRecorded).slots = 5,
                                                       F(p, kRecorded).results = {4, 0}; }},
      {"nothing is joined", [](Plan* p) { N(p, kRecorded, 2).kind = NodeKind::kJoin, N(p, kRecorded, 2).reads = {}; }},
      {"it looks at one frame", [](Plan* p) { N(p, kRecorded, 2).kind = NodeKind::kIsEmpty; }},
      {"a wait has no values", [](Plan* p) { N(p, kRecorded, 2).kind = NodeKind::kWait; }},
      {"no kind of node: 7", [](Plan* p) { N(p, kRecorded, 2).kind = static_cast<NodeKind>(7); }},
      {"it unpacks 2 frames", [](Plan* p) { N(p, kGradient, 0).reads = {0, 1}; }},
      {"it unpacks other values than it writes", [](Plan* p) { N(p, kGradient, 0).indices = {0}; }},
      {"it unpacks a value with a negative number", [](Plan* p) { N(p, kGradient, 0).indices = {0, -1}; }},
      {"it unpacks a value twice", [](Plan* p) { N(p, kGradient, 0).indices = {1, 1}; }},
      {"no kind of selector: 3", [](Plan* p) { N(p, kF, 1).selector = static_cast<Selector>(3); }},
      {"it reads nothing to select by", [](Plan* p) { N(p, kF, 1).reads = {}; }},
      {"it calls nothing", [](Plan* p) { N(p, kF, 1).targets = {}; }},
      {"it calls several functions and selects none",
       [](Plan* p) { N(p, kF, 1).selector = Selector::kNone, N(p, kF, 1).reads = {1, 0}; }},
      {"it calls a function that does not exist", [](Plan* p) { N(p, kF, 1).targets = {3, 21}; }},
      {"its label does not exist", [](Plan* p) { N(p, kF, 1).site = 2; }},
      {"it gives 1 arguments for 2", [](Plan* p) { N(p, kF, 1).reads = {2, 0}; }},
      {"it expects other results than the function has", [](Plan* p) { N(p, kF, 1).targets = {1}; }},
      {"in other groups", [](Plan* p) { F(p, 3).groups = {{}, {0}}; }},
      {"a group has a result that does not exist", [](Plan* p) { F(p, kF).groups = {{1}}; }},
      {"a result is not in exactly one group", [](Plan* p) { F(p, kF).groups = {{}}; }},
      {"node 0 fires an event that does not exist", [](Plan* p) { N(p, kF, 0).event = 0; }},
      {"node 1 fires an event that does not exist", [](Plan* p) { N(p, kF, 1).event = 3; }},
      {"event 1 is fired twice", [](Plan* p) { N(p, kF, 1).event = 1; }},
      {"event 3 is never fired", [](Plan* p) { F(p, kF).events.emplace_back(); }},
      {"node 1 counts 3 events and waits for 2", [](Plan* p) { N(p, kF, 1).pending = 3; }},
      {"node 1 counts 0 events and waits for 0",
       [](Plan* p) { N(p, kF, 1).pending = 0, F(p, kF).events[0].consumers = {0}, F(p, kF).events[1].consumers = {}; }},
      {"node 1 waits for one event twice",
       [](Plan* p) { N(p, kF, 1).pending = 3, F(p, kF).events[1].consumers = {1, 1}; }},
      {"node 1 does not wait for slot 2, which it reads",
       [](Plan* p) { N(p, kF, 1).pending = 1, F(p, kF).events[1].consumers = {}; }},
      {"result 0 is given before it is there",
       [](Plan* p) { F(p, kF).events[1].groups = {0}, F(p, kF).events[2].groups = {}; }},
      {"a group of results is not given exactly once", [](Plan* p) { F(p, kF).events[2].groups = {}; }},
      {"a group of results is not given exactly once", [](Plan* p) { F(p, kF).events[2].groups = {0, 0}; }},
      {"nodes wait for each other in a circle",
       [](Plan* p) {
         N(p, kF, 0).pending = 2;
         F(p, kF).events[2].consumers = {0};
       }},
      {"a loop or map has events of its own", [](Plan* p) { F(p, kLoop).events.emplace_back(); }},
      {"a loop or map has events of its own", [](Plan* p) { F(p, kMap).events[0].groups = {0}; }},
      {"it has 1 nodes", [](Plan* p) { F(p, kLoop).nodes.pop_back(), F(p, kLoop).slots = 6; }},
      {"it calls no function", [](Plan* p) {
         N(p, kLoop, 0).selector = Selector::kBool;
         N(p, kLoop, 0).reads.insert(N(p, kLoop, 0).reads.begin(), 0);
       }},
      {"its calls are not given its arguments", [](Plan* p) { N(p, kLoop, 0).reads[0] = 1; }},
      {"a loop's results are its variables", [](Plan* p) { F(p, kLoop).results[0] = 5; }},
      {"the condition of a loop gives one value", [](Plan* p) {
         N(p, kLoop, 0).writes = {6};
         N(p, kLoop, 1).writes = {5, 7, 8, 9, 10};
       }},
      {"the body of a loop gives its variables", [](Plan* p) { std::swap(N(p, kLoop, 1).writes[0], N(p, kLoop, 1).writes[1]); }},
      {"a block in a loop or map", [](Plan* p) { F(p, kF).kind = FunctionKind::kMap; }},
      {"a map's results are not in order", [](Plan* p) { F(p, kMap).results[0] = 0; }},
      {"a map does not say what its results are", [](Plan* p) { F(p, kMap).map_results.clear(); }},
      {"a result of a map has a negative size", [](Plan* p) { F(p, kMap).map_results[0].shape = {-1}; }},
      {"block 19: it is of a function that does not exist",
       [](Plan* p) { p->blocks.push_back(p->blocks[0]), p->blocks[19].function = 21; }},
      {"block 19: it is of a node that does not exist",
       [](Plan* p) { p->blocks.push_back(p->blocks[0]), p->blocks[19].node = 2; }},
      {"block 19: the node that it names runs another", [](Plan* p) { p->blocks.push_back(p->blocks[0]); }},
      {"block 0: a capture is none", [](Plan* p) { p->blocks[0].captures = {{-1, Form::kRaw}}; }},
      {"block 0: a capture is none", [](Plan* p) { p->blocks[0].captures = {{0, static_cast<Form>(3)}}; }},
      {"block 0: a sum is not complete", [](Plan* p) { p->blocks[0].sums = {0, 0}; }},
      {"block 0: no kind of sum: 3", [](Plan* p) { p->blocks[0].sums = {3, 0, 1}; }},
      {"block 0: a sum is for no slot", [](Plan* p) { p->blocks[0].sums = {0, -1, 1}; }},
      {"block 0: a sum is not among the outputs", [](Plan* p) { p->blocks[0].sums = {0, 0, 0}; }},
      {"calls itself, and no call is an invocation", [](Plan* p) {
         for (int node = 0; node < 3; ++node) N(p, 10, 1).site = 0;
       }},
  };
  return *rules;
}

TEST(VerifyPlan, FindsEachRuleBroken) {
  for (size_t i = 0; i < Rules().size(); ++i) {
    const Rule& rule = Rules()[i];
    Plan plan = Good();
    ASSERT_EQ(VerifyPlan(plan), "");
    rule.break_it(&plan);
    EXPECT_NE(VerifyPlan(plan).find(rule.text), std::string::npos)
        << "rule " << i << ": " << rule.text << "\nfound: " << VerifyPlan(plan);
  }
}

TEST(VerifyPlan, NamesFunctionAndNode) {
  Plan plan = Good();
  N(&plan, kElse, 3).reads = {8};
  EXPECT_EQ(VerifyPlan(plan), "function 'part4': node 3 does not wait for slot 8, which it reads");
  plan = Good();
  N(&plan, kGradient, 0).indices = {1, 1};
  EXPECT_EQ(VerifyPlan(plan), "function 'f.grad': node 0: it unpacks a value twice");
}

// A call that names one function a hundred thousand times, which gives its results in as many groups; and calls of that.
// Where each target is compared with each group, and each call goes through each group, this takes minutes.
TEST(VerifyPlan, TakesTimeByThePlansSize) {
  constexpr int kMany = 100'000;
  Plan plan;
  plan.names = {"caller", "callee", "same"};
  plan.labels = {"", "call"};
  Function caller{}, callee{};
  caller.arguments = caller.slots = 1;
  caller.events.resize(kMany + 1);
  Node call{};
  call.kind = NodeKind::kCall;
  call.pending = 1;
  call.reads = {0};
  call.event = 1;
  call.selector = Selector::kIndex;
  for (int i = 0; i < kMany; ++i) call.targets.push_back(1 + i % 2);
  caller.nodes.push_back(call);
  caller.events[0].consumers = {0};
  callee.groups.resize(kMany);
  callee.events.resize(1);
  for (int i = 0; i < kMany; ++i) callee.events[0].groups.push_back(i);
  plan.functions = {caller, callee, callee};
  EXPECT_EQ(VerifyPlan(plan), "");
  plan.functions[2].groups.pop_back();
  plan.functions[2].events[0].groups.pop_back();
  EXPECT_NE(VerifyPlan(plan).find("give their results in other groups"), std::string::npos);
  plan.functions[2] = callee;
  plan.functions[1].groups[0].assign(kMany, 0);  // and each call would go through them
  call.targets = {1};
  plan.functions[0].nodes.assign(kMany, call);
  EXPECT_EQ(VerifyPlan(plan), "function 'callee': a group has a result that does not exist");
  plan.functions[1].groups[0].clear();
  plan.functions[1].results = {0};
  plan.functions[1].arguments = plan.functions[1].slots = 1;
  plan.functions[1].groups[0] = {0};
  plan.functions[1].events[0].groups.assign(kMany, 0);
  plan.functions.resize(2);
  plan.functions[0] = plan.functions[1];
  plan.names.resize(2);
  EXPECT_NE(VerifyPlan(plan).find("a group of results is not given exactly once"), std::string::npos);
}

}  // namespace
}  // namespace batch
}  // namespace recgraph
