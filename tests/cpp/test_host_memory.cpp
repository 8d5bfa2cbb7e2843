#include "device/host_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

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

// A machine as its files describe it.
class Machine {
 public:
  Machine() {
    char name[] = "/tmp/openhpu-machine-XXXXXX";
    root = ::mkdtemp(name);
  }
  ~Machine() { std::filesystem::remove_all(root); }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }
  void memory(uint64_t total, uint64_t available) const {
    write("/proc/meminfo", "MemTotal:       " + std::to_string(total >> 10) + " kB\nMemFree:              12 kB\n" +
                               "MemAvailable:   " + std::to_string(available >> 10) + " kB\n");
  }
  std::string root;
};

TEST(HostMemory, IsWhatTheMachineHasAvailable) {
  Machine machine;
  machine.memory(1000 * kMiB, 400 * kMiB);
  const auto host = host_memory(machine.root);
  EXPECT_EQ(host.total, 1000 * kMiB);
  EXPECT_EQ(host.available, 400 * kMiB);
  EXPECT_NE(host.bound.find("MemAvailable"), std::string::npos);
}

TEST(HostMemory, IsUnlimitedWhereTheSystemSaysNothing) {
  Machine machine;
  EXPECT_EQ(host_memory(machine.root).available, std::numeric_limits<uint64_t>::max());
}

TEST(HostMemory, OfARealMachineIsKnown) {
  const auto host = host_memory();
  EXPECT_GT(host.available, 0u);
  EXPECT_LE(host.available, host.total);
  EXPECT_LE(host.total, uint64_t(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE));
}

TEST(HostMemory, ControlGroupsOfVersion2BoundItAtEachLevel) {
  Machine machine;
  machine.memory(1000 * kMiB, 900 * kMiB);
  machine.write("/proc/self/cgroup", "0::/outer/inner\n");
  const std::string outer = "/sys/fs/cgroup/outer/", inner = outer + "inner/";
  machine.write(inner + "memory.max", "max\n");
  machine.write(inner + "memory.current", std::to_string(10 * kMiB));
  machine.write(outer + "memory.max", std::to_string(500 * kMiB));
  machine.write(outer + "memory.current", std::to_string(300 * kMiB));
  machine.write(outer + "memory.stat",
                "anon 5\ninactive_file " + std::to_string(40 * kMiB) + "\nactive_file " + std::to_string(20 * kMiB));
  const auto host = host_memory(machine.root);
  EXPECT_EQ(host.total, 500 * kMiB);
  EXPECT_EQ(host.available, 250 * kMiB);
  EXPECT_NE(host.bound.find("/outer/memory.max"), std::string::npos) << host.bound;
}

TEST(HostMemory, ControlGroupsOfVersion1BoundIt) {
  Machine machine;
  machine.memory(1000 * kMiB, 900 * kMiB);
  machine.write("/proc/self/cgroup", "5:cpu:/a\n4:hugetlb,memory:/a/b\n0::/\n");
  const std::string folder = "/sys/fs/cgroup/memory/";
  machine.write(folder + "memory.limit_in_bytes", "9223372036854771712");
  machine.write(folder + "memory.usage_in_bytes", "1");
  machine.write(folder + "a/b/memory.limit_in_bytes", std::to_string(300 * kMiB));
  machine.write(folder + "a/b/memory.usage_in_bytes", std::to_string(100 * kMiB));
  machine.write(folder + "a/b/memory.stat", "inactive_file 7\ntotal_inactive_file " + std::to_string(50 * kMiB));
  const auto host = host_memory(machine.root);
  EXPECT_EQ(host.total, 300 * kMiB);
  EXPECT_EQ(host.available, 250 * kMiB);
}

TEST(HostMemory, AContainerSeesItsGroupAsTheRoot) {
  Machine machine;
  machine.memory(1000 * kMiB, 900 * kMiB);
  machine.write("/proc/self/cgroup", "0::/system.slice/not-visible-here.scope\n");
  machine.write("/sys/fs/cgroup/memory.max", std::to_string(200 * kMiB));
  machine.write("/sys/fs/cgroup/memory.current", std::to_string(500 * kMiB));  // over its limit
  const auto host = host_memory(machine.root);
  EXPECT_EQ(host.total, 200 * kMiB);
  EXPECT_EQ(host.available, 0u);
}

TEST(HostMemory, PartOfItIsKeptForTheHost) {
  EXPECT_EQ(kept_for_host(256 * kMiB), 128 * kMiB);
  EXPECT_EQ(kept_for_host(16384 * kMiB), 1024 * kMiB);
  EXPECT_EQ(kept_for_host(1024 * 1024 * kMiB), 2048 * kMiB);
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
