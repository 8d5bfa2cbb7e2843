#pragma once

#include <Python.h>
#include <cxxabi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

namespace openhpu {
// Calls what takes Python's lock. While the interpreter is finalised, Python ends a thread that asks for it, also one that
// asked before, by unwinding its stack: from a destructor that means std::terminate. Such a thread stays here until the
// process is gone.
template <class Take>
auto take_lock(Take take) {
  try {
    return take();
  } catch (abi::__forced_unwind&) {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

// Python's lock. A thread may have given it away before it came to wait.
struct Gil {
  PyGILState_STATE state = take_lock(&PyGILState_Ensure);
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
