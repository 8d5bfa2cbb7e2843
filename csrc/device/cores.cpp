#include "device/cores.h"

namespace openhpu::device {

const cpu_set_t& process_cores() {
  static const cpu_set_t cores = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) != 0) CPU_ZERO(&set);
    return set;
  }();
  return cores;
}

bool avoid_core(pid_t worker, const std::vector<pid_t>& team, int core) noexcept {
  cpu_set_t set = process_cores();
  if (core >= 0 && core < CPU_SETSIZE) CPU_CLR(core, &set);
  if (CPU_COUNT(&set) == 0 || sched_setaffinity(worker, sizeof(set), &set) != 0) return false;
  cpu_set_t others = process_cores();
  if (CPU_COUNT(&set) == 1) CPU_XOR(&others, &process_cores(), &set);
  if (CPU_COUNT(&others) > 0)
    for (const pid_t member : team) sched_setaffinity(member, sizeof(others), &others);
  return true;
}

AllCores::AllCores() noexcept {
  const auto self = pthread_self();
  changed_ = CPU_COUNT(&process_cores()) > 0 && pthread_getaffinity_np(self, sizeof(before_), &before_) == 0 &&
      pthread_setaffinity_np(self, sizeof(cpu_set_t), &process_cores()) == 0;
}

AllCores::~AllCores() {
  if (changed_) pthread_setaffinity_np(pthread_self(), sizeof(before_), &before_);
}

}  // namespace openhpu::device
