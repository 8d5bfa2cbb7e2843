#pragma once

#include "device/trace.h"

namespace openhpu {

// Makes torch.profiler see the devices: ProfilerActivity.HPU. Costs nothing until somebody profiles.
void register_profiler();

// The calling thread's stream, operation and annotation (see Above).
void describe_origin(device::TraceRecord& record);

}  // namespace openhpu
