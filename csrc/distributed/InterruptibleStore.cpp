#include "distributed/InterruptibleStore.h"

#include <algorithm>
#include <thread>

#include "device/blocking_wait.h"

namespace openhpu {

std::vector<uint8_t> InterruptibleStore::get(const std::string& key) {
  await({key}, getTimeout());
  return PrefixStore::get(key);
}

std::vector<std::vector<uint8_t>> InterruptibleStore::multiGet(const std::vector<std::string>& keys) {
  await(keys, getTimeout());
  return PrefixStore::multiGet(keys);
}

void InterruptibleStore::await(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) {
  using Clock = std::chrono::steady_clock;
  device::BlockingWait waiting;
  if (!waiting.hears(device::OnInterrupt::Throw)) return PrefixStore::wait(keys, timeout);
  const auto end = Clock::now() + timeout;
  auto pause = std::chrono::milliseconds(1);
  while (!check(keys)) {
    if (timeout.count() > 0 && Clock::now() >= end)
      C10_THROW_ERROR(
          DistStoreError, c10::str(
              "wait timeout after ", timeout.count(), "ms, keys: ", c10::Join(", ", keys),
              ". Another rank has not come to the creation of the process group, or has ended."));
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, device::BlockingWait::kAsk);
    waiting.interrupted(device::OnInterrupt::Throw);
  }
}

}  // namespace openhpu
