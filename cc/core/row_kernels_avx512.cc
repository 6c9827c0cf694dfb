// The row kernels for AVX-512: 16 floats at a time, the last ones of a row by masks.
#if defined(__x86_64__) && defined(__GNUC__)

// Nothing compiled here may be shared with code for other machines. The pragma of g++ must come before what is included;
// clang has one of its own, which must come after what others include too.
#if defined(__clang__)
#include <immintrin.h>

#include <cstdint>

#include "cc/core/row_kernels.h"
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512dq,avx512vl,fma")
// The intrinsics of g++ 12 make undefined vectors on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <cstdint>

namespace recgraph {
namespace {

struct Vec {
  static constexpr int kWidth = 16;
  __m512 v;

  static __mmask16 First(int64_t count) { return static_cast<__mmask16>((1u << count) - 1); }
  static Vec Load(const float* from) { return {_mm512_loadu_ps(from)}; }
  static Vec Load(const float* from, int64_t count) {
    return {_mm512_maskz_loadu_ps(First(count), from)};
  }
  static Vec Gather(const float* from, int64_t stride, int64_t count) {
    const __m512i index = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i places = _mm512_mullo_epi32(index, _mm512_set1_epi32(static_cast<int>(stride)));
    return {_mm512_mask_i32gather_ps(_mm512_setzero_ps(), First(count), places, from, 4)};
  }
  static Vec Broadcast(float value) { return {_mm512_set1_ps(value)}; }
  void Store(float* to) const { _mm512_storeu_ps(to, v); }
  void Store(float* to, int64_t count) const { _mm512_mask_storeu_ps(to, First(count), v); }
};

inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Vec Fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec Max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec Min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Vec Abs(Vec a) { return {_mm512_abs_ps(a.v)}; }
inline Vec Sqrt(Vec a) { return {_mm512_sqrt_ps(a.v)}; }
inline Vec Round(Vec a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT)}; }
inline Vec Scale(Vec a, Vec n) { return {_mm512_scalef_ps(a.v, n.v)}; }
inline Vec ScaleDown(Vec a, Vec n) { return Scale(a, n); }
inline Vec ScaleNormal(Vec a, Vec n) { return Scale(a, n); }
inline Vec Less(Vec a, Vec b, Vec x, Vec y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
}
inline Vec OrNan(Vec x, Vec a) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), x.v, a.v)};
}
inline Vec CopySign(Vec magnitude, Vec sign) {
  const __m512 bit = _mm512_set1_ps(-0.0f);
  return {_mm512_or_ps(_mm512_andnot_ps(bit, magnitude.v), _mm512_and_ps(bit, sign.v))};
}

}  // namespace
}  // namespace recgraph

#include "cc/core/row_kernels_code.h"

namespace recgraph {

extern const RowKernels kAvx512RowKernels;
const RowKernels kAvx512RowKernels = MakeRowKernels("avx512");

}  // namespace recgraph

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
