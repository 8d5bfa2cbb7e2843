#include "device/host.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "device/backing.h"
#include "device/memory_pool.h"

namespace openhpu::device {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A machine as a file describes it.
class Machine {
 public:
  Machine() {
    char name[] = "/tmp/openhpu-machine-XXXXXX";
    root = ::mkdtemp(name);
  }
  ~Machine() { std::filesystem::remove_all(root); }

  void memory(uint64_t total, uint64_t available) const {
    std::filesystem::create_directories(root + "/proc");
    std::ofstream(root + "/proc/meminfo") << "MemTotal: " << (total >> 10) << " kB\nMemFree: 12 kB\nMemAvailable: "
                                          << (available >> 10) << " kB\n";
  }
  std::string root;
};

TEST(HostMemory, IsUnlimitedWhereTheSystemSaysNothing) {
  Machine machine;
  EXPECT_EQ(host_memory(machine.root).available, std::numeric_limits<uint64_t>::max());
}

// Pools on a made-up machine. 128 MiB of what is available are the host's.
class WatchfulPool : public testing::Test {
 protected:
  WatchfulPool() { available(128 + 100); }
  ~WatchfulPool() override { Backing::set_root(""); }
  void available(uint64_t megabytes) {
    machine.memory(1024 * kMiB, megabytes * kMiB);
    Backing::set_root(machine.root);
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
  static void touch(void* block, size_t nbytes) { std::memset(block, 1, nbytes); }
  Machine machine;
};

TEST_F(WatchfulPool, WhatIsPromisedAndNotTouchedCounts) {
  MemoryPool pool("HPU 0", 1024 * kMiB, true), workspace("HPU 0 workspace", 1024 * kMiB, true);
  void* first = pool.allocate(60 * kMiB);
  available(228);  // nothing was touched, so that the machine still has as much
  EXPECT_NE(refusal(workspace, 42 * kMiB).find("60 MB of device memory that is in use but not yet written"),
            std::string::npos);
  EXPECT_NE(workspace.allocate(40 * kMiB), nullptr);
  // Touched, it is missing from what the machine has, and no longer counts.
  touch(first, 60 * kMiB);
  available(168);
  EXPECT_NE(refusal(pool, 2 * kMiB), "");  // 40 MiB are promised
  available(170);
  EXPECT_EQ(refusal(pool, 2 * kMiB), "");
}

TEST_F(WatchfulPool, LooksAgainOnlyWhereItGrows) {
  MemoryPool pool("HPU 0", 1024 * kMiB, true);
  void* block = pool.allocate(100 * kMiB);
  touch(block, 100 * kMiB);
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
  touch(block, 100 * kMiB);
  pool.free(block);
  pool.trim();
  available(128 + 50);
  EXPECT_NE(refusal(pool, 100 * kMiB), "");
  EXPECT_EQ(pool.allocate(50 * kMiB), block);
}

}  // namespace
}  // namespace openhpu::device
