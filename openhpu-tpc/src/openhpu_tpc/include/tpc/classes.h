// Classes of floating-point numbers, and what special functions give for numbers that are not ordinary.
#pragma once

#include "lanes.h"
#include "scalar.h"

namespace tpc {

// One bit for the class. Of 16 and 32 bits: -infinity, -normal, -denormal, -0, +0, +denormal, +normal, +infinity, a
// signalling NaN, a quiet NaN. Of 8 bits both zeros are one class, and so are both NaNs.
template <class T>
TPC_INLINE T class_of(T a) {
  constexpr int mantissa_bits = FormatOf<T>::mantissa;
  constexpr uint32_t sign = 1u << (Limits<UnsignedLane<T>>::width - 1);
  constexpr uint32_t largest_exponent = (1u << FormatOf<T>::exponent) - 1;
  const uint32_t bits = raw(a);
  const uint32_t magnitude = bits & (sign - 1);
  const uint32_t mantissa = magnitude & ((1u << mantissa_bits) - 1);
  const uint32_t exponent = magnitude >> mantissa_bits;
  const bool special = exponent == largest_exponent && (FormatOf<T>::has_infinity || magnitude == sign - 1);
  const bool not_a_number = special && mantissa != 0;
  const bool negative = (bits & sign) != 0;
  const int distance = special ? 3 : (exponent != 0 ? 2 : (mantissa != 0 ? 1 : 0));  // from zero
  int bit;
  if constexpr (sizeof(T) == 1) {
    bit = not_a_number ? 7 : (negative ? 3 - distance : 3 + distance);
  } else {
    const bool quiet = (mantissa >> (mantissa_bits - 1)) != 0;
    bit = not_a_number ? (quiet ? 9 : 8) : (negative ? 3 - distance : 4 + distance);
  }
  return unraw<T>(static_cast<UnsignedLane<T>>(1u << bit));
}

// A number of a class of 16 or 32 bits: 1 stands for normal numbers, and denormal ones count as zero.
struct OfClass {
  float value;
  bool normal;
};
TPC_INLINE OfClass of_class(uint32_t mask) {
  const float infinity = __builtin_inff();
  if (mask & 1u) return {-infinity, false};
  if (mask & 2u) return {-1.0f, true};
  if (mask & 12u) return {-0.0f, false};
  if (mask & 48u) return {0.0f, false};
  if (mask & 64u) return {1.0f, true};
  if (mask & 128u) return {infinity, false};
  return {__builtin_nanf(""), false};
}

// A NaN of this machine may have a sign; here it has none.
template <class T>
TPC_INLINE T with_plain_nan(float value) {
  return T(value == value ? value : __builtin_nanf(""));
}

// The value of a function for the classes of its operands; `income` where an ordinary computation gives it.
template <class T>
TPC_INLINE T special_value(T first, T second, int function, T income) {
  const OfClass x = of_class(raw(first));
  const OfClass y = of_class(raw(second));
  const bool negative_number = x.normal && x.value < 0;
  const float not_a_number = __builtin_nanf("");
  switch (function & SW_SPECIAL_FUNC_MASK) {
    case SW_RECIP:
      return x.normal ? income : with_plain_nan<T>(1.0f / x.value);
    case SW_SQRT:
      if (negative_number) return T(not_a_number);
      return x.normal ? income : with_plain_nan<T>(__builtin_sqrtf(x.value));
    case SW_RSQRT:
      if (negative_number) return T(not_a_number);
      return x.normal ? income : with_plain_nan<T>(1.0f / __builtin_sqrtf(x.value));
    case SW_LOG:
      if (negative_number || x.value == -__builtin_inff()) return T(not_a_number);
      if (x.normal) return income;
      return x.value == 0 ? T(-__builtin_inff()) : with_plain_nan<T>(x.value);
    case SW_EXP:
      if (x.normal) return income;
      return x.value == 0 ? T(1.0f) : (x.value < 0 ? T(0.0f) : with_plain_nan<T>(x.value));
    case SW_TANH:
      if (x.normal) return income;
      return x.value > 0 ? T(1.0f) : (x.value < 0 ? T(-1.0f) : with_plain_nan<T>(x.value));
    case SW_DIV:
      return x.normal && y.normal ? income : with_plain_nan<T>(x.value / y.value);
    default: {  // SW_POW
      const bool power_of_number = x.normal && (y.normal || __builtin_isinf(y.value));
      if (power_of_number) return income;
      return with_plain_nan<T>(__builtin_powf(__builtin_fabsf(x.value), y.value));
    }
  }
}
template <class T, int N>
TPC_INLINE Vec<T, N> special_value(const Vec<T, N>& first, const Vec<T, N>& second, int function, Vec<T, N> income) {
  for (int i = 0; i < N; i++) income[i] = special_value<T>(first[i], second[i], function, income[i]);
  return income;
}

}  // namespace tpc
