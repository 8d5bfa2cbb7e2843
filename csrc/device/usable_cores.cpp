#include "device/usable_cores.h"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <vector>

#include "device/control_groups.h"

namespace openhpu::device {
namespace {

constexpr int kUnlimited = std::numeric_limits<int>::max();

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
  if (quota <= 0 || period <= 0) return kUnlimited;  // -1: no limit
  return std::max(1, static_cast<int>(std::lround(std::min(quota / period, 1e6))));
}

// "max 100000" or "150000 100000".
int quota_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0, period = 0;
  return file >> quota >> period ? nearest_cores(quota, period) : kUnlimited;
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

bool leave_openmp_binding() {
  const std::vector<int> cores = bound_cores();
  if (cores.empty()) return false;
  Places().bind();
  CoreSet set{};
  for (int core : cores) CPU_SET_S(core, sizeof set, set.data());
  return sched_setaffinity(0, sizeof set, set.data()) == 0;  // of the calling thread
}

}  // namespace openhpu::device
