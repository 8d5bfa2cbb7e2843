// The clock of DistributedDataParallel's logging (`_get_ddp_logging_data`): when the device came to where the host was.
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>

#include <array>

#include "device/event.h"
#include "torch/HPUDevice.h"

namespace c10d {
namespace {

class HPUTimer final : public Timer {
 public:
  explicit HPUTimer(c10::Device device) : device_(device) {}

  void record(Event event) override {
    Timer::record(event);  // the host's
    auto& point = points_[static_cast<size_t>(event)];
    point = std::make_unique<openhpu::device::Event>(/*timing=*/true);
    point->record(openhpu::stream_of(openhpu::current_stream(device_.index())));
  }

  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const auto &from = points_[static_cast<size_t>(start)], &to = points_[static_cast<size_t>(end)];
    if (!from || !to) return std::nullopt;
    const auto begin = from->timestamp_ns(), reached = to->timestamp_ns();
    return reached < begin ? std::nullopt : std::optional(static_cast<int64_t>(reached - begin));
  }

 private:
  const c10::Device device_;
  std::array<std::unique_ptr<openhpu::device::Event>, 5> points_;
};

C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kHPU, HPUTimer)

}  // namespace
}  // namespace c10d
