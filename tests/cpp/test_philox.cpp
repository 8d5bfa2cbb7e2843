#include <gtest/gtest.h>

#include "kernels/philox.h"

using namespace openhpu::philox;

// Of three seeds, around the element at which the counter's second word begins. A digest (FNV-1a) of all bits.
TEST(Philox, HasTheSameBitsOnEveryProcessor) {
  uint64_t digest = 14695981039346656037u;
  const auto add = [&](const auto& data) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(&data);
    for (size_t i = 0; i < sizeof data; ++i) digest = (digest ^ bytes[i]) * 1099511628211u;
  };
  uint32_t first[kBlock], second[kBlock];
  float normal[kBlock];
  constexpr uint64_t kMiddle = uint64_t{1} << 32, kEachSide = 16 * kBlock;
  for (uint32_t seed : {0u, 1u, 0xdeadbeefu}) {
    for (uint64_t offset = kMiddle - kEachSide; offset < kMiddle + kEachSide; offset += kBlock) {
      block(seed, offset, first, second);
      normals(seed, offset, kBlock, normal);
      add(first);
      add(second);
      add(normal);
      for (size_t i = 0; i < kBlock; ++i) {
        add(to_float(first[i]));
        add(to_double(first[i], second[i]));
      }
    }
  }
  EXPECT_EQ(digest, 0x43a95380fef70d6du);
}
