#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <ATen/Parallel.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/detail/HPUHooksInterface.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/set.h>
#include <ATen/ops/zeros.h>
#include <c10/core/AutogradState.h>

#include <cstdlib>

#include "Above.h"
#include "call/Autocast.h"
#include "call/Fallback.h"
#include "call/OpKernel.h"
#include "device/backing.h"
#include "distributed/Collective.h"
#include "kernels/SharedMemory.h"
#include "observe/Differences.h"
#include "observe/KernelReports.h"
#include "observe/events.h"
#include "python/bindings.h"
#include "record/Capture.h"
#include "record/GraphCommand.h"
#include "record/Lazy.h"
#include "run/Eager.h"
#include "run/KernelMemory.h"
#include "run/KernelThreads.h"
#include "run/Products.h"
#include "torch/AutogradThreads.h"
#include "torch/BesideCuda.h"
#include "torch/CompileOnly.h"
#include "torch/HPUAllocator.h"
#include "torch/HPUDevice.h"
#include "torch/HPUGenerator.h"
#include "torch/Kineto.h"

namespace openhpu {

namespace {

thread_local uint64_t waiting_since = 0;

// The process ends, and Python is gone: waits have no lock to give away.
std::atomic<bool> python_ended{false};

void* release_gil() {
  waiting_since = now_ns();
  if (python_ended.load(std::memory_order_relaxed)) return nullptr;
  // A thread without Python state (autograd's) holds no lock to release.
  return PyGILState_Check() ? PyEval_SaveThread() : nullptr;
}
void take_gil(void* state) {
  count(Counter::HostWaitNs, now_ns() - waiting_since);
  if (!state) return;
  take_lock([state] { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); });
}

auto& gates = *new std::array<std::atomic<bool>, kMaxDevices>();

py::dict memory_stats(int index) {
  const auto s = memory_stats_of(static_cast<c10::DeviceIndex>(index));
  return py::dict(
      "Limit"_a = s.limit, "InUse"_a = s.in_use, "MaxInUse"_a = s.max_in_use, "NumAllocs"_a = s.num_allocs,
      "NumFrees"_a = s.num_frees, "ActiveAllocs"_a = s.active_allocs, "MaxAllocSize"_a = s.max_alloc_size,
      "TotalSystemAllocs"_a = s.total_system_allocs, "TotalSystemFrees"_a = s.total_system_frees,
      "TotalActiveAllocs"_a = s.total_active_allocs);
}

CastPolicy policy_of(const std::string& name) {
  if (name == "lower_precision") return CastPolicy::LowerPrecision;
  if (name == "fp32") return CastPolicy::Float32;
  TORCH_CHECK(name == "promote", "unknown autocast policy '", name, "'; one of lower_precision, fp32, promote");
  return CastPolicy::Promote;
}

void bind_device(py::module& m) {
  m.attr("MAX_DEVICES") = kMaxDevices;
  m.def(
      "configure",
      [](std::vector<int> modules, bool floating, std::vector<int> machine, std::string job, int job_rank, int job_size,
         int visible, double module_wait_s, uint64_t memory_bytes, bool protect_memory, bool lock_modules, int spin_us,
         int processes) {
        TORCH_CHECK(
            visible >= 0 && visible <= kMaxDevices, "cannot show ", visible, " HPU devices: ", kMaxDevices, " at most");
        device::DeviceRegistry::instance().configure(
            {.modules = std::move(modules),
             .floating = floating,
             .job = {.name = std::move(job), .rank = job_rank, .size = job_size},
             .machine = std::move(machine),
             .module_wait_s = module_wait_s,
             .memory_bytes = memory_bytes,
             .protect_memory = protect_memory,
             .lock_modules = lock_modules,
             .spin_us = spin_us,
             .processes = processes});
        set_visible_indices(visible);
      },
      py::kw_only(), py::arg("modules"), py::arg("floating"), py::arg("machine"), py::arg("job"), py::arg("job_rank"),
      py::arg("job_size"), py::arg("visible"), py::arg("module_wait_s"), py::arg("memory_bytes"),
      py::arg("protect_memory"), py::arg("lock_modules"), py::arg("spin_us"), py::arg("processes"));
  m.def("registration_is_late", [] { return !at::detail::getHPUHooks().hasHPU(); });
  m.def("become_accelerator", &become_accelerator);
  m.def("leave_accelerator", &leave_accelerator);
  m.def("device_count", &device_count);
  m.def("current_device", [] { return static_cast<int>(current_device()); });
  m.def("set_device", [](int i) { exchange_device(static_cast<c10::DeviceIndex>(i)); });
  // For a negative index, the current device stays.
  m.def("exchange_device", [](int i) { return static_cast<int>(exchange_device(static_cast<c10::DeviceIndex>(i))); });
  m.def("init", torch::wrap_pybind_function([] { device_of(-1); }));
  // What depends on the module, of a device that may not be open.
  m.def("module_of", [](int i) {
    return device::DeviceRegistry::instance().module(normalize_index(static_cast<c10::DeviceIndex>(i)));
  });
  m.def("capacity_of", [](int i) {
    return device::DeviceRegistry::instance().capacity(normalize_index(static_cast<c10::DeviceIndex>(i)));
  });
  m.def("is_initialized", [] { return hpu_allocator()->initialized(); });
  m.def("is_in_bad_fork", [] { return device::DeviceRegistry::instance().bad_fork(); });
  // Wrapped as PyTorch wraps its own functions, so that kernels' warnings become Python warnings.
  m.def(
      "synchronize", torch::wrap_pybind_function([](int i) {
        synchronize(static_cast<c10::DeviceIndex>(i));
        release_returned();
      }),
      py::arg("device") = -1);
  // For tests: the worker waits at a gate, so that what is queued behind it stays queued.
  m.def("block_queue", [](int i) {
    auto& queue = device_of(static_cast<c10::DeviceIndex>(i)).queue();
    auto& gate = gates.at(static_cast<size_t>(i));
    gate.store(true);
    queue.submit("gate", [&gate] { gate.wait(true); });
  });
  m.def("unblock_queue", [](int i) {
    auto& gate = gates.at(static_cast<size_t>(i));
    gate.store(false);
    gate.notify_all();
  });
  // For tests: allocations that fail as if a device's memory, or its workspace, were full.
  m.def(
      "fail_allocations",
      [](int i, bool workspace, uint64_t first, uint64_t times) {
        auto& d = device_of(static_cast<c10::DeviceIndex>(i));
        return (workspace ? d.workspace() : d.memory()).fail_allocations(first, times);
      },
      py::arg("device"), py::arg("workspace"), py::arg("first"), py::arg("times") = 1);
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
  m.def("kernel_threads", &kernel_threads);
  m.def("open_for_autograd", &open_for_autograd);
  m.def("may_note_tensors", &may_note_tensors);
  // Whether this thread's next questions for the current stream are a script's; returns what held before.
  m.def("script_asks", [](bool asks) { return std::exchange(t_script_asks, asks); });
  // A backward without any Python object through the thread that autograd has for each device in use: when it returns,
  // that thread is done with everything before.
  m.def("return_moved_gradients", &return_moved_gradients);
  m.def("settle_autograd", [] {
    py::gil_scoped_release no_gil;
    for (auto* d : device::DeviceRegistry::instance().open()) {
      try {
        const auto x = at::zeros({}, at::TensorOptions().device(c10::kHPU, static_cast<c10::DeviceIndex>(d->index())));
        c10::AutogradState::get_tls_state().set_multithreading_enabled(true);
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
  m.def("reset_accumulated_memory_stats", [](int i) {
    hpu_allocator()->resetAccumulatedStats(static_cast<c10::DeviceIndex>(i));
  });
  m.def("empty_cache", [](int) { hpu_allocator()->emptyCache(); }, py::arg("device") = -1);
  m.def("data_ptr", [](const at::Tensor& t) { return reinterpret_cast<uintptr_t>(t.data_ptr()); });
  m.def("require_storage", [](const c10::Storage& s) { require_memory(*s.unsafeGetStorageImpl()); });
  m.def("share_storage", torch::wrap_pybind_function([](const c10::Storage& s) {
          return share_storage(*s.unsafeGetStorageImpl());
        }));
  m.def("shared_file", [](const c10::Storage& s) { return shared_file(*s.unsafeGetStorageImpl()); });
  m.def("open_shared_storage", torch::wrap_pybind_function([](int file, size_t nbytes, int index) {
          return open_shared_storage(file, nbytes, static_cast<c10::DeviceIndex>(index));
        }));
  // For tests: what the machine has is read below this folder.
  m.def("set_machine_root", &device::Backing::set_root);
  // For tests: whether PyTorch's CPU allocator is the one that answers kernels.
  m.def("kernel_allocator_installed", &kernel_allocator_installed);
  // For tests: how many commands there are, of operators and of graphs.
  m.def("commands", [] { return std::make_pair(CallCommand::total(), GraphCommand::total()); });
  // For tests: the memory behind a tensor, copied by its allocator.
  m.def("clone_memory", [](const at::Tensor& t) {
    const size_t nbytes = t.storage().nbytes();
    return at::empty_like(t).set_(
        c10::Storage(
            c10::Storage::use_byte_size_t(), nbytes, hpu_allocator()->clone(t.storage().data(), nbytes),
            hpu_allocator()));
  });
  m.def("record_stream", [](at::Tensor t, c10::Stream s) { t.record_stream(s); });
}

void bind_ops(py::module& m) {
  m.def("set_fallback_policy", &set_fallback_policy);
  m.def("set_lenient_indices", [](bool on) { g_lenient_indices.store(on); });
  m.def("report_kernels", &report_kernels);
  m.def("set_compile_only", &set_compile_only, py::call_guard<py::gil_scoped_release>());
  m.def("set_narrow_int64", [](bool on) { g_narrow_int64.store(on); });
  py::enum_<Level>(m, "Level").value("PASS", Level::Pass).value("NOTE", Level::Note).value("AS_GAUDI", Level::AsGaudi);
  m.def("set_level", &set_level);
  m.def("set_product_rule", [](const std::string& rule) {
    if (rule == "mkl") return set_product_rule(ProductRule::kNever);
    set_product_rule(rule == "onednn" ? ProductRule::kAlways : ProductRule::kUsual);
  });
  m.def("set_product_bounds", [](int64_t skinny, int64_t single, int64_t batch) {
    set_product_bounds({skinny, single, batch});
  });
  m.def("product_bounds", [] {
    const auto from = product_bounds();
    return std::make_tuple(from.skinny, from.single, from.batch);
  });
  m.def("has_onednn_products", &has_onednn_products);
  m.def("set_native_ops", &set_native_ops);
  m.def("set_integer_ops", &set_integer_ops);
  m.def("fallback_ops", &fallback_ops);
  m.def("register_autocast", [](const std::vector<std::string>& names, const std::string& policy) {
    return register_autocast(names, policy_of(policy));
  });
  m.def("default_generator", [](int i) { return default_generator(static_cast<c10::DeviceIndex>(i)); });
}

// Calls a function of openhpu.device.lifecycle from the middle of an operator, as if from a script: the keys that are
// excluded for the operator's own calls, such as autograd's, are as at the start of a thread.
template <class... Args>
void call_lifecycle(const char* name, Args... args) {
  if (python_ended.load(std::memory_order_relaxed)) return;
  Gil gil;
  const c10::impl::ForceDispatchKeyGuard usual_keys{
      c10::impl::LocalDispatchKeySet(c10::impl::PODLocalDispatchKeySet{})};
  py::module_::import("openhpu.device.lifecycle").attr(name)(args...);
}

void set_up_device(device::Device& d) {
  install_kernel_allocator();
  register_kernel_pools(d.memory(), d.workspace());
  if (kernel_threads() <= 0) set_kernel_threads(at::get_num_threads());
  limit_kernel_threads(d.cores());
  open_for_autograd();
}

// Everything that must happen once when the library is loaded: what lower layers call above them, and the kernels.
void load() {
  above = {
      .enter_wait = &release_gil,
      .leave_wait = &take_gil,
      .hears_signals = [] { return !python_ended.load(std::memory_order_relaxed) && hears_signals(); },
      .interrupt_pending = &interrupt_pending,
      .handle_signals = &handle_signals,
      .set_up_worker = &set_up_worker,
      .run_as_worker = &run_as_worker,
      .prepare_to_open = [] { call_lifecycle("_prepare_to_open"); },
      .first_device_opened = [](int index) { call_lifecycle("_first_device_opened", index); },
      .set_up_device = &set_up_device,
      .describe_origin = &describe_origin,
      .executing_site = &executing_site,
      .place_of_site = &place_of_site,
      .flush =
          [](device::Device& d) {
            if (auto* r = Recorder::of_if_any(d.index())) r->flush();
          },
      .note_read =
          [](device::Device& d) {
            if (auto* r = Recorder::of_if_any(d.index())) r->note_wait();
          },
      .check_wait = &check_not_capturing,
      .await_collectives = &Collective::await_all,
      .forget_memory =
          [](HPUMemory& m) {
            auto* r = Recorder::of_if_any(m.pool);
            return r && r->forget(m);
          },
      .make_room =
          [](int pool) {
            auto* r = Recorder::of_if_any(pool);
            return r && r->make_room();
          },
      .require_memory = [](HPUMemory& m) { Recorder::of(device_of(m.device)).require(m); },
  };
  register_op_kernels();
}

// Ends the devices when the process exits. Python is gone by then.
void end_with_process() {
  std::atexit([] {
    python_ended.store(true);
    device::DeviceRegistry::instance().shutdown();
  });
}

}  // namespace
}  // namespace openhpu

PYBIND11_MODULE(_C, m) {
  openhpu::hold_interrupts_during_forks();
  openhpu::load();
  // Before the static objects of PyTorch and its libraries are destroyed, which a worker may be using. The process
  // calls what was registered last first, and kernels make such objects when they first run: oneDNN's cache is one. So
  // it is registered again when Python begins to end. The one from here is for a process that exits otherwise.
  openhpu::end_with_process();
  py::module_::import("atexit").attr("register")(py::cpp_function(openhpu::end_with_process));
  openhpu::bind_device(m);
  openhpu::bind_memory(m);
  openhpu::bind_ops(m);
  openhpu::bind_observation(m);
  openhpu::bind_graph(m);
  openhpu::bind_capture(m);
  openhpu::bind_distributed(m);
  openhpu::bind_migration(m);
  openhpu::bind_custom(m);
  openhpu::register_script_graphs();
}
