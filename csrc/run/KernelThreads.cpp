#include "run/KernelThreads.h"

#include <ATen/Parallel.h>

#include <omp.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "device/host.h"
#include "observe/KernelReports.h"
#include "torch/HPUDevice.h"

// MKL's own number of threads, where torch is built with it: torch.set_num_threads sets one for the process, and a
// thread's own comes before that. Returns the one before.
extern "C" __attribute__((weak)) int MKL_Set_Num_Threads_Local(int threads);

namespace openhpu {
namespace {

thread_local int applied_threads = 0;

// Of a worker that left the binding of OpenMP: the size of its team when all of the team's threads left it, too; 0
// before. Of any other thread -1.
thread_local int unbound_team = -1;

// libgomp binds a thread of a team when it makes the thread. It makes new ones where a team of several threads grows.
void unbind_team(int threads) noexcept {
  if (unbound_team == threads || threads <= 1) return;
#pragma omp parallel num_threads(threads)
  device::leave_openmp_binding();
  unbound_team = threads;
}

// PyTorch sets a thread's number of threads at its first kernel, over what that is to use. So it is asked for before
// the first command, of PyTorch's library and of this one: each has its own mark, in an inline function, that it is
// set.
int number_of_threads() {
  at::internal::lazy_init_num_threads();
  return at::get_num_threads();
}

}  // namespace

void set_up_worker() {
  // Bound to the core of the main thread, the two would never run at the same time. A team with one bound thread is
  // worse: whenever its other thread gets onto that core, each waits for the other's time slice to end.
  if (device::leave_openmp_binding()) unbound_team = 0;
  number_of_threads();
  static thread_local c10::InferenceMode no_autograd(true);
  c10::WarningUtils::set_warning_handler(kernel_warnings());
}

void run_as_worker(const std::function<void()>& run) {
  const auto keys = c10::make_scope_exit(
      [before = c10::impl::tls_local_dispatch_key_set()] { c10::impl::_force_tls_local_dispatch_key_set(before); });
  c10::impl::PODLocalDispatchKeySet of_a_new_thread{};
  of_a_new_thread.set_included(c10::default_included_set);
  of_a_new_thread.set_excluded(c10::default_excluded_set);
  c10::impl::_force_tls_local_dispatch_key_set(of_a_new_thread);
  c10::InferenceMode no_autograd(true);
  // Only where there are callbacks: PyTorch rebuilds its lists of them whenever RecordFunction is disabled or enabled.
  std::optional<at::DisableRecordFunctionGuard> unprofiled;
  if (at::hasCallbacks()) unprofiled.emplace();
  c10::WarningUtils::WarningHandlerGuard warnings(kernel_warnings());
#if defined(__x86_64__)
  // Rounding and denormals as a new thread has them.
  constexpr unsigned kFlags = 0x3f, kDefault = 0x1f80;
  const unsigned before = _mm_getcsr();
  const bool other_floats = (before & ~kFlags) != kDefault;
  if (other_floats) _mm_setcsr(kDefault);
  const auto floats = c10::make_scope_exit([&] {
    if (other_floats) _mm_setcsr(before);
  });
#endif
  // The thread gets its own numbers of threads back.
  const auto threads = c10::make_scope_exit([omp = number_of_threads()] {
    applied_threads = 0;
    if (omp_get_max_threads() != omp) omp_set_num_threads(omp);
    if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(0);
  });
  applied_threads = 0;
  run();
}

int threads_for(size_t largest_bytes) noexcept {
  // PyTorch's own grain of 32,768 elements, in float32. Below it elementwise kernels use one thread anyway, while
  // others (oneDNN's, fused optimizers over many small tensors) would start a team that costs more than their work.
  constexpr size_t kOneThreadBytes = size_t{128} << 10;
  return largest_bytes <= kOneThreadBytes ? 1 : kernel_threads();
}

void apply_threads(int wanted) noexcept {
  // Libraries of kernels that were built with PyTorch's headers have marks of their own, see number_of_threads.
  if (wanted <= 0 || (wanted == applied_threads && wanted == omp_get_max_threads())) return;
  // Not at::set_num_threads: that also changes the default of threads that start later.
  omp_set_num_threads(wanted);
  if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(wanted);
  applied_threads = wanted;
  if (unbound_team >= 0) unbind_team(wanted);
}

}  // namespace openhpu
