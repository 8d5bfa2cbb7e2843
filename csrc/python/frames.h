#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace openhpu {
// Teaches the core to find the line of the user's script that a thread is executing: the innermost frame whose file
// does not lie in one of these folders.
void install_site_hooks(std::vector<std::string> library_folders);
// Lines known so far.
size_t site_count();
}
