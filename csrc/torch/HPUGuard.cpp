#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "observe/events.h"
#include "torch/AutogradThreads.h"
#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

c10::Device hpu(c10::DeviceIndex index) { return c10::Device(c10::kHPU, index); }
c10::DeviceIndex index_of(c10::Device d) { return d.index() < 0 ? current_device() : d.index(); }
device::Event* as_event(void* p) { return static_cast<device::Event*>(p); }

// Devices, streams and events for PyTorch's generic torch.Stream, torch.Event, torch.accelerator and for autograd.
struct HPUGuardImpl final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kHPU; }
  c10::Device exchangeDevice(c10::Device d) const override { return hpu(exchange_device(d.index())); }
  c10::Device getDevice() const override { return hpu(current_device()); }
  void setDevice(c10::Device d) const override { exchange_device(d.index()); }
  void uncheckedSetDevice(c10::Device d) const noexcept override { unchecked_set_device(d.index()); }
  // PyTorch's autograd engine asks; the others ask the hooks.
  c10::DeviceIndex deviceCount() const noexcept override { return devices_of_autograd(); }
  // By default all scalar types: kernels are PyTorch's CPU kernels.
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }

  c10::Stream getStream(c10::Device d) const override {
    note_stream_question();
    return current_stream(index_of(d));
  }
  c10::Stream getDefaultStream(c10::Device d) const override {
    return c10::Stream(c10::Stream::DEFAULT, hpu(index_of(d)));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool high_priority) const override {
    return getNewStream(d, high_priority ? -1 : 0);
  }
  c10::Stream getNewStream(c10::Device d, int priority) const override { return new_stream(index_of(d), priority); }
  c10::Stream exchangeStream(c10::Stream s) const override { return exchange_stream(s); }
  void* getStreamNativeHandle(const c10::Stream s) const override { return &stream_of(s); }
  bool queryStream(const c10::Stream& s) const override {
    const auto& stream = stream_of(s);
    if (auto* d = open_device(s.device_index())) flush(*d);
    return stream.query();
  }
  void synchronizeStream(const c10::Stream& s) const override {
    const auto& stream = stream_of(s);
    auto* d = open_device(s.device_index());
    if (d) check_wait(*d, "Stream.synchronize");
    count(Counter::Synchronizations);
    if (!d) return;
    flush(*d);
    stream.synchronize();
    raise_pending_error(*d);
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override { synchronize(index); }

  void record(
      void** event, const c10::Stream& s, const c10::DeviceIndex index, const c10::EventFlag flag) const override {
    TORCH_CHECK(
        index == -1 || index == s.device_index(), "An event of device hpu:", static_cast<int>(index),
        " can't be recorded on a stream of device hpu:", static_cast<int>(s.device_index()));
    if (!*event) *event = new device::Event(flag == c10::EventFlag::BACKEND_DEFAULT);
    if (t_record_beside) {
      as_event(*event)->record(*t_record_beside);
      return;
    }
    auto& stream = stream_of(s);
    if (auto* d = open_device(s.device_index())) {
      flush(*d);
      as_event(*event)->record(stream);
    } else {
      as_event(*event)->record_at_once();
    }
  }
  void block(void* event, const c10::Stream& s) const override {
    auto& stream = stream_of(s);
    if (!event || !as_event(event)->has_point()) return;  // reached: no device is needed
    auto& d = device_of(s.device_index());
    if (as_event(event)->is_elsewhere(stream)) flush(d);
    as_event(event)->block(stream);
  }
  bool queryEvent(void* event) const override { return !event || as_event(event)->query(); }
  void synchronizeEvent(void* event) const override {
    if (!event) return;
    if (auto* d = open_device(-1)) check_wait(*d, "Event.synchronize");
    count(Counter::Synchronizations);
    as_event(event)->synchronize();
    raise_pending_errors();
  }
  double elapsedTime(void* begin, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(begin && end, "Both events must be recorded before calculating elapsed time.");
    try {
      return device::Event::elapsed_ms(*as_event(begin), *as_event(end));
    } catch (const std::invalid_argument& e) {
      TORCH_CHECK(false, e.what());
    }
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete as_event(event); }
};

}  // namespace

C10_REGISTER_GUARD_IMPL(HPU, HPUGuardImpl);

}  // namespace openhpu
