#include <torch/csrc/utils/pybind.h>

#include <algorithm>

#include "call/Fallback.h"
#include "distributed/Collective.h"
#include "observe/events.h"
#include "observe/site.h"
#include "python/bindings.h"
#include "python/frames.h"

namespace py = pybind11;

namespace openhpu {

py::object site_of(uint32_t site) {
  auto [file, line] = resolve_site(site);
  if (line == 0) return py::none();
  return py::make_tuple(file, line);
}

namespace {

py::object as_python(const EventValue& v) {
  return std::visit([](const auto& x) -> py::object { return py::cast(x); }, v);
}

void call_listener(const py::object& fn, const Event& event) {
  py::gil_scoped_acquire gil;
  py::dict params;
  for (const auto& [name, value] : event.params) params[name] = as_python(value);
  try {
    fn(event.kind, event.time_ns, site_of(event.site), params);
  } catch (py::error_already_set& e) {
    // A listener must not change what the program does, nor take an interrupt from it that happened to come meanwhile.
    if (e.matches(PyExc_KeyboardInterrupt))
      PyErr_SetInterrupt();
    else
      e.discard_as_unraisable("an openhpu event listener");
  }
}

}  // namespace

void bind_events(py::module& m) {
  // The folders of torch and of the packages beside this module (src/ or site-packages).
  auto dirname = py::module_::import("os.path").attr("dirname");
  const auto torch = py::cast<std::string>(dirname(py::module_::import("torch").attr("__file__")));
  const auto own = py::cast<std::string>(dirname(py::module_::import("openhpu").attr("__file__")));
  const auto beside = py::cast<std::string>(dirname(own));
  for (const auto& folder : {torch, own, beside + "/habana_frameworks", beside + "/lightning_habana"})
    add_library_folder(folder + "/");
  m.def("add_library_folder", &add_library_folder);
  m.def("set_event_listener", [](py::object fn, const std::vector<std::string>& kinds) {
    if (fn.is_none()) {
      py::gil_scoped_release no_gil;
      set_event_listener({}, 0);
      return;
    }
    uint32_t mask = 0;
    for (uint32_t bit = 1; bit < kAllEvents; bit <<= 1)
      if (std::ranges::find(kinds, kind_name(static_cast<EventKind>(bit))) != kinds.end()) mask |= bit;
    // The function object is kept for the process: an event may be on its way when the listener changes.
    auto* kept = new py::object(std::move(fn));
    set_event_listener([kept](const Event& e) { call_listener(*kept, e); }, mask);
  });
  m.def("counters", [] {
    py::dict d;
    for (const auto& [name, value] : counter_values()) d[py::str(name)] = value;
    return d;
  });
  m.def("collective_times", [] {
    py::list rows;
    for (const auto& [of, t] : collective_times())
      rows.append(py::make_tuple(of.first, site_of(of.second), t.count, t.bytes, t.wait_ns));
    return rows;
  });
  m.def("site_count", &site_count);
  m.def("current_site", [] { return site_of(current_site()); });
}

}  // namespace openhpu
