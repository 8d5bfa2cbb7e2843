#include "device/polling.h"

#include <gtest/gtest.h>

#include <thread>

namespace openhpu::device {
namespace {

// Looks that find nothing, the hundredth of which takes far longer than an interrupt.
auto put_aside_once() {
  return [looks = 0]() mutable {
    if (++looks == 100) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return false;
  };
}

long same() { return 7; }

long more() {
  static long switches = 0;
  return ++switches;
}

TEST(Polling, FindsWhatIsDone) {
  Polling poll(1'000'000);
  EXPECT_TRUE(poll([looks = 0]() mutable { return ++looks == 200; }));
}

TEST(Polling, EndsWithItsTime) {
  Polling poll(100);
  EXPECT_FALSE(poll([] { return false; }));
}

TEST(Polling, AThreadThatLostItsCoreToAnotherPollsNoMore) {
  Polling poll(1000);
  poll(put_aside_once(), more);
  ASSERT_TRUE(poll.crowded());
  int looks = 0;
  poll([&] { return ++looks, false; }, more);
  EXPECT_EQ(looks, 1);
}

TEST(Polling, ACoreThatTheHostOfAVirtualMachineTookIsNotCrowded) {
  Polling poll(1000);
  poll(put_aside_once(), same);
  EXPECT_FALSE(poll.crowded());
}

}  // namespace
}  // namespace openhpu::device
