#pragma once

#include <cstddef>

// How the threads are set up that run kernels, and on how many threads a kernel runs.
namespace openhpu {

// Sets the calling (worker) thread up for kernels: no autograd, no version counters, warnings kept for the host.
void set_up_worker();

// Calls `run(context)` on a host thread with the state that a worker has: whatever modes the script is in (autocast, a
// dispatch mode, a profiler, denormals flushed), what is computed is the same. See CommandQueue::set_host_scope.
void run_as_worker(void (*run)(void*), void* context);

// How many threads a kernel uses whose largest tensor has so many bytes: one where it is small, since a second costs more
// than it gives; else kernel_threads(). It decides how reductions are split, so it is a function of the command alone and
// never of what the host happens to do.
int threads_for(size_t largest_bytes) noexcept;
// Makes the calling thread's kernels use so many. A worker, or a host thread in its place.
void apply_threads(int wanted) noexcept;
inline void apply_kernel_threads(size_t largest_bytes) noexcept { apply_threads(threads_for(largest_bytes)); }

// A host thread hands over work for a team of threads: its own team, made by what the script computed on the CPU, ends,
// and comes back with the next such computation. libgomp counts the threads of all teams, and where they are more than the
// cores, every thread that waits at a barrier goes to sleep at once instead of polling.
void release_host_team() noexcept;

}  // namespace openhpu
