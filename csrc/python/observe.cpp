#include <torch/csrc/utils/pybind.h>

#include "distributed/Collective.h"
#include "observe/MemoryHistory.h"
#include "observe/events.h"
#include "observe/site.h"
#include "python/bindings.h"
#include "torch/Kineto.h"

namespace openhpu {

py::object site_of(uint32_t site) {
  auto [file, line] = resolve_site(site);
  if (line == 0) return py::none();
  return py::make_tuple(file, line);
}

py::object line_of(uint32_t site) {
  const auto [file, line] = resolve_site(site);
  if (!line) return py::none();
  return py::str(file + ":" + std::to_string(line));
}

namespace {

void call_listener(const py::object& fn, const Event& event) {
  py::gil_scoped_acquire gil;
  py::dict params;
  for (const auto& [name, value] : event.params) params[name] = py::cast(value);
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

void bind_observation(py::module& m) {
  // The folders of torch and of the packages beside this module (src/ or site-packages), and files of the standard
  // library through which a script is called: with blocks, decorators, threads.
  auto dirname = py::module_::import("os.path").attr("dirname");
  const auto torch = py::cast<std::string>(dirname(py::module_::import("torch").attr("__file__")));
  const auto own = py::cast<std::string>(dirname(py::module_::import("openhpu").attr("__file__")));
  const auto beside = py::cast<std::string>(dirname(own));
  for (const auto& folder : {torch, own, beside + "/habana_frameworks", beside + "/lightning_habana"})
    add_library_folder(folder + "/");
  for (const char* name : {"contextlib", "functools", "threading", "concurrent.futures.thread"})
    add_library_folder(py::cast<std::string>(py::module_::import(name).attr("__file__")));
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
  register_profiler();
  m.def(
      "trace_start", [](size_t most) { return device::Trace::start(most); }, py::arg("most_records") = size_t{1} << 22);
  // (records, spans, dropped, begin, end): what was issued since `trace_start` and has ended.
  m.def("trace_stop", [](uint64_t listener) {
    device::TraceData data;
    {
      py::gil_scoped_release no_gil;
      data = device::Trace::stop(listener);
    }
    py::list records, spans;
    for (const auto& r : data.records) {
      py::list marks;
      for (const auto& k : r.marks)
        marks.append(py::make_tuple(operator_name(k.name), k.begin, k.end, line_of(k.site)));
      records.append(
          py::make_tuple(
              operator_name(r.name), kind_name(r.kind), r.device, r.stream, r.correlation, r.bytes, r.operators,
              r.thread, r.launch_begin, r.launch_end, r.begin, r.end, line_of(r.site), marks));
    }
    for (const auto& s : data.spans)
      spans.append(py::make_tuple(s.name, s.detail, s.thread, s.begin, s.end, line_of(s.site)));
    return py::make_tuple(records, spans, data.dropped, data.begin, data.end);
  });
  m.def("tracing", &device::Trace::on);
  m.def("record_memory_history", &record_memory_history, py::arg("most"));
  // (events, blocks): (device, freed, address, bytes, line, microseconds) and (device, address, bytes, line).
  m.def("memory_history", [] {
    const auto [events, blocks] = memory_history();
    py::list told, alive;
    for (const auto& e : events)
      told.append(py::make_tuple(e.device, e.freed, e.address, e.nbytes, resolve_site(e.site), e.time_us));
    for (const auto& b : blocks) alive.append(py::make_tuple(b.device, b.address, b.nbytes, resolve_site(b.site)));
    return py::make_tuple(told, alive);
  });
}

}  // namespace openhpu
