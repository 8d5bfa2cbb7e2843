#include "python/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace openhpu {
namespace {

// A thread may have given Python's lock away before it came to wait.
struct Lock {
  PyGILState_STATE state = PyGILState_Ensure();
  ~Lock() { PyGILState_Release(state); }
};

}  // namespace

bool hears_signals() {
  // Python's main thread is the process's, unless Python is embedded, or forked by another thread.
  return ::gettid() == ::getpid() && PyGILState_GetThisThreadState() && Py_IsInitialized();
}

bool interrupt_pending() {
  Lock lock;
  if (!PyOS_InterruptOccurred()) return false;
  PyErr_SetInterrupt();  // asking takes it away
  return true;
}

void handle_signals() {
  Lock lock;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

}  // namespace openhpu
