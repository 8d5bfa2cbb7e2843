#include "torch/HPUDevice.h"

#include <ATen/Parallel.h>

#include <omp.h>

#include "observe/KernelReports.h"
#include "observe/events.h"
#include "observe/site.h"
#include "torch/CompileOnly.h"

namespace openhpu {
namespace {

thread_local c10::DeviceIndex tls_device = 0;
// Stream ids by device; thread-local as in PyTorch's other accelerators.
thread_local std::array<int64_t, kMaxDevices> tls_stream{};
std::atomic<int> visible_indices{0};
std::atomic<int> threads{0};
std::atomic<int> most_threads{std::numeric_limits<int>::max()};

device::DeviceRegistry& registry() { return device::DeviceRegistry::instance(); }

// Called when a host thread submits a command for a team of threads. Its own team, from an earlier computation of the
// script on the CPU, ends. It returns with the next such computation. libgomp counts the threads of all teams. If there
// are more than cores, every thread that waits at a barrier sleeps at once instead of polling.
void release_host_team() noexcept { omp_pause_resource_all(omp_pause_soft); }

// For a full queue.
uint64_t submit_and_tell(device::Device& d, device::Command* command, device::OnInterrupt what) {
  const uint64_t since = now_ns();
  const std::string op = command->name();
  const uint32_t site = command->site;
  const uint64_t sequence = d.queue().submit(command, what);
  emit_wait("queue", op.c_str(), since, site);
  return sequence;
}

}  // namespace

c10::DeviceIndex normalize_index(c10::DeviceIndex index) {
  if (index < 0) return tls_device;
  TORCH_CHECK(
      index < device_count(), "HPU device index ", static_cast<int>(index), " is out of range: this process sees ",
      device_count(), " device(s), indices 0 to ", device_count() - 1,
      ". Set OPENHPU_DEVICE_COUNT or HABANA_VISIBLE_MODULES for more.");
  // A process started by a launcher owns one module and means it by every index, as on Gaudi.
  return registry().count() == 1 ? 0 : index;
}

int device_count() noexcept {
  const int visible = visible_indices.load(std::memory_order_relaxed);
  return visible > 0 ? visible : registry().count();
}

void set_visible_indices(int visible) noexcept { visible_indices.store(visible, std::memory_order_relaxed); }

c10::DeviceIndex current_device() noexcept { return tls_device; }
c10::DeviceIndex exchange_device(c10::DeviceIndex index) {
  const auto old = tls_device;
  tls_device = normalize_index(index);
  return old;
}
void unchecked_set_device(c10::DeviceIndex index) noexcept {
  if (index >= 0) tls_device = registry().count() == 1 ? 0 : index;
}

device::Device& device_of(c10::DeviceIndex index) { return registry().get(normalize_index(index)); }
device::Device* open_device(c10::DeviceIndex index) { return registry().if_open(normalize_index(index)); }

c10::Stream current_stream(c10::DeviceIndex index) {
  index = normalize_index(index);
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kHPU, index), tls_stream[index]);
}

c10::Stream exchange_stream(c10::Stream stream) {
  const auto index = normalize_index(stream.device_index());
  if (tls_stream[index] != stream.id()) {
    // What was recorded belongs to the stream on which it was recorded. Where it has no room it goes with the new one:
    // who leaves a stream because of an error must be able to.
    try {
      if (auto* d = registry().get_if_open(index)) flush(*d);
    } catch (const c10::OutOfMemoryError&) {
    }
  }
  const auto old = current_stream(index);
  tls_stream[index] = stream.id();
  return old;
}

c10::Stream new_stream(c10::DeviceIndex index, int priority) {
  index = normalize_index(index);
  open_device(index);  // in a forked child an error
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kHPU, index), registry().streams(index).make(priority).id());
}

device::Stream& stream_of(const c10::Stream& stream) {
  const auto index = normalize_index(stream.device_index());
  return registry().streams(index).at(stream.id(), index);
}

void raise_pending_error(device::Device& d) {
  emit_kernel_warnings();
  if (!d.queue().has_error()) return;
  auto pending = d.queue().take_error();
  if (!pending) return;
  std::string where = describe_site(pending->site);
  std::string context = "The operator " + pending->name + " failed on the device" +
                        (where.empty() ? "" : "; it was issued at " + where) +
                        ". (HPU runs asynchronously: the error is reported at the first synchronisation after it.)";
  if (listening(kError)) emit(kError, {{"op", pending->name}, {"message", context}}, pending->site);
  try {
    std::rethrow_exception(pending->error);
  } catch (c10::Error& e) {
    e.add_context(context);
    throw;
  } catch (const std::exception& e) {
    TORCH_CHECK(false, e.what(), "\n", context);
  }
}

void raise_pending_errors() {
  for (auto* d : registry().open()) raise_pending_error(*d);
}

void wait_for_commands(device::Device& d, const char* what) {
  check_wait(d, what);
  flush(d);
  above.await_collectives(d);
  d.queue().drain(device::OnInterrupt::Throw);
}

void synchronize(c10::DeviceIndex index) {
  count(Counter::Synchronizations);
  auto* d = open_device(index);
  if (!d) return;
  wait_for_commands(*d, "synchronize");
  note_read(*d);
  raise_pending_error(*d);
}

uint64_t submit(device::Device& d, device::Command* command, device::OnInterrupt what) {
  command->left_out = compile_only() != 0 && command->launches();
  if (C10_UNLIKELY(command->left_out)) count(Counter::LaunchesLeftOut);
  if (!command->runs_anywhere()) release_host_team();
  const bool told = listening(kWait);
  const uint64_t sequence =
      C10_UNLIKELY(told) && d.queue().full() ? submit_and_tell(d, command, what) : d.queue().submit(command, what);
  d.stream(tls_stream[d.index()]).note(sequence);
  return sequence;
}

void set_kernel_threads(int n) noexcept { threads.store(n, std::memory_order_relaxed); }
void limit_kernel_threads(int cores) noexcept { most_threads.store(cores, std::memory_order_relaxed); }
int kernel_threads() noexcept {
  return std::min(threads.load(std::memory_order_relaxed), most_threads.load(std::memory_order_relaxed));
}

}  // namespace openhpu
