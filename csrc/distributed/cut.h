#pragma once

#include "record/Capture.h"
#include "record/Lazy.h"

namespace openhpu {

// Whether collectives lie in the middle of lazy graphs' steps (PT_HPU_ENABLE_LAZY_COLLECTIVES); else each of them ends one.
// `asked`: whether the script set it. Else a graph that holds a collective is a kindness.
inline std::atomic<bool> g_lazy_collectives{true}, g_lazy_collectives_asked{true};

// Called before a command that separates two parts of a step in the queue. Hands over the recording before it.
inline void cut_for_collective(device::Device& d) {
  if (C10_UNLIKELY(current_capture(d) != nullptr))
    refuse_in_capture("hccl", "A graph waits only for its own collectives. Wait for others before the capture.");
  if (g_lazy_collectives.load())
    Recorder::of(d).hand_over_piece();
  else
    flush(d);
}

}  // namespace openhpu
