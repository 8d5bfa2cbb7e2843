#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>

namespace openhpu {
pybind11::object site_of(uint32_t site);  // (file, line); None where it is unknown
void bind_events(pybind11::module& m);  // events, counters and source lines
void bind_capture(pybind11::module& m); // graph captures and replays
void bind_distributed(pybind11::module& m);  // the process group
void bind_migration(pybind11::module& m);    // scripts written for CUDA
void bind_profiler(pybind11::module& m);     // torch.profiler and traces
void register_script_graphs();          // TorchScript's graphs
void bind_graph(pybind11::module& m);   // lazy mode, and the compiler's side of the graph cache
}
