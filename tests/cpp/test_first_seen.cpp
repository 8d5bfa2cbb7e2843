#include "device/first_seen.h"

#include <gtest/gtest.h>

#include <unordered_map>

namespace openhpu::device {
namespace {

// Keys as calls have them: addresses of objects, some of them twice.
std::vector<uint64_t> addresses(size_t count, uint64_t apart) {
  std::vector<uint64_t> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back(0x7f0000001000 + apart * (i % 7 == 6 ? i / 2 : i));
  return keys;
}

TEST(FirstSeen, EveryKeyHasThePositionOfItsFirstOccurrence) {
  FirstSeen seen;
  for (size_t count : {0, 1, 2, 100, 5000}) {
    const auto keys = addresses(count, 16);
    seen.begin(count);
    std::unordered_map<uint64_t, size_t> expected;
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(seen.find(keys[i]), expected.count(keys[i]) ? expected[keys[i]] : FirstSeen::kNone);
      EXPECT_EQ(seen.add(keys[i], i), expected.emplace(keys[i], i).first->second);
    }
  }
}

TEST(FirstSeen, ZeroIsAKey) {
  FirstSeen seen;
  seen.begin(2);
  EXPECT_EQ(seen.find(0), FirstSeen::kNone);
  EXPECT_EQ(seen.add(0, 5), 5u);
  EXPECT_EQ(seen.add(0, 6), 5u);
}

// The operands of fused AdamW over 250, 1,000 and 4,000 parameters, objects of a few sizes one after the other.
TEST(FirstSeen, StepsGrowAsKeysDo) {
  FirstSeen seen;
  for (size_t count : {1250, 5000, 20000})
    for (uint64_t apart : {1, 8, 64, 208, 4096, 1 << 21}) {
      const auto keys = addresses(count, apart);
      seen.begin(count);
      for (size_t i = 0; i < count; ++i) seen.add(keys[i], i);
      EXPECT_LE(seen.steps(), 4 * count) << count << " keys, " << apart << " apart";
    }
}

}  // namespace
}  // namespace openhpu::device
