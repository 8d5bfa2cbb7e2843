#pragma once

namespace openhpu {

// Makes torch.profiler see the devices: ProfilerActivity.HPU. Costs nothing until somebody profiles.
void register_profiler();

}  // namespace openhpu
