#include <ATen/detail/HPUHooksInterface.h>

#include "torch/BesideCuda.h"
#include "torch/HPUAllocator.h"
#include "torch/HPUDevice.h"
#include "torch/HPUGenerator.h"

// PyTorch looks the hooks up under exactly this name.
struct HPUHooks final : at::HPUHooksInterface {
  explicit HPUHooks(at::HPUHooksArgs) {}

  // Nothing: the first memory or work opens a device.
  void init() const override {}
  bool hasHPU() const override { return true; }
  bool isBuilt() const override { return openhpu::is_accelerator(); }
  bool isAvailable() const override { return openhpu::device_count() > 0; }
  c10::DeviceIndex deviceCount() const override { return static_cast<c10::DeviceIndex>(openhpu::device_count()); }
  void setCurrentDevice(c10::DeviceIndex i) const override { openhpu::exchange_device(i); }
  c10::DeviceIndex getCurrentDevice() const override { return openhpu::current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex i) const override { return openhpu::exchange_device(i); }
  // For a negative index, the current device stays.
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex i) const override { return openhpu::exchange_device(i); }
  bool hasPrimaryContext(c10::DeviceIndex i) const override {
    auto& registry = openhpu::device::DeviceRegistry::instance();
    if (i < 0) i = openhpu::current_device();
    return registry.get_if_open(i < registry.count() ? i : 0) != nullptr;
  }
  bool isPinnedPtr(const void* data) const override { return openhpu::is_pinned_ptr(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return openhpu::pinned_allocator(); }
  c10::Device getDeviceFromPtr(void* data) const override {
    const int owner = openhpu::device::DeviceRegistry::instance().owner_of(data);
    TORCH_CHECK(owner >= 0, "The pointer ", data, " is not in the memory of an HPU device.");
    return {c10::kHPU, static_cast<c10::DeviceIndex>(owner)};
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex i) const override { return openhpu::default_generator(i); }
  at::Generator getNewGenerator(c10::DeviceIndex i) const override { return openhpu::new_generator(i); }
};

namespace at {
REGISTER_HPU_HOOKS(HPUHooks);
}
