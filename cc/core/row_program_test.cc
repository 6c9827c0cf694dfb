// Each step of a row program against the same arithmetic written out, over tiles and rows that lie anywhere.
#include "cc/core/row_program.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/memory_pool.h"

namespace recgraph {
namespace {

using Place = RowProgram::Place;
using Space = RowProgram::Space;

constexpr char kCanary = 0x5A;
constexpr int64_t kMargin = 64;

// How the rows of an input lie.
enum class Layout { kTogether, kApart, kSame, kBackwards, kAnywhere };
constexpr Layout kLayouts[] = {Layout::kTogether, Layout::kApart, Layout::kSame, Layout::kBackwards, Layout::kAnywhere};
constexpr int64_t kRows[] = {0, 1, 2, 255, 256, 257, 3000};  // tiles have 256

// Rows of so many bytes.
class Input {
 public:
  Input(int64_t bytes, int64_t rows, Layout layout, std::mt19937* random) : bytes_(bytes) {
    const int64_t step = layout == Layout::kTogether ? bytes : (bytes + 7) / 8 * 8 + 8;
    const int64_t there = layout == Layout::kSame ? 1 : rows;
    memory_.assign(there * step + bytes + 8, kCanary);
    for (int64_t row = 0; row < rows; ++row) places_.push_back(layout == Layout::kSame ? 0 : row * step);
    if (layout == Layout::kBackwards) std::reverse(places_.begin(), places_.end());
    if (layout == Layout::kAnywhere) std::shuffle(places_.begin(), places_.end(), *random);
    for (const int64_t place : places_) rows_.push_back(memory_.data() + place);
  }

  template <typename T>
  Input& Fill(int64_t offset, int64_t count, const std::function<T()>& value) {
    for (const int64_t place : places_) {
      for (int64_t i = 0; i < count; ++i) {
        const T made = value();
        std::memcpy(memory_.data() + place + offset + i * sizeof(T), &made, sizeof(T));
      }
    }
    return *this;
  }

  template <typename T>
  T At(int64_t row, int64_t offset, int64_t index) const {
    T value;
    std::memcpy(&value, rows_[row] + offset + index * sizeof(T), sizeof(T));
    return value;
  }

  const char* const* rows() const { return rows_.data(); }

 private:
  int64_t bytes_;
  std::vector<char> memory_;
  std::vector<int64_t> places_;
  std::vector<const char*> rows_;
};

// The rows of an output between canaries; those that the step leaves out are canaries, too.
class Output {
 public:
  Output(int64_t bytes, int64_t rows, bool shared)
      : bytes_(bytes), all_(shared ? bytes : bytes * rows), memory_(all_ + 2 * kMargin, kCanary) {
    if (shared) std::memset(memory_.data() + kMargin, 0, all_);
  }

  char* data() { return memory_.data() + kMargin; }

  template <typename T>
  T At(int64_t row, int64_t offset, int64_t index) const {
    T value;
    std::memcpy(&value, memory_.data() + kMargin + row * bytes_ + offset + index * sizeof(T), sizeof(T));
    return value;
  }

  // That nothing was written but bytes `begin` to `end` of each row.
  void ExpectOnly(int64_t begin, int64_t end) const {
    const auto is_canary = [this](int64_t first, int64_t last) {
      return std::all_of(memory_.begin() + first, memory_.begin() + last, [](char byte) { return byte == kCanary; });
    };
    EXPECT_TRUE(is_canary(0, kMargin)) << "written before the output";
    EXPECT_TRUE(is_canary(kMargin + all_, kMargin + all_ + kMargin)) << "written past the output";
    for (int64_t row = 0; row < (bytes_ == 0 ? 0 : all_ / bytes_); ++row) {
      const int64_t first = kMargin + row * bytes_;
      ASSERT_TRUE(is_canary(first, first + begin) && is_canary(first + end, first + bytes_)) << "around row " << row;
    }
  }

 private:
  int64_t bytes_, all_;
  std::vector<char> memory_;
};

// One run of a program.
class Trial {
 public:
  Trial(int64_t rows, Layout layout) : rows(rows), layout(layout) {}

  Input& AddInput(int64_t bytes) {
    inputs_.push_back(std::make_unique<Input>(bytes, rows, layout, &random));
    return *inputs_.back();
  }
  template <typename T>
  void AddCapture(const std::vector<T>& values) {
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
    captures_.push_back({reinterpret_cast<const char*>(values.data()), bytes});
  }
  float Normal() { return std::normal_distribution<float>()(random); }
  int64_t Below(int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(random); }
  bool operator()(const RowProgram& program) {
    std::vector<const char* const*> inputs;
    for (const auto& input : inputs_) inputs.push_back(input->rows());
    outputs.clear();
    std::vector<char*> targets;
    for (const auto& [bytes, shared] : program.outputs()) outputs.emplace_back(bytes, rows, shared);
    for (Output& output : outputs) targets.push_back(output.data());
    return program.Run(rows, inputs.data(), captures_.data(), targets.data());
  }

  const int64_t rows;
  const Layout layout;
  std::mt19937 random{7};
  std::vector<Output> outputs;

 private:
  std::vector<std::unique_ptr<Input>> inputs_;
  std::vector<RowProgram::Shared> captures_;
};

void ForAll(const std::function<void(Trial&)>& test) {
  for (const Layout layout : kLayouts) {
    for (const int64_t rows : kRows) {
      SCOPED_TRACE("layout " + std::to_string(static_cast<int>(layout)) + ", rows " + std::to_string(rows));
      Trial run(rows, layout);
      test(run);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

template <typename T>
std::vector<T> Made(int64_t count, const std::function<T()>& value) {
  std::vector<T> values(count);
  for (T& one : values) one = value();
  return values;
}

Place In(int index, int64_t offset = 0) { return {Space::kInput, index, offset}; }
Place SharedAt(int index, int64_t offset = 0) { return {Space::kShared, index, offset}; }
Place After(Place place, int64_t offset) {
  place.offset += offset;
  return place;
}

template <typename T>
void TestGather(Element element) {
  ForAll([&](Trial& run) {
    const auto table = Made<float>(11 * 3, [&] { return run.Normal(); });
    RowProgram program(1, 1);
    const Place out = program.AddOutput(32, false);
    program.Add(RowProgram::Gather{0, 12, In(0, 8), element, 2, After(out, 4)});
    Input& numbers = run.AddInput(8 + 2 * sizeof(T)).Fill<T>(8, 2, [&] { return static_cast<T>(run.Below(11)); });
    run.AddCapture(table);
    ASSERT_TRUE(run(program));
    run.outputs[0].ExpectOnly(4, 28);
    for (int64_t row = 0; row < run.rows; ++row) {
      for (int64_t i = 0; i < 6; ++i) {
        ASSERT_EQ(run.outputs[0].At<float>(row, 4, i), table[numbers.At<T>(row, 8, i / 3) * 3 + i % 3]);
      }
    }
  });
}

TEST(RowProgramTest, GathersRowsOfATable) {
  TestGather<int32_t>(Element::kInt32);
  TestGather<int64_t>(Element::kInt64);
}

template <typename T>
bool CanGather(Element element, T number, int64_t bytes_of_row, int64_t bad_row) {
  const std::vector<float> table(11 * 3, 1.0f);
  RowProgram program(1, 1);
  const Place out = program.AddOutput(bytes_of_row, false);
  program.Add(RowProgram::Gather{0, bytes_of_row, In(0), element, 1, out});
  Trial run(300, Layout::kTogether);
  int64_t row = 0;
  run.AddInput(sizeof(T)).Fill<T>(0, 1, [&] { return row++ == bad_row ? number : T{3}; });
  run.AddCapture(table);
  const bool done = run(program);
  run.outputs[0].ExpectOnly(0, bytes_of_row);
  return done;
}

TEST(RowProgramTest, ANumberOutOfRangeIsRefused) {
  for (const int64_t row : {0, 255, 256, 299}) {
    EXPECT_TRUE(CanGather<int32_t>(Element::kInt32, 10, 12, row));
    EXPECT_FALSE(CanGather<int32_t>(Element::kInt32, 11, 12, row));
    EXPECT_FALSE(CanGather<int32_t>(Element::kInt32, -1, 12, row));
    EXPECT_FALSE(CanGather<int32_t>(Element::kInt32, std::numeric_limits<int32_t>::min(), 12, row));
    EXPECT_TRUE(CanGather<int64_t>(Element::kInt64, 0, 12, row));
    EXPECT_FALSE(CanGather<int64_t>(Element::kInt64, int64_t{1} << 32, 12, row));
    EXPECT_FALSE(CanGather<int64_t>(Element::kInt64, std::numeric_limits<int64_t>::max(), 12, row));
    EXPECT_FALSE(CanGather<int64_t>(Element::kInt64, 0, 0, row)) << "a table without elements";
  }
}

// What a product must give: the factor's rows one after the other, by the kernel for them, to the last bit.
std::vector<float> DenseProduct(PackedShape shape, const std::vector<float>& factor, const std::vector<float>& packed) {
  const int64_t rows = factor.size() / shape.inner;
  std::vector<float> out(rows * shape.width);
  BestRowKernels().product(rows, shape, factor.data(), packed.data(), out.data());
  return out;
}

struct Matrix {
  Matrix(PackedShape shape, Trial* run) {
    values = Made<float>(shape.inner * shape.width, [run] { return run->Normal(); });
    packed.resize(shape.floats());
    BestRowKernels().pack(shape, values.data(), false, packed.data());
  }
  std::vector<float> values, packed;
};

TEST(RowProgramTest, ProductsOfPartsSideBySide) {
  const PackedShape shape{2 + 5 + 3, 19};
  ForAll([&](Trial& run) {
    const Matrix matrix(shape, &run);
    const std::vector<float> bias = Made<float>(5, [&] { return run.Normal(); });
    RowProgram program(2, 1);
    const int constant = program.AddConstant(bias.data(), 20);
    const Place scratch = program.AddScratch(12);
    const Place out = program.AddOutput(21 * 4, false);
    program.Add(RowProgram::Copy{12, In(1, 4), scratch});
    const std::vector<RowProgram::Part> parts{{In(0, 4), 2}, {SharedAt(constant), 5}, {scratch, 3}};
    program.Add(RowProgram::Product{parts, 1, shape, 0, After(out, 4)});
    Input& x = run.AddInput(12).Fill<float>(0, 3, [&] { return run.Normal(); });
    Input& y = run.AddInput(16).Fill<float>(0, 4, [&] { return run.Normal(); });
    run.AddCapture(matrix.packed);
    ASSERT_TRUE(run(program));
    std::vector<float> factor;
    for (int64_t row = 0; row < run.rows; ++row) {
      for (int64_t i = 0; i < 2; ++i) factor.push_back(x.At<float>(row, 4, i));
      factor.insert(factor.end(), bias.begin(), bias.end());
      for (int64_t i = 0; i < 3; ++i) factor.push_back(y.At<float>(row, 4, i));
    }
    const std::vector<float> wanted = DenseProduct(shape, factor, matrix.packed);
    run.outputs[0].ExpectOnly(4, 80);
    for (int64_t row = 0; row < run.rows; ++row) {
      for (int64_t j = 0; j < shape.width; ++j) {
        const float found = run.outputs[0].At<float>(row, 4, j);
        ASSERT_EQ(found, wanted[row * shape.width + j]);
        double exact = 0, scale = 0;
        for (int64_t k = 0; k < shape.inner; ++k) {
          const double term = static_cast<double>(factor[row * shape.inner + k]) * matrix.values[k * shape.width + j];
          exact += term;
          scale += std::fabs(term);
        }
        ASSERT_NEAR(found, exact, 1e-6 * scale);
      }
    }
  });
}

// Three products in each row, of one part and of two; the results of a row together with those of the next, or apart.
TEST(RowProgramTest, SeveralProductsInARow) {
  const PackedShape shape{6, 5};
  for (const int64_t apart : {0, 8}) {
    for (const bool two_parts : {false, true}) {
      ForAll([&](Trial& run) {
        const Matrix matrix(shape, &run);
        RowProgram program(1, 1);
        const Place out = program.AddOutput(3 * 20 + apart, false);
        std::vector<RowProgram::Part> parts;
        if (two_parts) {
          parts = {{In(0), 2}, {In(0, 3 * 2 * 4), 4}};  // [3, 2] and [3, 4]
        } else {
          parts = {{In(0), 6}};
        }
        program.Add(RowProgram::Product{parts, 3, shape, 0, After(out, apart)});
        Input& x = run.AddInput(3 * 6 * 4).Fill<float>(0, 18, [&] { return run.Normal(); });
        run.AddCapture(matrix.packed);
        ASSERT_TRUE(run(program));
        std::vector<float> factor;
        for (int64_t row = 0; row < run.rows; ++row) {
          for (int64_t i = 0; i < 3; ++i) {
            for (int64_t k = 0; k < 6; ++k) {
              const int64_t in_parts = k < 2 ? i * 2 + k : 3 * 2 + i * 4 + k - 2;
              factor.push_back(x.At<float>(row, 0, two_parts ? in_parts : i * 6 + k));
            }
          }
        }
        const std::vector<float> wanted = DenseProduct(shape, factor, matrix.packed);
        run.outputs[0].ExpectOnly(apart, 60 + apart);
        for (int64_t row = 0; row < run.rows; ++row) {
          for (int64_t i = 0; i < 15; ++i) ASSERT_EQ(run.outputs[0].At<float>(row, apart, i), wanted[row * 15 + i]);
        }
      });
    }
  }
}

TEST(RowProgramTest, AMatrixThatIsTooSmallIsRefused) {
  const PackedShape shape{3, 5};
  RowProgram program(1, 1);
  const Place out = program.AddOutput(20, false);
  program.Add(RowProgram::Product{{{In(0), 3}}, 1, shape, 0, out});
  for (const int64_t missing : {0, 1}) {
    Trial run(2, Layout::kTogether);
    run.AddInput(12).Fill<float>(0, 3, [] { return 1.0f; });
    const std::vector<float> packed(shape.floats() - missing);
    run.AddCapture(packed);
    EXPECT_EQ(run(program), missing == 0);
  }
}

TEST(RowProgramTest, ProductsOfMatricesInARow) {
  const int64_t m = 2, k = 3, n = 4;
  for (const bool shares_b : {false, true}) {
    for (const int transposed : {0, 1, 2, 3}) {
      ForAll([&](Trial& run) {
        const MatrixProduct product{m, k, n, (transposed & 1) != 0, (transposed & 2) != 0};
        RowProgram program(2, 0);
        const Place out = program.AddOutput(2 * m * n * 4, false);
        program.Add(RowProgram::Matrices{product, 2, In(0), In(1, 4), m * k, shares_b ? 0 : k * n, out});
        Input& a = run.AddInput(2 * m * k * 4).Fill<float>(0, 2 * m * k, [&] { return run.Normal(); });
        Input& b = run.AddInput(2 * k * n * 4 + 4).Fill<float>(0, 2 * k * n + 1, [&] { return run.Normal(); });
        ASSERT_TRUE(run(program));
        run.outputs[0].ExpectOnly(0, 2 * m * n * 4);
        for (int64_t row = 0; row < run.rows; ++row) {
          for (int64_t at = 0; at < 2 * m * n; ++at) {
            const int64_t which = at / (m * n), i = at % (m * n) / n, j = at % n;
            double exact = 0;
            for (int64_t p = 0; p < k; ++p) {
              const int64_t in_a = product.transposed_a ? p * m + i : i * k + p;
              const int64_t in_b = product.transposed_b ? j * k + p : p * n + j;
              exact += static_cast<double>(a.At<float>(row, 0, which * m * k + in_a)) *
                       b.At<float>(row, 4, (shares_b ? 0 : which * k * n) + in_b);
            }
            ASSERT_NEAR(run.outputs[0].At<float>(row, 0, at), exact, 1e-5);
          }
        }
      });
    }
  }
}

// r = tanh(x[:3] + bias); out = [r * x[3:], x[1:3]].
Expression MadeExpression() {
  constexpr int64_t kTanh = static_cast<int64_t>(Unary::kTanh), kCopy = static_cast<int64_t>(Unary::kCopy);
  constexpr int64_t kAdd = static_cast<int64_t>(Binary::kAdd), kMul = static_cast<int64_t>(Binary::kMul);
  Expression expression;
  const std::string wrong = Expression::Decode(
      {3, 6, 0, 3, 1, 1, 0, 1, 3, 2, 5, 3, 5,
       2, kAdd, 3, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0,
       1, kTanh, 3, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0,
       2, kMul, 3, 1, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0,
       1, kCopy, 2, 1, 2, 0, 3, 0, 0, 0, 0, 1, 0, 0,
       2, kMul, 3, 1, 2, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 1, 0},
      &expression);
  EXPECT_EQ(wrong, "");
  return expression;
}

TEST(RowProgramTest, ElementwiseOperations) {
  const Expression expression = MadeExpression();
  for (const bool from_scratch : {false, true}) {
    ForAll([&](Trial& run) {
      const std::vector<float> bias = Made<float>(3, [&] { return run.Normal(); });
      RowProgram program(2, 1);
      const Place scratch = program.AddScratch(32);
      const Place first = program.AddOutput(28, false), second = program.AddOutput(12, false);
      const Place x_place = from_scratch ? After(scratch, 4) : In(0, 8);
      program.Add(RowProgram::Copy{24, In(0, 8), After(scratch, 4)});
      program.Add(RowProgram::Elementwise{
          expression, {x_place, SharedAt(0, 4), In(1)}, {After(first, 4), second}});
      Input& x = run.AddInput(32).Fill<float>(0, 8, [&] { return run.Normal(); });
      Input& factor = run.AddInput(4).Fill<float>(0, 1, [&] { return run.Normal(); });
      std::vector<float> captured{9.0f};
      captured.insert(captured.end(), bias.begin(), bias.end());
      run.AddCapture(captured);
      ASSERT_TRUE(run(program));
      run.outputs[0].ExpectOnly(4, 24);
      run.outputs[1].ExpectOnly(0, 12);
      for (int64_t row = 0; row < run.rows; ++row) {
        for (int64_t j = 0; j < 3; ++j) {
          const float r = std::tanh(x.At<float>(row, 8, j) + bias[j]);
          ASSERT_NEAR(run.outputs[0].At<float>(row, 4, j), r * x.At<float>(row, 8, 3 + j), 1e-5);
          ASSERT_NEAR(run.outputs[1].At<float>(row, 0, j), r * factor.At<float>(row, 0, 0), 1e-5);
        }
        ASSERT_EQ(run.outputs[0].At<float>(row, 4, 3), x.At<float>(row, 8, 1));
        ASSERT_EQ(run.outputs[0].At<float>(row, 4, 4), x.At<float>(row, 8, 2));
      }
    });
  }
}

TEST(RowProgramTest, AnExpressionOfTooManyArraysIsRefused) {
  for (const int64_t inputs : {64, 65}) {
    std::vector<int64_t> code{inputs};
    for (int64_t i = 0; i < inputs; ++i) code.insert(code.end(), {1, 0});
    const int64_t copy = static_cast<int64_t>(Unary::kCopy);
    code.insert(code.end(), {0, 1, 1, 1, 1, copy, 1, 1, 2, 0, 0, 0, 0, 0, inputs - 1, 0, 0, 0});
    Expression expression;
    ASSERT_EQ(Expression::Decode(code, &expression), "");
    RowProgram program(static_cast<int>(inputs), 0);
    const Place out = program.AddOutput(4, false);
    std::vector<Place> places;
    Trial run(3, Layout::kBackwards);
    for (int i = 0; i < inputs; ++i) {
      places.push_back(In(i));
      run.AddInput(4).Fill<float>(0, 1, [i] { return static_cast<float>(i); });
    }
    program.Add(RowProgram::Elementwise{expression, places, {out}});
    ASSERT_EQ(run(program), inputs == 64);
    EXPECT_TRUE(inputs > 64 || run.outputs[0].At<float>(2, 0, 0) == 63.0f);
  }
}

template <typename T>
bool Holds(Comparison comparison, T a, T b) {
  const bool results[] = {a == b, a != b, a < b, a <= b, a > b, a >= b};
  return results[static_cast<int>(comparison)];
}

template <typename T>
void TestCompare(Element element, const std::vector<T>& values) {
  for (int c = 0; c < 6; ++c) {
    for (const int64_t step : {0, 1}) {
      ForAll([&](Trial& run) {
        const auto comparison = static_cast<Comparison>(c);
        RowProgram program(2, 0);
        const Place out = program.AddOutput(5, false);
        program.Add(RowProgram::Compare{comparison, element, 3, In(0), In(1), 1, step, After(out, 1)});
        const auto any = [&] { return values[run.Below(values.size())]; };
        Input& a = run.AddInput(3 * sizeof(T)).template Fill<T>(0, 3, any);
        Input& b = run.AddInput(3 * sizeof(T)).template Fill<T>(0, 3, any);
        ASSERT_TRUE(run(program));
        run.outputs[0].ExpectOnly(1, 4);
        for (int64_t row = 0; row < run.rows; ++row) {
          for (int64_t i = 0; i < 3; ++i) {
            ASSERT_EQ(run.outputs[0].At<bool>(row, 1, i),
                      Holds(comparison, a.At<T>(row, 0, i), b.At<T>(row, 0, i * step)));
          }
        }
      });
    }
  }
}

TEST(RowProgramTest, Comparisons) {
  TestCompare<float>(Element::kFloat, {0.0f, -0.0f, 1.0f, std::numeric_limits<float>::quiet_NaN()});
  TestCompare<int32_t>(Element::kInt32, {-1, 0, 1});
  TestCompare<int64_t>(Element::kInt64, {-1, 0, int64_t{1} << 40});
}

TEST(RowProgramTest, ComparisonsOfBools) {
  Trial run(4, Layout::kTogether);
  RowProgram program(1, 0);
  const Place out = program.AddOutput(1, false);
  program.Add(RowProgram::Compare{Comparison::kNotEqual, Element::kBool, 1, In(0), In(0, 1), 1, 1, out});
  int made = 0;
  run.AddInput(2).Fill<bool>(0, 2, [&] { return "01101100"[made++] == '1'; });
  ASSERT_TRUE(run(program));
  for (int64_t row = 0; row < 4; ++row) EXPECT_EQ(run.outputs[0].At<bool>(row, 0, 0), row < 2);
}

// In a wider type, cut off.
template <typename T>
T Wrapped(IntegerOperation operation, T a, T b) {
  const auto x = static_cast<unsigned __int128>(static_cast<__int128>(a));
  const auto y = static_cast<unsigned __int128>(static_cast<__int128>(b));
  const unsigned __int128 results[] = {x + y, x - y, x * y};
  return static_cast<T>(results[static_cast<int>(operation)]);
}

template <typename T>
void TestIntegers(Element element) {
  const std::vector<T> values{0, 1, -1, 7, std::numeric_limits<T>::max(), std::numeric_limits<T>::min(), 123456789};
  for (int o = 0; o < 3; ++o) {
    for (const int64_t step : {0, 1}) {
      ForAll([&](Trial& run) {
        const auto operation = static_cast<IntegerOperation>(o);
        RowProgram program(2, 0);
        const Place out = program.AddOutput(4 * sizeof(T), false);
        program.Add(RowProgram::Integers{operation, element, 3, In(0), In(1, 8), step, 1, After(out, sizeof(T))});
        const auto any = [&] { return values[run.Below(values.size())]; };
        Input& a = run.AddInput(3 * sizeof(T)).template Fill<T>(0, 3, any);
        Input& b = run.AddInput(8 + 3 * sizeof(T)).template Fill<T>(8, 3, any);
        ASSERT_TRUE(run(program));
        run.outputs[0].ExpectOnly(sizeof(T), 4 * sizeof(T));
        for (int64_t row = 0; row < run.rows; ++row) {
          for (int64_t i = 0; i < 3; ++i) {
            ASSERT_EQ(run.outputs[0].At<T>(row, sizeof(T), i),
                      Wrapped(operation, a.At<T>(row, 0, i * step), b.At<T>(row, 8, i)));
          }
        }
      });
    }
  }
}

TEST(RowProgramTest, IntegersWrapAround) {
  TestIntegers<int32_t>(Element::kInt32);
  TestIntegers<int64_t>(Element::kInt64);
}

TEST(RowProgramTest, Selections) {
  for (int form = 0; form < 8; ++form) {
    const int64_t step_condition = form & 1, step_a = form >> 1 & 1, step_b = form >> 2 & 1;
    ForAll([&](Trial& run) {
      RowProgram program(3, 0);
      const Place out = program.AddOutput(3 * 8 + 4, false);
      program.Add(RowProgram::Select{8, 3, In(0), In(1), In(2), step_condition, step_a, step_b, After(out, 4)});
      Input& condition = run.AddInput(3).Fill<bool>(0, 3, [&] { return run.Below(2) == 1; });
      Input& a = run.AddInput(24).Fill<int64_t>(0, 3, [&] { return run.Below(1000); });
      Input& b = run.AddInput(24).Fill<int64_t>(0, 3, [&] { return -run.Below(1000); });
      ASSERT_TRUE(run(program));
      run.outputs[0].ExpectOnly(4, 28);
      for (int64_t row = 0; row < run.rows; ++row) {
        for (int64_t i = 0; i < 3; ++i) {
          const bool holds = condition.At<bool>(row, 0, i * step_condition);
          ASSERT_EQ(run.outputs[0].At<int64_t>(row, 4, i),
                    holds ? a.At<int64_t>(row, 0, i * step_a) : b.At<int64_t>(row, 0, i * step_b));
        }
      }
    });
  }
}

TEST(RowProgramTest, SizesOfTables) {
  ForAll([](Trial& run) {
    const std::vector<float> table(7 * 3);
    RowProgram program(0, 1);
    const Place narrow = program.AddOutput(8, false), wide = program.AddOutput(8, false);
    program.Add(RowProgram::Size{0, 12, Element::kInt32, After(narrow, 4)});
    program.Add(RowProgram::Size{0, 12, Element::kInt64, wide});
    run.AddCapture(table);
    ASSERT_TRUE(run(program));
    run.outputs[0].ExpectOnly(4, 8);
    run.outputs[1].ExpectOnly(0, 8);
    for (int64_t row = 0; row < run.rows; ++row) {
      ASSERT_EQ(run.outputs[0].At<int32_t>(row, 4, 0), 7);
      ASSERT_EQ(run.outputs[1].At<int64_t>(row, 0, 0), 7);
    }
  });
}

template <typename From, typename To>
void TestCast(Element from, Element to) {
  ForAll([&](Trial& run) {
    RowProgram program(1, 0);
    const Place out = program.AddOutput(3 * sizeof(To), false);
    program.Add(RowProgram::Cast{from, to, 3, In(0), out});
    Input& in = run.AddInput(3 * sizeof(From)).template Fill<From>(0, 3, [&] {
      return static_cast<From>((run.Below(9) - 4) * 0.75);
    });
    ASSERT_TRUE(run(program));
    run.outputs[0].ExpectOnly(0, 3 * sizeof(To));
    for (int64_t row = 0; row < run.rows; ++row) {
      for (int64_t i = 0; i < 3; ++i) {
        ASSERT_EQ(run.outputs[0].At<To>(row, 0, i), static_cast<To>(in.At<From>(row, 0, i)));
      }
    }
  });
}

template <typename From>
void TestCasts(Element from) {
  TestCast<From, float>(from, Element::kFloat);
  TestCast<From, int32_t>(from, Element::kInt32);
  TestCast<From, int64_t>(from, Element::kInt64);
  TestCast<From, bool>(from, Element::kBool);
}

TEST(RowProgramTest, Casts) {
  TestCasts<float>(Element::kFloat);
  TestCasts<int32_t>(Element::kInt32);
  TestCasts<int64_t>(Element::kInt64);
  TestCasts<bool>(Element::kBool);
}

// In and out of scratch rows whose neighbours must not be touched.
TEST(RowProgramTest, CopiesThroughScratchRows) {
  ForAll([](Trial& run) {
    RowProgram program(1, 0);
    const Place first = program.AddScratch(3), second = program.AddScratch(100), third = program.AddScratch(8);
    const Place out = program.AddOutput(120, false);
    program.Add(RowProgram::Copy{3, In(0, 1), first});
    program.Add(RowProgram::Copy{8, In(0, 104), third});
    program.Add(RowProgram::Copy{100, In(0, 4), second});
    program.Add(RowProgram::Copy{3, first, After(out, 2)});
    program.Add(RowProgram::Copy{100, second, After(out, 5)});
    program.Add(RowProgram::Copy{8, third, After(out, 105)});
    Input& in = run.AddInput(112).Fill<char>(0, 112, [&] { return static_cast<char>(run.Below(256)); });
    ASSERT_TRUE(run(program));
    run.outputs[0].ExpectOnly(2, 113);
    for (int64_t row = 0; row < run.rows; ++row) {
      for (int64_t i = 0; i < 111; ++i) ASSERT_EQ(run.outputs[0].At<char>(row, 2, i), in.At<char>(row, 1, i));
    }
  });
}

template <typename T>
void TestArrange() {
  ForAll([](Trial& run) {
    const std::vector<int32_t> from{3, -1, 0, 0, 2};
    RowProgram program(1, 0);
    const Place out = program.AddOutput(7 * sizeof(T), false);
    program.Add(RowProgram::Arrange{sizeof(T), from, In(0), After(out, sizeof(T))});
    Input& in = run.AddInput(4 * sizeof(T)).template Fill<T>(0, 4, [&] { return static_cast<T>(run.Below(1 << 20)); });
    ASSERT_TRUE(run(program));
    run.outputs[0].ExpectOnly(sizeof(T), 6 * sizeof(T));
    for (int64_t row = 0; row < run.rows; ++row) {
      for (size_t i = 0; i < from.size(); ++i) {
        ASSERT_EQ(run.outputs[0].At<T>(row, sizeof(T), i), from[i] < 0 ? T{0} : in.At<T>(row, 0, from[i]));
      }
    }
  });
}

TEST(RowProgramTest, ElementsInAnotherOrder) {
  TestArrange<uint8_t>();
  TestArrange<uint32_t>();
  TestArrange<uint64_t>();
}

// Of logits, written out.
std::vector<double> Probabilities(const Input& logits, int64_t row, int64_t first, int64_t classes) {
  std::vector<double> powers;
  double sum = 0;
  for (int64_t i = 0; i < classes; ++i) sum += powers.emplace_back(std::exp(logits.At<float>(row, 0, first + i)));
  for (double& power : powers) power /= sum;
  return powers;
}

TEST(RowProgramTest, ProbabilitiesOfLogits) {
  ForAll([](Trial& run) {
    RowProgram program(1, 0);
    const Place out = program.AddOutput(44, false);
    program.Add(RowProgram::Softmaxes{5, 2, In(0), After(out, 4)});
    Input& logits = run.AddInput(40).Fill<float>(0, 10, [&] { return 3 * run.Normal(); });
    ASSERT_TRUE(run(program));
    run.outputs[0].ExpectOnly(4, 44);
    for (int64_t row = 0; row < run.rows; ++row) {
      for (int64_t i = 0; i < 10; ++i) {
        ASSERT_NEAR(run.outputs[0].At<float>(row, 4, i), Probabilities(logits, row, i / 5 * 5, 5)[i % 5], 1e-6);
      }
    }
  });
}

TEST(RowProgramTest, SumsWithinRows) {
  for (const int64_t inner : {1, 3}) {
    for (const int64_t summed : {0, 4}) {
      ForAll([&](Trial& run) {
        RowProgram program(1, 0);
        const Place out = program.AddOutput(2 * inner * 4 + 4, false);
        program.Add(RowProgram::SumWithin{2, summed, inner, In(0), out});
        const int64_t count = 2 * summed * inner;
        Input& in = run.AddInput(count * 4 + 4).Fill<float>(0, count, [&] { return run.Normal(); });
        ASSERT_TRUE(run(program));
        run.outputs[0].ExpectOnly(0, 2 * inner * 4);
        for (int64_t row = 0; row < run.rows; ++row) {
          for (int64_t at = 0; at < 2 * inner; ++at) {
            float sum = 0;
            for (int64_t j = 0; j < summed; ++j) {
              sum += in.At<float>(row, 0, (at / inner * summed + j) * inner + at % inner);
            }
            ASSERT_EQ(run.outputs[0].At<float>(row, 0, at), sum);
          }
        }
      });
    }
  }
}

template <typename T>
void TestLoss(Element element) {
  for (const bool in_place : {false, true}) {  // the gradient where the logits were
    ForAll([&](Trial& run) {
      RowProgram program(2, 0);
      const Place scratch = program.AddScratch(40);
      const Place loss = program.AddOutput(12, false), gradient = program.AddOutput(40, false);
      program.Add(RowProgram::Copy{40, In(0), scratch});
      program.Add(RowProgram::SoftmaxLoss{
          5, 2, in_place ? scratch : In(0), In(1), element, After(loss, 4), in_place ? scratch : gradient});
      if (in_place) program.Add(RowProgram::Copy{40, scratch, gradient});
      Input& logits = run.AddInput(40).Fill<float>(0, 10, [&] { return 3 * run.Normal(); });
      Input& labels = run.AddInput(2 * sizeof(T)).template Fill<T>(0, 2, [&] { return static_cast<T>(run.Below(5)); });
      ASSERT_TRUE(run(program));
      run.outputs[0].ExpectOnly(4, 12);
      run.outputs[1].ExpectOnly(0, 40);
      for (int64_t row = 0; row < run.rows; ++row) {
        for (int64_t i = 0; i < 2; ++i) {
          const std::vector<double> probabilities = Probabilities(logits, row, i * 5, 5);
          const T label = labels.At<T>(row, 0, i);
          ASSERT_NEAR(run.outputs[0].At<float>(row, 4, i), -std::log(probabilities[label]), 1e-5);
          for (int64_t j = 0; j < 5; ++j) {
            ASSERT_NEAR(run.outputs[1].At<float>(row, 0, i * 5 + j), probabilities[j] - (j == label ? 1 : 0), 1e-6);
          }
        }
      }
    });
  }
}

TEST(RowProgramTest, LossesAndTheirGradients) {
  TestLoss<int32_t>(Element::kInt32);
  TestLoss<int64_t>(Element::kInt64);
}

TEST(RowProgramTest, ALabelOutOfRangeIsRefused) {
  for (const int64_t row_of_label : {0, 256, 299}) {
    constexpr std::pair<int64_t, bool> kLabels[] = {{4, true}, {5, false}, {-1, false}, {int64_t{1} << 32, false}};
    for (const auto& [label, done] : kLabels) {
      RowProgram program(2, 0);
      const Place loss = program.AddOutput(4, false), gradient = program.AddOutput(20, false);
      program.Add(RowProgram::SoftmaxLoss{5, 1, In(0), In(1), Element::kInt64, loss, gradient});
      Trial run(300, Layout::kApart);
      int64_t row = 0;
      run.AddInput(20).Fill<float>(0, 5, [] { return 0.5f; });
      run.AddInput(8).Fill<int64_t>(0, 1, [&, label = label] { return row++ == row_of_label ? label : int64_t{0}; });
      EXPECT_EQ(run(program), done) << label;
      run.outputs[0].ExpectOnly(0, 4);
      run.outputs[1].ExpectOnly(0, 20);
    }
  }
}

// Whole numbers, so that no order rounds.
TEST(RowProgramTest, SumsOverRowsAreAdded) {
  ForAll([](Trial& run) {
    RowProgram program(1, 0);
    const Place sum = program.AddOutput(40, true), copy = program.AddOutput(4, false);
    program.Add(RowProgram::Sum{5, 2, In(0, 4), sum.index});
    program.Add(RowProgram::Copy{4, In(0), copy});
    Input& in = run.AddInput(44).Fill<float>(0, 11, [&] { return static_cast<float>(run.Below(100)); });
    ASSERT_TRUE(run(program));
    run.outputs[0].ExpectOnly(0, 40);
    for (int64_t j = 0; j < 5; ++j) {
      double wanted = 0;
      for (int64_t row = 0; row < run.rows; ++row) wanted += in.At<float>(row, 4, j) + in.At<float>(row, 4, 5 + j);
      ASSERT_EQ(run.outputs[0].At<double>(0, 0, j), wanted);
    }
  });
}

// Errors must not grow with the number of rows, nor with that of the runs.
TEST(RowProgramTest, SumsOfManyRowsKeepTheirDigits) {
  const int64_t rows = 1 << 20, runs = 2;
  const float numbers[6] = {0.1f, 0.7f, 0.1f, 0.7f, 0.1f, 0.7f};
  RowProgram program(1, 0);
  program.Add(RowProgram::Sum{2, 3, In(0), program.AddOutput(16, true).index});
  const std::vector<const char*> places(rows, reinterpret_cast<const char*>(numbers));
  const char* const* const input = places.data();
  double totals[2] = {};
  char* const output = reinterpret_cast<char*>(totals);
  for (int64_t run = 0; run < runs; ++run) ASSERT_TRUE(program.Run(rows, &input, nullptr, &output));
  for (int64_t row = 0; row < 1000; ++row) ASSERT_TRUE(program.Run(1, &input, nullptr, &output));
  for (int i = 0; i < 2; ++i) {
    const double exact = 3.0 * static_cast<double>(numbers[i]) * (rows * runs + 1000);
    EXPECT_NEAR(totals[i] / exact, 1.0, 1e-6);
  }
}

TEST(RowProgramTest, SumsWithinLongRowsKeepTheirDigits) {
  constexpr int64_t kLong = 1 << 20;
  for (const int64_t inner : {1, 3}) {
    const std::vector<float> row(kLong * inner, 0.1f);
    RowProgram program(1, 0);
    program.Add(RowProgram::SumWithin{1, kLong, inner, In(0), program.AddOutput(4 * inner, false)});
    const char* const place = reinterpret_cast<const char*>(row.data());
    const char* const* const input = &place;
    float sums[3] = {};
    char* const output = reinterpret_cast<char*>(sums);
    ASSERT_TRUE(program.Run(1, &input, nullptr, &output));
    for (int64_t i = 0; i < inner; ++i) EXPECT_NEAR(sums[i] / (kLong * 0.1f), 1.0, 1e-6) << inner;
  }
}

// A row of 8 MB through three arrays: memory for one row, not for a tile of small ones, and given back.
TEST(RowProgramTest, MemoryIsForTheRowsThatThereAre) {
  constexpr int64_t kBytes = 8 << 20;
  for (const int64_t rows : {1, 3}) {
    RowProgram program(1, 0);
    Place from = In(0);
    for (int step = 0; step < 3; ++step) {
      const Place to = program.AddScratch(kBytes);
      program.Add(RowProgram::Copy{kBytes, from, to});
      from = to;
    }
    program.Add(RowProgram::Copy{kBytes, from, program.AddOutput(kBytes, false)});
    std::vector<std::vector<char>> in;
    std::vector<const char*> places;
    for (int64_t row = 0; row < rows; ++row) {
      in.emplace_back(kBytes, static_cast<char>(row + 1));
      places.push_back(in.back().data());
    }
    std::vector<char> out(rows * kBytes);
    const char* const* const input = places.data();
    char* const output = out.data();
    const int64_t before = MemoryPool::Held();
    ASSERT_TRUE(program.Run(rows, &input, nullptr, &output));
    EXPECT_LE(MemoryPool::Held() - before, 4 * kBytes) << rows;
    for (int64_t row = 0; row < rows; ++row) {
      EXPECT_EQ(out[row * kBytes], row + 1);
      EXPECT_EQ(out[(row + 1) * kBytes - 1], row + 1);
    }
  }
}

TEST(RowProgramTest, AByteTooManyIsSeen) {
  EXPECT_NONFATAL_FAILURE(
      {
        Output output(4, 2, false);
        output.data()[8] = 0;
        output.ExpectOnly(0, 4);
      },
      "written past the output");
  EXPECT_FATAL_FAILURE(
      {
        Output output(4, 2, false);
        output.data()[4] = 0;
        output.ExpectOnly(1, 4);
      },
      "around row 1");
}

}  // namespace
}  // namespace recgraph
