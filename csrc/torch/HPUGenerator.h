#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GeneratorImpl.h>

namespace openhpu {

// The device's random generator. It is PyTorch's CPU generator with another name (same states, same seeds: after
// torch.manual_seed(s) torch.get_rng_state() == torch.hpu.get_rng_state()). Operators draw one 32-bit seed from it
// when they are issued; their numbers are a counter-based function of that seed (kernels/philox.h).
class HPUGeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit HPUGeneratorImpl(c10::DeviceIndex index);

  uint32_t draw_seed();

  void set_current_seed(uint64_t seed) override { inner_.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { inner_.set_offset(offset); }
  uint64_t get_offset() const override { return inner_.get_offset(); }
  uint64_t current_seed() const override { return inner_.current_seed(); }
  uint64_t seed() override { return inner_.seed(); }
  void set_state(const c10::TensorImpl& state) override { inner_.set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return inner_.get_state(); }
  static c10::DeviceType device_type() { return c10::kHPU; }

 private:
  HPUGeneratorImpl* clone_impl() const override;
  at::CPUGeneratorImpl inner_;
};

// Index -1: the current device.
const at::Generator& default_generator(c10::DeviceIndex index);
at::Generator new_generator(c10::DeviceIndex index);

// One seed from the given generator, or from the device's own. A generator of the CPU is allowed, because a Gaudi's
// generators are on the CPU. A generator of another device is PyTorch's error.
uint32_t draw_seed(const std::optional<at::Generator>& generator, c10::DeviceIndex index);

}  // namespace openhpu
