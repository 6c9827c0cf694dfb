// Which row kernels a machine runs, and those for any machine: 4 floats at a time by vectors of the compiler, which
// are those of SSE2 or NEON.
#include "cc/core/row_kernels.h"

#include <cmath>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace recgraph {
namespace {

using Floats = float __attribute__((vector_size(16)));
using Ints = int32_t __attribute__((vector_size(16)));
using Bits = uint32_t __attribute__((vector_size(16)));

inline Floats Choose(Ints mask, Floats a, Floats b) {
  return (Floats)((mask & (Ints)a) | (~mask & (Ints)b));
}

struct Vec {
  static constexpr int kWidth = 4;
  Floats v;

  static Vec Load(const float* from) {
    Vec loaded;
    __builtin_memcpy(&loaded.v, from, sizeof(loaded.v));
    return loaded;
  }
  static Vec Load(const float* from, int64_t count) { return count >= kWidth ? Load(from) : Gather(from, 1, count); }
  static Vec Gather(const float* from, int64_t stride, int64_t count) {
    return {Floats{from[0], count > 1 ? from[stride] : 0.0f, count > 2 ? from[2 * stride] : 0.0f,
                   count > 3 ? from[3 * stride] : 0.0f}};
  }
  static Vec Broadcast(float value) { return {Floats{value, value, value, value}}; }
  void Store(float* to) const { __builtin_memcpy(to, &v, sizeof(v)); }
  void Store(float* to, int64_t count) const {
    if (count >= kWidth) return Store(to);
    for (int64_t i = 0; i < count; ++i) to[i] = v[i];
  }
};

inline Vec operator+(Vec a, Vec b) { return {a.v + b.v}; }
inline Vec operator-(Vec a, Vec b) { return {a.v - b.v}; }
inline Vec operator*(Vec a, Vec b) { return {a.v * b.v}; }
inline Vec operator/(Vec a, Vec b) { return {a.v / b.v}; }
inline Vec Fma(Vec a, Vec b, Vec c) { return {a.v * b.v + c.v}; }
inline Vec Max(Vec a, Vec b) { return {a.v > b.v ? a.v : b.v}; }
inline Vec Min(Vec a, Vec b) { return {a.v < b.v ? a.v : b.v}; }
inline Vec Abs(Vec a) { return {(Floats)((Bits)a.v & 0x7fffffffu)}; }
#if defined(__SSE2__)
inline Vec Sqrt(Vec a) { return {_mm_sqrt_ps(a.v)}; }
#else
inline Vec Sqrt(Vec a) {
  return {Floats{std::sqrt(a.v[0]), std::sqrt(a.v[1]), std::sqrt(a.v[2]), std::sqrt(a.v[3])}};
}
#endif
// The sum has no bits for a fraction.
inline Vec Round(Vec a) { return {(a.v + 12582912.0f) - 12582912.0f}; }
inline Floats PowerOfTwo(Ints n) { return (Floats)((Bits)(n + 127) << 23); }
// In two steps: 2^n itself may be out of range where the product is not.
inline Vec Scale(Vec a, Vec n) {
  const Ints whole = __builtin_convertvector(n.v, Ints), half = whole >> 1;
  return {a.v * PowerOfTwo(half) * PowerOfTwo(whole - half)};
}
inline Vec ScaleNormal(Vec a, Vec n) {
  return {(Floats)((Bits)a.v + ((Bits)__builtin_convertvector(n.v, Ints) << 23))};
}
inline Vec ScaleDown(Vec a, Vec n) {
  return ScaleNormal(a, n + Vec::Broadcast(64.0f)) * Vec::Broadcast(0x1p-64f);
}
inline Vec Less(Vec a, Vec b, Vec x, Vec y) { return {Choose(a.v < b.v, x.v, y.v)}; }
inline Vec OrNan(Vec x, Vec a) { return {Choose(a.v == a.v, x.v, a.v)}; }
inline Vec CopySign(Vec magnitude, Vec sign) {
  return {(Floats)(((Bits)magnitude.v & 0x7fffffffu) | ((Bits)sign.v & 0x80000000u))};
}

}  // namespace
}  // namespace recgraph

#include "cc/core/row_kernels_code.h"

namespace recgraph {
namespace {

constexpr RowKernels kPlainRowKernels = MakeRowKernels("plain");

}  // namespace

#if defined(__x86_64__) && defined(__GNUC__)
extern const RowKernels kAvx512RowKernels;
extern const RowKernels kAvx2RowKernels;
#endif

const RowKernels* RowKernelsAt(int index) {
#if defined(__x86_64__) && defined(__GNUC__)
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx512 && index-- == 0) return &kAvx512RowKernels;
  if (avx2 && index-- == 0) return &kAvx2RowKernels;
#endif
  return index == 0 ? &kPlainRowKernels : nullptr;
}

// Nothing cancels: a loss far below 1 has all its digits, where TensorFlow's is 0.
float CrossEntropy(int64_t classes, const float* logits, int64_t label, float* gradient) {
  const float logit = logits[label];  // read first: the gradient may take the logits' place
  const Softmax made = BestRowKernels().softmax(classes, logits, gradient);
  // Of the largest logit, what its probability leaves of 1: the difference itself would lose all its digits.
  gradient[label] =
      logit == made.largest ? -static_cast<float>(made.others / (1.0 + made.others)) : gradient[label] - 1.0f;
  return static_cast<float>(std::log1p(made.others) + (static_cast<double>(made.largest) - logit));
}

const RowKernels& BestRowKernels() {
  static const RowKernels& best = *RowKernelsAt(0);
  return best;
}

int64_t PackedShape::floats() const {
  // Of the widest vectors, so that memory for one form serves all.
  return inner * ((width + 15) / 16 * 16);
}

}  // namespace recgraph
