#include "call/OpCall.h"

#include "call/SmallCall.h"
#include "observe/site.h"
#include "run/Eager.h"
#include "run/UserKernel.h"
#include "torch/CompileOnly.h"

namespace openhpu {

using ArgKind = OpKernel::ArgKind;

namespace {

// Up to this number of operands each storage is compared with all earlier ones. More operands are looked up in a table.
constexpr size_t kCompared = 32;

// Whether the next operator of the thread has nothing to do beside its own work: see `inspect`.
thread_local bool t_own_work_only = false;

// Backward runs on the thread that calls it, as on the CPU, and not on one thread for each accelerator. The recording
// needs no second thread, and each hand-over would wake one. PyTorch's switch for this is
// torch.autograd.set_multithreading_enabled. It is set here once in each thread; a script that sets it again keeps it.
void backward_on_this_thread() {
  static thread_local bool decided = false;
  if (decided) {
    t_own_work_only = true;
    return;
  }
  auto& state = c10::AutogradState::get_tls_state();
  if (!state.get_multithreading_enabled()) return;  // inference mode too says so, and puts its own state back
  state.set_multithreading_enabled(false);
  t_own_work_only = decided = true;
}

}  // namespace

void return_gradients_at_next_call() { t_own_work_only = false; }

OpCall::OpCall(OpKernel& kernel, c10::IValue* args, c10::Stack* results, size_t on_stack)
    : kernel_(kernel), results_(results), on_stack_(on_stack), arg_count_(kernel.args().size()), args_(args) {}

void OpCall::wrong_device(const at::Tensor& t, size_t arg) const {
  TORCH_CHECK(
      false, "Expected all tensors to be on the same device, but found at least two devices, ", device_, " and ",
      t.device(), "! (when checking argument `", kernel_.schema().arguments()[arg].name(), "` of ", kernel_.name(),
      ")");
}

bool OpCall::is_indexed_by(uint64_t wanted) const {
  return std::any_of(operands_.begin(), operands_.end(), [&](const Operand& o) {
    return kernel_.args()[o.arg].kind == Operator::ArgKind::OptionalTensorList &&
           (uint64_t{1} << static_cast<int>(o.tensor->scalar_type()) & wanted);
  });
}

void OpCall::inspect_tensor(const at::Tensor& t, size_t arg, bool written) {
  if (C10_UNLIKELY(!t.defined())) {
    signature.add_undefined();
    return;
  }
  const auto* impl = t.unsafeGetTensorImpl();
  uint64_t flags = static_cast<uint64_t>(impl->is_conj()) | static_cast<uint64_t>(impl->is_neg()) << 1 |
                   static_cast<uint64_t>(impl->is_wrapped_number()) << 2;
  const auto d = impl->device();
  if (C10_LIKELY(d.type() == c10::kHPU)) {
    if (device_.index() < 0) {
      device_ = d;
    } else if (C10_UNLIKELY(d != device_)) {
      wrong_device(t, arg);
    }
    TORCH_CHECK_NOT_IMPLEMENTED(
        impl->layout() == c10::kStrided, kernel_.name(), " on hpu expects dense tensors, but argument `",
        kernel_.schema().arguments()[arg].name(), "` has layout ", impl->layout());
  } else {
    const bool number = d.type() == c10::kCPU && impl->dim() == 0;
    if (written || d.type() != c10::kCPU || !(number || kernel_.traits().cpu_operands)) {
      // The hpu operand may come after this one.
      missing_device = true;
    }
    flags |= 8;
  }
  const uint64_t dtype = uint64_t{1} << static_cast<int>(c10::typeMetaToScalarType(impl->dtype()));
  every_dtype |= dtype;
  // PyTorch wraps the number of `2.0 * x` in a tensor. It does not decide whether the operator is native.
  if (!(flags & 8) && !impl->is_wrapped_number()) dtypes |= dtype;
  if (self_dtype < 0) self_dtype = static_cast<int>(c10::typeMetaToScalarType(impl->dtype()));
  operands_.push_back({&t, arg, written});
  signature.add_tensor(*impl, flags);
}

bool OpCall::inspect() {
  if (C10_UNLIKELY(!t_own_work_only)) {
    backward_on_this_thread();
    return_moved_gradients();
  }
  const auto& args = kernel_.args();
  signature.add_switches();
  for (size_t i = 0; i < arg_count_; ++i) {
    const auto& value = args_[i];
    switch (args[i].kind) {
      case ArgKind::Tensor:
        if (value.isNone())
          signature.add_undefined();
        else
          inspect_tensor(value.toTensor(), i, kernel_.writes(i, args_));
        break;
      case ArgKind::TensorList:
      case ArgKind::OptionalTensorList:
        if (value.isNone()) {
          signature.add_undefined();
        } else {
          const auto list = value.toListRef();
          signature.add(list.size());
          for (const auto& e : list) {
            if (e.isNone())
              signature.add_undefined();
            else
              inspect_tensor(e.toTensor(), i, kernel_.writes(i, args_));
          }
        }
        break;
      case ArgKind::Number:
        signature.add_value(value, !kernel_.traits().numbers_matter);
        break;
      case ArgKind::Device:
        if (value.isDevice() && value.toDevice().type() == c10::kHPU && device_.index() < 0) device_ = value.toDevice();
        break;
      case ArgKind::Generator:
        if (value.isNone()) break;
        TORCH_CHECK(
            value.toGenerator().device().type() == c10::kCPU, kernel_.name(),
            " draws random numbers, but has no kernel of its own on hpu: it can't use the given generator. Give it "
            "one ",
            "of the CPU: torch.Generator().");
        signature.forbid();  // the host waits: numbers come from the generator in the order of the script
        break;
      case ArgKind::Other:
        signature.add_value(value, false);
        break;
    }
  }
  if (device_.index() < 0) device_ = c10::Device(c10::kHPU, current_device());
  const bool indexed_elsewhere =
      kernel_.traits().masks_wait && !operands_.empty() && operands_[0].tensor->device().type() != c10::kHPU;
  if (C10_UNLIKELY(missing_device || indexed_elsewhere)) {
    const auto misplaced =
        std::find_if(operands_.begin(), operands_.end(), [&](const Operand& o) { return is_misplaced(o); });
    if (misplaced != operands_.end()) {
      if (may_move_operands()) return false;
      TORCH_CHECK(
          !indexed_elsewhere, "indices should be either on cpu or on the same device as the indexed tensor (",
          operands_[0].tensor->device(), "), but an index is on ", device_);
      wrong_device(*misplaced->tensor, misplaced->arg);
    }
  }
  if (kernel_.any_written_) {
    // Kernels refuse some overlaps of what they write, so who shares memory with whom is part of the signature.
    const auto storage_of = [&](size_t i) {
      return operands_[i].tensor->unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    };
    const auto note_shared = [&](size_t i, size_t j) {
      const bool same = operands_[i].tensor->unsafeGetTensorImpl() == operands_[j].tensor->unsafeGetTensorImpl();
      signature.add(static_cast<uint64_t>(same) << 63 | i << 32 | j);
      signature.add(static_cast<uint64_t>(operands_[i].tensor->storage_offset()));
      signature.add(static_cast<uint64_t>(operands_[j].tensor->storage_offset()));
    };
    const size_t count = operands_.size();
    if (C10_LIKELY(count <= kCompared)) {
      for (size_t i = 1; i < count; ++i) {
        const auto* storage = storage_of(i);
        size_t j = 0;
        while (j < i && storage_of(j) != storage) ++j;
        if (j < i) note_shared(i, j);
      }
    } else {  // an optimizer over all parameters
      static thread_local ska::flat_hash_map<const c10::StorageImpl*, size_t> first;
      first.clear();
      for (size_t i = 0; i < count; ++i) {
        const size_t j = first.emplace(storage_of(i), i).first->second;
        if (j < i) note_shared(i, j);
      }
    }
    for (const auto& o : operands_) {
      if (!o.written) continue;
      const auto& storage = *o.tensor->unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
      signature.add(storage.nbytes() == 0);
      note_write(storage);
    }
  }
  return true;
}

bool OpCall::inspect_inputs() {
  if (C10_UNLIKELY(!t_own_work_only)) {
    backward_on_this_thread();
    return_moved_gradients();
  }
  signature.add_switches();
  for (const auto& t : inputs_) inspect_tensor(t, UserCall::kInputs, false);
  return device_.index() >= 0 && !missing_device;
}

void OpCall::submit(std::shared_ptr<const ShapeEntry> shared) {
  const auto& entry = *shared;
  auto& device = device_of(device_);
  // All memory before anything is changed: there may be none.
  c10::SmallVector<c10::Storage, 4> storages;
  for (const auto& s : entry.storages) {
    storages.push_back(make_hpu_storage(device_.index(), s.nbytes));
    require_memory_to_read(*storages.back().unsafeGetStorageImpl());
  }
  if (C10_UNLIKELY(!entry.resizes.empty())) resize_operands(entry);
  if (C10_UNLIKELY(is_small_call(entry)))
    memory_of(*storages[0].unsafeGetStorageImpl())->small_call = small_call(shared);
  // Handed to the queue at the end; until then an exception must give it back.
  std::unique_ptr<CallCommand, device::Retire> command(CallCommand::acquire(std::move(shared), device));
  command->site = current_site();
  c10::SmallVector<c10::Storage, 4> written;    // small ones
  if (C10_UNLIKELY(!entry.call->recordable)) {  // no template describes it
    OnHost call;
    alias_on_host(call, &cpu_storage_over);
    command->args = std::move(call.stack);
  } else {
    if (args_ == nullptr)
      command->numbers.assign(words_.begin(), words_.end());
    else if (entry.call->numbers)
      append_numbers(*entry.call, args_, command->numbers);
    for (const auto& o : operands_) {
      const auto* impl = o.tensor->unsafeGetTensorImpl();
      if (C10_UNLIKELY(impl->device().type() != c10::kHPU)) continue;
      const auto& storage = *impl->unsafe_storage().unsafeGetStorageImpl();
      require_memory_to_read(storage);
      if (auto* memory = o.written ? memory_of(storage) : nullptr) {
        memory->begin_write();
        if (memory->small()) written.push_back(impl->unsafe_storage());
      }
      command->operands.push_back(
          {const_cast<void*>(storage.data()), storage.nbytes(), impl->storage_offset(),
           reinterpret_cast<uintptr_t>(&storage)});
    }
  }
  for (const auto& s : storages) command->outputs.push_back({const_cast<void*>(s.data()), s.nbytes(), nullptr});
  // First, because the entry is the command's.
  leave_results(entry, storages);
  // What was resized has no contents without it.
  const auto what = entry.resizes.empty() ? device::OnInterrupt::Throw : device::OnInterrupt::GoOn;
  const uint64_t sequence = openhpu::submit(device, command.release(), what);
  for (const auto* made : {&storages, &written})
    for (const auto& s : *made)
      if (auto* memory = memory_of(*s.unsafeGetStorageImpl())) memory->end_write(sequence);
}

void OpCall::note_left_out() const {
  for (const auto& o : operands_) {
    if (!o.written || o.tensor->device().type() != c10::kHPU) continue;
    if (const auto* memory = memory_of(*o.tensor->storage().unsafeGetStorageImpl()))
      note_left_out_write(*memory, kernel_.name());
  }
}

void OpCall::resize_operands(const ShapeEntry& entry) {
  c10::SmallVector<c10::DataPtr, 2> memory;
  for (const auto& o : operands_)
    if (o.tensor->device().type() == c10::kHPU) require_memory(*o.tensor->storage().unsafeGetStorageImpl());
  for (const auto& r : entry.resizes) memory.push_back(allocate_on(device_.index(), r.nbytes));
  for (size_t k = 0; k < entry.resizes.size(); ++k) {
    const auto& r = entry.resizes[k];
    auto* impl = operands_[r.operand].tensor->unsafeGetTensorImpl();
    replace_memory(*impl->unsafe_storage().unsafeGetStorageImpl(), std::move(memory[k]), r.nbytes);
    impl->set_sizes_and_strides(r.sizes, r.strides, 0);
  }
}

void OpCall::leave_results(const ShapeEntry& entry, const c10::SmallVectorImpl<c10::Storage>& storages) {
  if (C10_UNLIKELY(made_ != nullptr)) {
    for (const auto& o : entry.outputs)
      made_->push_back(make_hpu_tensor(storages[o.index], o.dtype, o.sizes, o.strides, o.offset));
    return;
  }
  if (!results_) return;
  c10::SmallVector<at::Tensor, 4> tensors;
  for (const auto& o : entry.outputs) {
    switch (o.kind) {
      case OutputSpec::Kind::Fresh:
        tensors.push_back(make_hpu_tensor(storages[o.index], o.dtype, o.sizes, o.strides, o.offset));
        break;
      case OutputSpec::Kind::Argument:
        tensors.push_back(*operands_[o.index].tensor);
        break;
      case OutputSpec::Kind::Undefined:
        tensors.emplace_back();
        break;
    }
  }
  results_->resize(results_->size() - on_stack_);
  size_t next = 0;
  for (int32_t n : entry.returns) {
    if (n < 0) {
      results_->emplace_back(std::move(tensors[next++]));
    } else {
      c10::List<at::Tensor> list;
      for (int32_t k = 0; k < n; ++k) list.push_back(std::move(tensors[next++]));
      results_->emplace_back(std::move(list));
    }
  }
}

std::shared_ptr<const ShapeEntry> OpCall::describe_fill() const {
  auto entry = new_entry();
  entry->outputs.emplace_back().kind = OutputSpec::Kind::Argument;
  entry->returns.push_back(-1);
  entry->call = std::make_unique<CallTemplate>(describe_call(kernel_, args_));
  return entry;
}

uint64_t OpCall::family() const noexcept {
  WordHash hash;
  for (const auto& o : operands_) {
    const auto* impl = o.tensor->unsafeGetTensorImpl();
    hash.add(
        static_cast<uint64_t>(c10::typeMetaToScalarType(impl->dtype())) << 8 |
        static_cast<uint64_t>(impl->device().type()));
    hash.add(static_cast<uint64_t>(impl->dim()));
  }
  return hash.value();
}

}  // namespace openhpu
