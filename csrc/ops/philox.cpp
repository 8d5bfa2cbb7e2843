#include "ops/philox.h"

namespace openhpu::philox {

// On x86-64 compiled once per instruction set and chosen at load (where the C library can): the loop is ten rounds of two
// widening multiplications, which the compiler vectorises over elements. Elsewhere the base set has what it takes.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GLIBC__)
#define OPENHPU_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define OPENHPU_CLONES
#endif

OPENHPU_CLONES void block(
    uint32_t seed, uint64_t offset, uint32_t* __restrict first, uint32_t* __restrict second) {
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

}  // namespace openhpu::philox
