#include "device/host.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "child_process.h"
#include "device/backing.h"
#include "device/memory_pool.h"

namespace openhpu::device {
namespace {

using testing::TemporaryFolder;

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(HostMemory, IsUnlimitedWhereTheSystemSaysNothing) {
  TemporaryFolder machine;
  EXPECT_EQ(host_memory(machine.path()).available, std::numeric_limits<uint64_t>::max());
}

// Pools on a made-up machine. 128 MiB of what is available are the host's.
class WatchfulPool : public ::testing::Test {
 protected:
  WatchfulPool() { available(128 + 100); }
  ~WatchfulPool() override { Backing::set_root(""); }
  void available(uint64_t megabytes) {
    std::filesystem::create_directories(machine.path() + "/proc");
    std::ofstream(machine.path() + "/proc/meminfo")
        << "MemTotal: 1048576 kB\nMemFree: 12 kB\nMemAvailable: " << (megabytes << 10) << " kB\n";
    Backing::set_root(machine.path());
  }
  static std::string refusal(MemoryPool& pool, size_t nbytes) {
    try {
      pool.allocate(nbytes);
    } catch (const OutOfMemory& e) {
      EXPECT_TRUE(e.of_machine);
      return e.what();
    }
    return {};
  }
  TemporaryFolder machine;
};

TEST_F(WatchfulPool, WhatIsPromisedAndNotTouchedCounts) {
  MemoryPool pool("HPU 0", 1024 * kMiB, true), workspace("HPU 0 workspace", 1024 * kMiB, true);
  void* first = pool.allocate(60 * kMiB);
  available(228);  // nothing was touched, so that the machine still has as much
  EXPECT_NE(
      refusal(workspace, 42 * kMiB).find("60 MB of device memory that is in use but not yet written"),
      std::string::npos);
  EXPECT_NE(workspace.allocate(40 * kMiB), nullptr);
  // Touched, it is missing from what the machine has, and no longer counts.
  std::memset(first, 1, 60 * kMiB);
  available(168);
  EXPECT_NE(refusal(pool, 2 * kMiB), "");  // 40 MiB are promised
  available(170);
  EXPECT_EQ(refusal(pool, 2 * kMiB), "");
}

TEST_F(WatchfulPool, LooksAgainOnlyWhereItGrows) {
  MemoryPool pool("HPU 0", 1024 * kMiB, true);
  void* block = pool.allocate(100 * kMiB);
  std::memset(block, 1, 100 * kMiB);
  available(0);
  pool.free(block);
  EXPECT_EQ(pool.allocate(100 * kMiB), block);  // its pages are there
  EXPECT_NE(refusal(pool, 1), "");
}

TEST_F(WatchfulPool, AFailureChangesNothing) {
  MemoryPool pool("HPU 0", 1024 * kMiB, true);
  void* block = pool.allocate(10 * kMiB);
  const auto before = pool.stats();
  available(0);
  for (int i = 0; i < 3; ++i) EXPECT_NE(refusal(pool, 20 * kMiB), "");
  EXPECT_EQ(pool.stats().in_use, before.in_use);
  EXPECT_EQ(pool.stats().num_allocs, before.num_allocs);
  available(1000);
  EXPECT_EQ(pool.allocate(20 * kMiB), static_cast<char*>(block) + 10 * kMiB);
}

TEST_F(WatchfulPool, WhatWasTrimmedIsAskedForAgain) {
  MemoryPool pool("HPU 0", 1024 * kMiB, true);
  void* block = pool.allocate(100 * kMiB);
  std::memset(block, 1, 100 * kMiB);
  pool.free(block);
  pool.trim();
  available(128 + 50);
  EXPECT_NE(refusal(pool, 100 * kMiB), "");
  EXPECT_EQ(pool.allocate(50 * kMiB), block);
}

}  // namespace
}  // namespace openhpu::device
