#pragma once

#include <functional>
#include <string>

namespace openhpu::device {

// Calls `visit(folder, version)` for each folder in which this process's control group, or a group above it, has the files of
// `controller` ("cpu", "memory"), of version 1 and 2. Folders need not exist: in a container the group's path may not be
// visible below the mount point, which then is the group itself.
// `root`: a folder in place of /, for made-up groups.
void for_each_control_group(
    const std::string& root, const std::string& controller,
    const std::function<void(const std::string& folder, int version)>& visit);

}  // namespace openhpu::device
