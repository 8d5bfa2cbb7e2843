#pragma once

#include <pthread.h>
#include <sched.h>

// On which cores a device's worker runs. A thread that wakes another is often given company on its own core, and then
// waits while the other works; a worker that is fed by a script is better kept off the script's core.
namespace openhpu::device {

// The cores that the process may use, as they were when first asked for.
const cpu_set_t& process_cores();

// Lets `thread` run on all of the process's cores but `core`. Returns false, having done nothing, where it has only one.
bool avoid_core(pthread_t thread, int core) noexcept;

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
