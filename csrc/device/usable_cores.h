#pragma once

#include <string>

namespace openhpu::device {

// How many cores this process can keep busy, at least 1: what its affinity allows (with OMP_PROC_BIND, the cores of all
// of OpenMP's places: the library then binds the main thread to the first of them), no more than the quota of each control
// group above it (cpu.max of version 2, cpu.cfs_quota_us of version 1; rounded, a half up), shared with the other
// `processes` that a launcher started on this machine (LOCAL_WORLD_SIZE).
// `root`: a folder in place of /, for made-up control groups.
int usable_cores(int processes = 1, const std::string& root = "");

// Lets the calling thread use all of these cores, if OMP_PROC_BIND bound the main thread and so all threads and processes
// that it started. Otherwise does nothing and returns false.
bool leave_openmp_binding();

}  // namespace openhpu::device
