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

inline int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }

// Long sums are made of blocks: so many numbers are added up in floats, from zero, and what they give in doubles, which
// are rounded once. So an error does not grow with the length of a sum: one after another in floats, a million numbers
// would be a percent off. A product has longer blocks: what it adds up is as wide as a layer, mostly.
constexpr int64_t kSummed = 64;
constexpr int64_t kMultiplied = 1024;

// As many doubles as a vector has bytes for, half as many floats as it has.
constexpr int kHalf = Vec::kWidth / 2;
using HalfFloats = float __attribute__((vector_size(kHalf * sizeof(float))));
using HalfDoubles = double __attribute__((vector_size(kHalf * sizeof(double))));

inline HalfDoubles Widened(const float* from) {
  HalfFloats floats;
  __builtin_memcpy(&floats, from, sizeof(floats));
  return __builtin_convertvector(floats, HalfDoubles);
}

inline HalfDoubles LoadDoubles(const double* from) {
  HalfDoubles doubles;
  __builtin_memcpy(&doubles, from, sizeof(doubles));
  return doubles;
}

// to = from.
void SetWide(int64_t count, const float* from, double* to) {
  const int64_t whole = count - count % kHalf;
  for (int64_t i = 0; i < whole; i += kHalf) {
    const HalfDoubles doubles = Widened(from + i);
    __builtin_memcpy(to + i, &doubles, sizeof(doubles));
  }
  for (int64_t i = whole; i < count; ++i) to[i] = static_cast<double>(from[i]);
}

// to += from.
void AddWide(int64_t count, const float* from, double* to) {
  const int64_t whole = count - count % kHalf;
  for (int64_t i = 0; i < whole; i += kHalf) {
    const HalfDoubles doubles = LoadDoubles(to + i) + Widened(from + i);
    __builtin_memcpy(to + i, &doubles, sizeof(doubles));
  }
  for (int64_t i = whole; i < count; ++i) to[i] += static_cast<double>(from[i]);
}

// to = from, or to += from; rounded once.
template <bool kAdd>
void Narrow(int64_t count, const double* from, float* to) {
  const int64_t whole = count - count % kHalf;
  for (int64_t i = 0; i < whole; i += kHalf) {
    const HalfDoubles doubles = kAdd ? LoadDoubles(from + i) + Widened(to + i) : LoadDoubles(from + i);
    const HalfFloats floats = __builtin_convertvector(doubles, HalfFloats);
    __builtin_memcpy(to + i, &floats, sizeof(floats));
  }
  for (int64_t i = whole; i < count; ++i) to[i] = static_cast<float>(kAdd ? from[i] + static_cast<double>(to[i]) : from[i]);
}

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
struct Tiles {
  explicit Tiles(int64_t rows) : count((rows + kTall - 1) / kTall) {
    if (count == 0) return;
    least = rows / count;
    taller = rows % count;
  }
  int64_t HeightOf(int64_t tile) const { return least + (tile < taller ? 1 : 0); }

  int64_t count;
  int64_t least = 0, taller = 0;
};

// The loops over a tile are unrolled so that its sums are registers. `there` floats of the panel's last vector
// are results. Adds to `out`, or overwrites it.
template <int kRows, int kVectors, bool kAdd>
void Tile(int64_t inner, const Factor& a, const float* panel, float* out, int64_t width, int64_t there) {
  Vec sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[row][v] = Vec::Broadcast(0.0f);
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
    for (int v = 0; v + 1 < kVectors; ++v) {
      float* const to = out + v * Vec::kWidth;
      (kAdd ? Vec::Load(to) + sums[row][v] : sums[row][v]).Store(to);
    }
    float* const to = out + (kVectors - 1) * Vec::kWidth;
    const Vec last = sums[row][kVectors - 1];
    (kAdd ? Vec::Load(to, there) + last : last).Store(to, there);
  }
}

using TileKernel = void (*)(int64_t inner, const Factor& a, const float* panel, float* out, int64_t width,
                            int64_t there);

template <bool kAdd, int... kRows>
TileKernel TileFor(int rows, int64_t vectors, Numbers<kRows...>) {
  static constexpr TileKernel kTiles[kPanel][kTall] = {
      {Tile<kRows + 1, 1, kAdd>...}, {Tile<kRows + 1, 2, kAdd>...}, {Tile<kRows + 1, 3, kAdd>...}};
  return kTiles[vectors - 1][rows - 1];
}

template <bool kAdd>
TileKernel TileFor(int64_t rows, int64_t vectors) {
  return TileFor<kAdd>(static_cast<int>(rows), vectors, UpTo<kTall>::Type{});
}

// A tile of more numbers than a block has.
void LongTile(int64_t height, int64_t inner, Factor a, const float* panel, int64_t columns, float* out, int64_t width) {
  const int64_t vectors = Vectors(columns), step = vectors * Vec::kWidth;
  float block[kTall * kPanelWidth];
  double wide[kTall * kPanelWidth];
  for (int64_t i = 0; i < height * step; ++i) wide[i] = 0.0;
  const TileKernel run = TileFor<false>(height, vectors);
  for (int64_t k = 0; k < inner; k += kMultiplied) {
    run(Least(inner - k, kMultiplied), a, panel, block, step, Vec::kWidth);
    AddWide(height * step, block, wide);
    a.data += kMultiplied * a.step;
    panel += kMultiplied * step;
  }
  for (int64_t row = 0; row < height; ++row) Narrow<false>(columns, wide + row * step, out + row * width);
}

// The results of one panel: `columns` of them.
void PanelProduct(int64_t rows, int64_t inner, Factor a, const float* panel, int64_t columns, float* out,
                  int64_t width) {
  const int64_t vectors = Vectors(columns);
  const int64_t there = columns - (vectors - 1) * Vec::kWidth;
  const Tiles tiles(rows);
  for (int64_t tile = 0; tile < tiles.count; ++tile) {
    const int64_t height = tiles.HeightOf(tile);
    if (inner <= kMultiplied) {
      TileFor<false>(height, vectors)(inner, a, panel, out, width, there);
    } else {
      LongTile(height, inner, a, panel, columns, out, width);
    }
    a.data += height * a.row_stride;
    out += height * width;
  }
}

void Product(int64_t rows, PackedShape shape, const float* a, const float* packed, float* out) {
  for (int64_t first = 0; first < shape.width; first += kPanelWidth) {
    const int64_t columns = Least(shape.width - first, kPanelWidth);
    PanelProduct(rows, shape.inner, {a, shape.inner, 1}, packed, columns, out + first, shape.width);
    packed += Vectors(columns) * Vec::kWidth * shape.inner;
  }
}

// As Tile and LongTile with a factor whose rows lie anywhere, in parts.
template <int kRows, int kVectors, bool kLong>
void TileOfRows(int64_t row, const ScatteredRows* parts, int count, const float* panel, float* out, int64_t stride,
                int64_t there) {
  constexpr int64_t kStep = kVectors * Vec::kWidth;
  [[maybe_unused]] double wide[kLong ? kRows * kStep : 1] = {};
  [[maybe_unused]] float block[kLong ? kRows * kStep : 1];
  int64_t left = kMultiplied;
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
    for (int64_t first = 0; first < inner;) {
      const int64_t last = kLong ? first + Least(inner - first, left) : inner;
      for (int64_t k = first; k < last; ++k, panel += kStep) {
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
      left -= last - first;
      first = last;
      if (!kLong || left > 0) continue;
      left = kMultiplied;
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          sums[i][v].Store(block + (i * kVectors + v) * Vec::kWidth);
          sums[i][v] = Vec::Broadcast(0.0f);
        }
      }
      AddWide(kRows * kStep, block, wide);
    }
  }
  if (kLong) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) sums[i][v].Store(block + (i * kVectors + v) * Vec::kWidth);
    }
    AddWide(kRows * kStep, block, wide);
    for (int i = 0; i < kRows; ++i, out += stride) Narrow<false>(kStep - Vec::kWidth + there, wide + i * kStep, out);
    return;
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

template <bool kLong, int... kRows>
TileOfRowsKernel TileOfRowsFor(int rows, int64_t vectors, Numbers<kRows...>) {
  static constexpr TileOfRowsKernel kTiles[kPanel][kTall] = {{TileOfRows<kRows + 1, 1, kLong>...},
                                                             {TileOfRows<kRows + 1, 2, kLong>...},
                                                             {TileOfRows<kRows + 1, 3, kLong>...}};
  return kTiles[vectors - 1][rows - 1];
}

TileOfRowsKernel TileOfRowsFor(int rows, int64_t vectors, bool is_long) {
  return is_long ? TileOfRowsFor<true>(rows, vectors, UpTo<kTall>::Type{})
                 : TileOfRowsFor<false>(rows, vectors, UpTo<kTall>::Type{});
}

void ProductOfRows(int64_t rows, PackedShape shape, const ScatteredRows* parts, int count, const float* packed,
                   float* out, int64_t stride) {
  const Tiles tiles(rows);
  for (int64_t first = 0; first < shape.width; first += kPanelWidth) {
    const int64_t columns = Least(shape.width - first, kPanelWidth);
    const int64_t vectors = Vectors(columns);
    const int64_t there = columns - (vectors - 1) * Vec::kWidth;
    int64_t row = 0;
    for (int64_t tile = 0; tile < tiles.count; ++tile) {
      const int64_t height = tiles.HeightOf(tile);
      const auto run = TileOfRowsFor(static_cast<int>(height), vectors, shape.inner > kMultiplied);
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

inline float DotOfBlock(int64_t count, const float* a, const float* b) {
  Vec sum = Constant(0.0f);
  int64_t i = 0;
  for (; i + Vec::kWidth <= count; i += Vec::kWidth) sum = Fma(Vec::Load(a + i), Vec::Load(b + i), sum);
  if (i < count) sum = Fma(Vec::Load(a + i, count - i), Vec::Load(b + i, count - i), sum);
  return Total(sum);
}

inline float Dot(int64_t count, const float* a, const float* b) {
  constexpr int64_t kBlock = kSummed * Vec::kWidth;
  if (count <= kBlock) return DotOfBlock(count, a, b);
  double total = 0.0;
  for (int64_t i = 0; i < count; i += kBlock) {
    total += static_cast<double>(DotOfBlock(Least(count - i, kBlock), a + i, b + i));
  }
  return static_cast<float>(total);
}

// Four sums at a time, so that an addition need not wait for the one before.
inline float SumOfBlock(int64_t count, const float* from) {
  Vec sums[4] = {Constant(0.0f), Constant(0.0f), Constant(0.0f), Constant(0.0f)};
  int64_t i = 0;
  for (; i + 4 * Vec::kWidth <= count; i += 4 * Vec::kWidth) {
#pragma GCC unroll 8
    for (int v = 0; v < 4; ++v) sums[v] = sums[v] + Vec::Load(from + i + v * Vec::kWidth);
  }
  for (; i + Vec::kWidth <= count; i += Vec::kWidth) sums[0] = sums[0] + Vec::Load(from + i);
  if (i < count) sums[1] = sums[1] + Vec::Load(from + i, count - i);
  return Total((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

double SumOf(int64_t count, const float* from) {
  constexpr int64_t kBlock = kSummed * Vec::kWidth;
  double total = 0.0;
  for (int64_t i = 0; i < count; i += kBlock) total += static_cast<double>(SumOfBlock(Least(count - i, kBlock), from + i));
  return total;
}

// out += factor * a
inline void AddScaled(int64_t count, float factor, const float* a, float* out) {
  const Vec scale = Constant(factor);
  int64_t i = 0;
  for (; i + Vec::kWidth <= count; i += Vec::kWidth) Fma(scale, Vec::Load(a + i), Vec::Load(out + i)).Store(out + i);
  if (i < count) Fma(scale, Vec::Load(a + i, count - i), Vec::Load(out + i, count - i)).Store(out + i, count - i);
}

// out = the sum of rows `begin` to `end`, each times a factor, of so many vectors, the last one of `there` floats.
template <int kVectors, typename FactorOf, typename RowOf>
void SumVectors(int64_t begin, int64_t end, int64_t there, FactorOf factor, RowOf row, float* out) {
  constexpr int64_t kLast = (kVectors - 1) * Vec::kWidth;
  Vec sums[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) sums[v] = Constant(0.0f);
  for (int64_t p = begin; p < end; ++p) {
    const Vec scale = Constant(factor(p));
    const float* const from = row(p);
#pragma GCC unroll 8
    for (int v = 0; v + 1 < kVectors; ++v) sums[v] = Fma(scale, Vec::Load(from + v * Vec::kWidth), sums[v]);
    sums[kVectors - 1] = Fma(scale, Vec::Load(from + kLast, there), sums[kVectors - 1]);
  }
#pragma GCC unroll 8
  for (int v = 0; v + 1 < kVectors; ++v) sums[v].Store(out + v * Vec::kWidth);
  sums[kVectors - 1].Store(out + kLast, there);
}

// The same of `columns` floats, at most four vectors.
template <typename FactorOf, typename RowOf>
void SumColumns(int64_t begin, int64_t end, int64_t columns, FactorOf factor, RowOf row, float* out) {
  const int64_t vectors = Vectors(columns), there = columns - (vectors - 1) * Vec::kWidth;
  switch (vectors) {
    case 1: return SumVectors<1>(begin, end, there, factor, row, out);
    case 2: return SumVectors<2>(begin, end, there, factor, row, out);
    case 3: return SumVectors<3>(begin, end, there, factor, row, out);
    default: return SumVectors<4>(begin, end, there, factor, row, out);
  }
}

// out = the sum of `count` rows of `width` floats, each times a factor.
template <typename FactorOf, typename RowOf>
void SumScaled(int64_t count, int64_t width, FactorOf factor, RowOf row, float* out) {
  constexpr int64_t kPiece = 4 * Vec::kWidth;
  for (int64_t first = 0; first < width; first += kPiece) {
    const int64_t columns = Least(width - first, kPiece);
    const auto piece = [row, first](int64_t p) { return row(p) + first; };
    if (count <= kMultiplied) {
      SumColumns(0, count, columns, factor, piece, out + first);
      continue;
    }
    double wide[kPiece] = {};
    for (int64_t block = 0; block < count; block += kMultiplied) {
      float sums[kPiece];
      SumColumns(block, block + Least(count - block, kMultiplied), columns, factor, piece, sums);
      AddWide(columns, sums, wide);
    }
    Narrow<false>(columns, wide, out + first);
  }
}

// What lies one after the other is multiplied together: sums of scaled rows, or products of rows with rows.
void ProductOfMatrices(const MatrixProduct& what, const float* a, const float* b, float* out) {
  const auto& [m, k, n, transposed_a, transposed_b] = what;
  const int64_t rows = m, inner = k, columns = n;
  if (!transposed_a && (transposed_b || n == 1)) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) out[i * n + j] = Dot(k, a + i * k, b + j * k);
    }
    return;
  }
  if (transposed_a && n == 1) {
    const auto row = [a, rows](int64_t p) { return a + p * rows; };
    return SumScaled(k, m, [b](int64_t p) { return b[p]; }, row, out);
  }
  for (int64_t i = 0; i < m; ++i) {
    const float* const column = transposed_a ? a + i : a + i * k;
    const int64_t step = transposed_a ? m : 1;
    if (!transposed_b) {
      const auto row = [b, columns](int64_t p) { return b + p * columns; };
      SumScaled(k, n, [column, step](int64_t p) { return column[p * step]; }, row, out + i * n);
      continue;
    }
    for (int64_t j = 0; j < n; ++j) {
      double total = 0.0;
      for (int64_t block = 0; block < inner; block += kMultiplied) {
        float sum = 0.0f;
        const int64_t end = block + Least(inner - block, kMultiplied);
        for (int64_t p = block; p < end; ++p) sum += column[p * step] * b[j * inner + p];
        total += static_cast<double>(sum);
      }
      out[i * n + j] = static_cast<float>(total);
    }
  }
}

// Rows of the factors that are worked on together: a panel of the second stays in the first-level cache, those of
// the first, packed, in the second-level cache for all panels.
constexpr int64_t kOuterRows = 128;
// Rows whose blocks are added up in floats; a few more additions are no matter, and doubles take time.
constexpr int64_t kOuterGroup = 16 * kOuterRows;

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
  const Tiles tiles(width);
  for (int64_t tile = 0; tile < tiles.count; ++tile) {
    const int64_t height = tiles.HeightOf(tile);
    for (int64_t row = 0; row < rows; ++row, packed += height) {
      for (int64_t j = 0; j < height; j += Vec::kWidth) {
        const int64_t count = Least(height - j, Vec::kWidth);
        Vec::Load(from[row] + first + j, count).Store(packed + j, count);
      }
    }
    first += height;
  }
}

int64_t OuterScratch(int64_t rows, int64_t width, int64_t height) {
  return (Least(rows, kOuterRows) * height + 1) / 2 + (rows <= kOuterGroup ? 0 : height * width);
}

// `rows` of the first factor, packed, times a panel: in blocks, the first of which overwrites `out` unless `add`.
void OuterPanel(int64_t rows, int64_t height, const float* factor, const float* panel, int64_t columns, bool add,
                float* out, int64_t width) {
  const int64_t vectors = Vectors(columns), step = vectors * Vec::kWidth;
  const int64_t there = columns - (vectors - 1) * Vec::kWidth;
  const Tiles tiles(height);
  for (int64_t tile = 0; tile < tiles.count; ++tile) {
    const int64_t tall = tiles.HeightOf(tile);
    for (int64_t k = 0; k < rows; k += kSummed) {
      const TileKernel run = add || k > 0 ? TileFor<true>(tall, vectors) : TileFor<false>(tall, vectors);
      run(Least(rows - k, kSummed), {factor + k * tall, 1, tall}, panel + k * step, out, width, there);
    }
    factor += tall * rows;
    out += tall * width;
  }
}

void OuterProduct(int64_t rows, int64_t width, const float* const* a, const float* const* b, int64_t first,
                  int64_t last, double* scratch, float* out) {
  alignas(64) float panel[kOuterRows * kPanelWidth];
  const int64_t height = last - first, all = rows <= kOuterGroup ? 0 : height * width;
  float* const factor = reinterpret_cast<float*>(scratch + all);
  for (int64_t row = 0; row < rows; row += kOuterRows) {
    const int64_t now = Least(rows - row, kOuterRows);
    PackFactor(now, a + row, first, height, factor);
    for (int64_t column = 0; column < width; column += kPanelWidth) {
      const int64_t columns = Least(width - column, kPanelWidth);
      PackRows(now, b + row, column, columns, panel);
      OuterPanel(now, height, factor, panel, columns, row % kOuterGroup > 0, out + column, width);
    }
    const int64_t done = row + now;
    if (all == 0 || (done % kOuterGroup > 0 && done < rows)) continue;
    if (done == rows) {
      Narrow<true>(all, scratch, out);
    } else if (done == kOuterGroup) {
      SetWide(all, out, scratch);
    } else {
      AddWide(all, out, scratch);
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
          OuterScratch,
          OuterProduct,
          AddWide,
          SumOf,
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
