#include <torch/csrc/Device.h>
#include <torch/csrc/Event.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/Stream.h>
#include <torch/csrc/utils/pybind.h>

#include <map>
#include <string_view>

#include "python/bindings.h"

namespace openhpu {
namespace {

// torch.device, torch.Generator, torch.Stream and torch.Event. No class of Python's can stand in their place:
// isinstance, pickle and Dynamo ask for these types themselves.
std::map<PyTypeObject*, newfunc> originals;
// Called with the type's name for each translation; null: nobody listens.
PyObject* told_of = nullptr;

// hpu for cuda, as a name or a device; everything else as it is.
py::object on_hpu(py::handle value) {
  if (THPDevice_Check(value.ptr())) {
    const at::Device device = reinterpret_cast<THPDevice*>(value.ptr())->device;
    if (device.is_cuda()) return py::reinterpret_steal<py::object>(THPDevice_New({at::kHPU, device.index()}));
  } else if (PyUnicode_Check(value.ptr())) {
    const char* text = PyUnicode_AsUTF8(value.ptr());
    if (text == nullptr)
      PyErr_Clear();
    else if (const std::string_view name = text; name == "cuda" || name.starts_with("cuda:"))
      return py::str("hpu" + std::string(name.substr(4)));
  }
  return py::reinterpret_borrow<py::object>(value);
}

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  try {
    bool found = false;
    const auto translated = [&](py::handle value) {
      py::object result = on_hpu(value);
      found |= !result.is(value);
      return result;
    };
    py::tuple given(PyTuple_GET_SIZE(args));
    for (size_t k = 0; k < given.size(); ++k) given[k] = translated(PyTuple_GET_ITEM(args, k));
    py::dict named;
    if (kwargs != nullptr)
      for (auto [name, value] : py::reinterpret_borrow<py::dict>(kwargs)) named[name] = translated(value);
    if (found && told_of != nullptr) py::handle{told_of}(type->tp_name);
    PyTypeObject* base = type;
    while (!originals.contains(base)) base = base->tp_base;
    return originals.at(base)(type, given.ptr(), named.ptr());
  } catch (py::error_already_set& error) {
    error.restore();
    return nullptr;
  }
}

}  // namespace

void bind_migration(py::module& m) {
  m.def(
      "translate_cuda",
      [](bool on, const py::object& told) {
        Py_CLEAR(told_of);
        if (on && !told.is_none()) told_of = py::object(told).release().ptr();
        for (auto* type :
             {&THPDeviceType, reinterpret_cast<PyTypeObject*>(THPGeneratorClass), THPStreamClass, THPEventClass}) {
          const newfunc original = originals.emplace(type, type->tp_new).first->second;
          type->tp_new = on ? make : original;
          PyType_Modified(type);
        }
      },
      py::arg("on"), py::arg("told") = py::none());
}

}  // namespace openhpu
