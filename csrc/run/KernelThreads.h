#pragma once

#include <cstddef>
#include <functional>

// The set-up of threads that run kernels, and the number of threads of a kernel.
namespace openhpu {

// Sets the calling (worker) thread up for kernels: no autograd, no version counters, warnings kept for the host.
void set_up_worker();

// Calls `run` on a host thread with the state of a worker. So the results do not depend on the script's modes
// (autocast, a dispatch mode, a profiler, flushing of denormals). See Above.
void run_as_worker(const std::function<void()>& run);

// The number of threads for a kernel whose largest tensor has so many bytes. A small kernel uses one, since a second
// thread costs more than it gives; otherwise kernel_threads(). The number decides how reductions are split. So it
// depends only on the command, never on the current work of the host.
int threads_for(size_t largest_bytes) noexcept;
// Sets this number for the kernels of the calling thread: a worker, or a host thread in its place.
void apply_threads(int wanted) noexcept;
inline void apply_kernel_threads(size_t largest_bytes) noexcept { apply_threads(threads_for(largest_bytes)); }

}  // namespace openhpu
