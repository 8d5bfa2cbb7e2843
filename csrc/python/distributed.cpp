#include <torch/csrc/utils/pybind.h>

#include "distributed/ProcessGroupHCCL.h"
#include "python/bindings.h"

namespace openhpu {

void bind_distributed(py::module& m) {
  // A class in Python, too, since split_group asks for `options`, which PyTorch's class Backend lacks.
  py::class_<ProcessGroupHCCL::Options, c10::intrusive_ptr<ProcessGroupHCCL::Options>, c10d::Backend::Options>(
      m, "ProcessGroupHCCLOptions")
      .def("__deepcopy__", [](const ProcessGroupHCCL::Options& self, const py::dict&) {
        return c10::make_intrusive<ProcessGroupHCCL::Options>(self);
      });
  py::class_<ProcessGroupHCCL, c10::intrusive_ptr<ProcessGroupHCCL>, c10d::Backend>(m, "ProcessGroupHCCL")
      .def(
          py::init([](c10::intrusive_ptr<c10d::Backend> transport, const c10::intrusive_ptr<c10d::Store>& store,
                      bool node) { return c10::make_intrusive<ProcessGroupHCCL>(std::move(transport), *store, node); }),
          py::arg("transport"), py::arg("store"), py::arg("node"), py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("options", &ProcessGroupHCCL::getBackendOptions)
      // PyTorch calls it in ranks that are not part of a new group, of a backend that can be split and whose device is
      // bound. Only the members communicate here.
      .def("perform_nocolor_split", [](ProcessGroupHCCL&, const py::object&) {}, py::arg("device"));
  m.def("interruptible", [](c10::intrusive_ptr<c10d::Store> store) -> c10::intrusive_ptr<c10d::Store> {
    return c10::make_intrusive<transport::InterruptibleStore>(std::move(store));
  });
  m.def("abandon_collectives", [] {
    py::gil_scoped_release no_gil;
    Collective::abandon_all();
  });
}

}  // namespace openhpu
