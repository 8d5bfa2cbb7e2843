#pragma once

#include <ATen/core/ivalue.h>

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

// Everything on which the metadata of an operator's outputs can depend: the operands' dtypes, sizes, strides and
// aliasing, the other arguments, and PyTorch's global switches. Numbers that only enter a computation (Scalar,
// float) count by type, not by value. One pass over the arguments builds it.
class Signature {
 public:
  void add(uint64_t word) { words_.push_back(word); }
  void add_tensor(const c10::TensorImpl& t, uint64_t flags);
  void add_undefined() { add(~uint64_t{0}); }
  // Any argument that is no tensor. `by_type`: a number whose value does not matter.
  void add_value(const c10::IValue& value, bool by_type);
  void add_switches();

  // False when an argument was met whose identity the signature can't express.
  bool cacheable() const noexcept { return cacheable_; }
  void forbid() noexcept { cacheable_ = false; }

  uint64_t hash() const noexcept;
  c10::ArrayRef<uint64_t> words() const noexcept { return words_; }

 private:
  c10::SmallVector<uint64_t, 64> words_;
  bool cacheable_ = true;
};

}  // namespace openhpu
