#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "torch/HPUAllocator.h"

// PT_COMPILE_ONLY_MODE: graphs are recorded and compiled, and nothing is launched. Operators leave results of the right
// sizes, whose contents nobody computed. Copies between host and device run, as do collectives, and operators whose
// results' sizes depend on values. What a script can see of this later is told as events (kNotRun):
//   write: an operator would have changed memory that is older than the mode;
//   read: the host reads memory whose contents an operator would have made;
//   kept: such memory is alive when the mode ends. It is told with the line that made it.
namespace openhpu {

// The number of the period in which the mode is on; 0: it is off.
inline std::atomic<uint32_t> g_compile_only{0};
inline uint32_t compile_only() noexcept { return g_compile_only.load(std::memory_order_relaxed); }

// Hands over what all devices have recorded, and begins or ends a period. Not within a capture's recording.
void set_compile_only(bool on);

// The storage's memory is made while the mode is on.
void note_made(HPUMemory& memory);
// Its contents are made after all, by a copy.
void note_contents(HPUMemory& memory);
// It goes. Called for memory with `born` alone.
void forget_made(HPUMemory& memory);
// While the mode is on: an operator would write to it; the host reads it.
void note_left_out_write(const HPUMemory& memory, const std::string& op);
void note_undefined_read(const HPUMemory& memory, const char* op);

}  // namespace openhpu
