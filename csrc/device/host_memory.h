#pragma once

#include <cstdint>
#include <string>

namespace openhpu::device {

// What the machine can still give this process before the system would have to kill somebody.
struct HostMemory {
  uint64_t available;   // bytes; the largest number where the system does not say
  uint64_t total;       // physical memory, or the lowest limit of a control group that this process is in
  std::string bound;    // what bounds `available`, for messages
};

// From /proc/meminfo, and from the control groups (versions 1 and 2) on the way from this process's to the root. `root`
// stands before all paths (tests).
HostMemory host_memory(const std::string& root = "");

// What is left to the rest of the process and to those that it starts: Python's objects, scratch memory of libraries,
// the compiler.
uint64_t kept_for_host(uint64_t total) noexcept;

// The capacity of a device that is not told: what the machine can give now, less what is kept for the host's side.
uint64_t device_memory(const std::string& root = "");

}  // namespace openhpu::device
