#pragma once

#include <pthread.h>
#include <sched.h>
#include <sys/types.h>

#include <vector>

// On which cores a device's worker and its team run. A thread that wakes another is often given company on its own core,
// and then waits while the other works, on two cores until the next tick of the clock (4 ms) although the other core
// sleeps. A worker that is fed by a script is better kept off the script's core, and its team off the worker's.
namespace openhpu::device {

// The cores that the process may use, as they were when first asked for.
const cpu_set_t& process_cores();

// Lets the worker run on all of the process's cores but `core`, and its team on the others if that leaves it only one.
// Threads by their system identifiers. Returns false, having done nothing, where the process has only one.
bool avoid_core(pid_t worker, const std::vector<pid_t>& team, int core) noexcept;

// While it lives, the calling thread may use all of the process's cores, and threads that it starts inherit that.
class AllCores {
 public:
  AllCores() noexcept;
  ~AllCores();
  AllCores(const AllCores&) = delete;
  AllCores& operator=(const AllCores&) = delete;

 private:
  cpu_set_t before_;
  bool changed_;
};

}  // namespace openhpu::device
