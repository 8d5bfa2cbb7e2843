// User operators and their kernels.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <dlfcn.h>
#include <torch/csrc/utils/pybind.h>

#include "call/UserOperator.h"
#include "python/bindings.h"
#include "run/VendorKernels.h"

namespace openhpu {
namespace {

// Connects a library that users link. It stays loaded, so that libraries of users find it by its name.
void connect(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  TORCH_CHECK(library, "the library for user operators cannot be loaded: ", dlerror());
  const auto found = reinterpret_cast<Connect>(dlsym(library, kConnect));
  TORCH_CHECK(found, path, " has no function ", kConnect, ": install openhpu again");
  found(&user_operators());
}

at::Tensor over(const Operand& operand) {
  const auto options = at::TensorOptions().dtype(static_cast<at::ScalarType>(operand.dtype));
  const c10::IntArrayRef sizes(operand.sizes, static_cast<size_t>(operand.dim));
  return operand.data ? at::from_blob(operand.data, sizes, options) : at::empty(sizes, options);
}

// Runs a function of Python: LibraryKernel::run.
void run_python(void* function, const KernelCall& call) {
  const Gil gil;
  try {
    py::list inputs, outputs;
    for (size_t i = 0; i < call.input_count; ++i)
      inputs.append(call.inputs[i].sizes ? py::cast(over(call.inputs[i])) : py::none());
    for (size_t i = 0; i < call.output_count; ++i) outputs.append(over(call.outputs[i]));
    const py::bytes params(static_cast<const char*>(call.params), call.params_size);
    py::handle(static_cast<PyObject*>(function))(call.op, inputs, outputs, params);
  } catch (py::error_already_set& error) {
    throw std::runtime_error(error.what());
  }
}

// The function lives as long as the process, as the table of kernels does.
void add_python(const std::string& guid, const py::function& run) {
  add_python_kernel(guid.c_str(), {&run_python, nullptr, run.inc_ref().ptr()});
}

}  // namespace

void bind_custom(py::module& m) {
  m.def("connect_plugin", &connect);
  m.def("set_kernel_libraries", &set_kernel_libraries);
  m.def("set_library_runner", [](uintptr_t runner) { set_library_runner(reinterpret_cast<LibraryRunner*>(runner)); });
  m.def("add_python_kernel", &add_python);
  m.def("check_kernels", [](bool on) { g_check_kernels.store(on); });
  m.def("take_registration_errors", &take_registration_errors);
  m.def("vendor_families", [] {
    py::list found;
    for (const auto& family : vendor_families())
      found.append(
          py::dict(
              "name"_a = family.name, "dtypes"_a = family.dtypes, "operands"_a = family.operands,
              "params"_a = family.params, "computes"_a = family.computes, "source"_a = family.source));
    return found;
  });
  m.def("user_operators", [] {
    py::list found;
    for (const auto* op : all_user_operators()) {
      const auto* kernel = op->op().kernel.load();
      found.append(
          py::dict(
              "schema"_a = op->op().schema, "guid"_a = op->op().guid, "legacy"_a = op->registration().legacy,
              "kernel"_a = kernel ? py::object(py::str(kernel->source)) : py::none(),
              "python"_a = kernel && kernel->holds_python, "calls"_a = op->calls()));
    }
    return found;
  });
}

}  // namespace openhpu
