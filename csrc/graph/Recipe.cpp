#include "graph/Recipe.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner_cpu.h>

#include <bit>
#include <cstring>

#include "modes/Eager.h"
#include "runtime/KernelMemory.h"
#include "runtime/events.h"

namespace openhpu {
namespace {

void delete_nothing(void*) {}

double as_double(const RecipeManifest::NumberSpec& spec, const uint64_t* words) {
  const auto value = number_of(spec.kind, words);
  return value.isDouble() ? value.toDouble() : value.isInt() ? static_cast<double>(value.toInt()) : value.toBool();
}

}  // namespace

Recipe::Recipe(RecipeManifest manifest, std::vector<uint64_t> constants, std::vector<bool> variable)
    : manifest_(std::move(manifest)), constants_(std::move(constants)) {
  for (size_t i = 0; i < constants_.size(); ++i)
    if (!variable[i]) fixed_.push_back(i);
  model_ = std::make_unique<torch::inductor::AOTIModelContainerRunnerCpu>(manifest_.library, 1);
  for (const auto& spec : manifest_.inputs) {
    auto storage = c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), 0, c10::DataPtr(nullptr, c10::Device(c10::kCPU)), nullptr, false);
    auto impl = c10::make_intrusive<c10::TensorImpl>(
        c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::CPU),
        c10::scalarTypeToTypeMeta(spec.dtype));
    impl->set_sizes_and_strides(spec.sizes, spec.strides, spec.offset);
    arguments_.emplace_back(std::move(impl));
  }
  for (const auto& spec : manifest_.numbers)
    arguments_.push_back(at::empty({}, at::TensorOptions().dtype(spec.dtype).device(c10::kCPU)));
}

Recipe::~Recipe() = default;

bool Recipe::accepts(const std::vector<uint64_t>& numbers) const noexcept {
  for (size_t i : fixed_)
    if (numbers[i] != constants_[i]) return false;
  return true;
}

void Recipe::set_arguments(const std::vector<SlotMemory>& slots, const std::vector<uint64_t>& numbers) {
  size_t i = 0;
  for (const auto& spec : manifest_.inputs) {
    const auto& memory = slots[spec.slot];
    auto* storage = arguments_[i++].unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(c10::DataPtr(memory.data, nullptr, &delete_nothing, c10::Device(c10::kCPU)));
    storage->set_nbytes(memory.nbytes);
  }
  for (const auto& spec : manifest_.numbers) {
    auto& argument = arguments_[i++];
    const uint64_t* words = numbers.data() + spec.word;
    if (spec.host == spec.dtype) {
      std::memcpy(argument.mutable_data_ptr(), words, argument.itemsize());
    } else if (spec.dtype == at::kLong && spec.host == at::ScalarType::Undefined) {
      *argument.mutable_data_ptr<int64_t>() =
          spec.kind == CallTemplate::ArgKind::Double ? static_cast<int64_t>(as_double(spec, words))
                                                     : static_cast<int64_t>(words[0]);
    } else if (spec.host == at::ScalarType::Undefined) {
      TORCH_INTERNAL_ASSERT(spec.dtype == at::kDouble);
      *argument.mutable_data_ptr<double>() = as_double(spec, words);
    } else {
      CallTemplate::Operand o;
      o.dtype = c10::scalarTypeToTypeMeta(spec.host);
      argument.copy_(host_operand(o, words));
    }
  }
}

void Recipe::deliver(const std::vector<at::Tensor>& results, const std::vector<SlotMemory>& slots) {
  size_t copied = 0;
  for (size_t k = 0; k < results.size(); ++k) {
    const auto& spec = manifest_.outputs[k];
    const auto& memory = slots[spec.slot];
    if (memory.nbytes == 0) continue;
    const auto& result = results[k];
    auto* place = static_cast<char*>(memory.data) + spec.offset * result.itemsize();
    if (result.const_data_ptr() == place && result.strides() == c10::IntArrayRef(spec.strides)) continue;
    auto impl = c10::make_intrusive<c10::TensorImpl>(
        c10::Storage(c10::make_intrusive<c10::StorageImpl>(
            c10::StorageImpl::use_byte_size_t(), memory.nbytes,
            c10::DataPtr(memory.data, nullptr, &delete_nothing, c10::Device(c10::kCPU)), nullptr, false)),
        c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(spec.dtype));
    impl->set_sizes_and_strides(spec.sizes, spec.strides, spec.offset);
    at::Tensor(std::move(impl)).copy_(result);
    ++copied;
  }
  if (copied) count(Counter::OutputsCopied, copied);
}

void Recipe::run(
    device::Device& device, const std::vector<SlotMemory>& slots, const std::vector<uint64_t>& numbers) {
  std::lock_guard lock(mutex_);
  set_arguments(slots, numbers);
  apply_threads(manifest_.threads);
  const bool first = ordinals_.empty();
  planned_.clear();
  for (size_t k = 0; k < ordinals_.size(); ++k) {
    const auto& memory = slots[manifest_.outputs[k].slot];
    if (ordinals_[k] >= 0) planned_.push_back({memory.data, memory.nbytes, static_cast<uint32_t>(ordinals_[k])});
  }
  KernelScope scope(device.workspace(), planned_.data(), planned_.size(), /*record=*/first);
  const auto results = model_->run(arguments_);
  TORCH_CHECK(
      results.size() == manifest_.outputs.size(), "recipe ", manifest_.name, " returned ", results.size(),
      " tensors where its manifest names ", manifest_.outputs.size());
  if (first)
    for (const auto& t : results) {
      // Only a result that fills its allocation as the slot's storage does can be written there directly.
      const auto& spec = manifest_.outputs[ordinals_.size()];
      const bool whole = t.storage_offset() == 0 && spec.offset == 0 && t.storage().nbytes() == slots[spec.slot].nbytes;
      ordinals_.push_back(whole ? scope.ordinal_of(t.storage().data()) : -1);
    }
  deliver(results, slots);
  count(Counter::ExternalKernels, manifest_.external_kernels);
}

}  // namespace openhpu
