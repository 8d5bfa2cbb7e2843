#pragma once

#include "device/trace.h"

namespace openhpu {

// Makes torch.profiler see the devices: ProfilerActivity.HPU. Costs nothing until somebody profiles.
void register_profiler();

// The calling thread's stream, operation and annotation (see Above).
void describe_origin(device::TraceRecord& record);

// The name of a record's kind.
const char* kind_name(device::TraceKind kind);
// An operator's name as PyTorch's events have it: without the overload's.
std::string operator_name(const char* name);

}  // namespace openhpu
