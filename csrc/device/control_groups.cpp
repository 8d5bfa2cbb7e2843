#include "device/control_groups.h"

#include <fstream>
#include <sstream>
#include <vector>

namespace openhpu::device {

void for_each_control_group(
    const std::string& root, const std::string& controller,
    const std::function<void(const std::string& folder, int version)>& visit) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:cpu,cpuacct:/a/b", "0::/a/b"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    bool listed = false;
    std::istringstream list(names);
    for (std::string name; std::getline(list, name, ',');) listed = listed || name == controller;
    std::vector<std::string> mounts;
    if (names.empty()) {
      mounts = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    } else if (listed) {
      mounts.push_back("/sys/fs/cgroup/" + names);
      if (names != controller) mounts.push_back("/sys/fs/cgroup/" + controller);
    }
    for (const auto& mount : mounts) {
      for (std::string path = line.substr(second + 1);; path.erase(path.find_last_of('/'))) {
        if (path == "/") path.clear();
        visit(root + mount + path, names.empty() ? 2 : 1);
        if (path.find('/') == std::string::npos) break;
      }
    }
  }
}

}  // namespace openhpu::device
