// Ends a kernel on this thread: its own errors, faults of memory, and its deadline.
#include "interrupt.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace tpc {

thread_local Engine* engine;
thread_local unsigned char scalar_local[kScalarLocalBytes];
thread_local unsigned char vector_local[kVectorLocalBytes];

// By system calls alone, because a signal may end the kernel at any place.
void print_line(const char* text) {
  const int number = __atomic_fetch_add(engine->lines, 1, __ATOMIC_RELAXED);
  if (number > kMostLines) return;
  const char* line =
      number < kMostLines ? text : "printf: the kernel has printed 10,000 lines; further ones are left out\n";
  const ssize_t written = write(STDOUT_FILENO, line, strlen(line));
  static_cast<void>(written);
}

[[noreturn]] void fail(const char* format, int number) {
  Engine& here = *engine;
  snprintf(here.message, sizeof(here.message), format, number);
  here.address = nullptr;
  siglongjmp(here.leave, 1);
}

namespace {

constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE};
struct sigaction previous[NSIG];
const int kDeadline = SIGRTMIN + 6;

void* place_of(void* context) {
#if defined(__x86_64__)
  return reinterpret_cast<void*>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#else
  return nullptr;
#endif
}

void on_signal(int number, siginfo_t* info, void* context) {
  Engine* here = engine;
  if (here != nullptr && here->running) {
    const char* what = "it took longer than its deadline";
    if (number == SIGFPE) what = "it divided by zero";
    if (number == SIGSEGV || number == SIGBUS) what = "it used an address outside its tensors";
    strncpy(here->message, what, sizeof(here->message) - 1);
    here->address = place_of(context);
    siglongjmp(here->leave, 1);
  }
  if (number == kDeadline) return;  // it came when the kernel was done
  const struct sigaction& before = previous[number];
  if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(number, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(number);
  signal(number, SIG_DFL);
  raise(number);
}

void install(int number) {
  struct sigaction now{};
  sigaction(number, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_signal) return;
  previous[number] = now;
  struct sigaction ours{};
  ours.sa_sigaction = on_signal;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&ours.sa_mask);
  sigaction(number, &ours, nullptr);
}

// A signal to this thread when its time is over. A child of fork has none of its parent's timers.
struct Timer {
  timer_t timer{};
  pid_t owner = 0;
  bool there = false;

  bool prepare() {
    if (there && owner == getpid()) return true;
    struct sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = kDeadline;
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
    there = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    owner = getpid();
    return there;
  }
  void set(double seconds) {
    struct itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(seconds);
    when.it_value.tv_nsec = static_cast<long>((seconds - static_cast<double>(when.it_value.tv_sec)) * 1e9);
    timer_settime(timer, 0, &when, nullptr);
  }
  ~Timer() {
    if (there && owner == getpid()) timer_delete(timer);
  }
};
thread_local Timer timer;

// A thread of the device blocks signals, which are for the program's threads.
bool unblock_deadline() {
  sigset_t deadline;
  sigemptyset(&deadline);
  sigaddset(&deadline, kDeadline);
  return pthread_sigmask(SIG_UNBLOCK, &deadline, nullptr) == 0;
}

// A stack for signals, so that a kernel that uses up its own can be ended.
struct SignalStack {
  char* memory = nullptr;
  SignalStack() {
    stack_t now{};
    if (sigaltstack(nullptr, &now) == 0 && !(now.ss_flags & SS_DISABLE)) return;
    constexpr size_t bytes = 64 * 1024;
    memory = new char[bytes];
    stack_t ours{};
    ours.ss_sp = memory;
    ours.ss_size = bytes;
    if (sigaltstack(&ours, nullptr) != 0) return;
  }
  ~SignalStack() {
    if (memory == nullptr) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
    delete[] memory;
  }
};

}  // namespace

void install_handlers() {
  for (const int number : kFaults) install(number);
  install(kDeadline);
}

bool guarded(Engine& here, double seconds, void (*work)(Engine& here, void* argument), void* argument) {
  static thread_local SignalStack stack;
  Engine* const outer = engine;
  engine = &here;
  here.message[0] = 0;
  const bool timed = seconds > 0 && timer.prepare() && unblock_deadline();
  bool finished = false;
  if (sigsetjmp(here.leave, 1) == 0) {
    here.running = 1;
    if (timed) timer.set(seconds);
    work(here, argument);
    finished = true;
  }
  here.running = 0;
  if (timed) timer.set(0);
  engine = outer;
  return finished;
}

bool run_guarded(Engine& here, const KernelEntry& kernel, const uint32_t* scalars, double seconds) {
  struct Call {
    const KernelEntry& kernel;
    const uint32_t* scalars;
  } call{kernel, scalars};
  return guarded(
      here, seconds,
      [](Engine&, void* argument) {
        const Call& of = *static_cast<Call*>(argument);
        of.kernel.run(of.scalars);
      },
      &call);
}

}  // namespace tpc
