// The row kernels themselves, for the vectors `Vec` of the instruction set of whoever includes this. Everything
// is in an anonymous namespace: code for one instruction set must not be merged with that for another.
//
// Vec: kWidth floats. Load/Store, with the number of floats that there are for the last ones of a row;
// Gather, of floats a stride apart; Broadcast; + - * /; Fma(a, b, c) = a * b + c; Max, Min (the second operand where
// one is NaN, or they are equal); Abs; Sqrt; Round, of less than 2^22; Less(a, b, x, y) = a < b ? x : y;
// OrNan(x, a) = a where that is NaN, else x; CopySign(magnitude, sign); Scale(a, n) = a * 2^n, rounded once, for a
// near 1; ScaleDown, the same for n from -160 to 0; ScaleNormal, where the result is not denormal.
//
// Accuracy: unary functions and softmax are within 4 units in the last place of the exact value, for any argument; tests
// sweep all magnitudes. Infinities, NaN and minus zero give what TensorFlow's operations give. Denormals are as the thread
// is set: TensorFlow's threads count them as zeros of their sign, in arguments and in results, and so do these kernels
// there. On any other thread they are numbers like others.
#ifndef RECGRAPH_CC_CORE_ROW_KERNELS_CODE_H_
#define RECGRAPH_CC_CORE_ROW_KERNELS_CODE_H_

#include "cc/core/row_kernels.h"

namespace recgraph {
namespace {

inline Vec Constant(float value) { return Vec::Broadcast(value); }

// x = n log 2 + r, n a whole number, |r| at most half of log 2.
struct Reduced {
  Vec n;
  Vec r;
};

inline Reduced Reduce(Vec x) {
  const Vec n = Round(x * Constant(1.44269504f));
  const Vec r = Fma(n, Constant(-0.693359375f), x);  // log 2 in two parts, the first of few bits
  return {n, Fma(n, Constant(2.12194440e-4f), r)};
}

// e^r for such an r: a polynomial, 1 + r + ..., so that e^0 is 1.
inline Vec ExpOfRest(Vec r) {
  Vec p = Constant(0.0013814465f);
  p = Fma(p, r, Constant(0.008368781f));
  p = Fma(p, r, Constant(0.041668393f));
  p = Fma(p, r, Constant(0.1666652f));
  p = Fma(p, r, Constant(0.49999994f));
  return Fma(p, r * r, r) + Constant(1.0f);
}

inline Vec Exp(Vec x) {
  const Reduced reduced = Reduce(Min(Constant(89.0f), Max(Constant(-104.0f), x)));
  return Scale(ExpOfRest(reduced.r), reduced.n);
}

// Near zero an odd polynomial, else by e^2|x|; no cancellation in either. From 10 on it is 1.
inline Vec Tanh(Vec x) {
  const Vec size = Abs(x);
  const Vec square = x * x;
  Vec p = Constant(-0.005717037f);
  p = Fma(p, square, Constant(0.020650579f));
  p = Fma(p, square, Constant(-0.053743497f));
  p = Fma(p, square, Constant(0.13331491f));
  p = Fma(p, square, Constant(-0.33333284f));
  const Vec near = Fma(p * square, size, size);
  const Reduced reduced = Reduce(Min(Constant(20.0f), size + size));
  const Vec power = ScaleNormal(ExpOfRest(reduced.r), reduced.n);
  const Vec far = Constant(1.0f) - Constant(2.0f) / (power + Constant(1.0f));
  return CopySign(Less(size, Constant(0.625f), near, far), x);
}

// By e^-|x|, which is at most 1: 1 / (1 + e^-x) would be 0 where e^-x is infinite.
inline Vec Sigmoid(Vec x) {
  const Reduced reduced = Reduce(Max(Constant(-104.0f), CopySign(x, Constant(-1.0f))));
  const Vec power = ScaleDown(ExpOfRest(reduced.r), reduced.n);
  return Less(x, Constant(0.0f), power, Constant(1.0f)) / (Constant(1.0f) + power);
}

template <Unary kOp>
inline Vec Apply(Vec a) {
  const Vec zero = Constant(0.0f), one = Constant(1.0f);
  switch (kOp) {
    case Unary::kNeg: return CopySign(a, Constant(-1.0f) * a);  // the sign of zeros and denormals too
    case Unary::kAbs: return Abs(a);
    case Unary::kSquare: return a * a;
    case Unary::kSqrt: return Sqrt(a);
    case Unary::kRsqrt: return one / Sqrt(a);
    case Unary::kReciprocal: return one / a;
    case Unary::kExp: return Exp(a);
    case Unary::kTanh: return Tanh(a);
    case Unary::kSigmoid: return Sigmoid(a);
    case Unary::kRelu: return Max(zero, a);
    default: return a;
  }
}

template <Binary kOp>
inline Vec Apply(Vec a, Vec b) {
  const Vec one = Constant(1.0f);
  switch (kOp) {
    case Binary::kAdd: return a + b;
    case Binary::kSub: return a - b;
    case Binary::kMul: return a * b;
    case Binary::kDiv: return a / b;
    case Binary::kMax: return OrNan(Max(a, b), a);
    case Binary::kMin: return OrNan(Min(a, b), a);
    case Binary::kSquaredDifference: return (a - b) * (a - b);
    case Binary::kTanhGrad: return b * (one - a * a);
    case Binary::kSigmoidGrad: return b * (a * (one - a));
    case Binary::kReluGrad: return b * Less(Constant(0.0f), a, one, Constant(0.0f));  // NaN of an infinity
    default: return a;
  }
}

template <Unary kOp>
void RunUnary(int64_t rows, int64_t width, Rows a, float* out, int64_t out_stride) {
  for (int64_t row = 0; row < rows; ++row, a.data += a.stride, out += out_stride) {
    int64_t i = 0;
    if (a.scalar) {
      const Vec value = Apply<kOp>(Vec::Broadcast(*a.data));
      for (; i + Vec::kWidth <= width; i += Vec::kWidth) value.Store(out + i);
      if (i < width) value.Store(out + i, width - i);
      continue;
    }
    for (; i + Vec::kWidth <= width; i += Vec::kWidth) Apply<kOp>(Vec::Load(a.data + i)).Store(out + i);
    if (i < width) Apply<kOp>(Vec::Load(a.data + i, width - i)).Store(out + i, width - i);
  }
}

template <Binary kOp, bool kScalarA, bool kScalarB>
void RunBinaryRows(int64_t rows, int64_t width, Rows a, Rows b, float* out, int64_t out_stride) {
  for (int64_t row = 0; row < rows; ++row, a.data += a.stride, b.data += b.stride, out += out_stride) {
    const Vec all_a = kScalarA ? Vec::Broadcast(*a.data) : Vec::Broadcast(0.0f);
    const Vec all_b = kScalarB ? Vec::Broadcast(*b.data) : Vec::Broadcast(0.0f);
    int64_t i = 0;
    for (; i + Vec::kWidth <= width; i += Vec::kWidth) {
      const Vec x = kScalarA ? all_a : Vec::Load(a.data + i);
      const Vec y = kScalarB ? all_b : Vec::Load(b.data + i);
      Apply<kOp>(x, y).Store(out + i);
    }
    if (i < width) {
      const Vec x = kScalarA ? all_a : Vec::Load(a.data + i, width - i);
      const Vec y = kScalarB ? all_b : Vec::Load(b.data + i, width - i);
      Apply<kOp>(x, y).Store(out + i, width - i);
    }
  }
}

template <Binary kOp>
void RunBinary(int64_t rows, int64_t width, Rows a, Rows b, float* out, int64_t out_stride) {
  if (a.scalar && b.scalar) return RunBinaryRows<kOp, true, true>(rows, width, a, b, out, out_stride);
  if (a.scalar) return RunBinaryRows<kOp, true, false>(rows, width, a, b, out, out_stride);
  if (b.scalar) return RunBinaryRows<kOp, false, true>(rows, width, a, b, out, out_stride);
  RunBinaryRows<kOp, false, false>(rows, width, a, b, out, out_stride);
}

template <int... kOps>
struct Numbers {};
template <int kCount, int... kOps>
struct UpTo : UpTo<kCount - 1, kCount - 1, kOps...> {};
template <int... kOps>
struct UpTo<0, kOps...> {
  using Type = Numbers<kOps...>;
};

// A packed matrix is made of panels, kPanel vectors wide (the last as wide as it has to be), each the rows of
// the matrix from first to last. A product keeps kTall rows of a panel's results in registers.
constexpr int kPanel = 3;
constexpr int kTall = Vec::kWidth == 16 ? 8 : 4;

constexpr int64_t kPanelWidth = kPanel * Vec::kWidth;

inline int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t Vectors(int64_t floats) { return (floats + Vec::kWidth - 1) / Vec::kWidth; }

// Element (k, j) of what is packed is matrix[k * step + j * stride], one of the two is 1.
void PackPanel(int64_t inner, int64_t columns, const float* matrix, int64_t step, int64_t stride, float* packed) {
  for (int64_t k = 0; k < inner; ++k) {
    for (int64_t j = 0; j < columns; j += Vec::kWidth, packed += Vec::kWidth) {
      const int64_t count = Least(columns - j, Vec::kWidth);
      const float* const from = matrix + k * step + j * stride;
      (stride == 1 ? Vec::Load(from, count) : Vec::Gather(from, stride, count)).Store(packed);
    }
  }
}

void Pack(PackedShape shape, const float* matrix, bool transposed, float* packed) {
  const int64_t step = transposed ? 1 : shape.width;
  const int64_t stride = transposed ? shape.inner : 1;
  for (int64_t first = 0; first < shape.width; first += kPanelWidth) {
    const int64_t columns = Least(shape.width - first, kPanelWidth);
    PackPanel(shape.inner, columns, matrix + first * stride, step, stride, packed);
    packed += shape.inner * Vectors(columns) * Vec::kWidth;
  }
}

// The first factor of a tile: element (row, k) is data[row * row_stride + k * step].
struct Factor {
  const float* data;
  int64_t row_stride;
  int64_t step;
};

// Rows are cut into as many tiles as there have to be, of the same height or one less.
inline int64_t Tiles(int64_t rows) { return (rows + kTall - 1) / kTall; }
inline int64_t HeightOf(int64_t tile, int64_t tiles, int64_t rows) {
  return rows / tiles + (tile < rows % tiles ? 1 : 0);
}

// The loops over a tile are unrolled so that its sums are registers. `there` floats of the panel's last vector
// are results. Adds to `out`, or overwrites it.
template <int kRows, int kVectors, bool kAdd>
void Tile(int64_t inner, Factor a, const float* panel, float* out, int64_t width, int64_t there) {
  Vec sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const float* const before = out + row * width + v * Vec::kWidth;
      sums[row][v] = !kAdd               ? Vec::Broadcast(0.0f)
                     : v + 1 == kVectors ? Vec::Load(before, there)
                                         : Vec::Load(before);
    }
  }
  for (int64_t k = 0; k < inner; ++k, panel += kVectors * Vec::kWidth) {
    Vec values[kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) values[v] = Vec::Load(panel + v * Vec::kWidth);
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      const Vec factor = Vec::Broadcast(a.data[row * a.row_stride + k * a.step]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[row][v] = Fma(factor, values[v], sums[row][v]);
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row, out += width) {
#pragma GCC unroll 8
    for (int v = 0; v + 1 < kVectors; ++v) sums[row][v].Store(out + v * Vec::kWidth);
    sums[row][kVectors - 1].Store(out + (kVectors - 1) * Vec::kWidth, there);
  }
}

using TileKernel = void (*)(int64_t inner, Factor a, const float* panel, float* out, int64_t width,
                            int64_t there);

template <bool kAdd, int... kRows>
TileKernel TileFor(int rows, int64_t vectors, Numbers<kRows...>) {
  static constexpr TileKernel kTiles[kPanel][kTall] = {
      {Tile<kRows + 1, 1, kAdd>...}, {Tile<kRows + 1, 2, kAdd>...}, {Tile<kRows + 1, 3, kAdd>...}};
  return kTiles[vectors - 1][rows - 1];
}

// The results of one panel: `columns` of them. A packed factor is made of tiles one after the other, of each all
// rows' elements k side by side.
template <bool kAdd, bool kPackedFactor>
void PanelProduct(int64_t rows, int64_t inner, Factor a, const float* panel, int64_t columns, float* out,
                  int64_t width) {
  const int64_t vectors = Vectors(columns);
  const int64_t there = columns - (vectors - 1) * Vec::kWidth;
  const int64_t tiles = Tiles(rows);
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t height = HeightOf(tile, tiles, rows);
    if (kPackedFactor) a.step = height;
    TileFor<kAdd>(height, vectors, UpTo<kTall>::Type{})(inner, a, panel, out, width, there);
    a.data += height * (kPackedFactor ? inner : a.row_stride);
    out += height * width;
  }
}

void Product(int64_t rows, PackedShape shape, const float* a, const float* packed, float* out) {
  for (int64_t first = 0; first < shape.width; first += kPanelWidth) {
    const int64_t columns = Least(shape.width - first, kPanelWidth);
    PanelProduct<false, false>(rows, shape.inner, {a, shape.inner, 1}, packed, columns, out + first, shape.width);
    packed += Vectors(columns) * Vec::kWidth * shape.inner;
  }
}

// As Tile with a factor whose rows lie anywhere, in parts.
template <int kRows, int kVectors>
void TileOfRows(int64_t row, const ScatteredRows* parts, int count, const float* panel, float* out, int64_t stride,
                int64_t there) {
  Vec sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[i][v] = Vec::Broadcast(0.0f);
  }
  for (int part = 0; part < count; ++part) {
    const float* factor[kRows];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) factor[i] = parts[part].rows[row + i];
    const int64_t inner = parts[part].width;
    for (int64_t k = 0; k < inner; ++k, panel += kVectors * Vec::kWidth) {
      Vec values[kVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) values[v] = Vec::Load(panel + v * Vec::kWidth);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        const Vec one = Vec::Broadcast(factor[i][k]);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) sums[i][v] = Fma(one, values[v], sums[i][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i, out += stride) {
#pragma GCC unroll 8
    for (int v = 0; v + 1 < kVectors; ++v) sums[i][v].Store(out + v * Vec::kWidth);
    sums[i][kVectors - 1].Store(out + (kVectors - 1) * Vec::kWidth, there);
  }
}

using TileOfRowsKernel = void (*)(int64_t row, const ScatteredRows* parts, int count, const float* panel, float* out,
                                  int64_t stride, int64_t there);

template <int... kRows>
TileOfRowsKernel TileOfRowsFor(int rows, int64_t vectors, Numbers<kRows...>) {
  static constexpr TileOfRowsKernel kTiles[kPanel][kTall] = {
      {TileOfRows<kRows + 1, 1>...}, {TileOfRows<kRows + 1, 2>...}, {TileOfRows<kRows + 1, 3>...}};
  return kTiles[vectors - 1][rows - 1];
}

void ProductOfRows(int64_t rows, PackedShape shape, const ScatteredRows* parts, int count, const float* packed,
                   float* out, int64_t stride) {
  const int64_t tiles = Tiles(rows);
  for (int64_t first = 0; first < shape.width; first += kPanelWidth) {
    const int64_t columns = Least(shape.width - first, kPanelWidth);
    const int64_t vectors = Vectors(columns);
    const int64_t there = columns - (vectors - 1) * Vec::kWidth;
    int64_t row = 0;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t height = HeightOf(tile, tiles, rows);
      const auto run = TileOfRowsFor(static_cast<int>(height), vectors, UpTo<kTall>::Type{});
      run(row, parts, count, packed, out + first + row * stride, stride, there);
      row += height;
    }
    packed += vectors * Vec::kWidth * shape.inner;
  }
}

inline float Total(Vec v) {
  float lanes[Vec::kWidth];
  v.Store(lanes);
  float total = 0.0f;
  for (const float lane : lanes) total += lane;
  return total;
}

inline float Dot(int64_t count, const float* a, const float* b) {
  Vec sum = Constant(0.0f);
  int64_t i = 0;
  for (; i + Vec::kWidth <= count; i += Vec::kWidth) sum = Fma(Vec::Load(a + i), Vec::Load(b + i), sum);
  if (i < count) sum = Fma(Vec::Load(a + i, count - i), Vec::Load(b + i, count - i), sum);
  return Total(sum);
}

// out += factor * a
inline void AddScaled(int64_t count, float factor, const float* a, float* out) {
  const Vec scale = Constant(factor);
  int64_t i = 0;
  for (; i + Vec::kWidth <= count; i += Vec::kWidth) Fma(scale, Vec::Load(a + i), Vec::Load(out + i)).Store(out + i);
  if (i < count) Fma(scale, Vec::Load(a + i, count - i), Vec::Load(out + i, count - i)).Store(out + i, count - i);
}

// What lies one after the other is multiplied together: sums of scaled rows, or products of rows with rows.
void ProductOfMatrices(const MatrixProduct& what, const float* a, const float* b, float* out) {
  const auto& [m, k, n, transposed_a, transposed_b] = what;
  if (!transposed_a && (transposed_b || n == 1)) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) out[i * n + j] = Dot(k, a + i * k, b + j * k);
    }
    return;
  }
  for (int64_t i = 0; i < m * n; ++i) out[i] = 0.0f;
  if (transposed_a && n == 1) {
    for (int64_t p = 0; p < k; ++p) AddScaled(m, b[p], a + p * m, out);
    return;
  }
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t p = 0; p < k; ++p) {
      const float factor = transposed_a ? a[p * m + i] : a[i * k + p];
      if (!transposed_b) {
        AddScaled(n, factor, b + p * n, out + i * n);
      } else {
        for (int64_t j = 0; j < n; ++j) out[i * n + j] += factor * b[j * k + p];
      }
    }
  }
}

// Rows of the factors that are worked on together: a panel of the second stays in the first-level cache, those of
// the first, packed, in the second-level cache for all panels.
constexpr int64_t kOuterRows = 128;

// Floats `first` to `first + columns` of each row, as a panel.
void PackRows(int64_t rows, const float* const* from, int64_t first, int64_t columns, float* packed) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t j = 0; j < columns; j += Vec::kWidth, packed += Vec::kWidth) {
      Vec::Load(from[row] + first + j, Least(columns - j, Vec::kWidth)).Store(packed);
    }
  }
}

// The transpose of floats `first` to `first + width` of the rows, as a factor of `width` rows.
void PackFactor(int64_t rows, const float* const* from, int64_t first, int64_t width, float* packed) {
  const int64_t tiles = Tiles(width);
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t height = HeightOf(tile, tiles, width);
    for (int64_t row = 0; row < rows; ++row, packed += height) {
      for (int64_t j = 0; j < height; j += Vec::kWidth) {
        const int64_t count = Least(height - j, Vec::kWidth);
        Vec::Load(from[row] + first + j, count).Store(packed + j, count);
      }
    }
    first += height;
  }
}

void OuterProduct(int64_t rows, int64_t width, const float* const* a, const float* const* b, int64_t first,
                  int64_t last, float* scratch, float* out) {
  alignas(64) float panel[kOuterRows * kPanelWidth];
  for (int64_t row = 0; row < rows; row += kOuterRows) {
    const int64_t now = Least(rows - row, kOuterRows);
    PackFactor(now, a + row, first, last - first, scratch);
    for (int64_t column = 0; column < width; column += kPanelWidth) {
      const int64_t columns = Least(width - column, kPanelWidth);
      PackRows(now, b + row, column, columns, panel);
      const auto run = row == 0 ? PanelProduct<false, true> : PanelProduct<true, true>;
      run(last - first, now, {scratch, 1, 0}, panel, columns, out + column, width);
    }
  }
}

void UpdateByAdagrad(int64_t count, Adagrad how, const float* gradient, float* accumulator, float* variable) {
  const Vec rate = Constant(how.rate), epsilon = Constant(how.epsilon), decay = Constant(how.decay);
  for (int64_t i = 0; i < count; i += Vec::kWidth) {
    const int64_t now = Least(count - i, Vec::kWidth);
    const Vec weight = Vec::Load(variable + i, now);
    const Vec g = Fma(decay, weight, Vec::Load(gradient + i, now));
    const Vec sum = Fma(g, g, Vec::Load(accumulator + i, now));
    sum.Store(accumulator + i, now);
    (weight - rate * g / (Sqrt(sum) + epsilon)).Store(variable + i, now);
  }
}

// e^(x - largest) for the numbers of a row. The plain difference would be rounded, and the error of its power grow with
// it. So from x is taken `largest` less a multiple of log 2, which is so near to x that almost nothing is rounded.
//
// That number itself is exact: of `largest` only a part of few bits, `first`, is added to a multiple of the first part of
// log 2. From 8192 on there are too few bits left for that; but there, differences that matter are exact themselves.
struct PowersAbove {
  explicit PowersAbove(float largest) {
    const bool large = !(__builtin_fabsf(largest) < 8192.0f);  // or no number
    const float left = large ? 0.0f : largest;
    const float coarse = (left + 24576.0f) - 24576.0f;  // a multiple of 1/512
    shift = Constant(large ? largest : 0.0f);
    least = Constant(left - 105.0f);
    steps = Constant(coarse * -1.44269504f);
    first = Constant(coarse);
    second = Constant(left - coarse);
  }

  Vec Of(Vec x) const {
    x = Max(least, x - shift);
    const Vec n = Round(Fma(x, Constant(1.44269504f), steps));
    const Vec r = Fma(n, Constant(2.12194440e-4f), x - Fma(n, Constant(0.693359375f), first)) - second;
    return ScaleDown(ExpOfRest(r), n);
  }

  Vec shift, least, steps, first, second;
};

// The sum of powers that are at most 1, less one that is 1, with all digits of what is left.
//
// Each lane's sum begins with 1. So it is never less than what is added, and what rounding takes is easily found; and
// it is a multiple of the least bit of 1, so that the lanes are added without rounding.
struct SumOfPowers {
  void Add(Vec power) {
    const Vec next = sum + power;
    rest = rest + (power - (next - sum));
    sum = next;
  }

  // Of the first `lanes`, where nothing was added to others.
  double LessOne(int64_t lanes) const {
    float sums[Vec::kWidth], rests[Vec::kWidth];
    sum.Store(sums);
    rest.Store(rests);
    double all = -1.0 - lanes, small = 0.0;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      all += sums[lane];
      small += rests[lane];
    }
    return all + small;
  }

  Vec sum;
  Vec rest;
};

// The last floats of a row, and `other` where there are no more.
inline Vec LoadLast(const float* from, int64_t count, float other) {
  static constexpr float kIndex[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return Less(Vec::Load(kIndex), Constant(static_cast<float>(count)), Vec::Load(from, count), Constant(other));
}

inline float LargestOf(int64_t width, const float* row) {
  const int64_t whole = width - width % Vec::kWidth;
  float found = row[0];
  if (whole > 0) {
    Vec largest = Constant(found);
    for (int64_t i = 0; i < whole; i += Vec::kWidth) largest = Max(largest, Vec::Load(row + i));
    float lanes[Vec::kWidth];
    largest.Store(lanes);
    for (const float lane : lanes) found = lane > found ? lane : found;
  }
  for (int64_t i = whole; i < width; ++i) found = row[i] > found ? row[i] : found;
  return found;
}

Softmax SoftmaxOfRow(int64_t width, const float* logits, float* probabilities) {
  const int64_t whole = width - width % Vec::kWidth, last = width - whole;
  const float largest = LargestOf(width, logits);
  const PowersAbove powers(largest);
  SumOfPowers sum{Constant(1.0f), Constant(0.0f)};
  for (int64_t i = 0; i < whole; i += Vec::kWidth) {
    const Vec power = powers.Of(Vec::Load(logits + i));
    power.Store(probabilities + i);
    sum.Add(power);
  }
  Vec last_powers = Constant(0.0f);
  if (last > 0) {
    last_powers = powers.Of(LoadLast(logits + whole, last, -__builtin_inff()));
    sum.Add(last_powers);
  }
  const double others = sum.LessOne(Least(width, Vec::kWidth));
  const Vec scale = Constant(static_cast<float>(1.0 / (1.0 + others)));
  for (int64_t i = 0; i < whole; i += Vec::kWidth) (Vec::Load(probabilities + i) * scale).Store(probabilities + i);
  if (last > 0) (last_powers * scale).Store(probabilities + whole, last);
  return {largest, others};
}

template <int... kUnary, int... kBinary>
constexpr RowKernels Make(const char* name, Numbers<kUnary...>, Numbers<kBinary...>) {
  return {name,
          {RunUnary<static_cast<Unary>(kUnary)>...},
          {RunBinary<static_cast<Binary>(kBinary)>...},
          Pack,
          Product,
          ProductOfRows,
          ProductOfMatrices,
          kOuterRows,
          OuterProduct,
          AddScaled,
          UpdateByAdagrad,
          SoftmaxOfRow};
}

constexpr RowKernels MakeRowKernels(const char* name) {
  return Make(name, UpTo<static_cast<int>(Unary::kCount)>::Type{},
              UpTo<static_cast<int>(Binary::kCount)>::Type{});
}

}  // namespace
}  // namespace recgraph

#endif  // RECGRAPH_CC_CORE_ROW_KERNELS_CODE_H_
