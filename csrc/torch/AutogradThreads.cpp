#include "torch/AutogradThreads.h"

#include <torch/csrc/autograd/engine.h>

#include <thread>

#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

// Each side writes its own and then reads the other's: the engine learns of the devices, or they learn of the engine.
std::atomic<bool> hpu_opened{false};
std::atomic<bool> engine_saw_none{false};
std::atomic<bool> stream_asked{false};

// Access to what the engine keeps for classes derived from it.
struct DeviceThreads : torch::autograd::Engine {
  using Queue = torch::autograd::ReadyQueue;

  static void start(torch::autograd::Engine& engine) {
    auto& queues = engine.*(&DeviceThreads::device_ready_queues_);
    if (!queues.empty()) return;
    std::vector<std::shared_ptr<Queue>> made(static_cast<size_t>(device_count()));
    for (auto& queue : made) queue = std::make_shared<Queue>();
    queues = made;
    for (size_t index = 0; index < made.size(); ++index) {
      // Counted here rather than in the thread: at its end the engine waits for those that are counted.
      (engine.*(&DeviceThreads::increment_non_reentrant_thread_count))();
      std::thread([&engine, index, queue = made[index]] {
        engine.thread_init(static_cast<int>(index), queue, /*should_increment=*/false);
        (engine.*(&DeviceThreads::decrement_non_reentrant_thread_count))();
      }).detach();
    }
  }
};

}  // namespace

c10::DeviceIndex devices_of_autograd() noexcept {
  if (!hpu_opened.load()) {
    engine_saw_none.store(true);
    if (!hpu_opened.load()) return 0;
  }
  return static_cast<c10::DeviceIndex>(device_count());
}

void open_for_autograd() {
  if (hpu_opened.exchange(true) || !engine_saw_none.load()) return;
  auto& engine = torch::autograd::Engine::get_default_engine();
  engine.initialize_device_threads_pool();  // waits for a thread that is just doing it
  DeviceThreads::start(engine);
}

void note_stream_question() {
  if (!hpu_opened.load(std::memory_order_relaxed) && !t_script_asks) stream_asked.store(true);
}

bool may_note_tensors() { return !hpu_opened.load(std::memory_order_relaxed) && stream_asked.exchange(false); }

}  // namespace openhpu
