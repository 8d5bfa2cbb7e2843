#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace openhpu {
// Python's lock. A thread may have given it away before it came to wait.
struct Gil {
  PyGILState_STATE state = PyGILState_Ensure();
  ~Gil() { PyGILState_Release(state); }
};
// The line of the user's script that a thread is executing (see Above): that of the innermost frame whose file does not
// lie in one of these folders.
void add_library_folder(std::string folder);
uint32_t executing_site();
std::pair<std::string, int> place_of_site(uint32_t site);
// Lines known so far.
size_t site_count();
}
