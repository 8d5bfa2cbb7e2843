#include "call/SmallCall.h"

#include "call/OpCall.h"
#include "run/CallRunner.h"
#include "run/KernelThreads.h"
#include "torch/CompileOnly.h"

namespace openhpu {
namespace {

using Storage = c10::intrusive_ptr<c10::StorageImpl>;

// The contents of an operand, if no other command may have written to it since the call.
Storage unchanged(const SmallCall::Operand& operand) {
  auto storage = operand.storage.lock();
  if (!storage) return {};
  const auto* memory = memory_of(*storage);
  const bool known = memory == operand.memory && memory->version.load(std::memory_order_relaxed) == operand.version &&
                     memory->made_by.load(std::memory_order_relaxed) != 0;
  return known ? std::move(storage) : Storage();
}

// How the contents of memory were made; null: not by a small operator, or something may have written to them since.
std::shared_ptr<const SmallCall> small_call_of(const HPUMemory& memory) {
  const bool changed =
      memory.exposed.load(std::memory_order_relaxed) || memory.version.load(std::memory_order_relaxed) != 0;
  return changed ? nullptr : std::static_pointer_cast<const SmallCall>(memory.small_call);
}

// The calls to repeat, the earliest first, and the values that they start from.
class Repetition {
 public:
  explicit Repetition(device::Device& d) : device_(d), completed_(d.queue().completed()) {}

  // False if an operand is gone or was changed.
  bool add(const SmallCall& call) {
    c10::SmallVector<Source, 2> sources;
    for (const auto& operand : call.operands) {
      auto storage = unchanged(operand);
      const uint64_t made_by = storage ? memory_of(*storage)->made_by.load(std::memory_order_acquire) : UINT64_MAX;
      const size_t steps = steps_.size();
      if (made_by > completed_ && operand.made) {
        if (add(*operand.made)) {
          sources.push_back({steps_.size() - 1, {}});
          continue;
        }
        steps_.resize(steps);
      }
      if (!storage) return false;
      last_ = std::max(last_, made_by);
      sources.push_back({0, std::move(storage)});
    }
    steps_.push_back({&call, std::move(sources), {}});
    return true;
  }

  uint64_t last() const noexcept { return last_; }  // the command that makes the last of the operands

  Storage run() {
    CallRunner runner(device_);
    for (auto& step : steps_) {
      c10::SmallVector<OperandMemory, 4> operands;
      for (size_t i = 0; i < step.sources.size(); ++i) {
        const auto& source = step.sources[i];
        const auto& storage = source.memory ? *source.memory : *steps_[source.step].result;
        operands.push_back(
            {const_cast<void*>(storage.data()), storage.nbytes(), step.call->operands[i].offset,
             reinterpret_cast<uintptr_t>(&storage)});
      }
      const OutputMemory output{nullptr, step.call->entry->storages[0].nbytes, &step.result};
      runner.run(*step.call->entry, operands.data(), step.call->numbers.data(), &output);
    }
    return steps_.back().result;
  }

 private:
  struct Source {
    size_t step;  // that makes it, if `memory` is null
    Storage memory;
  };
  struct Step {
    const SmallCall* call;
    c10::SmallVector<Source, 2> sources;
    Storage result;
  };
  device::Device& device_;
  const uint64_t completed_;
  uint64_t last_ = 0;
  std::vector<Step> steps_;
};

}  // namespace

bool is_small_call(const ShapeEntry& entry) {
  if (C10_UNLIKELY(compile_only() != 0)) return false;  // the host would read what the device does not have
  if (entry.storages.size() != 1 || entry.storages[0].nbytes == 0 || entry.storages[0].nbytes > HPUMemory::kSmallBytes)
    return false;
  // The host and the device must find the same bits. In chains of bfloat16 or half a recipe rounds once, at the end.
  const auto& call = *entry.call;
  return call.kernel->traits().exact && call.largest <= HPUMemory::kSmallBytes && call.recordable &&
         !call.any_written && entry.outputs.size() == 1 && entry.resizes.empty() &&
         !c10::isReducedFloatingType(c10::typeMetaToScalarType(entry.outputs[0].dtype));
}

std::shared_ptr<const SmallCall> OpCall::small_call(const std::shared_ptr<const ShapeEntry>& entry) const {
  auto call = std::make_shared<SmallCall>();
  call->entry = entry;
  for (const auto& o : operands_) {
    const auto* impl = o.tensor->unsafeGetTensorImpl();
    if (impl->device().type() != c10::kHPU) continue;
    auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
    const auto* memory = memory_of(*storage);
    if (!memory || !memory->small()) return nullptr;
    auto made = small_call_of(*memory);
    if (made && call->calls + made->calls > kMostSmallCalls) made = nullptr;
    if (made) call->calls += made->calls;
    call->operands.push_back(
        {c10::weak_intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage), memory,
         memory->version.load(std::memory_order_relaxed), impl->storage_offset(), std::move(made)});
  }
  if (entry->call->numbers) append_numbers(*entry->call, args_, call->numbers);
  return call;
}

at::Tensor compute_small(device::Device& d, const at::Tensor& wanted) {
  const auto& impl = *wanted.unsafeGetTensorImpl();
  const auto* memory = memory_of(*impl.unsafe_storage().unsafeGetStorageImpl());
  const auto call = memory ? small_call_of(*memory) : nullptr;
  if (!call || memory->made_by.load(std::memory_order_relaxed) <= d.queue().completed() || narrow_int64()) return {};
  Repetition repetition(d);
  if (!repetition.add(*call)) return {};
  d.queue().wait_to_read(repetition.last(), device::OnInterrupt::Throw);
  Storage result;
  run_as_worker([&] {
    try {
      result = repetition.run();
    } catch (...) {  // the device meets the same error, and reports it
    }
  });
  if (!result) return {};
  count(Counter::ReadsComputedOnHost);
  return alias_over(impl, std::move(result));
}

}  // namespace openhpu
