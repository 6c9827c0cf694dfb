// Schedules against plain recursion: the same plans, with one number for each row and a function for each block.
#include "cc/core/schedule.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/plan_maker_for_tests.h"
#include "cc/core/plan_verifier.h"
#include "cc/core/structure.h"
#include "gtest/gtest.h"

namespace recgraph {
namespace batch {
namespace {

using Numbers = std::vector<int64_t>;
using Operation = std::function<Numbers(const Numbers&)>;

struct Program {
  Plan plan;
  std::map<std::string, Operation> operations;  // by block
};

// Rows of numbers, of some kind.
class NumberRows final : public Holder {
 public:
  explicit NumberRows(Numbers numbers, int kind = 0) : Holder(Kind::kBuffer), numbers(std::move(numbers)), kind(kind) {}
  Numbers numbers;
  const int kind;
};

const NumberRows& RowsOf(const Value& value) { return static_cast<const NumberRows&>(*value.holder); }
Value Row(int64_t number, int kind = 0) { return {FramePtr<Holder>(new NumberRows({-1, number}, kind)), 1}; }
Value Whole(int64_t number) { return {FramePtr<Holder>(new NumberRows({number})), -1}; }
int64_t In(const Value& value) { return RowsOf(value).numbers[std::max<int64_t>(value.row, 0)]; }

// What plain recursion computes: a number, or the values of a frame or a join.
struct Plain {
  int64_t number = 0;
  std::shared_ptr<const std::vector<Plain>> many;
};

// The definition of what a plan means.
class Recursion {
 public:
  explicit Recursion(const Program& program) : program_(program) {}

  std::vector<Plain> Call(int number, const std::vector<Plain>& arguments, int depth = 1) {
    deepest = std::max(deepest, depth);
    const Function& function = program_.plan.functions[number];
    std::vector<Plain> slots = arguments;
    slots.resize(function.slots);
    for (const Node& node : function.nodes) {
      std::vector<Plain> read, made;
      for (const int slot : node.reads) read.push_back(slots[slot]);
      switch (node.kind) {
        case NodeKind::kBlock: {
          Numbers numbers;
          for (const Plain& one : read) numbers.push_back(one.number);
          ++rows[node.block];
          for (const int64_t result : program_.operations.at(program_.plan.blocks[node.block].name)(numbers)) {
            made.push_back({result, nullptr});
          }
          break;
        }
        case NodeKind::kCall: made = Branch(node, read, depth); break;
        case NodeKind::kPack:
        case NodeKind::kJoin: made = {{0, std::make_shared<std::vector<Plain>>(read)}}; break;
        case NodeKind::kUnpack:
          for (const int index : node.indices) made.push_back(read[0].many->at(index));
          break;
        default: break;
      }
      for (size_t w = 0; w < node.writes.size(); ++w) {
        if (node.writes[w] >= 0) slots[node.writes[w]] = made[w];
      }
    }
    std::vector<Plain> results;
    for (const int slot : function.results) results.push_back(slots[slot]);
    return results;
  }

  std::map<int, int64_t> rows;  // of each block
  int64_t calls = 0;            // branches not counted
  int deepest = 0;

 private:
  std::vector<Plain> Branch(const Node& node, std::vector<Plain> read, int depth) {
    int target = 0;
    if (node.selector != Selector::kNone) {
      const int64_t selector = read[0].number;
      target = node.selector == Selector::kBool ? (selector != 0 ? 0 : 1) : static_cast<int>(selector);
      const int last = static_cast<int>(node.targets.size()) - 1;
      if (target < 0 || target > last) target = last;
      read.erase(read.begin());
    }
    calls += node.site != 0 ? 1 : 0;
    return Call(node.targets[target], read, depth + (node.site != 0 ? 1 : 0));
  }

  const Program& program_;
};

// Runs blocks on rows of numbers, and sees that each row is computed once, after what it reads.
class NumberBackend final : public ScheduleBackend {
 public:
  explicit NumberBackend(const Program& program) : program_(program) {}

  bool Import(const Value& value, RowsOfStep* to, uint32_t* row) override {
    const NumberRows& from = RowsOf(value);
    to->data = reinterpret_cast<const char*>(from.numbers.data());
    to->bytes = value.row < 0 ? 0 : 8;
    to->kind = &from;
    to->holder = value.holder;
    *row = static_cast<uint32_t>(std::max<int64_t>(value.row, 0));
    return !import_fails;
  }
  bool IsSameKind(const void* one, const void* other) override {
    return static_cast<const NumberRows*>(one)->kind == static_cast<const NumberRows*>(other)->kind;
  }
  bool RunScheduled(int block, int64_t count, int64_t first, int64_t total, const char* const* const* inputs,
                    const std::vector<const void*>& kinds, RowsOfStep* results) override {
    const Block& what = program_.plan.blocks[block];
    const std::string& name = what.name;
    const Node& node = program_.plan.functions[what.function].nodes[what.node];
    for (int64_t row = 0; row < count; ++row) {
      if (!node.reads.empty() && Fails(block, {inputs[0][row]})) return false;
    }
    EXPECT_EQ(first, rows[block]) << name << ": each row once, one after the other";
    EXPECT_LE(first + count, total);
    EXPECT_GT(count, 0);
    EXPECT_EQ(kinds.size(), node.reads.size());
    rows[block] += count;
    ++runs[name];
    const std::vector<RowsOfStep> before(results, results + node.writes.size());  // inputs may be rows of these
    for (size_t w = 0; w < node.writes.size() && name != leaves_a_hole; ++w) Grow(total, &results[w]);
    if (name == is_constant) results[0].bytes = 0;
    for (int64_t row = 0; row < count; ++row) {
      Numbers numbers;
      for (size_t r = 0; r < node.reads.size(); ++r) {
        numbers.push_back(*reinterpret_cast<const int64_t*>(inputs[r][row]));
        EXPECT_NE(numbers.back(), kNotComputed) << name << " reads a row that is not there yet";
      }
      const Numbers made = program_.operations.at(name)(numbers);
      for (size_t w = 0; w < node.writes.size() && name != leaves_a_hole; ++w) {
        static_cast<NumberRows&>(*results[w].holder).numbers[first + row] = made[w];
      }
    }
    return true;
  }
  bool IsError(int block, const std::vector<const char*>& row, const std::vector<const void*>&) override {
    return fails_for >= 0 && Fails(block, row);
  }
  bool SelectRow(Selector selector, const void*, const char* data, int* branch) override {
    const int64_t number = *reinterpret_cast<const int64_t*>(data);
    *branch = selector == Selector::kBool ? (number != 0 ? 0 : 1) : static_cast<int>(number);
    return !select_fails;
  }
  bool IsDiscrete(const void* kind) override { return static_cast<const NumberRows*>(kind)->kind == 0; }
  bool MakeRows(const void* kind, int64_t count, RowsOfStep* rows) override {
    auto* const made = new NumberRows(Numbers(count, 0), static_cast<const NumberRows*>(kind)->kind);
    *rows = {reinterpret_cast<const char*>(made->numbers.data()), 8, nullptr, made, FramePtr<Holder>(made)};
    return true;
  }
  bool AddRows(const void*, const std::vector<const char*>& rows, char* sum) override {
    int64_t total = 0;
    for (const char* row : rows) total += *reinterpret_cast<const int64_t*>(row);
    *reinterpret_cast<int64_t*>(sum) = total;
    return true;
  }
  int64_t SizeOf(const void*) override {
    ++rows_compared;
    return sizeof(int64_t);
  }
  std::string TextOf(const void*, const char* data) override {
    return std::to_string(*reinterpret_cast<const int64_t*>(data));
  }
  bool JoinRows(const std::vector<std::pair<const RowsOfStep*, uint32_t>>& parts, Value* whole) override {
    Numbers numbers;
    for (const auto& [from, row] : parts) {
      numbers.push_back(*reinterpret_cast<const int64_t*>(from->data + row * from->bytes));
    }
    *whole = {FramePtr<Holder>(new NumberRows(std::move(numbers))), -1};
    return !join_fails;
  }
  bool IsCancelled() override { return looks++ == cancelled_at; }
  bool IsShortOfMemory() override {
    ++looks_at_memory;
    return short_of_memory;
  }

  std::string fails, leaves_a_hole, is_constant;
  bool import_fails = false, select_fails = false, join_fails = false, short_of_memory = false;
  int64_t looks = 0, cancelled_at = -1, looks_at_memory = 0, rows_compared = 0, fails_for = -1;
  std::map<int, int64_t> rows;          // of each block
  std::map<std::string, int64_t> runs;  // of blocks with a name

 private:
  static constexpr int64_t kNotComputed = int64_t{0x5A5A5A5A} << 32 | 0x5A5A5A5A;

  // One that fails for a number is an error by itself; others only keep the schedule from going on.
  bool Fails(int block, const std::vector<const char*>& row) const {
    const bool is_it = program_.plan.blocks[block].name == fails;
    return is_it && (fails_for < 0 || *reinterpret_cast<const int64_t*>(row[0]) == fails_for);
  }

  static void Grow(int64_t total, RowsOfStep* to) {
    const int64_t size = to->holder ? static_cast<const NumberRows&>(*to->holder).numbers.size() : 0;
    if (size >= total) return;
    Numbers numbers;
    if (size > 0) numbers = static_cast<const NumberRows&>(*to->holder).numbers;
    numbers.resize(size == 0 ? total : std::max(total, 2 * size), kNotComputed);
    auto* const larger = new NumberRows(std::move(numbers));
    to->holder = FramePtr<Holder>(larger);
    to->kind = larger;
    to->data = reinterpret_cast<const char*>(larger->numbers.data());
    to->bytes = 8;
  }

  const Program& program_;
};

using Roots = std::vector<std::vector<Value>>;

// One step, with all that it takes.
class Step {
 public:
  explicit Step(const Program& program) : backend(program), program_(program) {}

  Schedule::End Run(int function, const Roots& roots, int64_t max_depth = 1 << 30) {
    EXPECT_EQ(VerifyPlan(program_.plan), "");
    const Structures structures(program_.plan);
    const auto structure = structures.Of(function);
    EXPECT_EQ(structures.Why(function), "");
    if (structure == nullptr) return Schedule::End::kGaveUp;
    FramePtr<StepFrame> frame(new StepFrame(program_.plan));
    Schedule schedule(program_.plan, *structure, &backend, frame, max_depth);
    std::vector<const Value*> arguments;
    for (const auto& root : roots) {
      for (const Value& value : root) arguments.push_back(&value);
    }
    results.assign(roots.size(), {});
    std::vector<std::vector<Value>*> targets;
    for (auto& root : results) targets.push_back(&root);
    const Schedule::End end = schedule.Run(function, arguments, roots.size(), targets);
    calls = schedule.invocations();
    merged = schedule.merged();
    place = schedule.place();
    cycle = schedule.cycle();
    return end;
  }

  NumberBackend backend;
  Roots results;
  int64_t calls = 0, merged = 0;
  Schedule::Cycle cycle;
  Schedule::Place place;

 private:
  const Program& program_;
};

// All numbers of a join, in their order.
void Flatten(const Plain& plain, Numbers* numbers) {
  if (plain.many == nullptr) return numbers->push_back(plain.number);
  for (const Plain& part : *plain.many) Flatten(part, numbers);
}

// That a step did what recursion does: the results that are no frames, and every call and row once.
void ExpectSame(const Program& program, const Step& step, const Recursion& recursion,
                const std::vector<std::vector<Plain>>& wanted) {
  EXPECT_EQ(step.calls, recursion.calls);
  EXPECT_EQ(step.backend.rows, recursion.rows);
  for (size_t root = 0; root < wanted.size(); ++root) {
    for (size_t i = 0; i < wanted[root].size(); ++i) {
      const Value& found = step.results[root][i];
      if (found.holder->kind == Holder::Kind::kStep) continue;
      Numbers numbers;
      Flatten(wanted[root][i], &numbers);
      const bool joined = wanted[root][i].many != nullptr;
      ASSERT_EQ(joined ? RowsOf(found).numbers : Numbers{In(found)}, numbers) << "root " << root << ", result " << i;
    }
  }
  EXPECT_FALSE(program.plan.functions.empty());
}

// Binary trees whose nodes have any numbers.
struct Forest {
  std::vector<int64_t> left, right;  // -1 of leaves
  std::vector<int64_t> roots;

  bool IsLeaf(int64_t node) const { return left[node] < 0; }
  int Height(int64_t node) const { return IsLeaf(node) ? 0 : 1 + std::max(Height(left[node]), Height(right[node])); }
  int Height() const {
    int height = 0;
    for (const int64_t root : roots) height = std::max(height, Height(root));
    return height;
  }
};

Forest RandomForest(int trees, int most_leaves, std::mt19937* random) {
  Forest forest;
  const auto below = [random](int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(*random); };
  const std::function<int64_t(int64_t)> make = [&](int64_t leaves) -> int64_t {
    int64_t left = -1, right = -1;
    if (leaves > 1) {
      const int64_t of_left = 1 + (below(3) == 0 ? 0 : below(leaves - 1));
      left = make(of_left);
      right = make(leaves - of_left);
    }
    forest.left.push_back(left);
    forest.right.push_back(right);
    return static_cast<int64_t>(forest.left.size()) - 1;
  };
  for (int i = 0; i < trees; ++i) forest.roots.push_back(make(1 + below(most_leaves)));
  return forest;
}

// One tree that is as deep as it has inner nodes.
Forest Chain(int64_t inner) {
  Forest forest{{-1}, {-1}, {0}};
  for (int64_t i = 0; i < inner; ++i) {
    forest.left.insert(forest.left.end(), {-1, forest.roots[0]});
    forest.right.insert(forest.right.end(), {-1, static_cast<int64_t>(forest.left.size()) - 2});
    forest.roots[0] = static_cast<int64_t>(forest.left.size()) - 1;
  }
  return forest;
}

// Arithmetic that tells all its operands apart; it may wrap around.
int64_t Mixed(const Numbers& numbers) {
  uint64_t mixed = 17;
  for (const int64_t number : numbers) {
    mixed = (mixed ^ (mixed >> 29)) * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(number);
  }
  return static_cast<int64_t>(mixed);
}
Numbers MixedOnce(const Numbers& numbers) { return {Mixed(numbers)}; }
Numbers MixedTwice(const Numbers& numbers) { return {Mixed(numbers), -3 * (Mixed(numbers) >> 8)}; }

Operation Look(const Forest& forest) {
  return [&forest](const Numbers& in) {
    return Numbers{forest.IsLeaf(in[0]) ? 1 : 0, forest.left[in[0]], forest.right[in[0]]};
  };
}

// Of all the roots, as one step and by recursion.
void ExpectAsRecursion(const Program& program, const Forest& forest, Step* step) {
  Roots roots;
  Recursion recursion(program);
  std::vector<std::vector<Plain>> wanted;
  for (const int64_t root : forest.roots) {
    const int64_t above = 5 + 2 * root;
    roots.push_back({root % 2 == 0 ? Row(root) : Whole(root), Row(above)});
    wanted.push_back(recursion.Call(0, {{root, nullptr}, {above, nullptr}}));
  }
  ASSERT_EQ(step->Run(0, roots), Schedule::End::kDone);
  ExpectSame(program, *step, recursion, wanted);
}

void ForForests(const std::function<void(const Forest&)>& test) {
  std::mt19937 random(11);
  for (int i = 0; i < 40; ++i) {
    const int trees = 1 + i % 7, most_leaves = i < 5 ? 1 : 2 + i * 3;
    SCOPED_TRACE("forest " + std::to_string(i));
    test(RandomForest(trees, most_leaves, &random));
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

Program Trees(const Forest& forest) {
  return {TreePlan(), {{"look", Look(forest)}, {"leaf", MixedOnce}, {"down", MixedTwice}, {"up", MixedOnce}}};
}

TEST(Schedule, ResultsUpAndArgumentsDown) {
  ForForests([](const Forest& forest) {
    const Program program = Trees(forest);
    Step step(program);
    ExpectAsRecursion(program, forest, &step);
    const int64_t height = forest.Height();
    EXPECT_EQ(step.backend.runs["look"], height + 1) << "as often as there are levels";
    EXPECT_EQ(step.backend.runs["down"], height);
    EXPECT_EQ(step.backend.runs["up"], height);
    EXPECT_EQ(step.backend.runs["leaf"], 1);
  });
}

TEST(Schedule, AResultMayBeOneForAllRows) {
  ForForests([](const Forest& forest) {
    Program program = Trees(forest);
    program.operations["leaf"] = [](const Numbers&) { return Numbers{42}; };
    Step step(program);
    step.backend.is_constant = "leaf";
    ExpectAsRecursion(program, forest, &step);
    for (size_t root = 0; root < forest.roots.size(); ++root) {
      EXPECT_EQ(step.results[root][0].row < 0, forest.IsLeaf(forest.roots[root])) << "no row, but the whole";
    }
  });
}

// Two functions that call each other and themselves.
Program MutualTrees(const Forest& forest) {
  Program program{EmptyPlan(6), {}};
  for (int k = 0; k < 2; ++k) {
    FunctionMaker tree(&program.plan, 3 * k), leaf(&program.plan, 3 * k + 1), inner(&program.plan, 3 * k + 2);
    const std::string which = std::to_string(k);
    {
      const Slots in = tree.Arguments(2);
      const Slots look = tree.Block("look" + which, {in[0]}, 3, 0);
      tree.Return(tree.Branch({3 * k + 1, 3 * k + 2}, {look[0], in[0], in[1], look[1], look[2]}, 1));
    }
    {
      const Slots in = leaf.Arguments(4);
      leaf.Return(leaf.Block("leaf" + which, {in[0], in[1]}, 1, 2));
    }
    {
      const Slots in = inner.Arguments(4);
      const Slots down = inner.Block("down" + which, {in[0], in[1]}, 2, 1);
      const int a = inner.Call(3 - 3 * k, {in[2], down[0]}, 1)[0], b = inner.Call(3 * k, {in[3], down[1]}, 1)[0];
      inner.Return(inner.Block("up" + which, {in[1], a, b}, 1, 3));
    }
    program.operations["look" + which] = Look(forest);
    program.operations["leaf" + which] = [k](const Numbers& in) { return Numbers{Mixed(in) + k}; };
    program.operations["down" + which] = MixedTwice;
    program.operations["up" + which] = [k](const Numbers& in) { return Numbers{Mixed(in) - k}; };
  }
  FindOnlyUses(&program.plan);
  return program;
}

TEST(Schedule, FunctionsThatCallEachOther) {
  ForForests([](const Forest& forest) {
    const Program program = MutualTrees(forest);
    Step step(program);
    ExpectAsRecursion(program, forest, &step);
    for (const char* name : {"up0", "up1", "down0", "down1"}) {
      EXPECT_LE(step.backend.runs[name], forest.Height()) << name;
    }
  });
}

// early(n, d) is known on the way down; what is made of two of those is no recursion, though results of calls.
Program EarlyAndLate(const Forest& forest) {
  Program program{EmptyPlan(3), {}};
  FunctionMaker tree(&program.plan, 0), leaf(&program.plan, 1), inner(&program.plan, 2);
  {
    const Slots in = tree.Arguments(2);
    const Slots look = tree.Block("look", {in[0]}, 3, 0);
    tree.Return(tree.Branch({1, 2}, {look[0], in[0], in[1], look[1], look[2]}, 2));
  }
  {
    const Slots in = leaf.Arguments(4);
    const int early = leaf.Block("early of leaf", {in[1]}, 1, 2)[0];
    leaf.Return({early, leaf.Block("leaf", {in[0], in[1]}, 1, 4)[0]});
  }
  {
    const Slots in = inner.Arguments(4);
    const Slots down = inner.Block("down", {in[0], in[1]}, 2, 1);
    const int early = inner.Block("early", {down[0], in[0]}, 1, 2)[0];
    const Slots a = inner.Call(0, {in[2], down[0]}, 2), b = inner.Call(0, {in[3], down[1]}, 2);
    const int middle = inner.Block("middle", {a[0], b[0]}, 1, 3)[0];
    inner.Return({early, inner.Block("up", {middle, a[1], b[1]}, 1, 5)[0]});
  }
  FindOnlyUses(&program.plan);
  program.operations = {{"look", Look(forest)}, {"down", MixedTwice}};
  for (const char* name : {"early of leaf", "leaf", "early", "middle", "up"}) program.operations[name] = MixedOnce;
  return program;
}

TEST(Schedule, AnEarlyResultDoesNotWaitForALateOne) {
  ForForests([](const Forest& forest) {
    const Program program = EarlyAndLate(forest);
    Step step(program);
    ExpectAsRecursion(program, forest, &step);
    const int64_t height = forest.Height();
    EXPECT_EQ(step.backend.runs["middle"], height > 0 ? 1 : 0) << "all rows together, at any height";
    EXPECT_EQ(step.backend.runs["early"], height > 0 ? 1 : 0);
    EXPECT_EQ(step.backend.runs["up"], height);
  });
}

// All numbers of a tree, in their order, with what comes from above.
Program Joins(const Forest& forest) {
  Program program{EmptyPlan(3), {}};
  FunctionMaker tree(&program.plan, 0), leaf(&program.plan, 1), inner(&program.plan, 2);
  {
    const Slots in = tree.Arguments(2);
    const Slots look = tree.Block("look", {in[0]}, 3, 0);
    tree.Return(tree.Branch({1, 2}, {look[0], in[0], in[1], look[1], look[2]}, 1));
  }
  {
    const Slots in = leaf.Arguments(4);
    leaf.Return({leaf.Join({leaf.Block("leaf", {in[0], in[1]}, 1, 1)[0]})});
  }
  {
    const Slots in = inner.Arguments(4);
    const int own = inner.Block("down", {in[0], in[1]}, 1, 1)[0];
    const int a = inner.Call(0, {in[2], own}, 1)[0], b = inner.Call(0, {in[3], in[1]}, 1)[0];
    inner.Return({inner.Join({in[1], a, own, b})});
  }
  FindOnlyUses(&program.plan);
  program.operations = {{"look", Look(forest)}, {"leaf", MixedOnce}, {"down", MixedOnce}};
  return program;
}

TEST(Schedule, JoinsHaveTheirPartsInOrder) {
  ForForests([](const Forest& forest) {
    const Program program = Joins(forest);
    Step step(program);
    ExpectAsRecursion(program, forest, &step);
  });
}

TEST(Schedule, JoinsMayBeAsDeepAsCalls) {
  const Forest forest = Chain(100000);
  const Program program = Joins(forest);
  Step step(program);
  ASSERT_EQ(step.Run(0, {{Row(forest.roots[0]), Row(3)}}), Schedule::End::kDone);
  const Numbers& joined = RowsOf(step.results[0][0]).numbers;
  EXPECT_EQ(joined.size(), 100000u * 3 + 1);
  EXPECT_EQ(joined[0], 3);
}

// walk(n, d): a selector that is a number from -1 to 3, of three branches.
TEST(Schedule, ABranchOutOfRangeIsTheLastOne) {
  Program program{EmptyPlan(4), {}};
  FunctionMaker walk(&program.plan, 0), end(&program.plan, 1), by_one(&program.plan, 2), by_two(&program.plan, 3);
  {
    const Slots in = walk.Arguments(2);
    const Slots look = walk.Block("look", {in[0]}, 3, 0);
    walk.Return(walk.Branch({1, 2, 3}, {look[0], look[1], look[2], in[1]}, 1, Selector::kIndex));
  }
  end.Return({end.Arguments(3)[2]});
  for (FunctionMaker* more : {&by_one, &by_two}) {
    const Slots in = more->Arguments(3);
    const int result = more->Call(0, {in[more == &by_one ? 0 : 1], in[2]}, 1)[0];
    more->Return(more->Block("up", {in[0], result}, 1, 1));
  }
  program.plan.blocks[2].name = "up two";
  FindOnlyUses(&program.plan);
  const auto branch = [](int64_t n) { return n <= 0 ? 0 : n % 4 == 0 ? -1 : n % 4; };
  program.operations = {
      {"look", [branch](const Numbers& in) { return Numbers{branch(in[0]), in[0] - 1, in[0] - 2}; }},
      {"up", MixedOnce},
      {"up two", [](const Numbers& in) { return Numbers{in[0] - in[1]}; }}};
  Forest roots;
  for (int64_t i = 0; i < 50; ++i) roots.roots.push_back(i);
  Step step(program);
  ExpectAsRecursion(program, roots, &step);
}

// tree(n, d) -> value, frame; grad(frame, g) -> sum, frame; third(frame) -> value, which reads frames in frames.
Program ForwardAndBack(const Forest& forest) {
  Program program{EmptyPlan(9), {}};
  std::vector<FunctionMaker> make;
  for (int f = 0; f < 9; ++f) make.emplace_back(&program.plan, f);
  {
    const Slots in = make[0].Arguments(2);
    const Slots look = make[0].Block("look", {in[0]}, 3, 0);
    const Slots below = make[0].Branch({1, 2}, {look[0], in[0], in[1], look[1], look[2]}, 2);
    make[0].Return({below[0], make[0].Pack({look[0], below[1]})});
  }
  {
    const Slots in = make[1].Arguments(4);
    const int value = make[1].Block("leaf", {in[0], in[1]}, 1, 2)[0];
    make[1].Return({value, make[1].Pack({in[0], in[1], value})});
  }
  {
    const Slots in = make[2].Arguments(4);
    const Slots down = make[2].Block("down", {in[0], in[1]}, 2, 1);
    const Slots a = make[2].Call(0, {in[2], down[0]}, 2), b = make[2].Call(0, {in[3], down[1]}, 2);
    const int value = make[2].Block("up", {in[0], in[1], a[0], b[0]}, 1, 3)[0];
    make[2].Return({value, make[2].Pack({in[0], a[0], b[0], a[1], b[1], value})});
  }
  {
    const Slots in = make[3].Arguments(2);
    const Slots frame = make[3].Unpack(in[0], {0, 1});
    const Slots below = make[3].Branch({4, 5}, {frame[0], frame[1], in[1]}, 2);
    make[3].Return({below[0], make[3].Pack({frame[0], below[1]})});
  }
  {
    const Slots in = make[4].Arguments(2);
    const Slots frame = make[4].Unpack(in[0], {0, 1});
    const int sum = make[4].Block("leaf's gradient", {frame[0], frame[1], in[1]}, 1, 5)[0];
    make[4].Return({sum, make[4].Pack({in[0], in[1], sum})});
  }
  {
    const Slots in = make[5].Arguments(2);
    const Slots frame = make[5].Unpack(in[0], {0, 1, 2, 3, 4});
    const Slots given = make[5].Block("gradients", {frame[0], frame[1], frame[2], in[1]}, 2, 4);
    const Slots a = make[5].Call(3, {frame[3], given[0]}, 2), b = make[5].Call(3, {frame[4], given[1]}, 2);
    const int sum = make[5].Block("sum", {a[0], b[0], in[1]}, 1, 6)[0];
    make[5].Return({sum, make[5].Pack({in[0], sum, a[1], b[1], a[0]})});
  }
  {
    const Slots in = make[6].Arguments(1);
    const Slots frame = make[6].Unpack(in[0], {0, 1});
    make[6].Return(make[6].Branch({7, 8}, {frame[0], frame[1]}, 1));
  }
  {
    const Slots frame = make[7].Unpack(make[7].Arguments(1)[0], {0, 1, 2});
    const int value = make[7].Unpack(frame[0], {2})[0];
    make[7].Return(make[7].Block("third's leaf", {value, frame[1], frame[2]}, 1, 7));
  }
  {
    const Slots frame = make[8].Unpack(make[8].Arguments(1)[0], {0, 1, 2, 3, 4});
    const int value = make[8].Unpack(frame[0], {5})[0];
    const int a = make[8].Call(6, {frame[2]}, 1)[0], b = make[8].Call(6, {frame[3]}, 1)[0];
    make[8].Return(make[8].Block("third", {a, b, value, frame[1], frame[4]}, 1, 8));
  }
  FindOnlyUses(&program.plan);
  program.operations = {{"look", Look(forest)}, {"down", MixedTwice}, {"gradients", MixedTwice}};
  for (const char* name : {"leaf", "up", "leaf's gradient", "sum", "third's leaf", "third"}) {
    program.operations[name] = MixedOnce;
  }
  return program;
}

// Frames go from one step to the next, and those of two steps into one.
TEST(Schedule, LaterStepsReadFrames) {
  ForForests([](const Forest& forest) {
    const Program program = ForwardAndBack(forest);
    std::vector<std::vector<Plain>> plain_first, plain_second, plain_third;
    std::vector<Step> first;
    for (int half = 0; half < 2; ++half) {
      Recursion recursion(program);
      Roots roots;
      for (size_t i = half; i < forest.roots.size(); i += 2) {
        roots.push_back({Row(forest.roots[i]), Whole(static_cast<int64_t>(i))});
        plain_first.push_back(recursion.Call(0, {{forest.roots[i], nullptr}, {static_cast<int64_t>(i), nullptr}}));
      }
      first.emplace_back(program);
      ASSERT_EQ(first.back().Run(0, roots), Schedule::End::kDone);
      const auto of_half = std::vector(plain_first.end() - roots.size(), plain_first.end());
      ExpectSame(program, first.back(), recursion, of_half);
    }
    Step second(program), third(program);
    Recursion second_recursion(program), third_recursion(program);
    Roots roots;
    for (const Step& step : first) {
      for (const auto& results : step.results) {
        const int64_t above = 100 + static_cast<int64_t>(roots.size());
        plain_second.push_back(second_recursion.Call(3, {plain_first[roots.size()][1], {above, nullptr}}));
        roots.push_back({results[1], Row(above)});
      }
    }
    first.clear();  // their frames live on
    ASSERT_EQ(second.Run(3, roots), Schedule::End::kDone);
    ExpectSame(program, second, second_recursion, plain_second);
    EXPECT_EQ(second.backend.runs["sum"], forest.Height());
    roots.clear();
    for (size_t i = 0; i < second.results.size(); ++i) {
      plain_third.push_back(third_recursion.Call(6, {plain_second[i][1]}));
      roots.push_back({second.results[i][1]});
    }
    second.results.clear();
    ASSERT_EQ(third.Run(6, roots), Schedule::End::kDone);
    ExpectSame(program, third, third_recursion, plain_third);
  });
}

TEST(Schedule, ChainsMayBeDeep) {
  constexpr int64_t kDepth = 100000;
  const Forest forest = Chain(kDepth);
  const Program program = ForwardAndBack(forest);
  {
    Step first(program);
    ASSERT_EQ(first.Run(0, {{Row(forest.roots[0]), Row(1)}}), Schedule::End::kDone);
    EXPECT_EQ(first.calls, 2 * kDepth);
    EXPECT_EQ(first.backend.runs["up"], kDepth);
    std::vector<int64_t> above{1};  // from the root on
    for (int64_t node = forest.roots[0]; !forest.IsLeaf(node); node = forest.left[node]) {
      above.push_back(MixedTwice({node, above.back()})[0]);
    }
    int64_t value = Mixed({0, above.back()});
    for (int64_t i = kDepth; i-- > 0;) {
      const int64_t node = 2 * (kDepth - i), leaf = node - 1;
      value = Mixed({node, above[i], value, Mixed({leaf, MixedTwice({node, above[i]})[1]})});
    }
    EXPECT_EQ(In(first.results[0][0]), value);
    Step second(program);
    ASSERT_EQ(second.Run(3, {{first.results[0][1], Row(1)}}), Schedule::End::kDone);
    EXPECT_EQ(second.backend.runs["sum"], kDepth);
  }
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

// Arguments as results, of all kinds.
TEST(Schedule, ArgumentsMayBeResults) {
  const Forest forest = Chain(3);
  Program program = ForwardAndBack(forest);
  program.plan.functions[3].results.push_back(0);
  program.plan.functions[3].results.push_back(1);
  program.plan.functions[3].groups[0] = {0, 1, 2, 3};
  for (Node& node : program.plan.functions[5].nodes) {
    if (node.kind == NodeKind::kCall) node.writes.insert(node.writes.end(), {-1, -1});
  }
  program.plan.functions[3].only_use.assign(4, false);
  Step first(program), second(program), third(program), again(program);
  ASSERT_EQ(first.Run(0, {{Row(forest.roots[0]), Row(1)}}), Schedule::End::kDone);
  for (const Value& above : {Row(7), Whole(7)}) {
    Step step(program);
    ASSERT_EQ(step.Run(3, {{first.results[0][1], above}}), Schedule::End::kDone);
    const std::vector<Value>& results = step.results[0];
    EXPECT_EQ(results[3].row, above.row);
    EXPECT_EQ(results[3].holder.get(), above.holder.get());
    ASSERT_EQ(again.Run(3, {{results[2], above}}), Schedule::End::kDone) << "a frame that came from an earlier step";
    EXPECT_EQ(In(again.results[0][0]), In(results[0]));
    again.backend.rows.clear();
  }
}

Schedule::End EndOf(const std::function<void(NumberBackend*)>& change, const Program& program, const Forest& forest,
                    int function = 0) {
  Step step(program);
  change(&step.backend);
  return step.Run(function, {{Row(forest.roots[0]), Row(1)}});
}

TEST(Schedule, GivesUpWhatItCannotRun) {
  const Forest forest = Chain(3);
  const Program trees = Trees(forest), joins = Joins(forest);
  const auto given_up = Schedule::End::kGaveUp;
  EXPECT_EQ(EndOf([](NumberBackend*) {}, trees, forest), Schedule::End::kDone);
  EXPECT_EQ(EndOf([](NumberBackend* backend) { backend->import_fails = true; }, trees, forest), given_up);
  EXPECT_EQ(EndOf([](NumberBackend* backend) { backend->select_fails = true; }, trees, forest), given_up);
  EXPECT_EQ(EndOf([](NumberBackend* backend) { backend->join_fails = true; }, joins, forest), given_up);
  for (const char* name : {"look", "leaf", "down", "up"}) {
    EXPECT_EQ(EndOf([&](NumberBackend* backend) { backend->fails = name; }, trees, forest), given_up) << name;
  }
  for (const char* name : {"look", "leaf", "down"}) {
    const auto leave_hole = [&](NumberBackend* backend) { backend->leaves_a_hole = name; };
    EXPECT_EQ(EndOf(leave_hole, trees, forest), given_up) << "no rows of " << name;
  }
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

TEST(Schedule, GivesUpArgumentsThatAreNotWhatTheyShouldBe) {
  const Forest forest = Chain(3);
  const Program program = ForwardAndBack(forest);
  {
    Step forward(program);
    ASSERT_EQ(forward.Run(0, {{Row(forest.roots[0]), Row(1)}}), Schedule::End::kDone);
    const Value frame = forward.results[0][1];
    const auto& step = static_cast<const StepFrame&>(*frame.holder);
    const Value record{FramePtr<Holder>(new Record(Holder::Kind::kRecord, {Row(1), Row(1)})), 0};
    const struct {
      const char* what;
      int function;
      Roots roots;
    } kCases[] = {
        {"a frame for a number", 0, {{frame, Row(1)}}},
        {"a number for a frame", 3, {{Row(1), Row(1)}}},
        {"a frame of another way of running", 3, {{record, Row(1)}}},
        {"a frame that has too few values", 8, {{frame}}},
        {"a frame's number for a frame", 3, {{step.ToValue(step.ValueOf(StepFrame::FrameOf(frame), 1)), Row(1)}}},
        {"rows of two kinds", 0, {{Row(forest.roots[0]), Row(1, 0)}, {Row(forest.roots[0]), Row(1, 1)}}},
    };
    for (const auto& [what, function, roots] : kCases) {
      EXPECT_EQ(Step(program).Run(function, roots), Schedule::End::kGaveUp) << what;
    }
  }
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

TEST(Schedule, GivesUpWhatIsTooDeep) {
  std::mt19937 random(12);
  for (int i = 0; i < 10; ++i) {
    const Forest forest = RandomForest(3, 20, &random);
    const Program program = Trees(forest);
    Roots roots;
    for (const int64_t root : forest.roots) roots.push_back({Row(root), Row(1)});
    const int depth = forest.Height() + 1;  // of calls; branches do not count
    EXPECT_EQ(Step(program).Run(0, roots, depth), Schedule::End::kDone);
    if (depth > 1) {
      EXPECT_EQ(Step(program).Run(0, roots, depth - 1), Schedule::End::kGaveUp);
    }
  }
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

std::string TextOf(const std::vector<Schedule::Cycle::Call>& calls) {
  std::string text;
  for (const auto& call : calls) text += (text.empty() ? "" : " ") + call.arguments;
  return text;
}

// Whether it is found by its depth, or before by the number of invocations, down one path or down all of them.
TEST(Schedule, NamesTheCircleThatHasNoEnd) {
  for (const bool both : {false, true}) {
    for (const int64_t max_depth : {30, 1 << 30}) {
      if (both && max_depth == 30) continue;  // 2^30 invocations
      Forest forest = Chain(5);
      std::vector<int64_t> down{forest.roots[0]};
      while (!forest.IsLeaf(down.back())) down.push_back(forest.left[down.back()]);
      forest.left[down[3]] = down[1];
      if (both) forest.right[down[3]] = down[1];
      const Program program = Trees(forest);
      Step step(program);
      ASSERT_EQ(step.Run(0, {{Row(0), Row(1)}, {Row(down[0]), Row(1)}}, max_depth), Schedule::End::kEndless);
      EXPECT_EQ(step.cycle.root, 1);
      ASSERT_EQ(step.cycle.calls.size(), 4);
      EXPECT_EQ(TextOf(step.cycle.calls), [&] {
        std::string text;
        for (const int i : {1, 2, 3, 1}) text += (text.empty() ? "" : " ") + std::to_string(down[i]);
        return text;
      }());
      EXPECT_EQ(TextOf(step.cycle.above), std::to_string(down[0]));
      EXPECT_EQ(step.cycle.above[0].site, 0);
    }
  }
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

// The argument that comes from above is another one each time, and decides nothing.
TEST(Schedule, WhatEndsIsNoCircle) {
  const Forest forest = Chain(60000);
  const Program program = Trees(forest);
  EXPECT_EQ(Step(program).Run(0, {{Row(forest.roots[0]), Row(1)}}), Schedule::End::kDone);
  EXPECT_EQ(Step(program).Run(0, {{Row(forest.roots[0]), Row(1)}}, 50000), Schedule::End::kGaveUp);
}

// The search for circles is little beside the rest: each time no more rows than there are activations so far.
TEST(Schedule, LongChainsAreSearchedOnce) {
  const Forest forest = Chain(200000);
  const Program program = Trees(forest);
  Step step(program);
  ASSERT_EQ(step.Run(0, {{Row(forest.roots[0]), Row(1)}}), Schedule::End::kDone);
  EXPECT_GT(step.backend.rows_compared, 0);
  EXPECT_LE(step.backend.rows_compared, 1'000'000);
}

TEST(Schedule, GivesUpWhenMemoryIsShort) {
  const Forest forest = Chain(0);
  const Program program = Trees(forest);
  for (const size_t count : {1000, 70000}) {
    const Roots roots(count, {Row(0), Row(1)});
    for (const bool is_short : {false, true}) {
      Step step(program);
      step.backend.short_of_memory = is_short;
      const bool gives_up = is_short && count > 1000;
      EXPECT_EQ(step.Run(0, roots), gives_up ? Schedule::End::kGaveUp : Schedule::End::kDone);
      EXPECT_EQ(step.backend.looks_at_memory > 0, count > 1000) << "only where there are many activations";
    }
  }
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

TEST(Schedule, EndsWhereverItIsCancelled) {
  const Forest forest = Chain(5);
  const Program program = Trees(forest);
  Step whole(program);
  const Roots roots{{Row(forest.roots[0]), Row(1)}};
  ASSERT_EQ(whole.Run(0, roots), Schedule::End::kDone);
  EXPECT_GT(whole.backend.looks, 3 * 5) << "on the way down, and before all runs";
  for (int64_t look = 0; look < whole.backend.looks; ++look) {
    Step step(program);
    step.backend.cancelled_at = look;
    EXPECT_EQ(step.Run(0, roots), Schedule::End::kCancelled);
    EXPECT_EQ(step.backend.looks, look + 1) << "nothing is run after it";
  }
}

// Replaces one number of a plan by another one.
void Damage(Plan* plan, std::mt19937* random) {
  const auto any = [random](auto* list) -> auto& { return (*list)[(*random)() % list->size()]; };
  Function& function = any(&plan->functions);
  if (function.nodes.empty()) return;
  Node& node = any(&function.nodes);
  const int slot = static_cast<int>((*random)() % function.slots);
  switch ((*random)() % 8) {
    case 0: any(&plan->blocks).priority = static_cast<int>((*random)() % 9); break;
    case 1: any(&function.results) = slot; break;
    case 2:
      if (!node.targets.empty()) any(&node.targets) = static_cast<int>((*random)() % plan->functions.size());
      break;
    case 3:
      if (!node.indices.empty()) any(&node.indices) = static_cast<int>((*random)() % 7);
      break;
    case 4:
      if (!node.writes.empty()) any(&node.writes) = (*random)() % 2 == 0 ? -1 : slot;
      break;
    default:
      if (!node.reads.empty()) any(&node.reads) = slot;
  }
}

// What a verified plan with a known structure gives is what recursion gives, or it is given up.
TEST(Schedule, DamagedPlansAreRefusedGivenUpOrRight) {
  std::mt19937 random(14);
  const Forest forest = RandomForest(1, 6, &random);
  const auto near = [&forest](int64_t n) { return static_cast<int64_t>(static_cast<uint64_t>(n) % forest.left.size()); };
  int done = 0, given_up = 0;
  for (int round = 0; round < 4000; ++round) {
    Program program = round % 2 == 0 ? ForwardAndBack(forest) : round % 4 == 1 ? EarlyAndLate(forest) : Joins(forest);
    program.operations["look"] = [&](const Numbers& in) { return Look(forest)({near(in[0])}); };
    for (unsigned changes = 1 + random() % 2; changes-- > 0;) Damage(&program.plan, &random);
    if (!VerifyPlan(program.plan).empty()) continue;
    const Structures structures(program.plan);
    if (!structures.Why(0).empty()) continue;
    Step step(program);
    step.backend.short_of_memory = true;
    if (step.Run(0, {{Row(forest.roots[0]), Row(1)}}, 12) != Schedule::End::kDone) {
      ++given_up;
      continue;
    }
    ++done;
    Recursion recursion(program);
    const std::vector<Plain> wanted = recursion.Call(0, {{forest.roots[0], nullptr}, {1, nullptr}});
    SCOPED_TRACE("round " + std::to_string(round));
    ExpectSame(program, step, recursion, {wanted});
    if (round % 2 == 0 && step.results[0].size() == 2 && structures.Why(3).empty()) {
      Step second(program);
      second.backend.short_of_memory = true;
      if (second.Run(3, {{step.results[0][1], Row(1)}}, 12) != Schedule::End::kDone) continue;
      Recursion back(program);
      const std::vector<Plain> wanted_back = back.Call(3, {wanted[1], {1, nullptr}});
      ExpectSame(program, second, back, {wanted_back});
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(done, 100);
  EXPECT_GT(given_up, 5);
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

// Nodes that several others lead to.

Forest RandomGraph(int64_t nodes, std::mt19937* random) {
  Forest graph;
  for (int64_t i = 0; i < nodes; ++i) {
    const auto below = [&] { return std::max<int64_t>(0, i - 1 - static_cast<int64_t>((*random)() % 3)); };
    const bool is_leaf = i == 0 || (*random)() % 5 == 0;
    graph.left.push_back(is_leaf ? -1 : below());
    graph.right.push_back(is_leaf ? -1 : below());
  }
  graph.roots = {nodes - 1, nodes / 2, nodes - 1};
  return graph;
}

std::set<int64_t> Reached(const Forest& graph, int64_t root) {
  std::set<int64_t> reached;
  std::vector<int64_t> stack{root};
  while (!stack.empty()) {
    const int64_t node = stack.back();
    stack.pop_back();
    if (!reached.insert(node).second || graph.IsLeaf(node)) continue;
    stack.push_back(graph.left[node]);
    stack.push_back(graph.right[node]);
  }
  return reached;
}

// graph(n, d) -> value, frame, with d handed down as it is; gradient(frame, g) -> d's gradient, linear in g.
Program SharedNodes(const Forest& graph) {
  Program program{EmptyPlan(6), {}};
  std::vector<FunctionMaker> make;
  for (int f = 0; f < 6; ++f) make.emplace_back(&program.plan, f);
  {
    const Slots in = make[0].Arguments(2);
    const Slots look = make[0].Block("look", {in[0]}, 3, 0);
    const Slots below = make[0].Branch({1, 2}, {look[0], in[0], in[1], look[1], look[2]}, 2);
    make[0].Return({below[0], make[0].Pack({look[0], below[1]})});
  }
  {
    const Slots in = make[1].Arguments(4);
    make[1].Return({make[1].Block("leaf", {in[0], in[1]}, 1, 2)[0], make[1].Pack({in[0]})});
  }
  {
    const Slots in = make[2].Arguments(4);
    const Slots a = make[2].Call(0, {in[2], in[1]}, 2), b = make[2].Call(0, {in[3], in[1]}, 2);
    const int value = make[2].Block("up", {in[0], in[1], a[0], b[0]}, 1, 3)[0];
    make[2].Return({value, make[2].Pack({in[0], a[1], b[1]})});
  }
  {
    const Slots in = make[3].Arguments(2);
    const Slots frame = make[3].Unpack(in[0], {0, 1});
    make[3].Return(make[3].Branch({4, 5}, {frame[0], frame[1], in[1]}, 1));
  }
  {
    const Slots in = make[4].Arguments(2);
    make[4].Return(make[4].Block("leaf's gradient", {make[4].Unpack(in[0], {0})[0], in[1]}, 1, 5));
  }
  {
    const Slots in = make[5].Arguments(2);
    const Slots frame = make[5].Unpack(in[0], {0, 1, 2});
    const Slots given = make[5].Block("gradients", {frame[0], in[1]}, 1, 4);
    // What comes from above goes to one child as it is, and to the other with a factor.
    const int a = make[5].Call(3, {frame[1], in[1]}, 1)[0], b = make[5].Call(3, {frame[2], given[0]}, 1)[0];
    make[5].Return(make[5].Block("sum", {a, b, in[1]}, 1, 6));
  }
  program.plan.functions[3].is_linear = true;
  FindOnlyUses(&program.plan);
  const auto times = [](const Numbers& in) { return Numbers{(2 * in[0] + 3) * in[1]}; };
  program.operations = {{"look", Look(graph)}, {"leaf", MixedOnce}, {"up", MixedOnce}};
  program.operations["leaf's gradient"] = program.operations["gradients"] = times;
  program.operations["sum"] = [](const Numbers& in) { return Numbers{in[0] + in[1] + 5 * in[2]}; };
  return program;
}

void ForGraphs(const std::function<void(const Forest&)>& test) {
  std::mt19937 random(15);
  for (int nodes = 1; nodes < 16; ++nodes) {
    SCOPED_TRACE("graph of " + std::to_string(nodes));
    test(RandomGraph(nodes, &random));
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

TEST(Schedule, EqualCallsAreOne) {
  ForGraphs([](const Forest& graph) {
    const Program program = SharedNodes(graph);
    Step step(program);
    Roots roots;
    std::map<std::string, int64_t> rows;
    for (const int64_t root : graph.roots) {
      roots.push_back({Row(root), Row(root + 7, 1)});
      for (const int64_t node : Reached(graph, root)) ++rows[graph.IsLeaf(node) ? "leaf" : "up"];
    }
    ASSERT_EQ(step.Run(0, roots), Schedule::End::kDone);
    for (size_t i = 0; i < roots.size(); ++i) {
      const int64_t root = graph.roots[i];
      const auto wanted = Recursion(program).Call(0, {{root, nullptr}, {root + 7, nullptr}});
      EXPECT_EQ(In(step.results[i][0]), wanted[0].number);
    }
    for (size_t b = 0; b < program.plan.blocks.size(); ++b) {
      const auto known = rows.find(program.plan.blocks[b].name);
      if (known == rows.end()) continue;
      EXPECT_EQ(step.backend.rows[b], known->second) << "each node once for each root";
    }
  });
}

TEST(Schedule, GradientsOfEqualCallsAreAddedUp) {
  ForGraphs([](const Forest& graph) {
    const Program program = SharedNodes(graph);
    Step forward(program), back(program);
    Roots roots, frames;
    std::vector<std::vector<Plain>> wanted;
    for (const int64_t root : graph.roots) {
      roots.push_back({Row(root), Row(root + 7, 1)});
      const auto plain = Recursion(program).Call(0, {{root, nullptr}, {root + 7, nullptr}});
      wanted.push_back(Recursion(program).Call(3, {plain[1], {root + 2, nullptr}}));
    }
    ASSERT_EQ(forward.Run(0, roots), Schedule::End::kDone);
    for (size_t i = 0; i < roots.size(); ++i) frames.push_back({forward.results[i][1], Row(graph.roots[i] + 2)});
    ASSERT_EQ(back.Run(3, frames), Schedule::End::kDone);
    for (size_t i = 0; i < roots.size(); ++i) EXPECT_EQ(In(back.results[i][0]), wanted[i][0].number) << "root " << i;
    EXPECT_EQ(back.merged, forward.merged) << "the gradient goes the same ways";
  });
}

// Trees whose leaves call a function of their word: that is called again after others that call more, and calls nothing.
TEST(Schedule, WhatCallsNothingIsMergedInOrder) {
  std::mt19937 random(18);
  for (int round = 0; round < 40; ++round) {
    const Forest forest = RandomForest(3, 20, &random);
    Program program{EmptyPlan(4), {}};
    std::vector<FunctionMaker> make;
    for (int f = 0; f < 4; ++f) make.emplace_back(&program.plan, f);
    const Slots in = make[0].Arguments(1), look = make[0].Block("look", {in[0]}, 3, 0);
    make[0].Return(make[0].Branch({1, 2}, {look[0], look[1], look[2]}, 1));
    make[1].Return(make[1].Call(3, {make[1].Arguments(2)[0]}, 1));
    const Slots children = make[2].Arguments(2);
    const int a = make[2].Call(0, {children[0]}, 1)[0], b = make[2].Call(0, {children[1]}, 1)[0];
    make[2].Return(make[2].Block("up", {a, b}, 1, 3));
    make[3].Return(make[3].Block("word", {make[3].Arguments(1)[0]}, 1, 2));
    FindOnlyUses(&program.plan);
    program.operations["look"] = [&forest](const Numbers& in) {
      if (forest.IsLeaf(in[0])) return Numbers{1, in[0] % 3, 0};
      return Numbers{0, forest.left[in[0]], forest.right[in[0]]};
    };
    program.operations["up"] = program.operations["word"] = MixedOnce;
    Step step(program);
    Roots roots;
    std::set<int64_t> words;
    int64_t leaves = 0;
    for (const int64_t root : forest.roots) {
      roots.push_back({Row(root)});
      for (const int64_t node : Reached(forest, root)) {
        if (forest.IsLeaf(node)) words.insert(node % 3);
        leaves += forest.IsLeaf(node) ? 1 : 0;
      }
    }
    ASSERT_EQ(step.Run(0, roots), Schedule::End::kDone);
    for (size_t i = 0; i < roots.size(); ++i) {
      EXPECT_EQ(In(step.results[i][0]), Recursion(program).Call(0, {{forest.roots[i], nullptr}})[0].number);
    }
    EXPECT_EQ(step.merged, leaves - static_cast<int64_t>(words.size()));
    EXPECT_EQ(step.backend.rows[static_cast<int>(program.plan.blocks.size()) - 1], static_cast<int64_t>(words.size()));
  }
}

// The last nodes are called for the first time after the last merged call: what is noted of those ends before.
TEST(Schedule, AMergedCallSaysNothingOfLaterOnes) {
  Forest graph = Chain(70);
  const int64_t top = static_cast<int64_t>(graph.left.size());
  graph.left.insert(graph.left.end(), {graph.roots[0], top});
  graph.right.insert(graph.right.end(), {graph.roots[0], top});
  const Program program = SharedNodes(graph);
  Step forward(program), back(program);
  ASSERT_EQ(forward.Run(0, {{Row(top + 1), Row(7, 1)}}), Schedule::End::kDone);
  const auto plain = Recursion(program).Call(0, {{top + 1, nullptr}, {7, nullptr}});
  ASSERT_EQ(back.Run(3, {{forward.results[0][1], Row(1)}}), Schedule::End::kDone);
  EXPECT_EQ(In(back.results[0][0]), Recursion(program).Call(3, {plain[1], {1, nullptr}})[0].number);
  EXPECT_EQ(back.merged, 2);
}

TEST(Schedule, WhatIsOneForAllActivationsIsEqual) {
  const Forest graph{{-1, 0, 1, 2, 3, 4}, {-1, 0, 0, 1, 2, 3}, {5}};
  for (const bool is_shared : {false, true}) {
    Program program = SharedNodes(graph);
    FunctionMaker inner(&program.plan, 2);
    program.plan.functions[2] = {};
    const Slots in = inner.Arguments(4), made = inner.Block("made", {in[0]}, 1, 1);
    program.plan.blocks.back().shared = {is_shared};
    program.operations["made"] = [](const Numbers&) { return Numbers{4}; };
    const Slots a = inner.Call(0, {in[2], made[0]}, 2), b = inner.Call(0, {in[3], made[0]}, 2);
    inner.Return({inner.Block("upper", {in[0], in[1], a[0], b[0]}, 1, 3)[0], inner.Pack({in[0], a[1], b[1]})});
    program.operations["upper"] = MixedOnce;
    program.plan.blocks.erase(program.plan.blocks.begin() + 2);  // that of the function before
    for (Function& function : program.plan.functions) {
      for (Node& node : function.nodes) node.block -= node.block > 2 ? 1 : 0;
    }
    FindOnlyUses(&program.plan);
    Step step(program);
    ASSERT_EQ(step.Run(0, {{Row(5), Row(7, 1)}}), Schedule::End::kDone);
    EXPECT_EQ(In(step.results[0][0]), Recursion(program).Call(0, {{5, nullptr}, {7, nullptr}})[0].number);
    EXPECT_EQ(step.calls, is_shared ? 5 : 19);
  }
}

TEST(Schedule, CirclesOfEqualCallsAreNamed) {
  std::mt19937 random(16);
  for (int round = 0; round < 200; ++round) {
    Forest graph = RandomGraph(2 + round % 12, &random);
    for (unsigned changes = 1 + random() % 2; changes-- > 0;) {
      const auto from = static_cast<size_t>(random() % graph.left.size());
      if (graph.IsLeaf(from)) graph.left[from] = graph.right[from] = 0;
      (random() % 2 == 0 ? graph.left : graph.right)[from] = static_cast<int64_t>(random() % graph.left.size());
    }
    const int64_t root = graph.roots[0];
    bool is_endless = false;
    for (const int64_t node : Reached(graph, root)) {
      if (graph.IsLeaf(node)) continue;
      for (const int64_t child : {graph.left[node], graph.right[node]}) {
        is_endless = is_endless || Reached(graph, child).count(node) > 0;
      }
    }
    const Program program = SharedNodes(graph);
    Step step(program);
    ASSERT_EQ(step.Run(0, {{Row(root), Row(7, 1)}}), is_endless ? Schedule::End::kEndless : Schedule::End::kDone);
    if (!is_endless) continue;
    std::vector<int64_t> way;
    for (const auto& call : step.cycle.above) way.push_back(std::stoll(call.arguments));
    for (const auto& call : step.cycle.calls) way.push_back(std::stoll(call.arguments));
    EXPECT_EQ(way.front(), root);
    EXPECT_EQ(step.cycle.calls.front().arguments, step.cycle.calls.back().arguments);
    EXPECT_GE(step.cycle.calls.size(), 2);
    for (size_t i = 1; i < way.size(); ++i) {
      EXPECT_TRUE(graph.left[way[i - 1]] == way[i] || graph.right[way[i - 1]] == way[i]) << way[i - 1] << " " << way[i];
    }
  }
  EXPECT_EQ(FrameBase::Live().entries, 0);
}

TEST(Schedule, EqualCallsAreAsDeepAsTheLongestWayToThem) {
  // Node i calls i - 1 and i - 2: the shortest way to the end has half as many levels.
  Forest graph{{-1, -1}, {-1, -1}, {40}};
  for (int64_t i = 2; i <= 40; ++i) {
    graph.left.push_back(i - 1);
    graph.right.push_back(i - 2);
  }
  const Program program = SharedNodes(graph);
  const Roots roots{{Row(1), Row(7, 1)}, {Row(40), Row(7, 1)}};
  EXPECT_EQ(Step(program).Run(0, roots, 40), Schedule::End::kDone);
  for (const int depth : {39, 25, 20, 19, 5, 2}) {
    Step step(program);
    ASSERT_EQ(step.Run(0, roots, depth), Schedule::End::kTooDeep) << depth;
    EXPECT_EQ(step.place.root, 1);
    EXPECT_EQ(step.place.sites, std::vector<int>(depth, 1));
  }
  graph.left[3] = 30;
  EXPECT_EQ(Step(program).Run(0, roots, 20), Schedule::End::kEndless) << "that says more";
}

TEST(Schedule, AFailureIsFoundWhereCallsAreMerged) {
  const Forest graph{{-1, 0, 1, 2, 3, 4}, {-1, 0, 0, 1, 2, 3}, {5}};
  const Program program = SharedNodes(graph);
  const Roots roots{{Row(0), Row(7, 1)}, {Row(5), Row(7, 1)}};
  EXPECT_EQ(EndOf([](NumberBackend* backend) { backend->fails = "up"; }, program, graph), Schedule::End::kGaveUp);
  for (const int64_t node : {1, 3, 5}) {
    Step step(program);
    step.backend.fails = "up";
    step.backend.fails_for = node;
    ASSERT_EQ(step.Run(0, roots), Schedule::End::kFailed);
    EXPECT_EQ(step.place.root, 1);
    EXPECT_EQ(step.place.sites.size(), (5 - node + 1) / 2) << "the shortest way";
  }
}

// A wrong operation, a row that is computed twice, or results in another order would be seen.
// Runs a call by its tables in one arena. Steps of a fixed width compute rows that are nobody's, and write them.
class ByTables {
 public:
  ByTables(const Program& program, int function, const Roots& roots, int64_t width) : program_(program) {
    const Structures structures(program.plan);
    const auto structure = structures.Of(function);
    NumberBackend backend(program);
    FramePtr<StepFrame> step(new StepFrame(program.plan));
    Schedule schedule(program.plan, *structure, &backend, step, 1 << 30);
    std::vector<const Value*> arguments;
    for (const auto& root : roots) {
      for (const Value& value : root) arguments.push_back(&value);
    }
    EXPECT_EQ(schedule.Discover(function, arguments, roots.size()), Schedule::End::kDone);
    LevelLayout layout;
    layout.classes = 1;
    layout.width = width;
    layout.is_padded = width > 0;
    layout.of_arguments.assign(program.plan.functions[function].arguments, 0);
    for (const Block& block : program.plan.blocks) layout.of_blocks.emplace_back(block.shared.size(), 0);
    LevelTables tables;
    std::vector<Value> frames;
    EXPECT_TRUE(schedule.Tabulate(function, roots.size(), layout, &tables));
    EXPECT_TRUE(schedule.FindResults(function, roots.size(), false, &tables, &frames));
    arena_.assign(tables.sizes[0], kNobodys);
    arena_[0] = 0;
    for (size_t source = 0; source < step->sources.size(); ++source) {
      const RowsOfStep& rows = step->sources[source];
      if (rows.data == nullptr) continue;
      const auto& numbers = static_cast<const NumberRows&>(*rows.holder).numbers;
      const StepFrame::InArena& place = step->in_arenas[source];
      const size_t count = place.is_one ? 1 : source < step->own_sources ? numbers.size() : roots.size();
      for (uint32_t row = 0; row < count; ++row) arena_.at(place.of(row)) = numbers[row];
    }
    for (const auto& component : tables.components) RunSteps(tables, component, width);
    for (const auto& rows : tables.results) {
      for (size_t root = 0; root < rows.size(); ++root) results[root].push_back(arena_.at(rows[root]));
    }
  }

  std::map<size_t, Numbers> results;  // of each root
  int64_t steps = 0;

 private:
  static constexpr int64_t kNobodys = -12345;

  void RunSteps(const LevelTables& tables, const LevelTables::Component& component, int64_t width) {
    for (size_t s = 0; s < component.count(); ++s, ++steps) {
      const int32_t* const step = component.steps.data() + s * component.columns;
      const int block = component.members[step[0]];
      const size_t place = std::find(tables.blocks.begin(), tables.blocks.end(), block) - tables.blocks.begin();
      const int64_t count = width == 0 ? step[2] : width;
      EXPECT_LE(step[2], count);
      std::vector<Numbers> made;
      for (int64_t row = 0; row < count; ++row) {
        Numbers numbers;
        for (const auto& rows : tables.reads[place]) {
          const size_t at = step[1] + row;
          numbers.push_back(arena_.at(at < rows.size() ? rows[at] : 0));
          EXPECT_TRUE(row >= step[2] || numbers.back() != kNobodys);
        }
        made.push_back(program_.operations.at(program_.plan.blocks[block].name)(numbers));
      }
      for (size_t w = 0; w < program_.plan.blocks[block].shared.size(); ++w) {
        for (int64_t row = 0; row < count; ++row) arena_.at(step[3 + w] + row) = made[row][w];
      }
    }
  }

  const Program& program_;
  Numbers arena_;
};

TEST(Schedule, TablesRunWhatSchedulesRun) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const Forest forest = RandomForest(1 + round % 5, 12, &random);
    const std::vector<Program> programs{Trees(forest), MutualTrees(forest), EarlyAndLate(forest)};
    for (const Program& program : programs) {
      Roots roots;
      const int arguments = program.plan.functions[0].arguments;
      auto* const all = new NumberRows(forest.roots);
      const FramePtr<Holder> holder(all);
      for (size_t i = 0; i < forest.roots.size(); ++i) {
        roots.emplace_back();
        roots.back().push_back({holder, static_cast<int64_t>(i)});
        while (static_cast<int>(roots.back().size()) < arguments) roots.back().push_back(Whole(3));
      }
      if (arguments > 1) {
        for (auto& root : roots) {
          for (int i = 1; i < arguments; ++i) root[i] = roots[0][i];
        }
      }
      Step step(program);
      ASSERT_EQ(step.Run(0, roots), Schedule::End::kDone);
      int64_t fewest = 0;
      for (const int64_t width : {0, 1, 3, 8}) {
        const ByTables found(program, 0, roots, width);
        for (size_t root = 0; root < roots.size(); ++root) {
          for (size_t i = 0; i < step.results[root].size(); ++i) {
            ASSERT_EQ(found.results.at(root)[i], In(step.results[root][i])) << "width " << width << ", root " << root;
          }
        }
        if (width == 0) fewest = found.steps;
        EXPECT_GE(found.steps, fewest);
      }
    }
  }
}

TEST(Schedule, TheComparisonSeesWrongResults) {
  std::mt19937 random(13);
  const Forest forest = RandomForest(3, 20, &random);
  const Program program = Trees(forest);
  Program wrong = program;
  wrong.operations["up"] = [](const Numbers& in) { return Numbers{Mixed({in[0], in[1], in[3], in[2]})}; };
  const Roots roots{{Row(forest.roots[0]), Row(1)}};
  const Plain root{forest.roots[0], nullptr};
  Step step(program);
  ASSERT_EQ(step.Run(0, roots), Schedule::End::kDone);
  EXPECT_EQ(In(step.results[0][0]), Recursion(program).Call(0, {root, {1, nullptr}})[0].number);
  EXPECT_NE(In(step.results[0][0]), Recursion(wrong).Call(0, {root, {1, nullptr}})[0].number);
}

}  // namespace
}  // namespace batch
}  // namespace recgraph
