#include "torch/HPUGuard.h"

#include "device/event.h"
#include "observe/events.h"
#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

c10::Device hpu(c10::DeviceIndex index) { return c10::Device(c10::kHPU, index); }
c10::DeviceIndex index_of(c10::Device d) { return d.index() < 0 ? current_device() : d.index(); }
device::Event* as_event(void* p) { return static_cast<device::Event*>(p); }

thread_local const std::shared_ptr<device::Point>* tls_beside = nullptr;

}  // namespace

RecordBeside::RecordBeside(const std::shared_ptr<device::Point>& point) { tls_beside = &point; }
RecordBeside::~RecordBeside() { tls_beside = nullptr; }

c10::Device HPUGuardImpl::exchangeDevice(c10::Device d) const { return hpu(exchange_device(d.index())); }
c10::Device HPUGuardImpl::getDevice() const { return hpu(current_device()); }
void HPUGuardImpl::setDevice(c10::Device d) const { set_device(d.index()); }
void HPUGuardImpl::uncheckedSetDevice(c10::Device d) const noexcept { unchecked_set_device(d.index()); }
c10::DeviceIndex HPUGuardImpl::deviceCount() const noexcept { return static_cast<c10::DeviceIndex>(device_count()); }

c10::DeviceCapability HPUGuardImpl::getDeviceCapability(c10::Device) const {
  c10::DeviceCapability capability;  // by default all scalar types: kernels are PyTorch's CPU kernels
  return capability;
}

c10::Stream HPUGuardImpl::getStream(c10::Device d) const { return current_stream(index_of(d)); }
c10::Stream HPUGuardImpl::getDefaultStream(c10::Device d) const {
  return c10::Stream(c10::Stream::DEFAULT, hpu(index_of(d)));
}
c10::Stream HPUGuardImpl::getStreamFromGlobalPool(c10::Device d, bool high_priority) const {
  return getNewStream(d, high_priority ? -1 : 0);
}
c10::Stream HPUGuardImpl::getNewStream(c10::Device d, int priority) const {
  const auto index = index_of(d);
  return c10::Stream(c10::Stream::UNSAFE, hpu(index), device_of(index).new_stream(priority).id());
}
c10::Stream HPUGuardImpl::exchangeStream(c10::Stream s) const { return exchange_stream(s); }
void* HPUGuardImpl::getStreamNativeHandle(const c10::Stream s) const { return &stream_of(s); }
bool HPUGuardImpl::queryStream(const c10::Stream& s) const {
  flush(device_of(s.device_index()));
  return stream_of(s).query();
}
void HPUGuardImpl::synchronizeStream(const c10::Stream& s) const {
  check_wait(device_of(s.device_index()), "Stream.synchronize");
  count(Counter::Synchronizations);
  flush(device_of(s.device_index()));
  stream_of(s).synchronize();
  raise_pending_error(device_of(s.device_index()));
}
void HPUGuardImpl::synchronizeDevice(const c10::DeviceIndex index) const { synchronize(index); }

void HPUGuardImpl::record(
    void** event, const c10::Stream& s, const c10::DeviceIndex index, const c10::EventFlag flag) const {
  TORCH_CHECK(
      index == -1 || index == s.device_index(), "An event of device hpu:", static_cast<int>(index),
      " can't be recorded on a stream of device hpu:", static_cast<int>(s.device_index()));
  if (!*event) *event = new device::Event(flag == c10::EventFlag::BACKEND_DEFAULT);
  if (tls_beside) {
    as_event(*event)->record(*tls_beside);
    return;
  }
  flush(device_of(s.device_index()));
  as_event(*event)->record(stream_of(s));
}
void HPUGuardImpl::block(void* event, const c10::Stream& s) const {
  if (!event) return;
  auto& stream = stream_of(s);
  if (as_event(event)->is_elsewhere(stream)) flush(device_of(s.device_index()));
  as_event(event)->block(stream);
}
bool HPUGuardImpl::queryEvent(void* event) const { return !event || as_event(event)->query(); }
void HPUGuardImpl::synchronizeEvent(void* event) const {
  if (!event) return;
  check_wait(device_of(-1), "Event.synchronize");
  count(Counter::Synchronizations);
  as_event(event)->synchronize();
  raise_pending_errors();
}
double HPUGuardImpl::elapsedTime(void* begin, void* end, const c10::DeviceIndex) const {
  TORCH_CHECK(begin && end, "Both events must be recorded before calculating elapsed time.");
  try {
    return device::Event::elapsed_ms(*as_event(begin), *as_event(end));
  } catch (const std::invalid_argument& e) {
    TORCH_CHECK(false, e.what());
  }
}
void HPUGuardImpl::destroyEvent(void* event, const c10::DeviceIndex) const noexcept { delete as_event(event); }

C10_REGISTER_GUARD_IMPL(HPU, HPUGuardImpl);

}  // namespace openhpu
