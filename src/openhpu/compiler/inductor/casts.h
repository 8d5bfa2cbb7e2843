// Conversions in generated code, with the results of PyTorch's CPU kernels. The reasons are in casts.py.
#include <algorithm>
#include <cstdint>
#include <tuple>
#include <type_traits>

namespace openhpu {

// The compiler does not know the value afterwards. From a constant that does not fit it makes another integer than the
// processor does, and GCC 12 leaves out the conversions where a vector becomes another one and then its own type again.
template <typename T>
inline T unknown(T value) {
#if defined(__x86_64__)
  asm("" : "+v"(value));
#else
  asm("" : "+m"(value));
#endif
  return value;
}

// The integer that a float becomes first. Its lower bits are the result.
template <typename To>
constexpr bool narrow = std::is_same_v<To, int32_t> || (sizeof(To) < 4 && !std::is_same_v<To, uint8_t>);
template <typename To>
using Wide = std::conditional_t<narrow<To>, int32_t, int64_t>;

template <typename To, typename From>
inline To to_integer(From from) {
  using Float = std::conditional_t<std::is_same_v<From, double>, double, float>;
  const Float value = unknown(static_cast<Float>(from));
  if constexpr (std::is_same_v<To, uint64_t>) {
    constexpr Float half = 9223372036854775808.0;
    if (value >= half) return (uint64_t{1} << 63) ^ static_cast<uint64_t>(static_cast<int64_t>(value - half));
  }
  return static_cast<To>(static_cast<Wide<To>>(value));
}

inline float to_float(double from) { return unknown(static_cast<float>(from)); }

#if INDUCTOR_USE_VECTOR_TYPES()

template <typename T, int n>
using Vectors = at::vec::VectorizedN<T, n>;

#if defined(CPU_CAPABILITY_AVX512)
using Registers = std::tuple<__m512, __m512d, __m512i>;
#elif defined(CPU_CAPABILITY_AVX2)
using Registers = std::tuple<__m256, __m256d, __m256i>;
#endif

template <typename T, int n>
inline Vectors<T, n> unknown(Vectors<T, n> vectors) {
#if defined(CPU_CAPABILITY_AVX512) || defined(CPU_CAPABILITY_AVX2)
  using Register = std::tuple_element_t<std::is_integral_v<T> ? 2 : std::is_same_v<T, double>, Registers>;
  for (int i = 0; i < n; i++) vectors[i] = unknown(static_cast<Register>(vectors[i]));
#endif
  return vectors;
}

// The lowest bytes of numbers as integers of 32 bits.
#if defined(CPU_CAPABILITY_AVX512)
template <int n>
inline __m512i bytes(const Vectors<float, n>& from) {
  return at::vec::convert<uint8_t, 1, float, n>(from);  // PyTorch's vectors saturate only bytes with a sign
}
#elif defined(CPU_CAPABILITY_AVX2)
template <int n>
inline __m256i bytes(const Vectors<float, n>& from) {
  const __m256i byte = _mm256_set1_epi32(255), order = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5);
  const __m256i low = _mm256_and_si256(_mm256_cvttps_epi32(from[0]), byte);
  const __m256i high = _mm256_and_si256(_mm256_cvttps_epi32(from[n - 1]), byte);
  const __m256i words = _mm256_packs_epi32(low, high);
  return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words, words), order);
}
#endif

// The following take and return vectors as at::vec::convert does.

template <typename T, int n>
using Result = std::conditional_t<n == 1, at::vec::Vectorized<T>, Vectors<T, n>>;

template <typename To, int to_vectors, typename From, int from_vectors>
inline Result<To, to_vectors> to_integers(Vectors<From, from_vectors> from) {
  if constexpr (sizeof(From) < sizeof(float)) {
    constexpr int floats =
        std::clamp<int>(to_vectors * sizeof(float) / sizeof(To), 1, from_vectors * sizeof(float) / sizeof(From));
    return to_integers<To, to_vectors, float, floats>(at::vec::convert<float, floats, From, from_vectors>(from));
  } else {
    using First = Wide<To>;
    from = unknown(from);
    if constexpr (std::is_same_v<To, First>) {
      return unknown(Vectors<To, to_vectors>(at::vec::convert<To, to_vectors, From, from_vectors>(from)));
    }
#if defined(CPU_CAPABILITY_AVX512) || defined(CPU_CAPABILITY_AVX2)
    if constexpr (std::is_same_v<From, float> && sizeof(To) == 1 && from_vectors <= 2) return bytes(from);
#endif
    constexpr int firsts = std::max<int>(1, from_vectors * sizeof(First) / sizeof(From));
    const Vectors<First, firsts> first = at::vec::convert<First, firsts, From, from_vectors>(from);
    return at::vec::convert<To, to_vectors, First, firsts>(unknown(first));
  }
}

template <int to_vectors, typename From, int from_vectors>
inline Result<float, to_vectors> to_floats(const Vectors<From, from_vectors>& from) {
#if defined(CPU_CAPABILITY_AVX2)
  if constexpr (std::is_same_v<From, int64_t>) {
    // PyTorch's vectors round to double first. That is exact where a number and 2^53 add up to less than 2^54.
    __m256i sums = _mm256_setzero_si256();
    for (int i = 0; i < from_vectors; i++) {
      sums = _mm256_or_si256(sums, _mm256_add_epi64(from[i], _mm256_set1_epi64x(int64_t{1} << 53)));
    }
    if (!_mm256_testz_si256(sums, _mm256_set1_epi64x(-(int64_t{1} << 54)))) {
      constexpr int count = Vectors<From, from_vectors>::size();
      int64_t given[count];
      float result[count];
      from.store(given);
      for (int i = 0; i < count; i++) result[i] = static_cast<float>(given[i]);
      return Vectors<float, to_vectors>::loadu(result, count);
    }
  }
#endif
  return unknown(Vectors<float, to_vectors>(at::vec::convert<float, to_vectors, From, from_vectors>(from)));
}

#endif

}  // namespace openhpu
