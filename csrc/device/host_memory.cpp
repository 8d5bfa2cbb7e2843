#include "device/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "device/control_groups.h"

namespace openhpu::device {
namespace {

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

}  // namespace openhpu::device
