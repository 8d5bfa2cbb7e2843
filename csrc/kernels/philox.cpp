#include "kernels/philox.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace openhpu::philox {

// On x86-64 compiled once per instruction set and chosen at load (where the C library can): the loop is ten rounds of
// two widening multiplications, which the compiler vectorises over elements. Elsewhere the base set has what it takes.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GLIBC__)
#define OPENHPU_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define OPENHPU_CLONES
#endif

OPENHPU_CLONES void block(uint32_t seed, uint64_t offset, uint32_t* __restrict first, uint32_t* __restrict second) {
  constexpr uint32_t kMultiplyA = 0xD2511F53, kMultiplyB = 0xCD9E8D57, kWeylA = 0x9E3779B9, kWeylB = 0xBB67AE85;
  for (size_t i = 0; i < kBlock; ++i) {
    const uint64_t n = offset + i;
    uint32_t c0 = static_cast<uint32_t>(n), c1 = static_cast<uint32_t>(n >> 32), c2 = 0, c3 = 0;
    uint32_t k0 = seed, k1 = 0;
    for (int round = 0; round < 10; ++round) {
      const uint64_t a = static_cast<uint64_t>(kMultiplyA) * c0;
      const uint64_t b = static_cast<uint64_t>(kMultiplyB) * c2;
      const uint32_t n0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0;
      const uint32_t n2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
      c1 = static_cast<uint32_t>(b);
      c3 = static_cast<uint32_t>(a);
      c0 = n0;
      c2 = n2;
      k0 += kWeylA;
      k1 += kWeylB;
    }
    first[i] = c0;
    second[i] = c1;
  }
}

namespace {

// A polynomial, from the coefficient of the highest power on.
template <class... Rest>
inline double polynomial(double x, double sum, Rest... rest) {
  ((sum = sum * x + rest), ...);
  return sum;
}

// Of numbers in (0, 1]. With sqrt(1/2) <= m < sqrt(2), x = m 2^e, and log m is 2 atanh((m - 1) / (m + 1)), as a series.
inline double logarithm(double x) {
  constexpr uint64_t kRoot = std::bit_cast<uint64_t>(std::numbers::sqrt2 / 2), kFraction = 0x000fffffffffffff;
  // Integers become doubles as fractions of 2^52: not every instruction set converts 64 bits.
  constexpr uint64_t kInteger = std::bit_cast<uint64_t>(0x1p52);
  const uint64_t bits = std::bit_cast<uint64_t>(x) - kRoot;
  const double e = std::bit_cast<double>((((bits >> 52) + 0x800) & 0xfff) | kInteger) - (0x1p52 + 0x800);
  const double m = std::bit_cast<double>((bits & kFraction) + kRoot);
  const double s = (m - 1) / (m + 1), t = s * s;
  const double p =
      polynomial(t, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3);
  return e * std::numbers::ln2 + (2 * s + 2 * s * t * p);
}

// cos(2 pi turns) for turns in [0, 1]: sine or cosine of what is left beside quarters of a turn.
inline double cosine(double turns) {
  constexpr double kRound = 0x1.8p52;  // added and taken away it rounds, and leaves the integer in the lowest bits
  const double rounded = turns * 4 + kRound;
  const double x = (turns * 4 - (rounded - kRound)) * (std::numbers::pi / 2), t = x * x;
  // From 1 / 18! on.
  const double c = polynomial(
      t, -1.0 / 6402373705728000, 1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800,
      1.0 / 40320, -1.0 / 720, 1.0 / 24, -1.0 / 2, 1.0);
  // From 1 / 17! on.
  const double odd = polynomial(
      t, 1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040,
      1.0 / 120, -1.0 / 6);
  const double s = odd * t * x + x;
  const uint64_t quarters = std::bit_cast<uint64_t>(rounded);
  const uint64_t sign = ((quarters + 1) & 2) << 62;
  return std::bit_cast<double>(std::bit_cast<uint64_t>(quarters & 1 ? s : c) ^ sign);
}

OPENHPU_CLONES void transform(
    const uint32_t* __restrict first, const uint32_t* __restrict second, float* __restrict out) {
  for (size_t i = 0; i < kBlock; ++i) {
    const double u1 = 1 - to_float(first[i]), u2 = 1 - to_float(second[i]);
    out[i] = static_cast<float>(std::sqrt(-2 * logarithm(u1)) * cosine(u2));
  }
}

}  // namespace

void normals(uint32_t seed, uint64_t offset, size_t count, float* out) {
  uint32_t first[kBlock], second[kBlock];
  block(seed, offset, first, second);
  if (count == kBlock) return transform(first, second, out);
  float all[kBlock];
  transform(first, second, all);
  std::copy_n(all, count, out);
}

}  // namespace openhpu::philox
