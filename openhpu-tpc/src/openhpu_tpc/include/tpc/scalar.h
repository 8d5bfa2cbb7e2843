// The definition of each intrinsic for one lane. The table families.tsv refers to these functions.
#pragma once

#include "lanes.h"

namespace tpc {

// Integers of 64 bits, in which a result is computed before it is cut off or saturated; floats as they are.
template <class T>
struct Limits {
  static constexpr bool is_signed = T(-1) < T(0);
  static constexpr int width = 8 * sizeof(T);
  static constexpr int64_t low = is_signed ? -(int64_t(1) << (width - 1)) : 0;
  static constexpr int64_t high = is_signed ? (int64_t(1) << (width - 1)) - 1 : (int64_t(1) << width) - 1;
};
template <class T>
constexpr bool is_real = __is_same(T, float) || IsSmall<T>::value;

template <class T>
TPC_INLINE T saturated(int64_t value) {
  return static_cast<T>(value < Limits<T>::low ? Limits<T>::low : (value > Limits<T>::high ? Limits<T>::high : value));
}
template <class T>
TPC_INLINE T narrowed(int64_t value, bool saturate) {
  return saturate ? saturated<T>(value) : static_cast<T>(value);
}
template <class T>
TPC_INLINE UnsignedLane<T> raw(T value) {
  return bits_of<UnsignedLane<T>>(value);
}
template <class T>
TPC_INLINE T unraw(UnsignedLane<T> bits) {
  return bits_of<T>(bits);
}

template <class T>
TPC_INLINE T add(T a, T b, int switches) {
  if constexpr (is_real<T>)
    return T(float(a) + float(b));
  else
    return narrowed<T>(int64_t(a) + int64_t(b), switches & SW_SAT);
}
template <class T>
TPC_INLINE T sub(T a, T b, int switches) {
  if constexpr (is_real<T>) {
    return (switches & SW_NEG) ? T(float(b) - float(a)) : T(float(a) - float(b));
  } else {
    const int64_t difference = int64_t(a) - int64_t(b);
    return narrowed<T>((switches & SW_NEG) ? -difference : difference, switches & SW_SAT);
  }
}
template <class T>
TPC_INLINE T absolute(T a, int switches) {
  if constexpr (is_real<T>)
    return unraw<T>(raw(a) & static_cast<UnsignedLane<T>>(Limits<SignedLane<T>>::high));
  else
    return narrowed<T>(a < 0 ? -int64_t(a) : int64_t(a), !(switches & SW_NO_SAT));
}
template <class T>
TPC_INLINE T larger_of(T a, T b) {
  return a > b ? a : b;
}
template <class T>
TPC_INLINE T smaller_of(T a, T b) {
  return a < b ? a : b;
}
template <class T>
TPC_INLINE T bit_and(T a, T b, int switches) {
  return unraw<T>((switches & SW_ANDN) ? raw(a) & ~raw(b) : raw(a) & raw(b));
}
template <class T>
TPC_INLINE T bit_or(T a, T b) {
  return unraw<T>(raw(a) | raw(b));
}
template <class T>
TPC_INLINE T bit_xor(T a, T b) {
  return unraw<T>(raw(a) ^ raw(b));
}
template <class T>
TPC_INLINE T bit_not(T a) {
  return unraw<T>(static_cast<UnsignedLane<T>>(~raw(a)));
}
template <class T>
TPC_INLINE T shift_left(T a, int b) {
  constexpr int width = 8 * sizeof(T);
  return b < 0 || b >= width ? unraw<T>(0) : unraw<T>(static_cast<UnsignedLane<T>>(raw(a) << (b & (width - 1))));
}
template <class T>
TPC_INLINE T shift_right(T a, int b) {
  constexpr int width = 8 * sizeof(T);
  return b < 0 || b >= width ? unraw<T>(0) : unraw<T>(static_cast<UnsignedLane<T>>(raw(a) >> (b & (width - 1))));
}
// a * 2^b, saturated. Half of the last bit is added before a shift to the right if it is to be rounded.
template <class T>
TPC_INLINE T arithmetic_shift(T a, int b, int switches) {
  const int left = b > 31 ? 31 : b;
  const int right = -b > 62 ? 62 : -b;
  if (b >= 0) return saturated<T>(int64_t(a) << (left & 63));
  const int64_t half = (switches & SW_RHU) ? int64_t(1) << ((right - 1) & 63) : 0;
  return saturated<T>((int64_t(a) + half) >> (right & 63));
}
template <class T>
TPC_INLINE UnsignedLane<T> reversed(T a) {
  UnsignedLane<T> bits = raw(a), result = 0;
  for (int i = 0; i < Limits<UnsignedLane<T>>::width; i++)
    result |= static_cast<UnsignedLane<T>>(((bits >> i) & 1) << (Limits<UnsignedLane<T>>::width - 1 - i));
  return result;
}
template <class T>
TPC_INLINE int population(T a, int switches) {
  uint32_t bits = (switches & SW_COUNT_ONES) ? raw(a) : static_cast<UnsignedLane<T>>(~raw(a));
  bits = bits - ((bits >> 1) & 0x55555555u);
  bits = (bits & 0x33333333u) + ((bits >> 2) & 0x33333333u);
  return static_cast<int>((((bits + (bits >> 4)) & 0x0f0f0f0fu) * 0x01010101u) >> 24);
}
// The position of the first bit that is set or clear, from the lowest or the highest; the width if there is none.
template <class T>
TPC_INLINE int first_bit(T a, int switches) {
  constexpr int width = Limits<UnsignedLane<T>>::width;
  const uint32_t bits = (switches & SW_FIND_ONE) ? raw(a) : static_cast<UnsignedLane<T>>(~raw(a));
  if (bits == 0) return width;
  return (switches & SW_MSB) ? __builtin_clz(bits) - (32 - width) : __builtin_ctz(bits);
}

template <class T>
struct FormatOf {
  static constexpr int mantissa = T::format::mantissa_bits, exponent = T::format::exponent_bits, bias = T::format::bias;
  static constexpr bool has_infinity = T::format::has_infinity;
};
template <>
struct FormatOf<float> {
  static constexpr int mantissa = 23, exponent = 8, bias = 127;
  static constexpr bool has_infinity = true;
};

template <class T>
TPC_INLINE int exponent_of(T a, int switches) {
  const int biased = static_cast<int>((raw(a) >> FormatOf<T>::mantissa) & ((1u << FormatOf<T>::exponent) - 1));
  return (switches & SW_BIASED) ? biased : biased - FormatOf<T>::bias;
}
template <class T>
TPC_INLINE T formed(uint32_t exponent, T sign, T mantissa, int switches) {
  constexpr int m = FormatOf<T>::mantissa;
  constexpr int top = FormatOf<T>::exponent + m;
  constexpr uint32_t exponents = ((1u << FormatOf<T>::exponent) - 1) << m;
  uint32_t e = (switches & SW_EXP_IS_NUM) ? exponent << m : exponent;
  if (switches & SW_ADD_BIAS) e += static_cast<uint32_t>(FormatOf<T>::bias) << m;
  uint32_t s = (switches & SW_SIGN_LSB) ? raw(sign) & 1u : (static_cast<uint32_t>(raw(sign)) >> top) & 1u;
  if (switches & SW_FORCE_SIGN0) s = 0;
  if (switches & SW_FORCE_SIGN1) s = 1;
  return unraw<T>(static_cast<UnsignedLane<T>>((s << top) | (e & exponents) | (raw(mantissa) & ((1u << m) - 1))));
}

TPC_INLINE float rounded_half_away(float value) {
  const float magnitude = __builtin_fabsf(value);
  const float floor = __builtin_floorf(magnitude);
  return __builtin_copysignf(magnitude - floor >= 0.5f ? floor + 1.0f : floor, value);
}
TPC_INLINE float rounded(float value, int switches) {
  const float down = __builtin_floorf(value);
  const float up = __builtin_ceilf(value);
  switch (switches & SW_ROUND_MASK) {
    case SW_RZ:
      return value < 0 ? up : down;
    case SW_RU:
      return up;
    case SW_RD:
      return down;
    case SW_RHAZ:
      return rounded_half_away(value);
    default:
      return __builtin_rintf(value);
  }
}
// From one type of numbers to another. Integers saturate; floats round as the switches say.
template <class To, class From>
TPC_INLINE To converted(From value, int switches) {
  if constexpr (__is_same(To, From)) {
    return value;
  } else if constexpr (is_real<From> && !is_real<To>) {
    const float number = float(value);
    const float whole = rounded(number, switches);
    constexpr float low = static_cast<float>(Limits<To>::low);
    constexpr float beyond = static_cast<float>(Limits<To>::high + 1);
    if constexpr (sizeof(To) == 4) {
      const bool inside = whole >= low && whole < beyond;
      const auto number_of_it = static_cast<To>(inside ? whole : 0.0f);
      const To limit =
          whole < low ? static_cast<To>(Limits<To>::low) : static_cast<To>(whole >= beyond ? Limits<To>::high : 0);
      return inside ? number_of_it : limit;
    } else {
      const float clipped = whole < low ? low : (whole > beyond - 1 ? beyond - 1 : whole);
      return static_cast<To>(static_cast<int>(clipped == clipped ? clipped : 0.0f));
    }
  } else if constexpr (!is_real<From> && !is_real<To>) {
    return saturated<To>(int64_t(value));
  } else if constexpr (is_real<From> && is_real<To>) {
    if constexpr (__is_same(To, float))
      return float(value);
    else
      return To::of_bits(To::format::from_float(float(value), switches));
  } else if constexpr (__is_same(To, float)) {
    if constexpr (sizeof(From) < 4) {
      return static_cast<float>(value);
    } else {
      const double exact = static_cast<double>(value);
      const float nearest = static_cast<float>(exact);
      const double back = nearest;
      const uint32_t bits = bits_of<uint32_t>(nearest);
      const float larger = bits_of<float>(exact < 0 ? bits - 1 : bits + 1);
      const float smaller = bits_of<float>(exact < 0 ? bits + 1 : bits - 1);
      switch (switches & SW_ROUND_MASK) {
        case SW_RU:
          return back < exact ? larger : nearest;
        case SW_RD:
          return back > exact ? smaller : nearest;
        case SW_RZ:
          return exact < 0 ? (back < exact ? larger : nearest) : (back > exact ? smaller : nearest);
        case SW_RHAZ: {
          const double half =
              exact < 0 ? (static_cast<double>(smaller) + back) / 2 : (static_cast<double>(larger) + back) / 2;
          return exact == half ? (exact < 0 ? smaller : larger) : nearest;
        }
        default:
          return nearest;
      }
    }
  } else {
    const float number = sizeof(From) < 4 ? static_cast<float>(value) : rounded_to_odd(static_cast<double>(value));
    return To::of_bits(To::format::from_float(number, switches));
  }
}
// An integer times 2^-shift, rounded and saturated.
template <class To, class From>
TPC_INLINE To converted_with_shift(From value, int shift, int switches) {
  if (shift <= 0) return saturated<To>(int64_t(value) << ((-shift) & 31));
  const int s = shift > 62 ? 62 : shift;
  const int64_t floor = int64_t(value) >> s;
  const int64_t rest = int64_t(value) - (floor << s);
  const int64_t half = int64_t(1) << (s - 1);
  bool up = rest > half || (rest == half && (floor & 1));
  switch (switches & SW_ROUND_MASK) {
    case SW_RZ:
      up = value < 0 && rest != 0;
      break;
    case SW_RU:
      up = rest != 0;
      break;
    case SW_RD:
      up = false;
      break;
    case SW_RHAZ:
      up = rest > half || (rest == half && value >= 0);
      break;
    default:
      break;
  }
  return saturated<To>(floor + up);
}

template <class A, class T>
TPC_INLINE A multiplied_and_added(T a, T b, A c, int switches) {
  if constexpr (__is_same(A, float)) {
    return __builtin_fmaf((switches & SW_NEG) ? -float(a) : float(a), float(b), c);
  } else if constexpr (IsSmall<A>::value) {
    return A(__builtin_fmaf((switches & SW_NEG) ? -float(a) : float(a), float(b), float(c)));
  } else {
    const int64_t product = int64_t(a) * int64_t(b);
    return narrowed<A>(int64_t(c) + ((switches & SW_NEG) ? -product : product), switches & SW_SAT);
  }
}
template <class A, class T>
TPC_INLINE A multiplied_with_zero_point(T a, T b, T zero_point, A c, int switches) {
  const int64_t product = int64_t(a) * int64_t(b);
  const int64_t shifted = int64_t(a) * int64_t(zero_point);
  const bool minus = switches & SW_NEG;
  const bool other = switches & SW_NEG_ZP;
  return narrowed<A>(
      int64_t(c) + (minus ? -product : product) + (minus != other ? -shifted : shifted), switches & SW_SAT);
}
template <class A, class T>
TPC_INLINE A multiplied(T a, T b) {
  if constexpr (is_real<T>)
    return A(float(a) * float(b));
  else
    return static_cast<A>(int64_t(a) * int64_t(b));
}
template <class T>
TPC_INLINE T low_of_product(T a, T b, int switches) {
  const int64_t product = static_cast<int64_t>(static_cast<uint64_t>(int64_t(a)) * static_cast<uint64_t>(int64_t(b)));
  return static_cast<T>((switches & SW_UPPER32) ? product >> 32 : product);
}

// Twice the product, of which the upper 32 bits are kept; half of the last bit is added before.
template <class T>
TPC_INLINE T doubled_and_rounded(T a, T b) {
  const __int128 doubled = static_cast<__int128>(a) * b * 2 + (int64_t(1) << 31);
  return saturated<T>(static_cast<int64_t>(doubled >> 32));
}

// Comparisons; with the switch, of a & b with 0.
template <class T>
TPC_INLINE bool masked(T a, T b) {
  return (raw(a) & raw(b)) == 0;
}
template <class T>
TPC_INLINE bool equal(T a, T b, int switches) {
  return (switches & SW_MASK_EQ_ZERO) ? masked(a, b) : a == b;
}
template <class T>
TPC_INLINE bool unequal(T a, T b) {
  return a != b;
}
template <class T>
TPC_INLINE bool less(T a, T b) {
  return a < b;
}
template <class T>
TPC_INLINE bool less_or_equal(T a, T b) {
  return a <= b;
}
template <class T>
TPC_INLINE bool greater(T a, T b) {
  return a > b;
}
template <class T>
TPC_INLINE bool greater_or_equal(T a, T b) {
  return a >= b;
}

template <class T>
TPC_INLINE T quotient(T a, T b) {
  return b == 0 ? T(~T(0)) : T(a / b);
}
template <class T>
TPC_INLINE T remainder(T a, T b) {
  return b == 0 ? a : T(a % b);
}

}  // namespace tpc
