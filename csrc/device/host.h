#pragma once

#include <cstdint>
#include <string>

namespace openhpu::device {

// The memory that the machine can give this process before the system would have to kill a process.
struct HostMemory {
  uint64_t available;  // bytes; the largest number where the system does not say
  uint64_t total;      // physical memory, or the lowest limit of a control group that this process is in
  std::string bound;   // what bounds `available`, for messages
};

// From /proc/meminfo, and from the control groups (versions 1 and 2) on the way from this process's to the root. `root`
// stands before all paths (tests).
HostMemory host_memory(const std::string& root = "");

// The memory that is left for the rest of the process and for processes that it starts: Python's objects, temporary
// memory of libraries, the compiler.
uint64_t kept_for_host(uint64_t total) noexcept;

// The default capacity of a device: the memory that the machine can give now, less the part that is kept for the host.
uint64_t device_memory(const std::string& root = "");

// How many cores this process can keep busy, at least 1: what its affinity allows (with OMP_PROC_BIND, the cores of all
// of OpenMP's places: the library then binds the main thread to the first of them), no more than the quota of each
// control group above it (cpu.max of version 2, cpu.cfs_quota_us of version 1; rounded, a half up), shared with the
// other `processes` that a launcher started on this machine (LOCAL_WORLD_SIZE). `root`: as above.
int usable_cores(int processes = 1, const std::string& root = "");

// Lets the calling thread use all of these cores, if OMP_PROC_BIND bound the main thread and so all threads and
// processes that it started. Otherwise does nothing and returns false.
bool leave_openmp_binding();

}  // namespace openhpu::device
