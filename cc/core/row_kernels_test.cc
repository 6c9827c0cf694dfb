// Every form of the row kernels against the C library, and products against the definition.
#include "cc/core/row_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

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
    case Binary::kReluGrad: return b * (a > 0 ? 1 : 0);
    default: return a;
  }
}

// The difference in units in the last place of the exact value. What is too large for a float counts as 2^128.
double UnitsApart(float got, double exact) {
  if (std::isnan(got) || std::isnan(exact)) return std::isnan(got) && std::isnan(exact) ? 0 : kInf;
  const double most = std::ldexp(1.0, 128);
  const double wanted = std::fmin(std::fmax(exact, -most), most);
  const double found = std::isinf(got) ? std::copysign(most, got) : got;
  const int exponent = wanted == 0 ? -126 : std::max(std::ilogb(wanted), -126);
  return std::fabs(found - wanted) / std::ldexp(1.0, exponent - 23);
}

constexpr double kUnits = 4;

// Equal to a few units in the last place, of the exact value or of `scale` where terms cancel.
void ExpectClose(float got, double exact, double scale, const std::string& what) {
  if (std::isnan(exact) || std::isinf(static_cast<float>(exact)) || scale == 0) {
    EXPECT_LE(UnitsApart(got, exact), kUnits) << what << " is " << got << ", not " << exact;
  } else {
    EXPECT_NEAR(got, exact, 4e-7 * (std::fabs(exact) + scale)) << what;
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

// By how much the patterns of bits grow: a prime, so that the last bits differ too. Under sanitizers nothing is optimised.
#if defined(__OPTIMIZE__)
constexpr uint64_t kSweepStep = 4093;
#else
constexpr uint64_t kSweepStep = 131071;
#endif

// Floats of all magnitudes and both signs.
std::vector<float> Sweep() {
  std::vector<float> all;
  for (uint64_t pattern = 0; pattern < uint64_t{1} << 32; pattern += kSweepStep) {
    const auto bits = static_cast<uint32_t>(pattern);
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    all.push_back(value);
  }
  return all;
}

std::vector<float> Results(const RowKernels* kernels, Unary op, const std::vector<float>& in) {
  std::vector<float> out(in.size());
  kernels->unary[static_cast<int>(op)](1, in.size(), {in.data(), 0}, out.data(), 0);
  return out;
}

// The farthest of `found` from the exact values, as what it is of.
std::pair<double, float> Farthest(Unary op, const std::vector<float>& in, const std::vector<float>& found) {
  std::pair<double, float> farthest{0, 0};
  for (size_t i = 0; i < in.size(); ++i) {
    const double apart = UnitsApart(found[i], Exact(op, in[i]));
    if (apart > farthest.first) farthest = {apart, in[i]};
  }
  return farthest;
}

TEST(RowKernelsTest, UnaryFunctionsAreWithinAFewUnitsInTheLastPlaceOfAnyFloat) {
  const std::vector<float> in = Sweep();
  for (const RowKernels* kernels : AllKernels()) {
    for (int op = 0; op < static_cast<int>(Unary::kCount); ++op) {
      const auto which = static_cast<Unary>(op);
      const auto [apart, where] = Farthest(which, in, Results(kernels, which, in));
      EXPECT_LE(apart, kUnits) << kernels->name << " unary " << op << " of " << where;
    }
  }
}

TEST(RowKernelsTest, TheUnitsAreCounted) {
  EXPECT_EQ(UnitsApart(1.0f, 1.0), 0);
  EXPECT_EQ(UnitsApart(std::nextafter(1.0f, 2.0f), 1.0), 1);
  EXPECT_EQ(UnitsApart(0.0f, 5e-45), UnitsApart(0.0f, -5e-45));
  EXPECT_GT(UnitsApart(0.0f, 8e-45), kUnits);
  EXPECT_EQ(UnitsApart(kInf, std::numeric_limits<float>::max()), 1);
  EXPECT_EQ(UnitsApart(kInf, 1e300), 0);
  EXPECT_GT(UnitsApart(-kInf, 1e300), kUnits);
  EXPECT_GT(UnitsApart(kNan, 1.0), kUnits);
  EXPECT_GT(UnitsApart(1.0f, kNan), kUnits);
  const std::vector<float> in = {0.5f, 1.3e-3f}, wrong = {std::tanh(0.5f), 1.3e-3f + 1e-7f};
  EXPECT_EQ(Farthest(Unary::kTanh, in, wrong).second, 1.3e-3f) << "an error that is small, but not of a small number";
}

#if defined(__SSE2__)
// As TensorFlow sets its threads: denormals are zeros, before and after each instruction.
class FlushDenormals {
 public:
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(before_); }

 private:
  const unsigned before_;
};

float Flushed(float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x; }

TEST(RowKernelsTest, WithoutDenormalsFunctionsAreThoseOfZeros) {
  const std::vector<float> in = Sweep();
  std::vector<float> flushed;
  for (float x : in) flushed.push_back(Flushed(x));
  for (const RowKernels* kernels : AllKernels()) {
    for (Unary op : {Unary::kSquare, Unary::kSqrt, Unary::kRsqrt, Unary::kReciprocal, Unary::kExp, Unary::kTanh, Unary::kSigmoid}) {
      std::vector<float> wanted = Results(kernels, op, flushed), found;
      for (float& x : wanted) x = Flushed(x);
      {
        const FlushDenormals flush;
        found = Results(kernels, op, in);
      }
      for (size_t i = 0; i < in.size(); ++i) {
        // A result that rounding makes normal may have been flushed before.
        if (found[i] == 0 && std::fabs(wanted[i]) == std::numeric_limits<float>::min()) continue;
        ASSERT_LE(UnitsApart(found[i], wanted[i]), 0) << kernels->name << " unary " << static_cast<int>(op) << " of " << in[i];
        if (std::isnan(found[i])) continue;
        ASSERT_EQ(std::signbit(found[i]), std::signbit(wanted[i])) << kernels->name << " of " << in[i];
      }
    }
  }
}
#endif

constexpr float kTiny = std::numeric_limits<float>::denorm_min();
constexpr float kLeast = std::numeric_limits<float>::min();
constexpr float kMost = std::numeric_limits<float>::max();

// What TensorFlow's operations give where results are not just rounded; tests/batch/test_fuse.py asks TensorFlow.
// Denormals as on a thread that has them.
struct SpecialUnary {
  Unary op;
  float of;
  float result;
};

constexpr SpecialUnary kSpecialUnary[] = {
    {Unary::kNeg, 0.0f, -0.0f},      {Unary::kNeg, -0.0f, 0.0f},      {Unary::kNeg, kTiny, -kTiny},     {Unary::kNeg, kInf, -kInf},
    {Unary::kAbs, -0.0f, 0.0f},      {Unary::kAbs, -kInf, kInf},      {Unary::kAbs, kNan, kNan},        {Unary::kSquare, -kInf, kInf},
    {Unary::kSquare, -0.0f, 0.0f},   {Unary::kSqrt, -0.0f, -0.0f},    {Unary::kSqrt, kInf, kInf},       {Unary::kSqrt, -kTiny, kNan},
    {Unary::kRsqrt, 0.0f, kInf},     {Unary::kRsqrt, -0.0f, -kInf},   {Unary::kRsqrt, kInf, 0.0f},      {Unary::kRsqrt, -1.0f, kNan},
    {Unary::kRsqrt, kNan, kNan},     {Unary::kReciprocal, 0.0f, kInf}, {Unary::kReciprocal, -0.0f, -kInf},
    {Unary::kReciprocal, -kInf, -0.0f}, {Unary::kReciprocal, kTiny, kInf},
    {Unary::kExp, kNan, kNan},       {Unary::kExp, kInf, kInf},       {Unary::kExp, -kInf, 0.0f},       {Unary::kExp, 0.0f, 1.0f},
    {Unary::kExp, -0.0f, 1.0f},      {Unary::kExp, kTiny, 1.0f},      {Unary::kExp, 88.73f, kInf},      {Unary::kExp, kMost, kInf},
    {Unary::kExp, -103.9f, kTiny},   {Unary::kExp, -103.98f, 0.0f},   {Unary::kExp, -kMost, 0.0f},
    {Unary::kTanh, kNan, kNan},      {Unary::kTanh, kInf, 1.0f},      {Unary::kTanh, -kInf, -1.0f},     {Unary::kTanh, 0.0f, 0.0f},
    {Unary::kTanh, -0.0f, -0.0f},    {Unary::kTanh, kTiny, kTiny},    {Unary::kTanh, -kLeast, -kLeast}, {Unary::kTanh, kMost, 1.0f},
    {Unary::kSigmoid, kNan, kNan},   {Unary::kSigmoid, kInf, 1.0f},   {Unary::kSigmoid, -kInf, 0.0f},   {Unary::kSigmoid, 0.0f, 0.5f},
    {Unary::kSigmoid, -0.0f, 0.5f},  {Unary::kSigmoid, kTiny, 0.5f},  {Unary::kSigmoid, -103.9f, kTiny}, {Unary::kSigmoid, -kMost, 0.0f},
    {Unary::kRelu, kNan, kNan},      {Unary::kRelu, kInf, kInf},      {Unary::kRelu, -kInf, 0.0f},      {Unary::kRelu, kTiny, kTiny},
    {Unary::kRelu, -kTiny, 0.0f},    {Unary::kRelu, 0.0f, 0.0f},
};

struct SpecialBinary {
  Binary op;
  float a, b;
  float result;
};

constexpr SpecialBinary kSpecialBinary[] = {
    {Binary::kMax, kNan, 1.0f, kNan},     {Binary::kMax, 1.0f, kNan, kNan},   {Binary::kMax, 0.0f, -0.0f, -0.0f},
    {Binary::kMax, -0.0f, 0.0f, 0.0f},    {Binary::kMax, -kInf, kNan, kNan},  {Binary::kMax, -kInf, 1.0f, 1.0f},
    {Binary::kMin, kNan, 1.0f, kNan},     {Binary::kMin, 1.0f, kNan, kNan},   {Binary::kMin, 0.0f, -0.0f, -0.0f},
    {Binary::kMin, -0.0f, 0.0f, 0.0f},    {Binary::kMin, kInf, kNan, kNan},   {Binary::kMin, kInf, 1.0f, 1.0f},
    {Binary::kDiv, 1.0f, -0.0f, -kInf},   {Binary::kDiv, 0.0f, 0.0f, kNan},   {Binary::kDiv, kInf, kInf, kNan},
    {Binary::kMul, 0.0f, kInf, kNan},     {Binary::kSub, kInf, kInf, kNan},   {Binary::kSquaredDifference, kInf, kInf, kNan},
    {Binary::kSquaredDifference, kInf, -kInf, kInf},
    {Binary::kTanhGrad, 1.0f, kInf, kNan}, {Binary::kTanhGrad, 0.0f, kInf, kInf}, {Binary::kTanhGrad, kNan, 0.0f, kNan},
    {Binary::kTanhGrad, kInf, 1.0f, -kInf}, {Binary::kTanhGrad, 1.0f, -1.0f, -0.0f},
    {Binary::kSigmoidGrad, 0.0f, kInf, kNan}, {Binary::kSigmoidGrad, 1.0f, kInf, kNan}, {Binary::kSigmoidGrad, 0.5f, kInf, kInf},
    {Binary::kSigmoidGrad, kInf, 1.0f, -kInf}, {Binary::kSigmoidGrad, 0.5f, kNan, kNan}, {Binary::kSigmoidGrad, 0.0f, -1.0f, -0.0f},
    {Binary::kReluGrad, kNan, 1.0f, 0.0f}, {Binary::kReluGrad, 1.0f, kNan, kNan}, {Binary::kReluGrad, -1.0f, kNan, kNan},
    {Binary::kReluGrad, -1.0f, kInf, kNan}, {Binary::kReluGrad, 0.0f, -1.0f, -0.0f}, {Binary::kReluGrad, kInf, kInf, kInf},
};

// In all lanes and in the last ones of a row.
void ExpectAll(const std::vector<float>& got, float wanted, const std::string& what) {
  for (float x : got) {
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(x)) << what << " is " << x;
    } else {
      ASSERT_EQ(x, wanted) << what;
      ASSERT_EQ(std::signbit(x), std::signbit(wanted)) << what << ": the sign";
    }
  }
}

TEST(RowKernelsTest, SpecialValuesAreTensorFlows) {
  for (const RowKernels* kernels : AllKernels()) {
    for (const SpecialUnary& special : kSpecialUnary) {
      const std::vector<float> in(37, special.of);
      ExpectAll(Results(kernels, special.op, in), special.result,
                std::string(kernels->name) + " unary " + std::to_string(static_cast<int>(special.op)) + " of " +
                    std::to_string(special.of));
    }
    for (const SpecialBinary& special : kSpecialBinary) {
      const std::vector<float> a(37, special.a), b(37, special.b);
      std::vector<float> out(37);
      kernels->binary[static_cast<int>(special.op)](1, 37, {a.data(), 0}, {b.data(), 0}, out.data(), 0);
      ExpectAll(out, special.result,
                std::string(kernels->name) + " binary " + std::to_string(static_cast<int>(special.op)) + " of " +
                    std::to_string(special.a) + ", " + std::to_string(special.b));
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

// Rows in parts that lie anywhere, the last of them at the very end of its memory.
class Scattered {
 public:
  Scattered(int64_t rows, const std::vector<int64_t>& widths, const std::vector<float>& dense, std::mt19937* random) {
    int64_t inner = 0, first = 0;
    for (const int64_t width : widths) inner += width;
    for (const int64_t width : widths) {
      std::vector<int64_t> places(rows);
      for (int64_t row = 0; row < rows; ++row) places[row] = row * width;
      std::shuffle(places.begin(), places.end(), *random);
      memory_.emplace_back(rows * width);
      pointers_.emplace_back();
      for (int64_t row = 0; row < rows; ++row) {
        std::copy_n(dense.begin() + row * inner + first, width, memory_.back().begin() + places[row]);
        pointers_.back().push_back(memory_.back().data() + places[row]);
      }
      first += width;
    }
    for (size_t i = 0; i < widths.size(); ++i) parts.push_back({pointers_[i].data(), widths[i]});
  }

  std::vector<ScatteredRows> parts;

 private:
  std::vector<std::vector<float>> memory_;
  std::vector<std::vector<const float*>> pointers_;
};

// `inner` as it is, in two parts, and in many of which one is empty.
std::vector<std::vector<int64_t>> Partitions(int64_t inner) {
  std::vector<std::vector<int64_t>> all = {{inner}, {inner / 3, inner - inner / 3}, {0}};
  for (int64_t left = inner, next = 1; left > 0; next = next * 2 + 1) {
    all.back().push_back(std::min(left, next));
    left -= all.back().back();
  }
  return all;
}

TEST(RowKernelsTest, ProductsOfScatteredRowsAreThoseOfRowsTogether) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  std::vector<std::pair<int64_t, int64_t>> sizes(std::begin(kSizes), std::end(kSizes));
  for (int64_t width = 1; width <= 50; ++width) sizes.emplace_back(4, width);
  for (const RowKernels* kernels : AllKernels()) {
    for (const auto& [inner, width] : sizes) {
      const PackedShape shape{inner, width};
      std::vector<float> matrix(inner * width), packed(shape.floats());
      for (float& x : matrix) x = normal(random);
      kernels->pack(shape, matrix.data(), false, packed.data());
      for (const int64_t rows : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 30}) {
        std::vector<float> a(rows * inner), wanted(rows * width);
        for (float& x : a) x = normal(random);
        kernels->product(rows, shape, a.data(), packed.data(), wanted.data());
        for (const std::vector<int64_t>& widths : Partitions(inner)) {
          const Scattered scattered(rows, widths, a, &random);
          const int64_t stride = width + 3;
          std::vector<float> out(rows * stride + 1, 77.0f);
          kernels->product_of_rows(rows, shape, scattered.parts.data(), static_cast<int>(widths.size()), packed.data(),
                                   out.data(), stride);
          for (int64_t row = 0; row < rows; ++row) {
            ASSERT_EQ(std::memcmp(&out[row * stride], &wanted[row * width], width * sizeof(float)), 0)
                << kernels->name << " of " << rows << " rows, [" << inner << ", " << width << "]";
            for (int64_t j = width; j < stride; ++j) ASSERT_EQ(out[row * stride + j], 77.0f) << "written past a row";
          }
          ASSERT_EQ(out.back(), 77.0f) << "written past the end";
        }
      }
    }
  }
}

TEST(RowKernelsTest, ProductsOfMatricesAreRightForAllTranspositions) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const RowKernels* kernels : AllKernels()) {
    for (const int64_t m : {1, 2, 7, 16, 33}) {
      for (const int64_t k : {0, 1, 3, 8, 16, 37}) {
        for (const int64_t n : {1, 2, 5, 16, 35}) {
          std::vector<float> a(m * k), b(k * n);
          for (float& x : a) x = normal(random);
          for (float& x : b) x = normal(random);
          for (const bool transposed_a : {false, true}) {
            for (const bool transposed_b : {false, true}) {
              std::vector<float> out(m * n + 1, 77.0f);
              kernels->matrix_product({m, k, n, transposed_a, transposed_b}, a.data(), b.data(), out.data());
              EXPECT_EQ(out.back(), 77.0f) << "written past the end";
              for (int64_t i = 0; i < m; ++i) {
                for (int64_t j = 0; j < n; ++j) {
                  double exact = 0, scale = 0;
                  for (int64_t p = 0; p < k; ++p) {
                    const double x = transposed_a ? a[p * m + i] : a[i * k + p];
                    const double y = transposed_b ? b[j * k + p] : b[p * n + j];
                    exact += x * y;
                    scale += std::fabs(x * y);
                  }
                  ASSERT_NEAR(out[i * n + j], exact, 1e-6 * scale)
                      << kernels->name << ": " << m << ", " << k << ", " << n << ", " << transposed_a << ", " << transposed_b;
                }
              }
            }
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
      for (int64_t rows : {1, 2, 30, 64, 65, 128, 129, 300, 2048, 4100}) {
        if (rows > 300 && inner * width > 2000) continue;
        std::vector<float> a(rows * inner), b(rows * width), out(inner * width + 1, 77.0f);
        for (float& x : a) x = normal(random);
        for (float& x : b) x = normal(random);
        std::vector<const float*> rows_a, rows_b;
        for (int64_t row = 0; row < rows; ++row) {
          rows_a.push_back(a.data() + row * inner);
          rows_b.push_back(b.data() + row * width);
        }
        const int64_t middle = inner / 3;
        std::vector<double> scratch(kernels->outer_scratch(rows, width, inner));
        std::vector<float> whole(inner * width);
        kernels->outer_product(rows, width, rows_a.data(), rows_b.data(), 0, inner, scratch.data(), whole.data());
        for (const auto& [first, last] : {std::pair(int64_t{0}, middle), std::pair(middle, inner)}) {
          kernels->outer_product(rows, width, rows_a.data(), rows_b.data(), first, last, scratch.data(),
                                 out.data() + first * width);
        }
        EXPECT_TRUE(std::equal(whole.begin(), whole.end(), out.begin())) << kernels->name;
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

// Numbers that are added up, all alike, so that each rounding is in the same direction, or of any sign and size.
struct Summands {
  const char* name;
  std::vector<float> numbers;
  double sum = 0.0, size = 0.0;  // of the magnitudes
};

std::vector<Summands> LongSums(int64_t count) {
  std::vector<Summands> all{{"all 0.1", {}}, {"of any size", {}}, {"positive", {}}};
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < count; ++i) {
    all[0].numbers.push_back(0.1f);
    all[1].numbers.push_back(normal(random));
    all[2].numbers.push_back(std::fabs(normal(random)));
  }
  for (Summands& each : all) {
    for (const float x : each.numbers) each.sum += static_cast<double>(x), each.size += std::fabs(static_cast<double>(x));
  }
  return all;
}

#ifdef __OPTIMIZE__
constexpr int64_t kLong = 10'000'000;
#else
constexpr int64_t kLong = 200'000;  // sanitizers are slow
#endif

// One after another in floats, a million rows are a percent off and four million four.
TEST(RowKernelsTest, OuterProductsOfManyRowsKeepTheirDigits) {
  const float one[3] = {1.0f, -2.0f, 0.0f};
  const std::vector<const float*> ones(kLong, one);
  for (const Summands& summands : LongSums(kLong)) {
    std::vector<const float*> rows;
    for (const float& number : summands.numbers) rows.push_back(&number);
    for (const RowKernels* kernels : AllKernels()) {
      std::vector<double> scratch(kernels->outer_scratch(kLong, 1, 3));
      float out[3];
      kernels->outer_product(kLong, 1, ones.data(), rows.data(), 0, 3, scratch.data(), out);
      EXPECT_NEAR(out[0], summands.sum, 1e-6 * summands.size) << kernels->name << ", " << summands.name;
      EXPECT_NEAR(out[1], -2 * summands.sum, 2e-6 * summands.size) << kernels->name << ", " << summands.name;
      EXPECT_EQ(out[2], 0.0f);
    }
  }
}

TEST(RowKernelsTest, LongSumsKeepTheirDigits) {
  for (const Summands& summands : LongSums(kLong)) {
    for (const RowKernels* kernels : AllKernels()) {
      EXPECT_NEAR(kernels->sum(kLong, summands.numbers.data()), summands.sum, 1e-6 * summands.size)
          << kernels->name << ", " << summands.name;
    }
  }
}

// A product's blocks are longer: its error is more than that of a sum, and grows no further.
TEST(RowKernelsTest, ProductsAlongLongRowsKeepTheirDigits) {
  constexpr int64_t kInner = kLong / 10 + 100'000;
  for (const Summands& summands : LongSums(kInner)) {
    const std::vector<float> ones(kInner, 1.0f);
    for (const RowKernels* kernels : AllKernels()) {
      const PackedShape shape{kInner, 1};
      std::vector<float> packed(shape.floats());
      kernels->pack(shape, summands.numbers.data(), false, packed.data());
      float out = 0, scattered = 0;
      kernels->product(1, shape, ones.data(), packed.data(), &out);
      EXPECT_NEAR(out, summands.sum, 2e-5 * summands.size) << kernels->name << ", " << summands.name;
      const float* const halves[2] = {ones.data(), ones.data()};
      const ScatteredRows parts[] = {{halves, 30'001}, {halves + 1, kInner - 30'001}};
      kernels->product_of_rows(1, shape, parts, 2, packed.data(), &scattered, 1);
      EXPECT_EQ(out, scattered) << kernels->name;
      for (const auto& [transposed_a, transposed_b] : {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
        kernels->matrix_product({1, kInner, 1, transposed_a, transposed_b}, ones.data(), summands.numbers.data(), &out);
        EXPECT_NEAR(out, summands.sum, 2e-5 * summands.size) << kernels->name << ", " << summands.name;
      }
    }
  }
}

// The blocks of a long product, of several rows and columns, whose last vectors are not full.
TEST(RowKernelsTest, LongProductsAreRight) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  constexpr int64_t kRows = 11, kInner = 2500, kWidth = 53;
  std::vector<float> a(kRows * kInner), matrix(kInner * kWidth);
  for (float& x : a) x = normal(random);
  for (float& x : matrix) x = normal(random);
  for (const RowKernels* kernels : AllKernels()) {
    const PackedShape shape{kInner, kWidth};
    std::vector<float> packed(shape.floats()), out(kRows * kWidth + 1, 77.0f), scattered(out);
    kernels->pack(shape, matrix.data(), false, packed.data());
    kernels->product(kRows, shape, a.data(), packed.data(), out.data());
    std::vector<const float*> first, second;
    for (int64_t row = 0; row < kRows; ++row) {
      first.push_back(a.data() + row * kInner);
      second.push_back(first.back() + 1000);
    }
    const ScatteredRows parts[] = {{first.data(), 1000}, {second.data(), kInner - 1000}};
    kernels->product_of_rows(kRows, shape, parts, 2, packed.data(), scattered.data(), kWidth);
    EXPECT_EQ(out, scattered) << kernels->name;
    EXPECT_EQ(out.back(), 77.0f) << "written past the end";
    std::vector<float> unpacked(kRows * kWidth);
    kernels->matrix_product({kRows, kInner, kWidth, false, false}, a.data(), matrix.data(), unpacked.data());
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < kWidth; ++j) {
        double exact = 0, size = 0;
        for (int64_t k = 0; k < kInner; ++k) {
          const double term = static_cast<double>(a[i * kInner + k]) * matrix[k * kWidth + j];
          exact += term;
          size += std::fabs(term);
        }
        ASSERT_NEAR(out[i * kWidth + j], exact, 1e-6 * size) << kernels->name;
        ASSERT_NEAR(unpacked[i * kWidth + j], exact, 1e-6 * size) << kernels->name;
      }
    }
  }
}

// What is infinite or no number stays so, by way of doubles, too.
TEST(RowKernelsTest, LongSumsOfWhatIsNoNumber) {
  constexpr int64_t kCount = 5000;
  for (const float odd : {kInf, -kInf, kNan}) {
    std::vector<float> numbers(kCount, 1.0f);
    numbers[3000] = odd;
    std::vector<const float*> rows;
    for (const float& number : numbers) rows.push_back(&number);
    const float one = 1.0f;
    const std::vector<const float*> ones(kCount, &one);
    for (const RowKernels* kernels : AllKernels()) {
      std::vector<double> scratch(kernels->outer_scratch(kCount, 1, 1));
      float out;
      kernels->outer_product(kCount, 1, ones.data(), rows.data(), 0, 1, scratch.data(), &out);
      for (const double found : {static_cast<double>(out), kernels->sum(kCount, numbers.data())}) {
        EXPECT_TRUE(std::isnan(odd) ? std::isnan(found) : found == odd) << kernels->name << " " << odd << ": " << found;
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

// Against the definition: each probability to a few units in its last place, and what the other numbers add to the largest.
void ExpectSoftmax(const RowKernels* kernels, std::vector<float> logits) {
  std::vector<float> found(logits.size() + 1, 77.0f);
  const Softmax made = kernels->softmax(logits.size(), logits.data(), found.data());
  const auto at = std::max_element(logits.begin(), logits.end());
  const double largest = *at;
  double others = 0;
  for (auto logit = logits.begin(); logit != logits.end(); ++logit) others += logit == at ? 0 : std::exp(*logit - largest);
  EXPECT_EQ(made.largest, *at) << kernels->name;
  // Where many tiny ones are added, all they are is not a unit of 1.
  EXPECT_NEAR(made.others, others, kUnits * std::ldexp(others, -24) + 1e-13 * logits.size()) << kernels->name;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double exact = std::exp(logits[i] - largest) / (1 + others);
    ASSERT_LE(UnitsApart(found[i], exact), kUnits) << kernels->name << " of " << logits[i] << ", at most " << largest;
  }
  EXPECT_EQ(found.back(), 77.0f) << "written past the end";
  found.pop_back();
  kernels->softmax(logits.size(), logits.data(), logits.data());
  EXPECT_EQ(logits, found) << "in place";
}

TEST(RowKernelsTest, SoftmaxIsWithinAFewUnitsInTheLastPlace) {
  std::mt19937 random(5);
  for (const RowKernels* kernels : AllKernels()) {
    for (size_t width : {1u, 2u, 5u, 15u, 16u, 37u, 1000u}) {
      // At -200, as they are, no power of e is a number; from 8192 on differences are computed in another way.
      for (float mean : {0.0f, 0.01f, 3.0f, -200.0f, 8190.0f, -8200.0f, 1e6f, 3e38f, -3e38f}) {
        for (float deviation : {0.0f, 1e-3f, 1.0f, 4.0f, 60.0f}) {
          std::normal_distribution<float> normal(mean, deviation);
          std::vector<float> logits(width);
          for (float& logit : logits) logit = deviation == 0 ? mean : normal(random);
          ExpectSoftmax(kernels, logits);
        }
      }
    }
    std::vector<float> many(30000);
    std::normal_distribution<float> normal(5.0f, 3.0f);
    for (float& logit : many) logit = normal(random);
    ExpectSoftmax(kernels, many);
    ExpectSoftmax(kernels, {0.0f, -20.0f, -40.0f, -87.0f, -95.0f, -103.0f, -104.0f, -110.0f, -1e30f, -kInf});
    ExpectSoftmax(kernels, {kMost, -kMost, 0.0f});
    ExpectSoftmax(kernels, {-kMost, -kMost, -kInf});
    ExpectSoftmax(kernels, {kTiny, -kTiny, 0.0f, -0.0f});
    ExpectSoftmax(kernels, {100.0f, 0.0012345678f, 1e-30f, -1.1e-7f});
  }
}

TEST(RowKernelsTest, SoftmaxOfWhatIsNoNumber) {
  for (const RowKernels* kernels : AllKernels()) {
    for (const float strange : {kNan, kInf}) {
      for (size_t place : {0u, 5u, 16u, 20u}) {
        std::vector<float> logits(21, 1.0f);
        logits[place] = strange;
        EXPECT_TRUE(std::isnan(kernels->softmax(logits.size(), logits.data(), logits.data()).others)) << kernels->name;
        for (float probability : logits) EXPECT_TRUE(std::isnan(probability)) << kernels->name;
      }
    }
    std::vector<float> logits = {-kInf, 0.0f, -kInf};
    EXPECT_EQ(kernels->softmax(3, logits.data(), logits.data()).others, 0.0) << kernels->name;
    EXPECT_EQ(logits, (std::vector<float>{0.0f, 1.0f, 0.0f})) << kernels->name;
    logits.assign(3, -kInf);
    EXPECT_TRUE(std::isnan(kernels->softmax(3, logits.data(), logits.data()).others)) << kernels->name;
    for (float probability : logits) EXPECT_TRUE(std::isnan(probability)) << kernels->name;
  }
}

// Against the definition, in doubles; the gradient may take the logits' place.
TEST(RowKernelsTest, CrossEntropiesAndTheirGradientsAreRight) {
  std::mt19937 random(8);
  for (const int64_t classes : {1, 2, 5, 16, 37, 1000}) {
    for (const float deviation : {0.0f, 1.0f, 30.0f}) {
      std::normal_distribution<float> normal(2.0f, deviation);
      std::vector<float> logits(classes), gradient(classes + 1, 77.0f);
      for (float& logit : logits) logit = deviation == 0 ? 2.0f : normal(random);
      const int64_t most = std::max_element(logits.begin(), logits.end()) - logits.begin();
      for (const int64_t label : {int64_t{0}, classes / 2, classes - 1, most}) {
        const float loss = CrossEntropy(classes, logits.data(), label, gradient.data());
        double others = 0;  // of all but the label's: no 1 that swallows their digits
        for (int64_t i = 0; i < classes; ++i) others += i == label ? 0 : std::exp(double{logits[i]} - logits[label]);
        EXPECT_NEAR(loss, std::log1p(others), 1e-6 * std::log1p(others)) << classes << " classes, label " << label;
        for (int64_t i = 0; i < classes; ++i) {
          const double probability = std::exp(double{logits[i]} - logits[label]) / (1 + others);
          const double exact = i == label ? -others / (1 + others) : probability;
          ASSERT_NEAR(gradient[i], exact, 1e-6 * std::fabs(exact) + (label == most ? kTiny : 1e-7)) << classes << ", " << label;
        }
        EXPECT_EQ(gradient.back(), 77.0f) << "written past the end";
        std::vector<float> in_place = logits;
        EXPECT_EQ(CrossEntropy(classes, in_place.data(), label, in_place.data()), loss);
        EXPECT_EQ(std::memcmp(in_place.data(), gradient.data(), classes * sizeof(float)), 0) << "in place";
      }
    }
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
