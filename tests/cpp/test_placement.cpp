#include "record/Placement.h"

#include <gtest/gtest.h>

namespace openhpu {
namespace {

using std::chrono::microseconds;

// A loop whose steps take as long as the placement makes them take.
struct Loop {
  Placement placement;
  Placement::Clock::time_point now{};
  int steps = 0, here = 0;

  void run(int number, microseconds on_worker, microseconds on_host) {
    for (int i = 0; i < number; ++i) {
      now += placement.here() ? on_host : on_worker;
      here += placement.here();
      ++steps;
      placement.repeated(now);
    }
  }
};

constexpr int kTrial = Placement::kTrial, kSettled = Placement::kSettled;

TEST(Placement, BeginsOnTheWorker) {
  Loop loop;
  loop.run(kTrial, microseconds(100), microseconds(10));
  EXPECT_EQ(loop.here, 0);
}

TEST(Placement, StaysWhereTheSubmittingThreadIsFaster) {
  Loop loop;
  loop.run(4 * kTrial, microseconds(100), microseconds(60));
  EXPECT_EQ(loop.here, 2 * kTrial);
  loop.run(kSettled, microseconds(100), microseconds(60));
  EXPECT_EQ(loop.here, 2 * kTrial + kSettled);
}

TEST(Placement, ReturnsWhereTheWorkerIsFaster) {
  Loop loop;
  loop.run(2 * kTrial + kSettled, microseconds(60), microseconds(100));
  EXPECT_EQ(loop.here, kTrial);
}

TEST(Placement, NoiseChangesNothing) {
  Loop loop;
  loop.run(2 * kTrial + kSettled, microseconds(100), microseconds(97));
  EXPECT_EQ(loop.here, kTrial);
}

TEST(Placement, ASingleLongStepDecidesNothing) {
  Loop loop;
  loop.run(4 * kTrial - 1, microseconds(100), microseconds(60));
  loop.run(1, microseconds(100), microseconds(1'000'000));
  loop.run(kSettled, microseconds(100), microseconds(60));
  EXPECT_EQ(loop.here, 2 * kTrial + kSettled);
}

TEST(Placement, ABusyMachineInOneBlockDecidesNothing) {
  Loop loop;
  loop.run(kTrial, microseconds(150), microseconds(90));
  loop.run(3 * kTrial, microseconds(60), microseconds(90));
  EXPECT_EQ(loop.here, 2 * kTrial);
  EXPECT_FALSE(loop.placement.here());
}

TEST(Placement, ATrialBesideOtherProgramsDecidesNothing) {
  Loop loop;
  for (int i = 0; i < 4 * kTrial; ++i)
    loop.placement.repeated(loop.now += microseconds(loop.placement.here() ? 60 : 100), /*crowded=*/i == 3);
  EXPECT_FALSE(loop.placement.here());
  loop.run(kSettled + 4 * kTrial, microseconds(100), microseconds(60));
  EXPECT_TRUE(loop.placement.here());
}

TEST(Placement, AMachineThatChangesIsMeasuredAgain) {
  Loop loop;
  loop.run(4 * kTrial, microseconds(100), microseconds(60));
  ASSERT_TRUE(loop.placement.here());
  loop.run(kSettled + 4 * kTrial, microseconds(60), microseconds(100));
  EXPECT_FALSE(loop.placement.here());
}

TEST(Placement, AConfirmedChoiceIsTriedLessOften) {
  Loop loop;
  loop.run(20'000, microseconds(50), microseconds(100));
  EXPECT_LE(loop.here, 10 * kTrial);
  const int before = loop.here;
  loop.run(Placement::kMostSettled + 2 * kTrial, microseconds(50), microseconds(100));
  EXPECT_EQ(loop.here, before + kTrial);
}

}  // namespace
}  // namespace openhpu
