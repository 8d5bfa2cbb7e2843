#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <memory>

#include "device/event.h"

namespace openhpu {

// While it exists, events that this thread records are this point, on any stream.
class RecordBeside {
 public:
  explicit RecordBeside(const std::shared_ptr<device::Point>& point);
  ~RecordBeside();
  RecordBeside(const RecordBeside&) = delete;
  RecordBeside& operator=(const RecordBeside&) = delete;
};

// Devices, streams and events for PyTorch's generic torch.Stream, torch.Event, torch.accelerator and for autograd.
struct HPUGuardImpl final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kHPU; }
  c10::Device exchangeDevice(c10::Device d) const override;
  c10::Device getDevice() const override;
  void setDevice(c10::Device d) const override;
  void uncheckedSetDevice(c10::Device d) const noexcept override;
  c10::DeviceIndex deviceCount() const noexcept override;
  c10::DeviceCapability getDeviceCapability(c10::Device d) const override;

  c10::Stream getStream(c10::Device d) const override;
  c10::Stream getDefaultStream(c10::Device d) const override;
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool high_priority) const override;
  c10::Stream getNewStream(c10::Device d, int priority) const override;
  c10::Stream exchangeStream(c10::Stream s) const override;
  void* getStreamNativeHandle(const c10::Stream s) const override;
  bool queryStream(const c10::Stream& s) const override;
  void synchronizeStream(const c10::Stream& s) const override;
  void synchronizeDevice(const c10::DeviceIndex index) const override;

  void record(void** event, const c10::Stream& s, const c10::DeviceIndex index, const c10::EventFlag flag) const override;
  void block(void* event, const c10::Stream& s) const override;
  bool queryEvent(void* event) const override;
  void synchronizeEvent(void* event) const override;
  double elapsedTime(void* begin, void* end, const c10::DeviceIndex index) const override;
  void destroyEvent(void* event, const c10::DeviceIndex index) const noexcept override;
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
};

}  // namespace openhpu
