// Every form of the row kernels against the C library, and products against the definition.
#include "cc/core/row_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace recgraph {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<const RowKernels*> AllKernels() {
  std::vector<const RowKernels*> all;
  for (int i = 0; RowKernelsAt(i) != nullptr; ++i) all.push_back(RowKernelsAt(i));
  return all;
}

double Exact(Unary op, double x) {
  switch (op) {
    case Unary::kNeg: return -x;
    case Unary::kAbs: return std::fabs(x);
    case Unary::kSquare: return x * x;
    case Unary::kSqrt: return std::sqrt(x);
    case Unary::kRsqrt: return 1 / std::sqrt(x);
    case Unary::kReciprocal: return 1 / x;
    case Unary::kExp: return std::exp(x);
    case Unary::kTanh: return std::tanh(x);
    case Unary::kSigmoid: return 1 / (1 + std::exp(-x));
    case Unary::kRelu: return std::isnan(x) ? x : std::fmax(x, 0.0);
    default: return x;
  }
}

double Exact(Binary op, double a, double b) {
  const bool nan = std::isnan(a) || std::isnan(b);
  switch (op) {
    case Binary::kAdd: return a + b;
    case Binary::kSub: return a - b;
    case Binary::kMul: return a * b;
    case Binary::kDiv: return a / b;
    case Binary::kMax: return nan ? kNan : std::fmax(a, b);
    case Binary::kMin: return nan ? kNan : std::fmin(a, b);
    case Binary::kSquaredDifference: return (a - b) * (a - b);
    case Binary::kTanhGrad: return b * (1 - a * a);
    case Binary::kSigmoidGrad: return b * a * (1 - a);
    case Binary::kReluGrad: return a > 0 ? b : 0;
    default: return a;
  }
}

// Equal to a few units in the last place of the exact value; `scale` where terms cancel.
void ExpectClose(float got, double exact, double scale, const std::string& what) {
  const float wanted = static_cast<float>(exact);
  if (std::isnan(wanted)) {
    EXPECT_TRUE(std::isnan(got)) << what;
  } else if (std::isinf(wanted)) {
    EXPECT_EQ(got, wanted) << what;
  } else {
    EXPECT_NEAR(got, exact, 4e-7 * (std::fabs(exact) + scale) + 2e-38) << what;
  }
}

std::vector<float> Values(bool positive) {
  std::vector<float> values = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 1e-6f, 88.0f, 90.0f, 200.0f, 1e30f, kInf, kNan};
  for (float x = -20.0f; x < 20.0f; x += 0.0173f) values.push_back(x);
  for (float x : {-86.0f, -88.5f, -95.0f, -110.0f, -1e30f, -kInf}) values.push_back(x);
  if (positive) {
    for (float& x : values) x = std::fabs(x);
  }
  return values;
}

TEST(RowKernelsTest, UnaryFunctionsAreRight) {
  for (const RowKernels* kernels : AllKernels()) {
    for (int op = 0; op < static_cast<int>(Unary::kCount); ++op) {
      const auto which = static_cast<Unary>(op);
      const std::vector<float> in = Values(which == Unary::kSqrt || which == Unary::kRsqrt);
      std::vector<float> out(in.size() + 1, 77.0f);
      kernels->unary[op](1, in.size(), {in.data(), 0}, out.data(), 0);
      for (size_t i = 0; i < in.size(); ++i) {
        const std::string what = std::string(kernels->name) + " unary " + std::to_string(op) + " of " +
                                 std::to_string(in[i]);
        ExpectClose(out[i], Exact(which, in[i]), 0, what);
      }
      EXPECT_EQ(out.back(), 77.0f) << "written past the end";
    }
  }
}

TEST(RowKernelsTest, BinaryFunctionsAreRightWithStridesAndScalars) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const int64_t rows = 5, width = 37, stride = 41;
  for (const RowKernels* kernels : AllKernels()) {
    for (int op = 0; op < static_cast<int>(Binary::kCount); ++op) {
      for (int form = 0; form < 5; ++form) {
        std::vector<float> a(rows * stride), b(rows * stride), out(rows * stride, 77.0f);
        for (float& x : a) x = normal(random);
        for (float& x : b) x = normal(random);
        a[3] = b[9] = kNan;
        // As they are; a shared for all rows; b a scalar of each row; a a scalar; both scalars.
        const Rows first = {a.data(), form == 1 ? 0 : stride, form >= 3};
        const Rows second = {b.data(), form == 2 || form == 4 ? 1 : stride, form == 2 || form == 4};
        kernels->binary[op](rows, width, first, second, out.data(), stride);
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t i = 0; i < stride; ++i) {
            const float got = out[row * stride + i];
            if (i >= width) {
              EXPECT_EQ(got, 77.0f);
              continue;
            }
            const float x = a[row * first.stride + (first.scalar ? 0 : i)];
            const float y = b[row * second.stride + (second.scalar ? 0 : i)];
            // Of the terms that the result is the sum of.
            const double largest = (1 + std::fabs(x)) * (1 + std::fabs(x)) * (1 + std::fabs(y));
            const double scale = std::isnan(largest) ? 0 : largest;
            ExpectClose(got, Exact(static_cast<Binary>(op), x, y), scale,
                        std::string(kernels->name) + " binary " + std::to_string(op));
          }
        }
      }
    }
  }
}

constexpr std::pair<int64_t, int64_t> kSizes[] = {{1, 1}, {3, 5}, {16, 48}, {7, 50}, {33, 97}, {300, 150}, {35, 35}};

TEST(RowKernelsTest, ProductsAreRightAndTheSameWithOtherRows) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (const RowKernels* kernels : AllKernels()) {
    for (const auto& [inner, width] : kSizes) {
      for (int64_t rows : {0, 1, 2, 3, 7, 8, 9, 17, 30}) {
        const PackedShape shape{inner, width};
        std::vector<float> a(rows * inner), matrix(inner * width), transposed(inner * width);
        for (float& x : a) x = normal(random);
        for (int64_t k = 0; k < inner; ++k) {
          for (int64_t j = 0; j < width; ++j) {
            matrix[k * width + j] = transposed[j * inner + k] = normal(random);
          }
        }
        std::vector<float> packed(shape.floats()), again(shape.floats());
        kernels->pack(shape, matrix.data(), false, packed.data());
        kernels->pack(shape, transposed.data(), true, again.data());
        std::vector<float> out(rows * width + 1, 77.0f), alone(width);
        kernels->product(rows, shape, a.data(), packed.data(), out.data());
        EXPECT_EQ(out.back(), 77.0f) << "written past the end";
        for (int64_t row = 0; row < rows; ++row) {
          kernels->product(1, shape, a.data() + row * inner, again.data(), alone.data());
          for (int64_t j = 0; j < width; ++j) {
            double exact = 0, scale = 0;
            for (int64_t k = 0; k < inner; ++k) {
              const double term = static_cast<double>(a[row * inner + k]) * matrix[k * width + j];
              exact += term;
              scale += std::fabs(term);
            }
            EXPECT_NEAR(out[row * width + j], exact, 1e-6 * scale) << kernels->name;
            EXPECT_EQ(out[row * width + j], alone[j]) << kernels->name;
          }
        }
      }
    }
  }
}

TEST(RowKernelsTest, OuterProductsAreRightAndNoMatterHowDivided) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const RowKernels* kernels : AllKernels()) {
    for (const auto& [inner, width] : kSizes) {
      for (int64_t rows : {1, 2, 30, 128, 129, 300}) {
        const PackedShape shape{inner, width};
        std::vector<float> a(rows * inner), b(rows * width), out(inner * width + 1, 77.0f);
        for (float& x : a) x = normal(random);
        for (float& x : b) x = normal(random);
        std::vector<const float*> rows_a, rows_b;
        for (int64_t row = 0; row < rows; ++row) {
          rows_a.push_back(a.data() + row * inner);
          rows_b.push_back(b.data() + row * width);
        }
        const int64_t middle = width / 2 / kernels->panel * kernels->panel;
        std::vector<float> scratch(kernels->outer_rows * inner);
        for (const auto& [first, last] : {std::pair(int64_t{0}, middle), std::pair(middle, width)}) {
          kernels->outer_product(rows, shape, rows_a.data(), rows_b.data(), first, last, scratch.data(), out.data());
        }
        EXPECT_EQ(out.back(), 77.0f) << "written past the end";
        for (int64_t i = 0; i < inner; i += 1 + inner / 40) {
          for (int64_t j = 0; j < width; ++j) {
            double exact = 0, scale = 0;
            for (int64_t row = 0; row < rows; ++row) {
              const double term = static_cast<double>(a[row * inner + i]) * b[row * width + j];
              exact += term;
              scale += std::fabs(term);
            }
            ASSERT_NEAR(out[i * width + j], exact, 1e-6 * scale) << kernels->name;
          }
        }
      }
    }
  }
}

TEST(RowKernelsTest, AdagradIsRight) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  const Adagrad how{0.05f, 1e-10f, 0.01f};
  for (const RowKernels* kernels : AllKernels()) {
    for (size_t count : {1u, 15u, 16u, 37u}) {
      std::vector<float> gradient(count), sums(count + 1, 0.25f), weights(count + 1, 77.0f);
      for (size_t i = 0; i < count; ++i) {
        gradient[i] = normal(random);
        weights[i] = normal(random);
      }
      const std::vector<float> before = weights;
      kernels->adagrad(count, how, gradient.data(), sums.data(), weights.data());
      for (size_t i = 0; i < count; ++i) {
        const double g = gradient[i] + static_cast<double>(how.decay) * before[i], sum = 0.25 + g * g;
        ExpectClose(sums[i], sum, 0, kernels->name);
        ExpectClose(weights[i], before[i] - how.rate * g / (std::sqrt(sum) + how.epsilon), 0.1, kernels->name);
      }
      EXPECT_EQ(sums.back(), 0.25f) << "written past the end";
      EXPECT_EQ(weights.back(), 77.0f) << "written past the end";
    }
  }
}

TEST(RowKernelsTest, SoftmaxIsRight) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(-200.0f, 4.0f);  // as they are, no power of e is a number
  for (const RowKernels* kernels : AllKernels()) {
    for (size_t width : {1u, 2u, 15u, 16u, 37u, 1000u}) {
      std::vector<float> logits(width), found(width + 1, 77.0f);
      for (float& logit : logits) logit = normal(random);
      const Softmax made = kernels->softmax(width, logits.data(), found.data());
      const double largest = *std::max_element(logits.begin(), logits.end());
      double sum = 0;
      for (float logit : logits) sum += std::exp(logit - largest);
      EXPECT_EQ(made.largest, static_cast<float>(largest)) << kernels->name;
      ExpectClose(made.sum, sum, 10 * sum, kernels->name);  // the sum of a thousand rounded numbers
      for (size_t i = 0; i < width; ++i) {
        const double exact = std::exp(logits[i] - largest) / sum;
        ExpectClose(found[i], exact, 10 * exact, kernels->name);
      }
      EXPECT_EQ(found.back(), 77.0f) << "written past the end";
      found.pop_back();
      kernels->softmax(width, logits.data(), logits.data());
      EXPECT_EQ(logits, found) << "in place";
    }
  }
}

TEST(RowKernelsTest, SoftmaxOfWhatIsNoNumber) {
  for (const RowKernels* kernels : AllKernels()) {
    for (const float strange : {kNan, kInf}) {
      for (size_t place : {0u, 5u, 16u, 20u}) {
        std::vector<float> logits(21, 1.0f);
        logits[place] = strange;
        EXPECT_TRUE(std::isnan(kernels->softmax(logits.size(), logits.data(), logits.data()).sum)) << kernels->name;
        EXPECT_TRUE(std::isnan(logits[3])) << kernels->name;
      }
    }
    std::vector<float> logits = {-kInf, 0.0f, -kInf};
    EXPECT_EQ(kernels->softmax(3, logits.data(), logits.data()).sum, 1.0f) << kernels->name;
    EXPECT_EQ(logits, (std::vector<float>{0.0f, 1.0f, 0.0f})) << kernels->name;
  }
}

TEST(RowKernelsTest, ThereIsAFormForAnyMachine) {
  const auto all = AllKernels();
  ASSERT_FALSE(all.empty());
  EXPECT_STREQ(all.back()->name, "plain");
  EXPECT_EQ(&BestRowKernels(), all.front());
}

}  // namespace
}  // namespace recgraph
