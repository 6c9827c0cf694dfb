// Which row kernels a machine runs, and those for any machine: one float at a time.
#include "cc/core/row_kernels.h"

#include <cmath>

namespace recgraph {
namespace {

struct Vec {
  static constexpr int kWidth = 1;
  float v;

  static Vec Load(const float* from) { return {*from}; }
  static Vec Load(const float* from, int64_t) { return {*from}; }
  static Vec Gather(const float* from, int64_t, int64_t) { return {*from}; }
  static Vec Broadcast(float value) { return {value}; }
  void Store(float* to) const { *to = v; }
  void Store(float* to, int64_t) const { *to = v; }
};

inline Vec operator+(Vec a, Vec b) { return {a.v + b.v}; }
inline Vec operator-(Vec a, Vec b) { return {a.v - b.v}; }
inline Vec operator*(Vec a, Vec b) { return {a.v * b.v}; }
inline Vec operator/(Vec a, Vec b) { return {a.v / b.v}; }
inline Vec Fma(Vec a, Vec b, Vec c) { return {a.v * b.v + c.v}; }
inline Vec Max(Vec a, Vec b) { return {a.v > b.v ? a.v : b.v}; }
inline Vec Min(Vec a, Vec b) { return {a.v < b.v ? a.v : b.v}; }
inline Vec Abs(Vec a) { return {std::fabs(a.v)}; }
inline Vec Sqrt(Vec a) { return {std::sqrt(a.v)}; }
inline Vec Round(Vec a) { return {std::nearbyint(a.v)}; }
inline Vec Scale(Vec a, Vec n) { return {std::isnan(n.v) ? n.v : std::ldexp(a.v, static_cast<int>(n.v))}; }
inline Vec Less(Vec a, Vec b, Vec x, Vec y) { return a.v < b.v ? x : y; }
inline Vec OrNan(Vec x, Vec a) { return std::isnan(a.v) ? a : x; }
inline Vec CopySign(Vec magnitude, Vec sign) { return {std::copysign(magnitude.v, sign.v)}; }

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

const RowKernels& BestRowKernels() {
  static const RowKernels& best = *RowKernelsAt(0);
  return best;
}

int64_t PackedShape::floats() const {
  // Of the widest vectors, so that memory for one form serves all.
  return inner * ((width + 15) / 16 * 16);
}

}  // namespace recgraph
