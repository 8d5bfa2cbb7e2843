#pragma once

#include "device/device.h"

namespace openhpu {

// Called before a command that separates two parts of a step in the queue. Hands over the recording before it.
void cut_for_collective(device::Device& d);
// Whether collectives lie in the middle of lazy graphs' steps (PT_HPU_ENABLE_LAZY_COLLECTIVES); else each of them ends one.
// `asked`: whether the script set it. Else a graph that holds a collective is a kindness.
void set_lazy_collectives(bool on, bool asked) noexcept;
bool lazy_collectives_asked() noexcept;
bool lazy_collectives() noexcept;

}  // namespace openhpu
