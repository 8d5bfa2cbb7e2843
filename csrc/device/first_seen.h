#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace openhpu::device {

// The first position of each of many keys, in constant time for each. It serves calls with thousands of operands. For a
// few tens of keys a comparison of all keys is faster.
class FirstSeen {
 public:
  static constexpr size_t kNone = SIZE_MAX;

  // Forgets all keys, and makes room for `most` of them.
  void begin(size_t most) {
    const size_t places = std::bit_ceil(2 * most + 2);
    shift_ = 64 - std::countr_zero(places);
    table_.assign(places, {0, kNone});
    steps_ = 0;
  }

  // The position at which the key was added first: `position`, if it is new.
  size_t add(uint64_t key, size_t position) {
    auto& found = place_of(key);
    if (found.position == kNone) found = {key, position};
    return found.position;
  }

  // The same without adding; kNone if it is unknown.
  size_t find(uint64_t key) { return place_of(key).position; }

  // Places looked at since `begin`.
  size_t steps() const noexcept { return steps_; }

 private:
  struct Place {
    uint64_t key;
    size_t position;
  };

  Place& place_of(uint64_t key) {
    // Addresses differ in few bits: a multiplication spreads them over the upper ones.
    size_t at = (key * 0x9e3779b97f4a7c15ull) >> shift_;
    for (;; at = (at + 1) & (table_.size() - 1)) {
      ++steps_;
      auto& place = table_[at];
      if (place.position == kNone || place.key == key) return place;
    }
  }

  std::vector<Place> table_;
  int shift_ = 0;
  size_t steps_ = 0;
};

}  // namespace openhpu::device
