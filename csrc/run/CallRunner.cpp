#include "run/CallRunner.h"

#include <ATen/ops/empty.h>

#include "run/KernelThreads.h"
#include "run/UserKernel.h"
#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

using Kind = CallTemplate::ArgKind;

// The number of aliases that are kept. Operators with more operands (optimizers over all parameters) make new tensors.
constexpr size_t kKeptAliases = 64;
// Up to this number of operands each storage is compared with the others. More are looked up in a table.
constexpr size_t kComparedOperands = 16;

constexpr const char* kRemedy =
    "as an earlier call with the same operands' dtypes, sizes and strides and the same other arguments had returned. "
    "Give "
    "an operator whose results depend on more than that the tag torch.Tag.dynamic_output_shape, and each call waits "
    "for "
    "them; if the operator and its kernel are PyTorch's own, this is a defect of openhpu: please report it.";

std::string describe(const caffe2::TypeMeta& dtype, c10::IntArrayRef sizes) {
  return c10::str(c10::typeMetaToScalarType(dtype), " ", sizes);
}

[[noreturn]] void not_as_told(const ShapeEntry& entry, size_t result, const at::Tensor& t) {
  const auto& spec = entry.outputs[result];
  std::string expected = "nothing";
  if (spec.kind == OutputSpec::Kind::Argument) {
    const auto& operand = entry.call->operands[spec.index];
    expected = c10::str("operand ", spec.index, " itself, ", describe(operand.dtype, operand.sizes), ",");
  } else if (spec.kind == OutputSpec::Kind::Fresh) {
    expected = describe(spec.dtype, spec.sizes);
  }
  TORCH_CHECK(
      false, entry.call->kernel->name(), " returned as result ", result, " ",
      t.defined() ? describe(t.dtype(), t.sizes()) : std::string("nothing"), " where ", expected, " was expected, ",
      kRemedy);
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
  if (C10_UNLIKELY(many_)) {
    const size_t known = place_of_.emplace(operand.storage, used_memories_).first->second;
    if (known < used_memories_) return known;
  } else {
    for (size_t i = 0; i < used_memories_; ++i)
      if (memories_[i].of == operand.storage) return i;
  }
  const size_t place = used_memories_++;
  if (place == memories_.size()) memories_.emplace_back();
  auto& memory = memories_[place];
  memory.of = operand.storage;
  if (C10_LIKELY(memory.over && memory.over.use_count() == 1 + memory.aliases)) {
    memory.over->set_data_ptr_noswap(c10::DataPtr(operand.data, c10::Device(c10::kCPU)));
    memory.over->set_nbytes(operand.nbytes);
    return place;
  }
  if (memory.over) {  // a kernel kept it: it is left to that kernel
    memory.aliases = 0;
    for (auto& a : aliases_)
      if (a.memory == place) a.memory = kNone;
  }
  memory.over = host_storage_over(operand.data, operand.nbytes);
  return place;
}

at::Tensor CallRunner::alias(const CallTemplate::Operand& o, const OperandMemory& operand) {
  const size_t place = memory_over(operand);
  auto& memory = memories_[place];
  if (C10_UNLIKELY(o.conj || o.neg || o.wrapped_number)) {
    auto special = host_tensor_on(memory.over, o.dtype, o.sizes, o.strides, operand.offset);
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
    slot.tensor = host_tensor_on(memory.over, o.dtype, o.sizes, o.strides, operand.offset);
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
  many_ = call.operands.size() > kComparedOperands;
  if (C10_UNLIKELY(many_)) place_of_.clear();
  // Operands on the host have no memory.
  c10::SmallVector<const OperandMemory*, 8> identities;
  const bool compare = call.any_written && !many_;
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

  given_.clear();
  for (const auto& t : tensors_) given_.push_back(t.unsafeGetTensorImpl());

  for (size_t i = 0; i < call.args.size(); ++i) {
    const auto& arg = call.args[i];
    switch (arg.kind) {
      case Kind::Constant:
        stack_.push_back(arg.constant);
        break;
      case Kind::Tensor:
        stack_.emplace_back(tensors_[arg.first]);
        break;
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
        if (type->kind() == c10::TypeKind::OptionalType) type = type->expectRef<c10::OptionalType>().getElementType();
        c10::impl::GenericList list(type->expectRef<c10::ListType>().getElementType());
        const uint64_t* words = numbers + arg.first;
        for (auto kind : arg.kinds) {
          list.push_back(number_of(kind, words));
          words += kind == Kind::Complex ? 2 : 1;
        }
        stack_.emplace_back(std::move(list));
        break;
      }
      default:
        stack_.push_back(number_of(arg.kind, numbers + arg.first));
        break;
    }
  }
  tensors_.clear();
}

bool CallRunner::lies_as_told(const ShapeEntry& entry, const c10::Stack& results, const OutputMemory* outputs) const {
  size_t returned = 0;
  bool as_told = true;
  for_each_tensor(results, [&](const at::Tensor& t) {
    const size_t i = returned++;
    if (C10_UNLIKELY(i >= entry.outputs.size())) return;
    const auto& spec = entry.outputs[i];
    if (spec.kind == OutputSpec::Kind::Undefined) {
      if (C10_UNLIKELY(t.defined())) not_as_told(entry, i, t);
      return;
    }
    const auto& impl = *t.unsafeGetTensorImpl();
    if (spec.kind == OutputSpec::Kind::Argument) {
      const auto& operand = entry.call->operands[spec.index];
      if (C10_UNLIKELY(
              &impl != given_[spec.index] || impl.sizes() != c10::IntArrayRef(operand.sizes) ||
              impl.strides() != c10::IntArrayRef(operand.strides)))
        not_as_told(entry, i, t);
      return;
    }
    if (C10_UNLIKELY(
            !t.defined() || impl.layout() != c10::kStrided || impl.dtype() != spec.dtype ||
            impl.sizes() != c10::IntArrayRef(spec.sizes)))
      not_as_told(entry, i, t);
    const auto& output = outputs[spec.index];
    const auto& storage = *impl.unsafe_storage().unsafeGetStorageImpl();
    // Memory without an allocator is an operand's.
    as_told &= impl.strides() == c10::IntArrayRef(spec.strides) && impl.storage_offset() == spec.offset &&
               storage.nbytes() == output.nbytes && !impl.is_conj() && !impl.is_neg() &&
               (!output.allocated || storage.allocator());
  });
  TORCH_CHECK(
      returned == entry.outputs.size(), entry.call->kernel->name(), " returned ", returned, " tensors where ",
      entry.outputs.size(), " were expected, ", kRemedy);
  if (C10_UNLIKELY(entry.outputs.size() > entry.storages.size() && entry.storages.size() > 0)) {
    // Results that share memory.
    c10::SmallVector<const c10::StorageImpl*, 4> storages(entry.storages.size(), nullptr);
    entry.for_each_fresh(results, [&](const OutputSpec& spec, const at::Tensor& t) {
      const auto* storage = t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
      as_told &= !storages[spec.index] || storages[spec.index] == storage;
      storages[spec.index] = storage;
    });
  }
  return as_told;
}

bool CallRunner::is_planned(const void* data) const {
  return std::any_of(planned_.begin(), planned_.end(), [&](const PlannedOutput& p) { return p.ptr == data; });
}

c10::intrusive_ptr<c10::StorageImpl> CallRunner::copy_of(const c10::Storage& storage) {
  KernelScope of_copy(device_.workspace(), nullptr, 0, false);
  const auto copy = at::empty({static_cast<int64_t>(storage.nbytes())}, at::TensorOptions().dtype(at::kByte));
  std::memcpy(copy.mutable_data_ptr(), storage.data(), storage.nbytes());
  count(Counter::OutputsCopied);
  return c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(copy.storage().unsafeGetStorageImpl());
}

void CallRunner::keep_outputs(const ShapeEntry& entry, const c10::Stack& results, const OutputMemory* outputs) {
  if (C10_UNLIKELY(!lies_as_told(entry, results, outputs))) {
    lay_out_outputs(entry, results, outputs);
    return;
  }
  // A kernel whose order of allocations varies may put one output where another belongs.
  Misplaced misplaced;
  entry.for_each_fresh(results, [&](const OutputSpec& spec, const at::Tensor& t) {
    const auto& output = outputs[spec.index];
    const auto& storage = t.unsafeGetTensorImpl()->unsafe_storage();
    if (output.allocated) {
      *output.allocated = C10_UNLIKELY(storage.nbytes() > 0 && is_planned(storage.data()))
                              ? copy_of(storage)  // the place is another output's, which is delivered there
                              : c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage.unsafeGetStorageImpl());
    } else if (C10_UNLIKELY(storage.data() != output.data) && output.nbytes > 0) {
      misplaced.add(output.data, storage);
    }
  });
  misplaced.deliver(device_);
}

void CallRunner::lay_out_outputs(const ShapeEntry& entry, const c10::Stack& results, const OutputMemory* outputs) {
  KernelScope of_copies(device_.workspace(), nullptr, 0, false);
  std::vector<at::Tensor> buffers;
  for (const auto& s : entry.storages)
    buffers.push_back(at::empty({static_cast<int64_t>(s.nbytes)}, at::TensorOptions().dtype(at::kByte)));
  entry.for_each_fresh(results, [&](const OutputSpec& spec, const at::Tensor& t) {
    exact_copy(
        at::Tensor(host_tensor_on(buffers[spec.index].storage(), spec.dtype, spec.sizes, spec.strides, spec.offset)),
        t);
  });
  for (size_t k = 0; k < buffers.size(); ++k) {
    if (outputs[k].allocated)
      *outputs[k].allocated =
          c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(buffers[k].storage().unsafeGetStorageImpl());
    else if (outputs[k].nbytes > 0)
      std::memcpy(outputs[k].data, buffers[k].const_data_ptr(), outputs[k].nbytes);
  }
  count(Counter::OutputsCopied, buffers.size());
}

template <class Fill>
void CallRunner::run_planned(const ShapeEntry& entry, const OutputMemory* outputs, Fill&& fill) {
  planned_.clear();
  for (size_t k = 0; k < entry.storages.size(); ++k)
    if (!outputs[k].allocated) planned_.push_back({outputs[k].data, outputs[k].nbytes, entry.storages[k].ordinal});
  order_planned(planned_);
  try {
    c10::Stack& stack = fill();
    apply_threads(std::min(threads_for(entry.call->largest), most_threads_));
    KernelScope scope(device_.workspace(), planned_.data(), planned_.size(), /*record=*/false);
    entry.call->kernel->call_cpu(stack, entry.call->widening);
    keep_outputs(entry, stack, outputs);
  } catch (...) {
    // What comes after it runs as well. Zeros are indices that exist; what lay there before could be any.
    clear_outputs(planned_.data(), planned_.size());
    throw;
  }
}

void CallRunner::run(
    const ShapeEntry& entry, const OperandMemory* operands, const uint64_t* numbers, const OutputMemory* outputs) {
  if (C10_UNLIKELY(entry.call->user != nullptr) && run_user(entry, operands, numbers, outputs)) return;
  const auto clear = c10::make_scope_exit([this] {
    tensors_.clear();
    stack_.clear();  // after an error it still holds what the kernel was given or made
  });
  run_planned(entry, outputs, [&]() -> c10::Stack& {
    KernelScope of_operands(device_.workspace(), nullptr, 0, false);
    fill_stack(*entry.call, operands, numbers);
    return stack_;
  });
}

bool CallRunner::run_user(
    const ShapeEntry& entry, const OperandMemory* operands, const uint64_t* numbers, const OutputMemory* outputs) {
  const size_t count = entry.storages.size();
  if (watches(Difference::E4m3Range) || narrow_int64() ||
      std::any_of(outputs, outputs + count, [](const auto& o) { return o.allocated; }))
    return false;
  apply_threads(std::min(threads_for(entry.call->largest), most_threads_));
  KernelScope scope(device_.workspace(), nullptr, 0, /*record=*/false);
  try {
    run_user_kernel(entry, operands, numbers, outputs, device_.index());
  } catch (...) {
    for (size_t k = 0; k < count; ++k)
      if (outputs[k].nbytes > 0) std::memset(outputs[k].data, 0, outputs[k].nbytes);
    throw;
  }
  return true;
}

void CallRunner::run(const ShapeEntry& entry, c10::Stack& args, const OutputMemory* outputs) {
  run_planned(entry, outputs, [&]() -> c10::Stack& {
    given_.clear();
    for_each_tensor(args, [&](const at::Tensor& t) {
      if (t.defined()) given_.push_back(t.unsafeGetTensorImpl());
    });
    return args;
  });
}

}  // namespace openhpu
