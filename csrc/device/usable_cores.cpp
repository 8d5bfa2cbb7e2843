#include "device/usable_cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace openhpu::device {
namespace {

constexpr int kUnlimited = std::numeric_limits<int>::max();

// Of the main thread: others may have been bound by whoever made them.
int allowed_by_affinity() {
  // More cores than a fixed set holds: the system says so by refusing it.
  for (int cores = CPU_SETSIZE; cores <= CPU_SETSIZE * 64; cores *= 2) {
    cpu_set_t* set = CPU_ALLOC(cores);
    if (!set) break;
    const size_t size = CPU_ALLOC_SIZE(cores);
    CPU_ZERO_S(size, set);
    const int allowed = sched_getaffinity(getpid(), size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (allowed > 0) return allowed;
  }
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

int whole_cores(double quota, double period) {
  if (quota <= 0 || period <= 0) return kUnlimited;  // -1: no limit
  return std::max(1, static_cast<int>(std::min(quota / period, 1e6)));
}

// "max 100000" or "150000 100000".
int quota_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max") return kUnlimited;
  std::istringstream number(quota);
  double value = 0;
  return number >> value ? whole_cores(value, period) : kUnlimited;
}

int quota_v1(const std::string& folder) {
  double quota = 0, period = 0;
  std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
  std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  return whole_cores(quota, period);
}

// The least of a group's and its parents' quotas. In a container the group's path may not exist below the mount point,
// which then is the group itself.
template <class Quota>
int least(const std::string& mount, std::string path, Quota quota) {
  int cores = quota(mount);
  while (path.size() > 1) {
    cores = std::min(cores, quota(mount + path));
    path.erase(path.find_last_of('/'));
  }
  return cores;
}

int allowed_by_quota(const std::string& root) {
  std::ifstream groups(root + "/proc/self/cgroup");
  int cores = kUnlimited;
  // "0::/user.slice" (version 2) or "4:cpu,cpuacct:/user.slice".
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string path = line.substr(second + 1);
    std::istringstream controllers(line.substr(first + 1, second - first - 1));
    bool version2 = true, cpu = false;
    for (std::string name; std::getline(controllers, name, ',');) {
      version2 = false;
      cpu = cpu || name == "cpu";
    }
    if (version2)
      for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"})
        cores = std::min(cores, least(root + mount, path, quota_v2));
    else if (cpu)
      for (const char* mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"})
        cores = std::min(cores, least(root + mount, path, quota_v1));
  }
  return cores;
}

}  // namespace

int usable_cores(int processes, const std::string& root) {
  const int cores = std::min(allowed_by_affinity(), allowed_by_quota(root));
  return std::max(1, cores / std::max(1, processes));
}

}  // namespace openhpu::device
