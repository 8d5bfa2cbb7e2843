#include "device/module_job.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "child_process.h"
#include "device/module_lock.h"

namespace openhpu::device {
namespace {

using testing::Child;
using testing::error_of;
using testing::require_contains;
using testing::TemporaryFolder;

const std::vector<int> kMachine{0, 1, 2, 3, 4, 5, 6, 7};

struct Machine {
  TemporaryFolder folder;

  // The lock of a process of a job.
  ModuleLock rank(const std::string& job, int rank, int size, double timeout_s = 0) {
    return ModuleLock(kMachine, timeout_s, folder.path(), {.name = job, .rank = rank, .size = size});
  }

  // That of a process which chose nothing, and of one that chose a module.
  ModuleLock any() { return ModuleLock(kMachine, 0, folder.path()); }
  ModuleLock one(int module) { return ModuleLock(module, 0, folder.path()); }
};

TEST(ModuleJob, RanksGetFreeModulesInTheirOrderWhoeverComesFirst) {
  Machine machine;
  const ModuleLock zero = machine.one(0), two = machine.one(2);
  const ModuleLock last = machine.rank("a", 2, 3), first = machine.rank("a", 0, 3), middle = machine.rank("a", 1, 3);
  EXPECT_EQ(first.module(), 1);
  EXPECT_EQ(middle.module(), 3);
  EXPECT_EQ(last.module(), 4);
}

TEST(ModuleJob, TwoJobsAtOnceGetDifferentModules) {
  Machine machine;
  const ModuleLock a1 = machine.rank("a", 1, 2), b0 = machine.rank("b", 0, 2);
  const ModuleLock a0 = machine.rank("a", 0, 2), b1 = machine.rank("b", 1, 2);
  EXPECT_EQ(std::vector({a0.module(), a1.module()}), (std::vector{0, 1}));
  EXPECT_EQ(std::vector({b0.module(), b1.module()}), (std::vector{2, 3}));
}

TEST(ModuleJob, AProcessThatChoseNothingLeavesWhatAJobHasPutAside) {
  Machine machine;
  const ModuleLock first = machine.rank("a", 0, 3), alone = machine.any();
  EXPECT_EQ(alone.module(), 3);
  EXPECT_EQ(machine.rank("a", 1, 3).module(), 1);
}

TEST(ModuleJob, WhenAJobIsOverNothingIsPutAside) {
  Machine machine;
  {
    EXPECT_EQ(machine.rank("a", 1, 8).module(), 1);
  }
  Child killed([&](Child& parent) {
    const ModuleLock lock = machine.rank("b", 0, 8);
    parent.meet();
  });
  killed.await();
  require_contains(error_of([&] { machine.any(); }), "put aside for a job whose processes have not all begun");
  killed.kill();
  EXPECT_EQ(machine.any().module(), 0);
  for (const auto& entry : std::filesystem::directory_iterator(machine.folder.path())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("job-")) << entry.path();
  }
  EXPECT_EQ(machine.rank("b", 1, 2).module(), 1) << "the next job of that name begins anew";
}

TEST(ModuleJob, ARankWhoseModuleWasAskedForByNumberTakesAnother) {
  Machine machine;
  const ModuleLock first = machine.rank("a", 0, 3), named = machine.one(1), second = machine.rank("a", 1, 3);
  EXPECT_EQ(second.module(), 3) << "2 is put aside for rank 2";
  EXPECT_EQ(machine.rank("a", 2, 3).module(), 2);
}

TEST(ModuleJob, ARankThatHasEndedLeavesItsModuleAndMayComeAgain) {
  Machine machine;
  auto first = std::make_unique<ModuleLock>(kMachine, 0, machine.folder.path(), ModuleJob{"a", 0, 2});
  const ModuleLock second = machine.rank("a", 1, 2);
  first.reset();
  {
    EXPECT_EQ(machine.any().module(), 0);
  }
  EXPECT_EQ(machine.rank("a", 0, 2).module(), 0);
}

TEST(ModuleJob, AJobThatIsTooLargeTakesNoneAndNamesTheHolders) {
  Machine machine;
  const ModuleLock six = machine.one(6), three = machine.one(3);
  const std::string text = error_of([&] { machine.rank("a", 1, 7); });
  require_contains(text, "This job's 7 processes need as many HPU modules, and 2 of 8 are in use:\n");
  for (const char* module : {"3", "6"}) {
    require_contains(text, std::string("\n  module ") + module + ": process " + std::to_string(::getpid()) + " (");
  }
  EXPECT_EQ(machine.any().module(), 0);
  const ModuleLock other = machine.rank("b", 0, 6);
  require_contains(error_of([&] { machine.any(); }), "All 8 HPU modules are in use:\n");
}

TEST(ModuleJob, ProcessesOfWhichTheLauncherDidNotSayHowManyTheyAre) {
  Machine machine;
  const ModuleLock second = machine.rank("a", 1, 1), first = machine.rank("a", 0, 1), third = machine.rank("a", 2, 1);
  EXPECT_EQ(std::vector({first.module(), second.module(), third.module()}), (std::vector{0, 1, 2}));
}

TEST(ModuleJob, AJobWaitsForModulesOfAnother) {
  Machine machine;
  Child holder([&](Child& parent) {
    const ModuleLock lock = machine.rank("a", 0, 8);
    parent.meet();
  });
  holder.await();
  holder.tell();
  EXPECT_EQ(machine.rank("b", 7, 8, 60).module(), 7);
  EXPECT_EQ(holder.wait(), 0);
}

}  // namespace
}  // namespace openhpu::device
