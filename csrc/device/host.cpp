#include "device/host.h"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

namespace openhpu::device {
namespace {

// Calls `visit(folder, version)` for each folder in which this process's control group, or a group above it, has the
// files of `controller` ("cpu", "memory"), of version 1 and 2. Folders need not exist: in a container the group's path
// may not be visible below the mount point, which then is the group itself. `root`: a folder in place of /, for made-up
// groups.
template <class Visit>
void for_each_control_group(const std::string& root, const std::string& controller, Visit&& visit) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:cpu,cpuacct:/a/b", "0::/a/b"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    bool listed = false;
    std::istringstream list(names);
    for (std::string name; std::getline(list, name, ',');) listed = listed || name == controller;
    std::vector<std::string> mounts;
    if (names.empty()) {
      mounts = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    } else if (listed) {
      mounts.push_back("/sys/fs/cgroup/" + names);
      if (names != controller) mounts.push_back("/sys/fs/cgroup/" + controller);
    }
    for (const auto& mount : mounts) {
      for (std::string path = line.substr(second + 1);; path.erase(path.find_last_of('/'))) {
        if (path == "/") path.clear();
        visit(root + mount + path, names.empty() ? 2 : 1);
        if (path.find('/') == std::string::npos) break;
      }
    }
  }
}

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// The number in a file of one line; kUnlimited where there is none ("max", no such file).
uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : kUnlimited;
}

// The number after a key in a file of lines "key number".
std::optional<uint64_t> entry_in(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string line, name;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    uint64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return std::nullopt;
}

// Names of the same things in the two versions.
struct Files {
  const char *limit, *usage, *inactive, *active;
};
constexpr Files kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"};
constexpr Files kVersion2{"memory.max", "memory.current", "inactive_file", "active_file"};

void bound_by_group(HostMemory& memory, const std::string& folder, const Files& files) {
  const uint64_t limit = number_in(folder + "/" + files.limit);
  // Version 1 writes "none" as a number near 2^63.
  if (limit >= uint64_t{1} << 60) return;
  memory.total = std::min(memory.total, limit);
  const uint64_t usage = number_in(folder + "/" + files.usage);
  if (usage == kUnlimited) return;
  // Cached files count as used, and give way; of those in active use half, as in the kernel's own estimate.
  const std::string statistics = folder + "/memory.stat";
  const uint64_t inactive = entry_in(statistics, files.inactive).value_or(0);
  const uint64_t cached = inactive + entry_in(statistics, files.active).value_or(0) / 2;
  const uint64_t used = usage - std::min(usage, cached);
  const uint64_t available = limit - std::min(limit, used);
  if (available >= memory.available) return;
  memory.available = available;
  memory.bound = "the limit of " + std::to_string(limit >> 20) + " MB in " + folder + "/" + files.limit;
}

constexpr int kAnyCores = std::numeric_limits<int>::max();

// More cores than one fixed set holds: the system refuses a set that is smaller than its own.
using CoreSet = std::array<cpu_set_t, 64>;
constexpr int kMostCores = CPU_SETSIZE * 64;

// The cores in the affinity mask of thread `id`; none if the system does not tell.
std::vector<int> affinity(pid_t id) {
  CoreSet set{};
  std::vector<int> cores;
  if (sched_getaffinity(id, sizeof set, set.data()) != 0) return cores;
  for (int core = 0; core < kMostCores; ++core)
    if (CPU_ISSET_S(core, sizeof set, set.data())) cores.push_back(core);
  return cores;
}

// The functions of OpenMP about places, in the library that the process has loaded. Found at run time: hl-smi uses this
// file without OpenMP.
class Places {
 public:
  // The cores of one place.
  std::vector<int> cores(int place) const {
    std::vector<int> found(static_cast<size_t>(std::max(0, number_of_cores_(place))));
    if (!found.empty()) cores_(place, found.data());
    std::sort(found.begin(), found.end());
    return found;
  }
  // The cores of all places; none unless the library binds threads.
  std::vector<int> all_cores() const {
    std::set<int> all;
    if (number_ && binds_ && number_of_cores_ && cores_ && binds_() != 0) {
      for (int place = 0; place < number_(); ++place)
        for (int core : cores(place)) all.insert(core);
    }
    return {all.begin(), all.end()};
  }
  // The calling thread is bound now, if the library has not done so before; it binds a thread only once.
  void bind() const {
    if (own_) own_();
  }

 private:
  template <typename F>
  static F* function(const char* name) {
    return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
  }
  int (*number_)() = function<int()>("omp_get_num_places");
  int (*binds_)() = function<int()>("omp_get_proc_bind");
  int (*number_of_cores_)(int) = function<int(int)>("omp_get_place_num_procs");
  void (*cores_)(int, int*) = function<void(int, int*)>("omp_get_place_proc_ids");
  int (*own_)() = function<int()>("omp_get_place_num");
};

// The cores of all places, if OpenMP has bound the main thread to its first place and the thread still has that mask.
// Otherwise none.
std::vector<int> bound_cores() {
  const Places places;
  std::vector<int> all = places.all_cores();
  return !all.empty() && affinity(getpid()) == places.cores(0) ? all : std::vector<int>();
}

// The affinity of the main thread: other threads may have been bound by their creators.
int allowed_by_affinity() {
  const std::vector<int> bound = bound_cores();
  const size_t cores = bound.empty() ? affinity(getpid()).size() : bound.size();
  return cores ? static_cast<int>(cores) : static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

int nearest_cores(double quota, double period) {
  if (quota <= 0 || period <= 0) return kAnyCores;  // -1: no limit
  return std::max(1, static_cast<int>(std::lround(std::min(quota / period, 1e6))));
}

// "max 100000" or "150000 100000".
int quota_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0, period = 0;
  return file >> quota >> period ? nearest_cores(quota, period) : kAnyCores;
}

int quota_v1(const std::string& folder) {
  double quota = 0, period = 0;
  std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
  std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  return nearest_cores(quota, period);
}

int allowed_by_quota(const std::string& root) {
  int cores = kAnyCores;
  for_each_control_group(root, "cpu", [&](const std::string& folder, int version) {
    cores = std::min(cores, version == 2 ? quota_v2(folder) : quota_v1(folder));
  });
  return cores;
}

}  // namespace

HostMemory host_memory(const std::string& root) {
  HostMemory memory{kUnlimited, kUnlimited, "nothing"};
  const std::string info = root + "/proc/meminfo";
  if (const auto kilobytes = entry_in(info, "MemTotal:")) memory.total = *kilobytes << 10;
  if (const auto kilobytes = entry_in(info, "MemAvailable:")) {
    memory.available = *kilobytes << 10;
    memory.bound = "MemAvailable in " + info;
  }
  for_each_control_group(root, "memory", [&](const std::string& folder, int version) {
    bound_by_group(memory, folder, version == 2 ? kVersion2 : kVersion1);
  });
  return memory;
}

uint64_t kept_for_host(uint64_t total) noexcept {
  return std::clamp<uint64_t>(total / 16, uint64_t{128} << 20, uint64_t{2} << 30);
}

uint64_t device_memory(const std::string& root) {
  // On a machine that is full a device is opened all the same; its allocations then say so.
  constexpr uint64_t kLeast = uint64_t{64} << 20;
  const HostMemory host = host_memory(root);
  const uint64_t kept = kept_for_host(host.total);
  return std::max(host.available - std::min(host.available, kept), kLeast);
}

int usable_cores(int processes, const std::string& root) {
  const int cores = std::min(allowed_by_affinity(), allowed_by_quota(root));
  return std::max(1, cores / std::max(1, processes));
}

bool leave_openmp_binding() {
  const std::vector<int> cores = bound_cores();
  if (cores.empty()) return false;
  Places().bind();
  CoreSet set{};
  for (int core : cores) CPU_SET_S(core, sizeof set, set.data());
  return sched_setaffinity(0, sizeof set, set.data()) == 0;  // of the calling thread
}

}  // namespace openhpu::device
