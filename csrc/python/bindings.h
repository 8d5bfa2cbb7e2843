#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

namespace py = pybind11;

namespace openhpu {
using namespace pybind11::literals;

py::object site_of(uint32_t site);     // (file, line); None where it is unknown
py::object line_of(uint32_t site);     // "file:line", likewise
void bind_observation(py::module& m);  // events, counters, source lines, torch.profiler and traces
void bind_capture(py::module& m);      // graph captures and replays
void bind_distributed(py::module& m);  // the process group
void bind_migration(py::module& m);    // scripts written for CUDA
void bind_custom(py::module& m);       // user operators and their kernels
void register_script_graphs();         // TorchScript's graphs
void bind_graph(py::module& m);        // lazy mode, and the compiler's side of the graph cache

// Signals that end a wait of Python's main thread (device/blocking_wait).
bool hears_signals();      // whether this is the thread that handles them
bool interrupt_pending();  // whether Ctrl-C was pressed; it stays to be handled
void handle_signals();     // throws py::error_already_set if a handler raised
// Python drops an exception in a function that os.register_at_fork was given, and that function ends half-way. A large
// process forks for tens of milliseconds: a Ctrl-C meanwhile would be lost. With this it comes again after the fork.
void hold_interrupts_during_forks();

// Calls what takes Python's lock. While the interpreter is finalised, Python ends a thread that asks for it, also one
// that asked before, by unwinding its stack: from a destructor that means std::terminate. Such a thread stays here
// until the process is gone.
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
}  // namespace openhpu
