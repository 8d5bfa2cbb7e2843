#include "device/blocking_wait.h"

namespace openhpu::device {

bool BlockingWait::interrupted(OnInterrupt what) const {
  if (what == OnInterrupt::Throw) {
    above.handle_signals();
    return false;
  }
  return what == OnInterrupt::Return && above.interrupt_pending();
}

}  // namespace openhpu::device
