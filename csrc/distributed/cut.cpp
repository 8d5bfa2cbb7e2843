#include "distributed/cut.h"

#include <atomic>

#include "record/Capture.h"
#include "record/Lazy.h"

namespace openhpu {
namespace {
std::atomic<bool> part_of_steps{true}, asked_for{true};
}  // namespace

void set_lazy_collectives(bool on, bool asked) noexcept {
  part_of_steps.store(on);
  asked_for.store(asked);
}
bool lazy_collectives_asked() noexcept { return asked_for.load(); }
bool lazy_collectives() noexcept { return part_of_steps.load(); }

void cut_for_collective(device::Device& d) {
  if (C10_UNLIKELY(current_capture(d) != nullptr))
    refuse_in_capture("hccl", "A graph waits only for its own collectives. Wait for others before the capture.");
  if (part_of_steps.load())
    Recorder::of(d).hand_over_piece();
  else
    flush(d);
}

}  // namespace openhpu
