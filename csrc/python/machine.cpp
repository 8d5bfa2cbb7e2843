// What the machine has, for programs that do without PyTorch (hl-smi): a module of its own that needs the device
// library only.
#include <pybind11/pybind11.h>

#include "device/host.h"
#include "kernels/AdamStep.h"

namespace py = pybind11;

PYBIND11_MODULE(_machine, m) {
  // A digest of the sources of what recipes call in the core.
  m.attr("recipe_calls") = OPENHPU_RECIPE_CALLS;
  m.attr("adam_step_schema") = openhpu::kAdamStepSchema;
  m.def("device_memory", &openhpu::device::device_memory, py::arg("root") = "");
  m.def("usable_cores", &openhpu::device::usable_cores, py::arg("processes") = 1, py::arg("root") = "");
  m.def("leave_openmp_binding", &openhpu::device::leave_openmp_binding);
}
