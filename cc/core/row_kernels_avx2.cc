// The row kernels for AVX2 with FMA: 8 floats at a time.
#if defined(__x86_64__) && defined(__GNUC__)

// Nothing compiled here may be shared with code for other machines. The pragma of g++ must come before what is included;
// clang has one of its own, which must come after what others include too.
#if defined(__clang__)
#include <immintrin.h>

#include <cstdint>

#include "cc/core/row_kernels.h"
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#include <immintrin.h>

#include <cstdint>

namespace recgraph {
namespace {

struct Vec {
  static constexpr int kWidth = 8;
  __m256 v;

  static __m256i First(int64_t count) {
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), index);
  }
  static Vec Load(const float* from) { return {_mm256_loadu_ps(from)}; }
  static Vec Load(const float* from, int64_t count) { return {_mm256_maskload_ps(from, First(count))}; }
  static Vec Gather(const float* from, int64_t stride, int64_t count) {
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i places = _mm256_mullo_epi32(index, _mm256_set1_epi32(static_cast<int>(stride)));
    const __m256 mask = _mm256_castsi256_ps(First(count));
    return {_mm256_mask_i32gather_ps(_mm256_setzero_ps(), from, places, mask, 4)};
  }
  static Vec Broadcast(float value) { return {_mm256_set1_ps(value)}; }
  void Store(float* to) const { _mm256_storeu_ps(to, v); }
  void Store(float* to, int64_t count) const { _mm256_maskstore_ps(to, First(count), v); }
};

inline Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
inline Vec Fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec Max(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }
inline Vec Min(Vec a, Vec b) { return {_mm256_min_ps(a.v, b.v)}; }
inline Vec Abs(Vec a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
inline Vec Sqrt(Vec a) { return {_mm256_sqrt_ps(a.v)}; }
inline Vec Round(Vec a) {
  return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// In two steps: 2^n itself may be out of range where the product is not.
inline Vec Scale(Vec a, Vec n) {
  const __m256i whole = _mm256_cvtps_epi32(n.v);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  const __m256i rest = _mm256_sub_epi32(whole, half);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256 first = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  const __m256 second = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
  return {_mm256_mul_ps(_mm256_mul_ps(a.v, first), second)};
}
inline Vec ScaleNormal(Vec a, Vec n) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n.v), 23);
  return {_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a.v), exponent))};
}
inline Vec ScaleDown(Vec a, Vec n) {
  return ScaleNormal(a, n + Vec::Broadcast(64.0f)) * Vec::Broadcast(0x1p-64f);
}
inline Vec Less(Vec a, Vec b, Vec x, Vec y) {
  return {_mm256_blendv_ps(y.v, x.v, _mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ))};
}
inline Vec OrNan(Vec x, Vec a) {
  return {_mm256_blendv_ps(x.v, a.v, _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q))};
}
inline Vec CopySign(Vec magnitude, Vec sign) {
  const __m256 bit = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(_mm256_andnot_ps(bit, magnitude.v), _mm256_and_ps(bit, sign.v))};
}

}  // namespace
}  // namespace recgraph

#include "cc/core/row_kernels_code.h"

namespace recgraph {

extern const RowKernels kAvx2RowKernels;
const RowKernels kAvx2RowKernels = MakeRowKernels("avx2");

}  // namespace recgraph

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
