#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "python/bindings.h"

namespace openhpu {
namespace {

// Ctrl-C during os.fork(). All but the first is under Python's lock.
std::atomic<pid_t> interrupted{0};  // the process: a child inherits its parent's
bool interrupt_held = false;
struct sigaction usual_action{};

void hold_interrupt() {
  if (interrupt_held || !hears_signals()) return;
  ::sigaction(SIGINT, nullptr, &usual_action);
  if (usual_action.sa_handler == SIG_DFL || usual_action.sa_handler == SIG_IGN) return;
  struct sigaction note{};
  note.sa_handler = [](int) { interrupted.store(::getpid()); };
  interrupt_held = ::sigaction(SIGINT, &note, nullptr) == 0;
  if (interrupt_held && PyOS_InterruptOccurred()) interrupted.store(::getpid());
}

void let_interrupt_go() {
  if (!std::exchange(interrupt_held, false)) return;
  ::sigaction(SIGINT, &usual_action, nullptr);
  if (interrupted.exchange(0) != ::getpid()) return;
  // Again in a moment: at once, os.fork() would raise, and nobody would know of the child.
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGINT;
  itimerspec moment{};
  moment.it_value.tv_nsec = 50'000'000;
  timer_t timer{};
  if (::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || ::timer_settime(timer, 0, &moment, nullptr) != 0)
    PyErr_SetInterrupt();
}

}  // namespace

void hold_interrupts_during_forks() {
  py::module_::import("os").attr("register_at_fork")(
      py::arg("before") = py::cpp_function(&hold_interrupt),
      py::arg("after_in_parent") = py::cpp_function(&let_interrupt_go),
      py::arg("after_in_child") = py::cpp_function(&let_interrupt_go));
}

bool hears_signals() {
  // Python's main thread is the process's, unless Python is embedded, or forked by another thread.
  return ::gettid() == ::getpid() && PyGILState_GetThisThreadState() && Py_IsInitialized();
}

bool interrupt_pending() {
  Gil gil;
  if (!PyOS_InterruptOccurred()) return false;
  PyErr_SetInterrupt();  // asking takes it away
  return true;
}

void handle_signals() {
  Gil gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

}  // namespace openhpu
