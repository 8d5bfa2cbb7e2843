// Special functions, written from mathematics: the last bits may differ from a Gaudi's.
#pragma once

#include "scalar.h"

namespace tpc {

// 2^n for whole numbers n from -126 to 127.
TPC_INLINE float power_of_two(int n) { return bits_of<float>((n + 127) << 23); }

// e^x = 2^n * e^r with |r| <= ln(2)/2. The Taylor series of e^r up to r^7 is short by less than 2^-27.
TPC_INLINE float exponential(float x) {
  const float clipped = x < -104.0f ? -104.0f : (x > 89.0f ? 89.0f : x);
  const float n = __builtin_rintf(clipped * 1.44269504088896341f);
  float r = __builtin_fmaf(n, -0.693145751953125f, clipped);  // ln(2) in two parts
  r = __builtin_fmaf(n, -1.42860677e-6f, r);
  float sum = 1.0f / 5040;
  sum = __builtin_fmaf(sum, r, 1.0f / 720);
  sum = __builtin_fmaf(sum, r, 1.0f / 120);
  sum = __builtin_fmaf(sum, r, 1.0f / 24);
  sum = __builtin_fmaf(sum, r, 1.0f / 6);
  sum = __builtin_fmaf(sum, r, 0.5f);
  sum = __builtin_fmaf(sum, r, 1.0f);
  sum = __builtin_fmaf(sum, r, 1.0f);
  const int whole = static_cast<int>(n);
  const int half = whole / 2;
  const float result = sum * power_of_two(half) * power_of_two(whole - half);
  return x == x ? result : x;
}
TPC_INLINE float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }
TPC_INLINE float remainder_of(float a, float b) { return __builtin_fmodf(a, b); }

// Reductions leave their result in every lane. Sums are taken in a tree, as wide as the register.
template <class T, int N, class F>
TPC_INLINE Vec<T, N> reduced(Vec<T, N> v, F f) {
  T* lanes = reinterpret_cast<T*>(&v);
  for (int width = N / 2; width > 0; width /= 2)
    for (int i = 0; i < width; i++) lanes[i] = f(lanes[i], lanes[i + width]);
  return Vec<T, N>(lanes[0]);
}
template <int N, class F>
TPC_INLINE Vec<float, N> reduced(Vec<float, N> v, F f) {
  auto sum = v.part[0];
  for (int p = 1; p < kParts; p++) sum = f(sum, v.part[p]);
  float lanes[kPartBytes / 4];
  __builtin_memcpy(lanes, &sum, sizeof(lanes));
  for (int width = kPartBytes / 8; width > 0; width /= 2)
    for (int i = 0; i < width; i++) lanes[i] = f(lanes[i], lanes[i + width]);
  return Vec<float, N>(lanes[0]);
}

// a * b + c, rounded once.
template <class P>
TPC_INLINE P fused(const P& a, const P& b, const P& c) {
#if defined(__AVX512F__)
  return (P)__builtin_ia32_vfmaddps512_mask(
      (PartOf<float>::type)a, (PartOf<float>::type)b, (PartOf<float>::type)c, -1, 4);
#elif defined(__AVX2__) && defined(__FMA__)
  return (P)__builtin_ia32_vfmaddps256((PartOf<float>::type)a, (PartOf<float>::type)b, (PartOf<float>::type)c);
#else
  P result;
  for (int i = 0; i < kPartBytes / 4; i++) result[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return result;
#endif
}

// An operation on the registers of pairs, one after the other. A register in the place of a pair serves both.
template <class A, class F, class... X>
TPC_INLINE Pair<A, A> pairwise(F f, const Pair<A, A>& a, const X&... rest) {
  const auto first = [](const auto& x) { return x.v1; };
  const auto second = [](const auto& x) { return x.v2; };
  return {lanes<A>(f, a.v1, first(rest)...), lanes<A>(f, a.v2, second(rest)...)};
}
template <class A>
TPC_INLINE Pair<A, A> twice(const A& a) {
  return {a, a};
}

// Moves of lanes. A group is 32 bytes, a dual group is two of them.
template <class V>
TPC_INLINE bool writes(uint32_t bytes, int byte) {
  return (bytes >> (byte & 31)) & 1;
}

template <class V>
TPC_INLINE V moved_dual_groups(const V& a, uint32_t bytes, const int (&from)[4], int switches, V income) {
  const auto* source = reinterpret_cast<const unsigned char*>(&a);
  auto* target = reinterpret_cast<unsigned char*>(&income);
  for (int group = 0; group < 8; group++) {
    if (!(switches & (SW_WR_LOWER_GROUP0 << group))) continue;
    const int first = (from[group / 2] & 3) * 64 + (group & 1) * 32;
    for (int byte = 0; byte < 32; byte++)
      if ((bytes >> byte) & 1) target[group * 32 + byte] = source[first + byte];
  }
  return income;
}
template <class V>
TPC_INLINE V moved_dual_group(const V& a, uint32_t bytes, int from, int to, int switches, V income) {
  const int sources[4] = {from, from, from, from};
  const int groups = (switches / SW_WR_LOWER_GROUP) & 3;
  return moved_dual_groups(a, bytes, sources, (groups * SW_WR_LOWER_GROUP0) << (2 * (to & 3)), income);
}
// The two groups of a dual group change places.
template <class V>
TPC_INLINE V moved_groups(const V& a, uint32_t bytes, int switches, V income) {
  const auto* source = reinterpret_cast<const unsigned char*>(&a);
  auto* target = reinterpret_cast<unsigned char*>(&income);
  for (int group = 0; group < 8; group++) {
    const bool enabled = ((switches >> (group & 1)) & 1) && ((switches >> (2 + group / 2)) & 1);
    if (!enabled) continue;
    for (int byte = 0; byte < 32; byte++)
      if ((bytes >> byte) & 1) target[group * 32 + byte] = source[(group ^ 1) * 32 + byte];
  }
  return income;
}
template <class V>
TPC_INLINE V packed_dual_groups(const V& a, int switches, V income) {
  const auto* source = reinterpret_cast<const unsigned char*>(&a);
  auto* target = reinterpret_cast<unsigned char*>(&income);
  const int pieces = (switches & SW_PACK41) ? 16 : 32;  // bytes of a dual group that are kept
  for (int group = 0; group < 4; group++) {
    for (int byte = 0; byte < pieces; byte++) target[group * pieces + byte] = source[group * 64 + byte];
  }
  return income;
}
// In each dual group: every second or fourth element of a group, side by side.
template <class T, int N>
TPC_INLINE Vec<T, N> packed(const Vec<T, N>& a, int switches, Vec<T, N> income) {
  constexpr int group = 32 / sizeof(T);
  const int stride = (switches & SW_STRIDE_4) ? 4 : 2;
  const int from = (switches & SW_GROUP_1) ? 1 : 0;
  for (int dual = 0; dual < 4; dual++)
    for (int i = 0; i < group / stride; i++)
      income[dual * 2 * group + from * (group / stride) + i] = a[dual * 2 * group + from * group + i * stride];
  return income;
}
template <class T, int N>
TPC_INLINE Vec<T, N> unpacked(const Vec<T, N>& a, int switches, Vec<T, N> income) {
  constexpr int group = 32 / sizeof(T);
  const int stride = (switches & SW_STRIDE_4) ? 4 : 2;
  const int from = (switches & SW_GROUP_1) ? 1 : 0;
  const int half = (switches & SW_GROUP_HALF_1) ? 1 : 0;
  const int place = (switches / SW_UNPACK_LANE_1) & 3;
  for (int dual = 0; dual < 4; dual++)
    for (int g = 0; g < 2; g++)
      for (int i = 0; i < group / stride; i++)
        income[dual * 2 * group + g * group + i * stride + place % stride] =
            a[dual * 2 * group + from * group + (half * group / 2 + g * group / stride + i) % group];
  return income;
}
// Each element of b: bits 0 to 4 the source's element, bit 5 its group, bit 7 whether it is written.
template <class T, int N>
TPC_INLINE Vec<T, N> shuffled(const Vec<T, N>& a, const uchar256& b, Vec<T, N> income) {
  constexpr int group = 32 / sizeof(T);
  for (int i = 0; i < N; i++) {
    const int direction = b[i * static_cast<int>(sizeof(T))];
    if (!(direction & 0x80)) continue;
    const int dual = i / (2 * group) * (2 * group);
    income[i] = a[dual + ((direction >> 5) & 1) * group + (direction & 31) % group];
  }
  return income;
}

// Converts into one of several lanes of a wider element's place; the others keep the income.
template <class R, class T, int N, int M>
TPC_INLINE R converted_into(const Vec<T, N>& a, int place, int switches, R income, const Bool<M>& which) {
  constexpr int step = R::size / N;
  using E = typename R::element;
  E* lanes = reinterpret_cast<E*>(&income);
  const T* source = reinterpret_cast<const T*>(&a);
  for (int i = 0; i < N; i++) {
    const int lane = i * step + (place & (step - 1));
    E& target = lanes[lane];
    target = which.get(lane) ? converted<E>(source[i], switches) : target;
  }
  return income;
}
template <class R, class T, int N>
TPC_INLINE R
shifted_into(const Vec<T, N>& a, const Vec<T, N>& shift, int place, int switches, R income, const Bool<N>& which) {
  constexpr int step = R::size / N;
  using E = typename R::element;
  for (int i = 0; i < N; i++) {
    E& target = income[i * step + (place & (step - 1))];
    target = which.get(i) ? converted_with_shift<E>(a[i], static_cast<signed char>(shift[i]), switches) : target;
  }
  return income;
}
// Between containers of as many lanes: dealt out in turn, or with SW_LINEAR one register after the other.
template <class R, class X>
TPC_INLINE R converted_all(X x, int switches) {
  using E = typename Registers<R>::element;
  using T = typename Registers<X>::element;
  if (switches & SW_LINEAR) {
    R result;
    E* target = reinterpret_cast<E*>(&result);
    const T* source = reinterpret_cast<const T*>(&x);
    for (int i = 0; i < Registers<R>::lanes; i++) target[i] = converted<E>(source[i], switches);
    return result;
  }
  return lanes<R>([=](T value) { return converted<E>(value, switches); }, x);
}

template <class T>
TPC_INLINE Vec<T, kVectorBytes / sizeof(T)> lane_numbers() {
  Vec<T, kVectorBytes / sizeof(T)> result;
  for (int i = 0; i < static_cast<int>(kVectorBytes / sizeof(T)); i++) result[i] = static_cast<T>(i);
  return result;
}

template <class F>
TPC_INLINE Int5 with_dimensions(const Int5& income, int mask, F f) {
  Int5 result = income;
  for (int i = 0; i < 5; i++)
    if ((mask >> i) & 1) result.value[i] = f(i);
  return result;
}

}  // namespace tpc

// The bits of one value as another type.
#define TPC_AS(name, type)                \
  template <class From>                   \
  TPC_INLINE type as_##name(From value) { \
    return tpc::bits_of<type>(value);     \
  }
TPC_AS(float, float)
TPC_AS(int, int)
TPC_AS(uint, unsigned int)
TPC_AS(short, short)
TPC_AS(ushort, unsigned short)
TPC_AS(char, signed char)
TPC_AS(uchar, unsigned char)
TPC_AS(bf16, bf16)
TPC_AS(bfloat, bf16)
TPC_AS(half, half)
TPC_AS(float64, float64)
TPC_AS(int64, int64)
TPC_AS(uint64, uint64)
TPC_AS(bfloat128, bfloat128)
TPC_AS(half128, half128)
TPC_AS(short128, short128)
TPC_AS(ushort128, ushort128)
TPC_AS(char256, char256)
TPC_AS(uchar256, uchar256)
#undef TPC_AS

#define V_LANE_ID_32 (tpc::lane_numbers<unsigned int>())
#define V_LANE_ID_16 (tpc::lane_numbers<unsigned short>())
#define V_LANE_ID_8 (tpc::lane_numbers<unsigned char>())
