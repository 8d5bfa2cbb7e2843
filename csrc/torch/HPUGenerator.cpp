#include "torch/HPUGenerator.h"

#include <array>

#include "torch/HPUDevice.h"

namespace openhpu {

HPUGeneratorImpl::HPUGeneratorImpl(c10::DeviceIndex index)
    : c10::GeneratorImpl(c10::Device(c10::kHPU, index), c10::DispatchKeySet(c10::DispatchKey::HPU)) {}

uint32_t HPUGeneratorImpl::draw_seed() {
  std::lock_guard<std::mutex> lock(mutex_);
  return inner_.random();
}

HPUGeneratorImpl* HPUGeneratorImpl::clone_impl() const {
  auto* copy = new HPUGeneratorImpl(device().index());
  copy->inner_.set_state(*inner_.get_state());
  return copy;
}

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
