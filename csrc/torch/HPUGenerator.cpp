#include "torch/HPUGenerator.h"

#include <ATen/CPUGeneratorImpl.h>

#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

// The device's random generator. It is PyTorch's CPU generator for another device (same states, same seeds: after
// torch.manual_seed(s) torch.get_rng_state() == torch.hpu.get_rng_state()). Operators draw one 32-bit seed from it
// when they are issued; their numbers are a counter-based function of that seed (kernels/philox.h).
class HPUGeneratorImpl final : public at::CPUGeneratorImpl {
 public:
  explicit HPUGeneratorImpl(c10::DeviceIndex index) {
    device_ = c10::Device(c10::kHPU, index);
    key_set_ = c10::DispatchKeySet(c10::DispatchKey::HPU);
  }
  // PyTorch asks every device but the CPU for an offset when it copies or pickles a generator.
  uint64_t get_offset() const override { return 0; }
  void set_offset(uint64_t offset) override { TORCH_CHECK(offset == 0, "HPU Generator does not use offset"); }

 private:
  HPUGeneratorImpl* clone_impl() const override {
    auto* copy = new HPUGeneratorImpl(device().index());
    copy->set_state(*get_state());
    return copy;
  }
};

}  // namespace

const at::Generator& default_generator(c10::DeviceIndex index) {
  index = normalize_index(index);
  static auto* generators = [] {
    auto* all = new std::array<at::Generator, kMaxDevices>();
    for (int i = 0; i < kMaxDevices; ++i)
      (*all)[i] = at::make_generator<HPUGeneratorImpl>(static_cast<c10::DeviceIndex>(i));
    return all;
  }();
  return (*generators)[index];
}

at::Generator new_generator(c10::DeviceIndex index) {
  return at::make_generator<HPUGeneratorImpl>(normalize_index(index));
}

uint32_t draw_seed(const std::optional<at::Generator>& generator, c10::DeviceIndex index) {
  const at::Generator& g = generator.has_value() && generator->defined() ? *generator : default_generator(index);
  const auto type = g.device().type();
  TORCH_CHECK(
      type == c10::kHPU || type == c10::kCPU, "Expected a 'hpu' or 'cpu' device type for generator but found '", type,
      "'");
  auto* impl = static_cast<at::CPUGeneratorImpl*>(g.unsafeGetGeneratorImpl());
  std::lock_guard<std::mutex> lock(impl->mutex_);
  return impl->random();
}

}  // namespace openhpu
