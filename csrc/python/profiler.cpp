#include <torch/csrc/utils/pybind.h>

#include "device/device.h"
#include "device/trace.h"
#include "observe/MemoryHistory.h"
#include "observe/site.h"
#include "python/bindings.h"
#include "torch/Kineto.h"

namespace py = pybind11;

namespace openhpu {
namespace {

using device::Trace;
using device::TraceData;

py::object line_of(uint32_t site) {
  const auto [file, line] = resolve_site(site);
  if (!line) return py::none();
  return py::str(file + ":" + std::to_string(line));
}

}  // namespace

void bind_profiler(py::module& m) {
  register_profiler();
  m.def("trace_start", [](size_t most) { return Trace::start(most); }, py::arg("most_records") = size_t{1} << 22);
  // (records, spans, dropped, begin, end): what was issued since `trace_start` and has ended.
  m.def("trace_stop", [](uint64_t listener) {
    TraceData data;
    {
      py::gil_scoped_release no_gil;
      data = Trace::stop(listener);
    }
    py::list records, spans;
    for (const auto& r : data.records) {
      py::list marks;
      for (const auto& k : r.marks) marks.append(py::make_tuple(operator_name(k.name), k.begin, k.end, line_of(k.site)));
      records.append(py::make_tuple(
          operator_name(r.name), kind_name(r.kind), r.device, r.stream, r.correlation, r.bytes, r.operators, r.thread,
          r.launch_begin, r.launch_end, r.begin, r.end, line_of(r.site), marks));
    }
    for (const auto& s : data.spans)
      spans.append(py::make_tuple(s.name, s.detail, s.thread, s.begin, s.end, line_of(s.site)));
    return py::make_tuple(records, spans, data.dropped, data.begin, data.end);
  });
  m.def("tracing", &Trace::on);
  m.def("record_memory_history", &record_memory_history, py::arg("most"));
  // (events, blocks): (device, freed, address, bytes, line, microseconds) and (device, address, bytes, line).
  m.def("memory_history", [] {
    const auto [events, blocks] = memory_history();
    const auto line = [](uint32_t site) {
      const auto [file, number] = resolve_site(site);
      return py::make_tuple(file, number);
    };
    py::list told, alive;
    for (const auto& e : events)
      told.append(py::make_tuple(e.device, e.freed, e.address, e.nbytes, line(e.site), e.time_us));
    for (const auto& b : blocks) alive.append(py::make_tuple(b.device, b.address, b.nbytes, line(b.site)));
    return py::make_tuple(told, alive);
  });
}

}  // namespace openhpu
