#pragma once

#include <cstdint>

namespace openhpu {

// Hash of a sequence of words, 64 bits. Equality is decided by the words themselves.
class WordHash {
 public:
  void add(uint64_t w) noexcept {
    const auto product = static_cast<unsigned __int128>(h_ ^ w) * 0xd6e8feb86659fd93ull;
    h_ = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  uint64_t value() const noexcept { return h_; }
  void reset() noexcept { h_ = kSeed; }

 private:
  static constexpr uint64_t kSeed = 0x9e3779b97f4a7c15ull;
  uint64_t h_ = kSeed;
};

}  // namespace openhpu
