// Floating-point numbers of 16 and 8 bits: bf16, half, and the two formats of 8 bits.
//
// A value is kept as its bits. Arithmetic is done in float and rounded once. The formats are in the TPC-C language
// specification; the 8-bit format with 4 exponent bits has infinities up to Gaudi 2 and none from Gaudi 3 on.
#pragma once

#include "switches.h"
#include <stdint.h>

#define TPC_INLINE inline __attribute__((always_inline))

namespace tpc {

template <class To, class From>
TPC_INLINE To bits_of(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "the sizes differ");
  To to;
  __builtin_memcpy(&to, &from, sizeof(to));
  return to;
}

// The float next to a double towards zero, whose last bit says whether something was cut off. Rounding it again to a
// shorter format gives what rounding the double would.
TPC_INLINE float rounded_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  const uint32_t bits = bits_of<uint32_t>(nearest);
  const bool beyond = __builtin_fabs(back) > __builtin_fabs(value);
  const uint32_t toward_zero = bits - (beyond ? 1u : 0u);
  return bits_of<float>(back == value ? bits : toward_zero | 1u);
}

template <int kExponentBits, int kMantissaBits, bool kHasInfinity>
struct Format {
  static constexpr int exponent_bits = kExponentBits;
  static constexpr int mantissa_bits = kMantissaBits;
  static constexpr bool has_infinity = kHasInfinity;
  static constexpr int width = 1 + kExponentBits + kMantissaBits;
  static constexpr int bias = (1 << (kExponentBits - 1)) - 1;
  static constexpr uint32_t sign = 1u << (width - 1);
  static constexpr uint32_t infinity = ((1u << kExponentBits) - 1) << kMantissaBits;  // with has_infinity
  static constexpr uint32_t not_a_number = has_infinity ? infinity | (1u << (kMantissaBits - 1)) : sign - 1;
  static constexpr uint32_t largest = has_infinity ? infinity - 1 : not_a_number - 1;

  // How much to add below the last kept bit, so that cutting it off rounds as `mode` says.
  static TPC_INLINE uint32_t increment(uint32_t magnitude, int cut, bool negative, int mode) {
    const uint32_t below = (1u << cut) - 1;
    const uint32_t half = cut > 0 ? 1u << (cut - 1) : 0;
    const uint32_t odd = (magnitude >> cut) & 1;
    switch (mode & SW_ROUND_MASK) {
      case SW_RZ:
        return 0;
      case SW_RU:
        return negative ? 0 : below;
      case SW_RD:
        return negative ? below : 0;
      case SW_RHAZ:
        return half;
      default:
        return half - 1 + odd;
    }
  }

  static TPC_INLINE uint32_t from_float(float value, int mode) {
    const uint32_t bits = bits_of<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const bool negative = (bits >> 31) != 0;
    const uint32_t over = (mode & SW_CLIP_FP) != 0 ? largest : (has_infinity ? infinity : not_a_number);
    constexpr int cut = 23 - mantissa_bits;
    // Numbers with the format's smallest exponent or a larger one.
    const uint32_t rounded = magnitude + increment(magnitude, cut, negative, mode);
    const uint32_t normal = (rounded >> cut) - (static_cast<uint32_t>(127 - bias) << mantissa_bits);
    // Smaller ones: whole multiples of the smallest number. Adding a power of two rounds to the nearest.
    uint32_t result = normal;
    if constexpr (bias != 127) {
      constexpr uint32_t smallest_normal = static_cast<uint32_t>(127 - bias + 1) << 23;
      const float multiple =
          bits_of<float>(magnitude) * bits_of<float>(static_cast<uint32_t>(127 + bias - 1 + mantissa_bits) << 23);
      const float whole = multiple < 8388608.0f ? multiple : 0.0f;
      const int32_t floor = static_cast<int32_t>(whole);
      const float rest = whole - static_cast<float>(floor);
      bool up = rest > 0.5f || (rest == 0.5f && (floor & 1) != 0);
      switch (mode & SW_ROUND_MASK) {
        case SW_RZ:
          up = false;
          break;
        case SW_RU:
          up = !negative && rest > 0;
          break;
        case SW_RD:
          up = negative && rest > 0;
          break;
        case SW_RHAZ:
          up = rest >= 0.5f;
          break;
        default:
          break;
      }
      const uint32_t tiny = static_cast<uint32_t>(floor) + (up ? 1u : 0u);
      result = magnitude < smallest_normal ? tiny : normal;
    }
    const bool too_large = result > largest || magnitude >= 0x7f800000u || rounded >= 0x7f800000u;
    const bool infinite = magnitude == 0x7f800000u;
    const bool toward_zero = (mode & SW_ROUND_MASK) == SW_RZ || (mode & SW_ROUND_MASK) == (negative ? SW_RU : SW_RD);
    const uint32_t limit = toward_zero && !infinite ? largest : over;
    result = too_large ? limit : result;
    result = magnitude > 0x7f800000u ? not_a_number : result;
    return result | (negative ? sign : 0u);
  }

  static TPC_INLINE float to_float(uint32_t bits) {
    if constexpr (bias == 127) return bits_of<float>(bits << 16);
    const uint32_t magnitude = bits & (sign - 1);
    const uint32_t negative = (bits & sign) != 0 ? 0x80000000u : 0u;
    constexpr uint32_t first_normal = 1u << mantissa_bits;
    const uint32_t normal = (magnitude << (23 - mantissa_bits)) + (static_cast<uint32_t>(127 - bias) << 23);
    const float unit = bits_of<float>(static_cast<uint32_t>(127 - bias + 1 - mantissa_bits) << 23);
    const float tiny = static_cast<float>(static_cast<int32_t>(magnitude)) * unit;
    uint32_t result = magnitude < first_normal ? bits_of<uint32_t>(tiny) : normal;
    if constexpr (has_infinity) {
      const uint32_t special = 0x7f800000u | ((magnitude & (first_normal - 1)) << (23 - mantissa_bits));
      result = magnitude >= infinity ? special : result;
    } else {
      result = magnitude == not_a_number ? 0x7fc00000u : result;
    }
    return bits_of<float>(result | negative);
  }
};

template <class F>
struct Small;

template <class T>
struct IsSmall {
  static constexpr bool value = false;
};
template <class F>
struct IsSmall<Small<F>> {
  static constexpr bool value = true;
};

template <class T>
concept Arithmetic =
    __is_same(T, bool) || __is_same(T, char) || __is_same(T, signed char) || __is_same(T, unsigned char) ||
    __is_same(T, short) || __is_same(T, unsigned short) || __is_same(T, int) || __is_same(T, unsigned int) ||
    __is_same(T, long) || __is_same(T, unsigned long) || __is_same(T, long long) || __is_same(T, unsigned long long) ||
    __is_same(T, float) || __is_same(T, double) || __is_enum(T);

template <class T>
concept Real = __is_same(T, float) || __is_same(T, double);

template <class T>
concept Scalar = Arithmetic<T> || IsSmall<T>::value;

template <int kWidth>
struct Unsigned;
template <>
struct Unsigned<8> {
  using type = uint8_t;
};
template <>
struct Unsigned<16> {
  using type = uint16_t;
};
template <>
struct Unsigned<32> {
  using type = uint32_t;
};

template <class F>
struct Small {
  using format = F;
  using storage = typename Unsigned<F::width>::type;
  storage bits;

  Small() = default;
  template <Arithmetic U>
  TPC_INLINE Small(U value) : bits(static_cast<storage>(F::from_float(narrowed(value), 0))) {}
  template <class G>
    requires(!__is_same(F, G))
  TPC_INLINE explicit Small(Small<G> other) : bits(static_cast<storage>(F::from_float(float(other), 0))) {}
  static TPC_INLINE Small of_bits(uint32_t value) {
    Small result;
    result.bits = static_cast<storage>(value);
    return result;
  }
  TPC_INLINE operator float() const { return F::to_float(bits); }

  TPC_INLINE Small operator-() const { return of_bits(bits ^ F::sign); }
  TPC_INLINE Small operator+() const { return *this; }
  template <class U>
  TPC_INLINE Small& operator+=(U other) {
    return *this = Small(float(*this) + float(other));
  }
  template <class U>
  TPC_INLINE Small& operator-=(U other) {
    return *this = Small(float(*this) - float(other));
  }
  template <class U>
  TPC_INLINE Small& operator*=(U other) {
    return *this = Small(float(*this) * float(other));
  }
  template <class U>
  TPC_INLINE Small& operator/=(U other) {
    return *this = Small(float(*this) / float(other));
  }

 private:
  template <class U>
  static TPC_INLINE float narrowed(U value) {
    if constexpr (__is_same(U, float))
      return value;
    else if constexpr (sizeof(U) <= 2)
      return static_cast<float>(value);
    else
      return rounded_to_odd(static_cast<double>(value));
  }
};

// C's rule for two operands, one of which is a small float: an integer takes its type, a wider float does not.
#define TPC_SMALL_OPERATOR(op)                              \
  template <class F>                                        \
  TPC_INLINE Small<F> operator op(Small<F> a, Small<F> b) { \
    return Small<F>(float(a) op float(b));                  \
  }                                                         \
  template <class F, Arithmetic U>                          \
  TPC_INLINE auto operator op(Small<F> a, U b) {            \
    if constexpr (Real<U>)                                  \
      return float(a) op b;                                 \
    else                                                    \
      return Small<F>(float(a) op float(b));                \
  }                                                         \
  template <class F, Arithmetic U>                          \
  TPC_INLINE auto operator op(U a, Small<F> b) {            \
    if constexpr (Real<U>)                                  \
      return a op float(b);                                 \
    else                                                    \
      return Small<F>(float(a) op float(b));                \
  }
TPC_SMALL_OPERATOR(+)
TPC_SMALL_OPERATOR(-)
TPC_SMALL_OPERATOR(*)
TPC_SMALL_OPERATOR(/)
#undef TPC_SMALL_OPERATOR

#define TPC_SMALL_COMPARISON(op)                        \
  template <class F>                                    \
  TPC_INLINE bool operator op(Small<F> a, Small<F> b) { \
    return float(a) op float(b);                        \
  }                                                     \
  template <class F, Arithmetic U>                      \
  TPC_INLINE bool operator op(Small<F> a, U b) {        \
    return float(a) op float(b);                        \
  }                                                     \
  template <class F, Arithmetic U>                      \
  TPC_INLINE bool operator op(U a, Small<F> b) {        \
    return float(a) op float(b);                        \
  }
TPC_SMALL_COMPARISON(==)
TPC_SMALL_COMPARISON(!=)
TPC_SMALL_COMPARISON(<)
TPC_SMALL_COMPARISON(<=)
TPC_SMALL_COMPARISON(>)
TPC_SMALL_COMPARISON(>=)
#undef TPC_SMALL_COMPARISON

}  // namespace tpc

using bf16 = tpc::Small<tpc::Format<8, 7, true>>;
using half = tpc::Small<tpc::Format<5, 10, true>>;
#ifdef __gaudi3__
using minifloat = tpc::Small<tpc::Format<4, 3, false>>;
#else
using minifloat = tpc::Small<tpc::Format<4, 3, true>>;
#endif
using minihalf = tpc::Small<tpc::Format<5, 2, true>>;
