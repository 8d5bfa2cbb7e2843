#include "device/usable_cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace openhpu::device {
namespace {

namespace fs = std::filesystem;

// A made-up root folder, whose files are given.
class Root {
 public:
  Root() : path_(fs::temp_directory_path() / ("openhpu-root-" + std::to_string(getpid()))) { fs::remove_all(path_); }
  ~Root() { fs::remove_all(path_); }
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

int allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  return CPU_COUNT(&set);
}

TEST(UsableCores, AreThoseOfTheAffinityWhereThereIsNoQuota) {
  Root root;
  EXPECT_EQ(usable_cores(1, root.path()), allowed());
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  EXPECT_EQ(usable_cores(1, root.path()), allowed());
  for (const char* broken : {"", "x y", "max", "-1 0", "1e99 1"}) {
    root.write("sys/fs/cgroup/job/cpu.max", broken);
    EXPECT_EQ(usable_cores(1, root.path()), allowed()) << broken;
  }
}

TEST(UsableCores, QuotaOfVersion2) {
  Root root;
  root.write("proc/self/cgroup", "0::/slice/job\n");
  root.write("sys/fs/cgroup/slice/job/cpu.max", "150000 100000\n");  // a core and a half
  EXPECT_EQ(usable_cores(1, root.path()), std::min(2, allowed()));
  root.write("sys/fs/cgroup/slice/job/cpu.max", "140000 100000\n");
  EXPECT_EQ(usable_cores(1, root.path()), 1);
  root.write("sys/fs/cgroup/slice/job/cpu.max", "20000 100000\n");  // a fifth
  EXPECT_EQ(usable_cores(1, root.path()), 1);
  root.write("sys/fs/cgroup/slice/job/cpu.max", "max 100000\n");
  root.write("sys/fs/cgroup/slice/cpu.max", "100000 100000\n");  // a parent's counts as well
  EXPECT_EQ(usable_cores(1, root.path()), 1);
  root.write("sys/fs/cgroup/slice/cpu.max", "100000000 100000\n");
  EXPECT_EQ(usable_cores(1, root.path()), allowed());
}

// In a container the path is that of the machine, and the group itself is mounted.
TEST(UsableCores, QuotaOfTheGroupThatIsMounted) {
  Root root;
  root.write("proc/self/cgroup", "0::/docker/0123\n");
  root.write("sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(usable_cores(1, root.path()), 1);
}

TEST(UsableCores, QuotaOfVersion1) {
  Root root;
  root.write("proc/self/cgroup", "3:memory:/job\n2:cpu,cpuacct:/job\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "100000\n");
  root.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable_cores(1, root.path()), 1);
  root.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(usable_cores(1, root.path()), allowed());
}

TEST(UsableCores, AreSharedByTheProcessesOfALauncher) {
  Root root;
  EXPECT_EQ(usable_cores(2, root.path()), std::max(1, allowed() / 2));
  EXPECT_EQ(usable_cores(1000, root.path()), 1);
  EXPECT_EQ(usable_cores(0, root.path()), allowed());
}

TEST(UsableCores, FollowTheAffinityOfTheProcess) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int core = 0; CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  sched_setaffinity(0, sizeof all, &all);
}

}  // namespace
}  // namespace openhpu::device
