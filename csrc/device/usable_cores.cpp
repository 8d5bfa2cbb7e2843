#include "device/usable_cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "device/control_groups.h"

namespace openhpu::device {
namespace {

constexpr int kUnlimited = std::numeric_limits<int>::max();

// The affinity of the main thread: other threads may have been bound by their creators.
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

int nearest_cores(double quota, double period) {
  if (quota <= 0 || period <= 0) return kUnlimited;  // -1: no limit
  return std::max(1, static_cast<int>(std::lround(std::min(quota / period, 1e6))));
}

// "max 100000" or "150000 100000".
int quota_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max") return kUnlimited;
  std::istringstream number(quota);
  double value = 0;
  return number >> value ? nearest_cores(value, period) : kUnlimited;
}

int quota_v1(const std::string& folder) {
  double quota = 0, period = 0;
  std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
  std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  return nearest_cores(quota, period);
}

int allowed_by_quota(const std::string& root) {
  int cores = kUnlimited;
  for_each_control_group(root, "cpu", [&](const std::string& folder, int version) {
    cores = std::min(cores, version == 2 ? quota_v2(folder) : quota_v1(folder));
  });
  return cores;
}

}  // namespace

int usable_cores(int processes, const std::string& root) {
  const int cores = std::min(allowed_by_affinity(), allowed_by_quota(root));
  return std::max(1, cores / std::max(1, processes));
}

}  // namespace openhpu::device
