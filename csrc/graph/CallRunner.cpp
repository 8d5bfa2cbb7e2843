#include "graph/CallRunner.h"

#include <ATen/ops/empty_strided.h>
#include <c10/util/Exception.h>

#include <array>
#include <cstring>

#include "graph/Misplaced.h"
#include "modes/Eager.h"
#include "ops/OpKernel.h"
#include "runtime/HPUDevice.h"
#include "runtime/events.h"

namespace openhpu {
namespace {

using Kind = CallTemplate::ArgKind;

// Operators with more operands (optimizers over all parameters) make their tensors anew.
constexpr size_t kKeptAliases = 64;
// Up to here operands are compared with each other.
constexpr size_t kCompared = 16;

void delete_nothing(void*) {}

c10::DataPtr pointer_to(void* data) { return {data, nullptr, &delete_nothing, c10::Device(c10::kCPU)}; }

c10::intrusive_ptr<c10::StorageImpl> storage_over(const OperandMemory& m) {
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), m.nbytes, pointer_to(m.data), nullptr, /*resizable=*/false);
}

c10::intrusive_ptr<c10::TensorImpl> tensor_over(
    const CallTemplate::Operand& o, int64_t offset, c10::intrusive_ptr<c10::StorageImpl> storage) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::CPU), o.dtype);
  impl->set_sizes_and_strides(o.sizes, o.strides, offset);
  return impl;
}

}  // namespace

void clear_outputs(const PlannedOutput* outputs, size_t count) noexcept {
  for (size_t i = 0; i < count; ++i)
    if (outputs[i].nbytes > 0) std::memset(outputs[i].ptr, 0, outputs[i].nbytes);
}

CallRunner& CallRunner::of(device::Device& device) {
  static std::array<CallRunner*, kMaxDevices> runners{};  // left behind: the process may be ending
  auto& runner = runners[device.index()];
  if (C10_UNLIKELY(!runner)) runner = new CallRunner(device);
  return *runner;
}

size_t CallRunner::memory_over(const OperandMemory& operand) {
  for (size_t i = 0; i < used_memories_; ++i)
    if (memories_[i].of == operand.storage) return i;
  const size_t place = used_memories_++;
  if (place == memories_.size()) memories_.emplace_back();
  auto& memory = memories_[place];
  memory.of = operand.storage;
  if (C10_LIKELY(memory.over && memory.over.use_count() == 1 + memory.aliases)) {
    memory.over->set_data_ptr_noswap(pointer_to(operand.data));
    memory.over->set_nbytes(operand.nbytes);
    return place;
  }
  // New, or a kernel kept it: then it is left to that kernel.
  memory.over = storage_over(operand);
  memory.aliases = 0;
  for (auto& a : aliases_)
    if (a.memory == place) a.memory = kNone;
  return place;
}

at::Tensor CallRunner::alias(const CallTemplate::Operand& o, const OperandMemory& operand) {
  const size_t place = memory_over(operand);
  auto& memory = memories_[place];
  if (C10_UNLIKELY(o.conj || o.neg || o.wrapped_number)) {
    auto special = tensor_over(o, operand.offset, memory.over);
    if (o.conj) special->_set_conj(true);
    if (o.neg) special->_set_neg(true);
    if (o.wrapped_number) special->set_wrapped_number(true);
    return at::Tensor(std::move(special));
  }
  if (used_ == aliases_.size()) aliases_.emplace_back();
  auto& slot = aliases_[used_++];
  if (slot.memory != place) {
    if (slot.memory != kNone) --memories_[slot.memory].aliases;
    slot.memory = place;
    ++memory.aliases;
  }
  if (C10_UNLIKELY(!slot.tensor || !slot.tensor.unique())) {  // new, or a kernel kept it
    slot.tensor = tensor_over(o, operand.offset, memory.over);
    return at::Tensor(slot.tensor);
  }
  auto& impl = *slot.tensor;
  if (impl.unsafe_storage().unsafeGetStorageImpl() != memory.over.get() || impl.dtype() != o.dtype)
    impl.set_storage_and_dtype(c10::Storage(memory.over), o.dtype);
  impl.set_sizes_and_strides(o.sizes, o.strides, operand.offset);
  return at::Tensor(slot.tensor);
}

void CallRunner::fill_stack(const CallTemplate& call, const OperandMemory* operands, const uint64_t* numbers) {
  used_ = used_memories_ = 0;
  if (C10_UNLIKELY(aliases_.size() > kKeptAliases)) {
    aliases_.clear();
    memories_.clear();
  }
  // Operands on the host have no memory.
  c10::SmallVector<const OperandMemory*, 8> identities;
  const bool compare = call.any_written && call.operands.size() <= kCompared;
  for (const auto& o : call.operands) {
    const auto* memory = o.on_host ? nullptr : operands++;
    if (C10_UNLIKELY(o.on_host)) {
      tensors_.push_back(host_operand(o, numbers + o.number));
    } else if (compare) {
      // An operand given twice is one tensor for the kernel too: in-place composites pass self as input and as output.
      size_t same = 0;
      for (; same < identities.size(); ++same) {
        const auto& other = call.operands[same];
        if (identities[same] && identities[same]->storage == memory->storage &&
            identities[same]->offset == memory->offset && other.sizes == o.sizes && other.strides == o.strides &&
            other.dtype == o.dtype && other.conj == o.conj && other.neg == o.neg)
          break;
      }
      tensors_.push_back(same < identities.size() ? tensors_[same] : alias(o, *memory));
    } else {
      tensors_.push_back(alias(o, *memory));
    }
    if (compare) identities.push_back(memory);
  }

  for (size_t i = 0; i < call.args.size(); ++i) {
    const auto& arg = call.args[i];
    switch (arg.kind) {
      case Kind::Constant: stack_.push_back(arg.constant); break;
      case Kind::Tensor: stack_.emplace_back(tensors_[arg.first]); break;
      case Kind::TensorList: {
        c10::List<at::Tensor> list;
        list.reserve(arg.elements.size());
        for (int32_t k : arg.elements) list.push_back(k < 0 ? at::Tensor() : tensors_[k]);
        stack_.emplace_back(std::move(list));
        break;
      }
      case Kind::OptionalTensorList: {
        c10::List<std::optional<at::Tensor>> list;
        for (int32_t k : arg.elements)
          list.push_back(k < 0 ? std::optional<at::Tensor>() : std::optional<at::Tensor>(tensors_[k]));
        stack_.emplace_back(std::move(list));
        break;
      }
      case Kind::NumberList: {
        auto type = call.kernel->schema().arguments()[i].real_type();
        if (type->kind() == c10::TypeKind::OptionalType)
          type = type->expectRef<c10::OptionalType>().getElementType();
        c10::impl::GenericList list(type->expectRef<c10::ListType>().getElementType());
        const uint64_t* words = numbers + arg.first;
        for (auto kind : arg.kinds) {
          list.push_back(number_of(kind, words));
          words += kind == Kind::Complex ? 2 : 1;
        }
        stack_.emplace_back(std::move(list));
        break;
      }
      default: stack_.push_back(number_of(arg.kind, numbers + arg.first)); break;
    }
  }
  tensors_.clear();
}

void CallRunner::keep_outputs(const ShapeEntry& entry, const OutputMemory* outputs) {
  size_t i = 0;
  // A kernel whose order of allocations varies may put one output where another belongs.
  Misplaced misplaced;
  for (const auto& value : stack_) {
    for_each_tensor(value, [&](const at::Tensor& t) {
      const auto& spec = entry.outputs[i++];
      if (spec.kind != OutputSpec::Kind::Fresh) return;
      const auto& output = outputs[spec.index];
      const auto& storage = t.unsafeGetTensorImpl()->unsafe_storage();
      TORCH_INTERNAL_ASSERT(
          t.defined() && storage.nbytes() == output.nbytes, entry.call->kernel->name(), " returned ",
          t.defined() ? storage.nbytes() : 0, " bytes where ", output.nbytes, " were expected from its operands");
      if (C10_UNLIKELY(entry.supposed) && t.strides() != c10::IntArrayRef(spec.strides)) {
        // What readers of the output were told holds.
        KernelScope of_copy(device_.workspace(), nullptr, 0, false);
        auto laid_out = at::empty_strided(spec.sizes, spec.strides, t.options());
        laid_out.copy_(t);
        if (output.allocated) {
          *output.allocated = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
              laid_out.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
        } else {
          misplaced.add(output.data, laid_out.storage());
        }
        return;
      }
      if (output.allocated) {
        *output.allocated = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage.unsafeGetStorageImpl());
      } else if (C10_UNLIKELY(storage.data() != output.data) && output.nbytes > 0) {
        misplaced.add(output.data, storage);
      }
    });
  }
  misplaced.deliver(device_);
}

void CallRunner::run(
    const ShapeEntry& entry, const OperandMemory* operands, const uint64_t* numbers, const OutputMemory* outputs) {
  const CallTemplate& call = *entry.call;
  struct Clear {
    CallRunner& runner;
    ~Clear() {
      runner.tensors_.clear();
      runner.stack_.clear();  // after an error it still holds what the kernel was given or made
    }
  } clear{*this};
  planned_.clear();
  for (size_t k = 0; k < entry.storages.size(); ++k)
    if (!outputs[k].allocated) planned_.push_back({outputs[k].data, outputs[k].nbytes, entry.storages[k].ordinal});
  try {
    {
      KernelScope of_operands(device_.workspace(), nullptr, 0, false);
      fill_stack(call, operands, numbers);
    }
    apply_kernel_threads(call.largest);
    KernelScope scope(device_.workspace(), planned_.data(), planned_.size(), /*record=*/false);
    call.kernel->call_cpu(stack_);
    keep_outputs(entry, outputs);
  } catch (...) {
    // What comes after it runs as well. Zeros are indices that exist; what lay there before could be any.
    clear_outputs(planned_.data(), planned_.size());
    throw;
  }
}

}  // namespace openhpu
