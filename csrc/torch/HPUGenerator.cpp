#include "torch/HPUGenerator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GeneratorImpl.h>

#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

// The device's random generator. It is PyTorch's CPU generator with another name (same states, same seeds: after
// torch.manual_seed(s) torch.get_rng_state() == torch.hpu.get_rng_state()). Operators draw one 32-bit seed from it
// when they are issued; their numbers are a counter-based function of that seed (kernels/philox.h).
class HPUGeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit HPUGeneratorImpl(c10::DeviceIndex index)
      : c10::GeneratorImpl(c10::Device(c10::kHPU, index), c10::DispatchKeySet(c10::DispatchKey::HPU)) {}

  uint32_t draw_seed() {
    std::lock_guard<std::mutex> lock(mutex_);
    return inner_.random();
  }

  void set_current_seed(uint64_t seed) override { inner_.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { inner_.set_offset(offset); }
  uint64_t get_offset() const override { return inner_.get_offset(); }
  uint64_t current_seed() const override { return inner_.current_seed(); }
  uint64_t seed() override { return inner_.seed(); }
  void set_state(const c10::TensorImpl& state) override { inner_.set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return inner_.get_state(); }
  static c10::DeviceType device_type() { return c10::kHPU; }

 private:
  HPUGeneratorImpl* clone_impl() const override {
    auto* copy = new HPUGeneratorImpl(device().index());
    copy->inner_.set_state(*inner_.get_state());
    return copy;
  }
  at::CPUGeneratorImpl inner_;
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
  if (g.device().type() == c10::kCPU) {
    auto* impl = g.get<at::CPUGeneratorImpl>();
    std::lock_guard<std::mutex> lock(impl->mutex_);
    return impl->random();
  }
  TORCH_CHECK(
      g.device().type() == c10::kHPU, "Expected a 'hpu' or 'cpu' device type for generator but found '",
      g.device().type(), "'");
  return static_cast<HPUGeneratorImpl*>(g.unsafeGetGeneratorImpl())->draw_seed();
}

}  // namespace openhpu
