// Expressions against the same arithmetic written out, and damaged ones.
#include "cc/core/expression.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace recgraph {
namespace {

using Code = std::vector<int64_t>;

constexpr int64_t kTanh = static_cast<int64_t>(Unary::kTanh);
constexpr int64_t kCopy = static_cast<int64_t>(Unary::kCopy);
constexpr int64_t kAdd = static_cast<int64_t>(Binary::kAdd);
constexpr int64_t kMul = static_cast<int64_t>(Binary::kMul);

// Inputs: x [n, 6], shared bias [3], factor [n, 1], shared scalar [1].
// r = tanh(x[:, :3] + bias); out0 = [r * x[:, 3:], x[:, 1:3]]; out1 = (r * factor) * scalar, float by float.
const Code kCode = {
    4, 6, 0, 3, 1, 1, 0, 1, 1,  // inputs
    2, 3, 3,                    // registers
    2, 5, 3,                    // outputs
    6,                          // instructions
    2, kAdd, 3, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0,   // r0 = x[:3] + bias
    1, kTanh, 3, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0,                 // r0 = tanh(r0)
    2, kMul, 3, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0,   // out0[:3] = r0 * x[3:]
    1, kCopy, 2, 1, 2, 0, 3, 0, 0, 0, 0, 1, 0, 0,                 // out0[3:] = x[1:3]
    2, kMul, 3, 1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 1, 0,   // r1 = r0 * factor
    2, kMul, 1, 3, 2, 1, 0, 0, 1, 1, 1, 0, 0, 1, 0, 3, 0, 1, 0,   // out1[i] = r1[i] * scalar, three times
};

TEST(ExpressionTest, ComputesWhatItSays) {
  Expression expression;
  ASSERT_EQ(Expression::Decode(kCode, &expression), "");
  ASSERT_EQ(expression.inputs().size(), 4u);
  ASSERT_EQ(expression.outputs(), (std::vector<int64_t>{5, 3}));
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (int64_t rows : {0, 1, 2, 7, 3000}) {
    std::vector<float> x(rows * 6), bias(3), factor(rows), scalar(1), out0(rows * 5 + 1, 77.0f), out1(rows * 3 + 1, 77.0f);
    for (auto* values : {&x, &bias, &factor, &scalar}) {
      for (float& value : *values) value = normal(random);
    }
    const Expression::Source inputs[] = {{x.data(), 6}, {bias.data(), 3}, {factor.data(), 1}, {scalar.data(), 1}};
    const Expression::Target outputs[] = {{out0.data(), 5}, {out1.data(), 3}};
    const int64_t middle = rows / 2;
    expression.Run(0, middle, inputs, outputs);
    expression.Run(middle, rows, inputs, outputs);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < 3; ++j) {
        const float r = std::tanh(x[i * 6 + j] + bias[j]);
        EXPECT_NEAR(out0[i * 5 + j], r * x[i * 6 + 3 + j], 1e-5);
        EXPECT_NEAR(out1[i * 3 + j], r * factor[i] * scalar[0], 1e-5);
      }
      EXPECT_EQ(out0[i * 5 + 3], x[i * 6 + 1]);
      EXPECT_EQ(out0[i * 5 + 4], x[i * 6 + 2]);
    }
    EXPECT_EQ(out0.back(), 77.0f);
    EXPECT_EQ(out1.back(), 77.0f);
  }
}

TEST(ExpressionTest, ReadsAndWritesRowsThatAreApart) {
  Expression expression;
  ASSERT_EQ(Expression::Decode(kCode, &expression), "");
  constexpr int64_t kRows = 5;
  std::vector<float> dense(kRows * 6), apart(kRows * 9, 99.0f), bias(3, 0.5f), factor(kRows, 2.0f), scalar(1, 3.0f);
  for (size_t i = 0; i < dense.size(); ++i) apart[i / 6 * 9 + i % 6] = dense[i] = 0.1f * static_cast<float>(i);
  std::vector<float> out0(kRows * 5), out1(kRows * 3), wide0(kRows * 8, 77.0f), wide1(kRows * 4, 77.0f);
  const auto run = [&](Expression::Source x, Expression::Target first, Expression::Target second) {
    const Expression::Source inputs[] = {x, {bias.data(), 3}, {factor.data(), 1}, {scalar.data(), 1}};
    const Expression::Target outputs[] = {first, second};
    EXPECT_TRUE(expression.Run(0, kRows, inputs, outputs));
  };
  run({dense.data(), 6}, {out0.data(), 5}, {out1.data(), 3});
  run({apart.data(), 9}, {wide0.data(), 8}, {wide1.data(), 4});
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(wide0[row * 8 + i], i < 5 ? out0[row * 5 + i] : 77.0f);
    for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(wide1[row * 4 + i], i < 3 ? out1[row * 3 + i] : 77.0f);
  }
}

TEST(ExpressionTest, RefusesDamagedCode) {
  Expression expression;
  EXPECT_NE(Expression::Decode({}, &expression), "");
  for (size_t length = 0; length < kCode.size(); ++length) {
    EXPECT_NE(Expression::Decode(Code(kCode.begin(), kCode.begin() + length), &expression), "");
  }
  // Whatever number is replaced by whatever: it is refused, or stays within its arrays (sanitizers look).
  std::mt19937 random(4);
  std::vector<float> memory(4 * 1024, 0.5f);
  for (int round = 0; round < 20000; ++round) {
    Code code = kCode;
    code[random() % code.size()] = static_cast<int64_t>(random() % 9) - 1;
    if (!Expression::Decode(code, &expression).empty()) continue;
    std::vector<std::vector<float>> inputs, outputs;
    std::vector<Expression::Source> from;
    std::vector<Expression::Target> to;
    for (const auto& input : expression.inputs()) inputs.emplace_back(3 * input.width, 0.5f);
    for (int64_t width : expression.outputs()) outputs.emplace_back(3 * width);
    for (const auto& input : inputs) from.push_back({input.data(), static_cast<int64_t>(input.size()) / 3});
    for (auto& output : outputs) to.push_back({output.data(), static_cast<int64_t>(output.size()) / 3});
    expression.Run(0, 3, from.data(), to.data());
  }
}

// A few numbers that ask for 2^40 operations a row, with arrays of one float.
TEST(ExpressionTest, RefusesWorkWithoutEnd) {
  const auto code = [](int64_t times, int64_t step, int64_t width, int instructions) {
    Code made{1, width * times, 0, 0, 1, width * times, instructions};
    for (int i = 0; i < instructions; ++i) {
      const Code one{1, 0, width, times, 2, 0, 0, 0, step, 0, 0, 0, 0, step};
      made.insert(made.end(), one.begin(), one.end());
    }
    return made;
  };
  Expression expression;
  EXPECT_EQ(Expression::Decode(code(4, 2, 2, 3), &expression), "");
  EXPECT_NE(Expression::Decode(code(4, 1, 2, 1), &expression), "") << "a repetition that goes on by less than it does";
  EXPECT_NE(Expression::Decode(code(1 << 16, 0, 1 << 8, 1), &expression), "");
  EXPECT_EQ(Expression::Decode(code(1, 0, 1 << 24, 256), &expression), "");
  EXPECT_NE(Expression::Decode(code(1, 0, 1 << 24, 257), &expression), "");
}

}  // namespace
}  // namespace recgraph
