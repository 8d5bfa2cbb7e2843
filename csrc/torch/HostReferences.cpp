#include "torch/HostReferences.h"

namespace openhpu {
namespace {
std::mutex mutex;
std::vector<c10::Storage> returned;
std::atomic<bool> any{false};
}  // namespace

void return_to_host(c10::Storage storage) {
  std::lock_guard<std::mutex> lock(mutex);
  returned.push_back(std::move(storage));
  any.store(true, std::memory_order_release);
}

void release_returned() {
  if (!any.load(std::memory_order_acquire)) return;
  std::vector<c10::Storage> taken;
  {
    std::lock_guard<std::mutex> lock(mutex);
    taken.swap(returned);
    any.store(false, std::memory_order_release);
  }
}

}  // namespace openhpu
