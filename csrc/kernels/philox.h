#pragma once

#include <cstddef>
#include <cstdint>

// Counter-based random numbers: element i of an operator with seed s is a function of (s, i) alone, so it does not
// depend on threads, memory layout or mode. The definition is PyTorch's Philox4x32-10 with the seed as key and the
// element as counter, the one that Inductor's generated code uses.
namespace openhpu::philox {

constexpr size_t kBlock = 256;  // elements generated per call of `block`

// The first two 32-bit words for elements offset .. offset + kBlock.
void block(uint32_t seed, uint64_t offset, uint32_t* first, uint32_t* second);

// `count` (at most kBlock) standard normal numbers of elements offset on, by Box and Muller's transformation of the
// same words (Philox' own `randn` in PyTorch, but for a logarithm that is not rounded to float). Not by the C library:
// the same numbers on every machine.
void normals(uint32_t seed, uint64_t offset, size_t count, float* out);

// [0, 1) with 31 bits, as in at::uint32_to_uniform_float.
inline float to_float(uint32_t x) {
  return static_cast<float>(static_cast<int32_t>(x & 0x7fffffff)) * 4.6566127342e-10f;
}
// [0, 1) with 53 bits.
inline double to_double(uint32_t a, uint32_t b) {
  const uint64_t bits = static_cast<uint64_t>(b) << 32 | a;
  return static_cast<double>(bits & ((uint64_t{1} << 53) - 1)) * 0x1.0p-53;
}

}  // namespace openhpu::philox
