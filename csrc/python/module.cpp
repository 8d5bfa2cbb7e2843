#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

#include <ATen/Parallel.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>

#include "ops/Autocast.h"
#include "ops/Fallback.h"
#include "ops/Registration.h"
#include "device/wait_hook.h"
#include <torch/csrc/DynamicTypes.h>

#include "python/bindings.h"
#include "python/signals.h"
#include "runtime/HPUAllocator.h"
#include "runtime/HPUDevice.h"
#include "runtime/HPUGenerator.h"
#include "runtime/HostTeam.h"
#include "runtime/HostReferences.h"
#include "runtime/events.h"
#include <ATen/detail/HPUHooksInterface.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace py = pybind11;

namespace openhpu {
namespace {

thread_local uint64_t waiting_since = 0;

void* release_gil() {
  release_host_team();
  waiting_since = now_ns();
  // A thread without Python state (autograd's) holds no lock to release.
  return PyGILState_Check() ? PyEval_SaveThread() : nullptr;
}
void take_gil(void* state) {
  count(Counter::HostWaitNs, now_ns() - waiting_since);
  if (!state) return;
  // Python ends a thread that asks for its lock while the interpreter is finalised, by unwinding its stack, which from
  // a destructor means std::terminate. Such a thread stays here until the process is gone.
  static const auto main_thread = std::this_thread::get_id();
  while (_Py_IsFinalizing() && std::this_thread::get_id() != main_thread)
    std::this_thread::sleep_for(std::chrono::hours(1));
  PyEval_RestoreThread(static_cast<PyThreadState*>(state));
}

std::array<std::atomic<bool>, kMaxDevices>& gates() {
  static auto* all = new std::array<std::atomic<bool>, kMaxDevices>();
  return *all;
}

py::dict memory_stats(int index) {
  const auto s = memory_stats_of(device_of(static_cast<c10::DeviceIndex>(index)));
  py::dict d;
  d["Limit"] = s.limit;
  d["InUse"] = s.in_use;
  d["MaxInUse"] = s.max_in_use;
  d["NumAllocs"] = s.num_allocs;
  d["NumFrees"] = s.num_frees;
  d["ActiveAllocs"] = s.active_allocs;
  d["MaxAllocSize"] = s.max_alloc_size;
  d["TotalSystemAllocs"] = s.total_system_allocs;
  d["TotalSystemFrees"] = s.total_system_frees;
  d["TotalActiveAllocs"] = s.total_active_allocs;
  return d;
}

CastPolicy policy_of(const std::string& name) {
  if (name == "lower_precision") return CastPolicy::LowerPrecision;
  if (name == "fp32") return CastPolicy::Float32;
  TORCH_CHECK(name == "promote", "unknown autocast policy '", name, "'; one of lower_precision, fp32, promote");
  return CastPolicy::Promote;
}

void bind_device(py::module& m) {
  m.def("configure", [](std::vector<int> modules, uint64_t memory_bytes, bool protect_memory, bool lock_modules,
                        int spin_us, int visible) {
    device::DeviceConfig config;
    config.modules = std::move(modules);
    config.memory_bytes = memory_bytes;
    config.protect_memory = protect_memory;
    config.lock_modules = lock_modules;
    config.spin_us = spin_us;
    device::DeviceRegistry::instance().configure(std::move(config));
    set_visible_indices(visible);
  }, py::arg("modules"), py::arg("memory_bytes"), py::arg("protect_memory"), py::arg("lock_modules"),
     py::arg("spin_us"), py::arg("visible") = 0);
  m.def("registration_is_late", [] { return !at::detail::getHPUHooks().hasHPU(); });
  m.def("device_count", &device_count);
  m.def("current_device", [] { return static_cast<int>(current_device()); });
  m.def("set_device", [](int i) { set_device(static_cast<c10::DeviceIndex>(i)); });
  m.def("exchange_device", [](int i) { return static_cast<int>(exchange_device(static_cast<c10::DeviceIndex>(i))); });
  m.def("maybe_exchange_device", [](int i) {
    return i < 0 ? static_cast<int>(current_device())
                 : static_cast<int>(exchange_device(static_cast<c10::DeviceIndex>(i)));
  });
  m.def("init", [] { device_of(-1); });
  m.def("is_initialized", [] { return hpu_allocator()->initialized(); });
  m.def("is_in_bad_fork", [] { return device::DeviceRegistry::instance().bad_fork(); });
  // Wrapped as PyTorch wraps its own functions, so that kernels' warnings become Python warnings.
  m.def("synchronize", torch::wrap_pybind_function([](int i) {
    synchronize(static_cast<c10::DeviceIndex>(i));
    release_returned();
  }), py::arg("device") = -1);
  // For tests: the worker waits at a gate, so that what is queued behind it stays queued.
  m.def("block_queue", [](int i) {
    auto& gate = gates()[i];
    gate.store(true);
    device_of(static_cast<c10::DeviceIndex>(i)).queue().submit("gate", [&gate] { gate.wait(true); });
  });
  m.def("unblock_queue", [](int i) {
    gates()[i].store(false);
    gates()[i].notify_all();
  });
  m.def("busy_ns", [](int i) { return device_of(static_cast<c10::DeviceIndex>(i)).queue().busy_ns(); });
  // What may be asked at any time and on any thread: it opens no device and ends no graph.
  m.def("device_sample", [](int i) -> py::object {
    auto* d = device::DeviceRegistry::instance().get_if_open(i);
    if (!d) return py::none();
    const auto s = d->memory().stats();
    return py::make_tuple(s.in_use, s.max_in_use, s.limit, d->queue().busy_ns(), d->module());
  });
  m.def("record_busy_spans", [](int i, bool on) {
    if (auto* d = device::DeviceRegistry::instance().get_if_open(i)) d->queue().record_spans(on);
  });
  m.def("take_busy_spans", [](int i) {
    auto* d = device::DeviceRegistry::instance().get_if_open(i);
    return d ? d->queue().take_spans() : std::vector<std::pair<uint64_t, uint64_t>>{};
  });
  m.def("set_num_threads", [](int n) { set_kernel_threads(n); });
  // A backward without any Python object through the thread that autograd has for each device in use: when it returns,
  // that thread is done with everything before.
  m.def("settle_autograd", [] {
    py::gil_scoped_release no_gil;
    auto& registry = device::DeviceRegistry::instance();
    if (registry.bad_fork()) return;
    for (int i = 0; i < registry.count(); ++i) {
      if (!registry.get_if_open(i)) continue;
      try {
        const auto x = at::zeros({}, at::TensorOptions().device(c10::kHPU, static_cast<c10::DeviceIndex>(i)));
        x.set_requires_grad(true).mul(1).backward();
      } catch (const std::exception&) {
        // At the end of a process nobody is left to be told, of an error that was pending above all.
      }
    }
  });
  m.def("shutdown", [] {
    py::gil_scoped_release no_gil;
    device::DeviceRegistry::instance().shutdown();
  });
}

void bind_memory(py::module& m) {
  m.def("memory_stats", &memory_stats);
  m.def("reset_peak_memory_stats", [](int i) { hpu_allocator()->resetPeakStats(static_cast<c10::DeviceIndex>(i)); });
  m.def("reset_accumulated_memory_stats",
        [](int i) { hpu_allocator()->resetAccumulatedStats(static_cast<c10::DeviceIndex>(i)); });
  m.def("empty_cache", [](int) { hpu_allocator()->emptyCache(); }, py::arg("device") = -1);
  m.def("data_ptr", [](const at::Tensor& t) { return reinterpret_cast<uintptr_t>(t.data_ptr()); });
  m.def("require_storage", [](const py::object& storage) {
    TORCH_CHECK(torch::isStorage(storage.ptr()), "expected a storage");
    auto s = torch::createStorage(storage.ptr());
    require_memory(*s.unsafeGetStorageImpl());
  });
  m.def("record_stream", [](at::Tensor t, c10::Stream s) { t.record_stream(s); });
}

void bind_ops(py::module& m) {
  m.def("set_fallback_policy", &set_fallback_policy);
  m.def("set_native_ops", &set_native_ops);
  m.def("fallback_ops", &fallback_ops);
  m.def("register_autocast", [](const std::vector<std::string>& names, const std::string& policy) {
    return register_autocast(names, policy_of(policy));
  });
  m.def("default_generator", [](int i) {
    return py::reinterpret_steal<py::object>(
        THPGenerator_Wrap(default_generator(static_cast<c10::DeviceIndex>(i))));
  });
}

}  // namespace
}  // namespace openhpu

PYBIND11_MODULE(_C, m) {
  openhpu::device::set_wait_hook({&openhpu::release_gil, &openhpu::take_gil, &openhpu::hears_signals,
                                  &openhpu::interrupt_pending, &openhpu::handle_signals});
  openhpu::load();
  // Before the static objects of PyTorch are destroyed, which a worker may be using. Python is gone by then.
  std::atexit([] {
    openhpu::device::set_wait_hook({});
    openhpu::device::DeviceRegistry::instance().shutdown();
  });
  openhpu::bind_device(m);
  openhpu::bind_memory(m);
  openhpu::bind_ops(m);
  openhpu::bind_events(m);
  openhpu::bind_graph(m);
  openhpu::bind_capture(m);
  openhpu::register_script_graphs();
}
