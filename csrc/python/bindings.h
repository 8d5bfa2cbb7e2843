#pragma once

#include <pybind11/pybind11.h>

namespace openhpu {
void bind_events(pybind11::module& m);  // events, counters and source lines
}
