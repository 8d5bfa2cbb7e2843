#include "ops/OpCall.h"

#include <c10/core/InferenceMode.h>
#include <c10/util/flat_hash_map.h>

#include "modes/Capture.h"
#include "modes/Eager.h"
#include "ops/Alias.h"
#include "runtime/HPUAllocator.h"
#include "runtime/KernelMemory.h"
#include "runtime/KernelWarnings.h"
#include "runtime/events.h"
#include "runtime/site.h"

namespace openhpu {

using ArgKind = OpKernel::ArgKind;

OpCall::OpCall(OpKernel& kernel, c10::Stack& stack)
    : kernel_(kernel),
      stack_(stack),
      arg_count_(kernel.args().size()),
      args_(stack.data() + stack.size() - arg_count_) {}

void OpCall::wrong_device(const at::Tensor& t, size_t arg) const {
  TORCH_CHECK(
      false, "Expected all tensors to be on the same device, but found at least two devices, ", device_, " and ",
      t.device(), "! (when checking argument `", kernel_.schema().arguments()[arg].name(), "` of ", kernel_.name(),
      ")");
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
  // A number in a tensor's clothes (2.0 * x) does not decide whether the operator is native.
  if (!(flags & 8) && !impl->is_wrapped_number()) dtypes |= dtype;
  if (self_dtype < 0) self_dtype = static_cast<int>(c10::typeMetaToScalarType(impl->dtype()));
  operands_.push_back({&t, arg, written});
  signature.add_tensor(*impl, flags);
}

void OpCall::inspect() {
  const auto& args = kernel_.args();
  signature.add_switches();
  for (size_t i = 0; i < arg_count_; ++i) {
    const auto& value = args_[i];
    switch (args[i].kind) {
      case ArgKind::Tensor:
        if (value.isNone())
          signature.add_undefined();
        else
          inspect_tensor(value.toTensor(), i, args[i].written);
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
              inspect_tensor(e.toTensor(), i, args[i].written);
          }
        }
        break;
      case ArgKind::Number: signature.add_value(value, !kernel_.traits().numbers_matter); break;
      case ArgKind::Device:
        if (value.isDevice() && value.toDevice().type() == c10::kHPU && device_.index() < 0)
          device_ = value.toDevice();
        break;
      case ArgKind::Generator:
        TORCH_CHECK(
            value.isNone(), kernel_.name(), " draws random numbers, but has no kernel of its own on hpu: it can't use ",
            "the given generator.");
        break;
      case ArgKind::Other: signature.add_value(value, false); break;
    }
  }
  TORCH_CHECK(
      !kernel_.traits().masks_wait || operands_.empty() || operands_[0].tensor->device().type() == c10::kHPU,
      "indices should be either on cpu or on the same device as the indexed tensor (",
      operands_[0].tensor->device(), "), but an index is on ", device_);
  if (device_.index() < 0) device_ = c10::Device(c10::kHPU, current_device());
  if (C10_UNLIKELY(missing_device)) {
    for (const auto& o : operands_) {
      const auto d = o.tensor->device();
      const bool number = d.type() == c10::kCPU && o.tensor->dim() == 0;
      if (d.type() != c10::kHPU &&
          (o.written || d.type() != c10::kCPU || !(number || kernel_.traits().cpu_operands)))
        wrong_device(*o.tensor, o.arg);
    }
  }
  if (kernel_.any_written_) {
    // Kernels refuse some overlaps of what they write, so who shares memory with whom is part of the signature.
    for (size_t i = 0; i < operands_.size(); ++i) {
      const auto* storage = operands_[i].tensor->unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
      for (size_t j = 0; j < i; ++j) {
        if (operands_[j].tensor->unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() != storage) continue;
        const bool same = operands_[i].tensor->unsafeGetTensorImpl() == operands_[j].tensor->unsafeGetTensorImpl();
        signature.add(static_cast<uint64_t>(same) << 63 | i << 32 | j);
        signature.add(static_cast<uint64_t>(operands_[i].tensor->storage_offset()));
        signature.add(static_cast<uint64_t>(operands_[j].tensor->storage_offset()));
        break;
      }
    }
    for (const auto& o : operands_)
      if (o.written) signature.add(o.tensor->unsafeGetTensorImpl()->unsafe_storage().nbytes() == 0);
  }
}

template <class MakeAlias>
void OpCall::alias_arguments(c10::Stack& out, MakeAlias&& make) {
  const auto& args = kernel_.args();
  out.reserve(arg_count_ + 1);
  // An operand given twice is one tensor for the kernel too: in-place composites pass self as input and as output.
  c10::SmallVector<std::pair<const c10::TensorImpl*, at::Tensor>, 4> seen;
  auto alias_new = [&](const at::Tensor& t) -> at::Tensor {
    // A CPU operand's value is taken now: the script may change it before the command runs.
    if (t.device().type() == c10::kCPU) {
      auto copy = t.clone();
      if (t.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
      return copy;
    }
    return make(t);
  };
  auto alias = [&](const at::Tensor& t) -> at::Tensor {
    if (!t.defined() || !kernel_.any_written_) return t.defined() ? alias_new(t) : t;
    for (const auto& [impl, made] : seen)
      if (impl == t.unsafeGetTensorImpl()) return made;
    seen.emplace_back(t.unsafeGetTensorImpl(), alias_new(t));
    return seen.back().second;
  };
  for (size_t i = 0; i < arg_count_; ++i) {
    auto& value = args_[i];
    if (args[i].kind == ArgKind::Tensor && value.isTensor()) {
      out.emplace_back(alias(value.toTensor()));
    } else if (args[i].kind == ArgKind::TensorList && value.isList()) {
      c10::List<at::Tensor> list;
      const auto tensors = value.toListRef();
      list.reserve(tensors.size());
      for (const auto& e : tensors) list.push_back(alias(e.toTensor()));
      out.emplace_back(std::move(list));
    } else if (args[i].kind == ArgKind::OptionalTensorList && value.isList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& e : value.toListRef()) {
        if (e.isNone())
          list.push_back(std::nullopt);
        else
          list.push_back(alias(e.toTensor()));
      }
      out.emplace_back(std::move(list));
    } else if (args[i].kind == ArgKind::Device && value.isDevice()) {
      out.emplace_back(c10::Device(c10::kCPU));
    } else {
      out.emplace_back(value);
    }
  }
}

void OpCall::submit(const ShapeEntry& entry) {
  auto& device = device_of(device_);
  for (const auto& r : entry.resizes) {
    auto* impl = operands_[r.operand].tensor->unsafeGetTensorImpl();
    auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(allocate_on(device_.index(), r.nbytes));
    storage->set_nbytes(r.nbytes);
    impl->set_sizes_and_strides(r.sizes, r.strides, 0);
  }
  // Handed to the queue at the end; until then an exception must give it back.
  struct GiveBack {
    void operator()(KernelCommand* c) const { c->retire(); }
  };
  std::unique_ptr<KernelCommand, GiveBack> command(KernelCommand::acquire(kernel_, device));
  command->site = current_site();
  for (const auto& o : operands_)
    command->largest =
        std::max(command->largest, static_cast<size_t>(o.tensor->unsafeGetTensorImpl()->numel()) * o.tensor->itemsize());
  alias_arguments(command->args, [&](const at::Tensor& t) { return command->alias(t); });
  for (const auto& value : command->args)
    if (C10_UNLIKELY(value.isList() || value.isString())) command->keep(value);

  c10::SmallVector<c10::Storage, 4> storages;
  for (const auto& s : entry.storages) {
    storages.push_back(make_hpu_storage(device_.index(), s.nbytes));
    command->largest = std::max(command->largest, s.nbytes);
    command->planned.push_back({const_cast<void*>(storages.back().data()), s.nbytes, s.ordinal});
  }
  for (const auto& o : entry.outputs)
    command->fresh.push_back(o.kind == OutputSpec::Kind::Fresh ? static_cast<int32_t>(o.index) : -1);
  openhpu::submit(device, command.release());
  leave_results(entry, storages);
}

void OpCall::leave_results(const ShapeEntry& entry, const c10::SmallVectorImpl<c10::Storage>& storages) {
  c10::SmallVector<at::Tensor, 4> tensors;
  for (const auto& o : entry.outputs) {
    switch (o.kind) {
      case OutputSpec::Kind::Fresh:
        tensors.push_back(make_hpu_tensor(storages[o.index], o.dtype, o.sizes, o.strides, o.offset));
        break;
      case OutputSpec::Kind::Argument: tensors.push_back(*operands_[o.index].tensor); break;
      case OutputSpec::Kind::Undefined: tensors.emplace_back(); break;
    }
  }
  stack_.resize(stack_.size() - arg_count_);
  size_t next = 0;
  for (int32_t n : entry.returns) {
    if (n < 0) {
      stack_.emplace_back(std::move(tensors[next++]));
    } else {
      c10::List<at::Tensor> list;
      for (int32_t k = 0; k < n; ++k) list.push_back(std::move(tensors[next++]));
      stack_.emplace_back(std::move(list));
    }
  }
}

namespace {

// A command whose submitter waits for it: its error belongs to the caller, not to the queue.
class WaitedCommand final : public device::Command {
 public:
  WaitedCommand(const OpKernel& kernel, device::Device& device, c10::Stack& stack, c10::SmallVectorImpl<int64_t>& ordinals,
                std::exception_ptr& error)
      : kernel_(kernel), device_(device), stack_(stack), ordinals_(ordinals), error_(error) {}
  const char* name() const override { return kernel_.name().c_str(); }
  void run() override {
    try {
      apply_kernel_threads(largest_tensor(stack_));
      device::MemoryPool::AccessScope access(device_.memory());
      KernelScope scope(device_.workspace(), nullptr, 0, /*record=*/true);
      kernel_.call_cpu(stack_);
      for (const auto& value : stack_) {
        for_each_tensor(value, [&](const at::Tensor& t) {
          ordinals_.push_back(t.defined() && t.has_storage() ? scope.ordinal_of(t.storage().data()) : -1);
        });
      }
    } catch (...) {
      error_ = std::current_exception();
    }
  }

 private:
  const OpKernel& kernel_;
  device::Device& device_;
  c10::Stack& stack_;
  c10::SmallVectorImpl<int64_t>& ordinals_;
  std::exception_ptr& error_;
};

// A resizable CPU storage over the memory of an hpu storage, for operators whose effect on `out=` is not known yet.
c10::intrusive_ptr<c10::StorageImpl> resizable_storage(const c10::StorageImpl& storage) {
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), storage.nbytes(),
      c10::DataPtr(const_cast<void*>(storage.data()), nullptr, [](void*) {}, c10::Device(c10::kCPU)),
      c10::GetAllocator(c10::kCPU), /*resizable=*/true);
}

c10::SmallVector<int64_t, 6> copy_of(c10::IntArrayRef a) { return {a.begin(), a.end()}; }

}  // namespace

std::shared_ptr<const ShapeEntry> OpCall::run_and_wait(bool on_host) {
  auto& device = device_of(device_);
  TORCH_CHECK(
      on_host || !device.queue().on_worker(), kernel_.name(), " was called on hpu tensors inside a kernel that runs on ",
      "the device's worker, which can't wait for itself. Use CPU tensors in CPU kernels.");
  c10::Stack cpu;
  // One CPU storage per hpu storage, so that kernels see who overlaps whom.
  ska::flat_hash_map<const c10::StorageImpl*, c10::intrusive_ptr<c10::StorageImpl>> storages;
  ska::flat_hash_map<const c10::StorageImpl*, c10::Storage> origin;  // CPU storage -> hpu storage
  std::vector<std::pair<const at::Tensor*, at::Tensor>> aliases;     // hpu operand, its alias
  alias_arguments(cpu, [&](const at::Tensor& t) {
    const auto& hpu_storage = t.storage();
    auto& storage = storages[hpu_storage.unsafeGetStorageImpl()];
    if (!storage) {
      require_memory(*hpu_storage.unsafeGetStorageImpl());
      storage = resizable_storage(*hpu_storage.unsafeGetStorageImpl());
      origin[storage.get()] = hpu_storage;
    }
    auto alias = cpu_alias_over(*t.unsafeGetTensorImpl(), storage);
    aliases.emplace_back(&t, alias);
    return alias;
  });

  std::exception_ptr error;
  c10::SmallVector<int64_t, 4> ordinals;
  if (on_host) {
    synchronize(device_.index());
    c10::InferenceMode no_autograd(true);
    device::MemoryPool::AccessScope access(device.memory());
    kernel_.call_cpu(cpu);
  } else {
    auto* command = new WaitedCommand(kernel_, device, cpu, ordinals, error);
    command->site = current_site();
    device.queue().wait(openhpu::submit(device, command));
    emit_kernel_warnings();
    if (error) std::rethrow_exception(error);
  }

  auto entry = std::make_shared<ShapeEntry>();
  bool reusable = !on_host && !kernel_.traits().always_wait && signature.cacheable();

  // Operands that the operator resized: the hpu tensor takes over the new size, and the contents.
  ska::flat_hash_map<const c10::StorageImpl*, bool> moved;
  for (size_t i = 0; i < aliases.size(); ++i) {
    auto& [hpu, alias] = aliases[i];
    auto* impl = hpu->unsafeGetTensorImpl();
    const auto* storage = alias.storage().unsafeGetStorageImpl();
    auto& hpu_storage = *impl->unsafe_storage().unsafeGetStorageImpl();
    const bool new_memory = storage->data() != hpu_storage.data() || storage->nbytes() != hpu_storage.nbytes();
    if (new_memory && !moved[storage]) {
      moved[storage] = true;
      const bool was_empty = hpu_storage.nbytes() == 0;
      auto memory = upload(alias.storage(), device_.index());
      hpu_storage.set_data_ptr_noswap(std::move(memory));
      hpu_storage.set_nbytes(storage->nbytes());
      if (hpu_storage.has_materializer()) hpu_storage.clear_materializer();
      size_t operand = 0;
      while (operand < operands_.size() && operands_[operand].tensor != hpu) ++operand;
      reusable &= was_empty && impl->storage_offset() == 0 && operand < operands_.size();
      entry->resizes.push_back(
          {static_cast<uint32_t>(operand), storage->nbytes(), copy_of(alias.sizes()), copy_of(alias.strides())});
    } else if (impl->sizes() != alias.sizes() || impl->strides() != alias.strides()) {
      reusable = false;
    }
    if (impl->sizes() != alias.sizes() || impl->strides() != alias.strides() ||
        impl->storage_offset() != alias.storage_offset())
      impl->set_sizes_and_strides(alias.sizes(), alias.strides(), alias.storage_offset());
    // Some linear algebra leaves its output conjugated lazily.
    if (impl->is_conj() != alias.is_conj() || impl->is_neg() != alias.is_neg()) {
      impl->_set_conj(alias.is_conj());
      impl->_set_neg(alias.is_neg());
      reusable = false;
    }
  }

  ska::flat_hash_map<const c10::StorageImpl*, std::pair<c10::Storage, uint32_t>> fresh;
  size_t flat = 0;
  auto adopt = [&](const at::Tensor& t) -> at::Tensor {
    const int64_t ordinal = flat < ordinals.size() ? ordinals[flat] : -1;
    ++flat;
    OutputSpec spec;
    if (!t.defined()) {
      spec.kind = OutputSpec::Kind::Undefined;
      entry->outputs.push_back(spec);
      return t;
    }
    for (auto& [hpu, alias] : aliases) {
      if (!alias.is_same(t)) continue;
      spec.kind = OutputSpec::Kind::Argument;
      while (operands_[spec.index].tensor != hpu) ++spec.index;
      entry->outputs.push_back(spec);
      return *hpu;
    }
    if (t.layout() != c10::kStrided || t.is_conj() || t.is_neg() || t.is_quantized()) {
      reusable = false;
      return adopt_result(t, device_.index());
    }
    const auto* storage = t.storage().unsafeGetStorageImpl();
    if (auto it = origin.find(storage); it != origin.end()) {
      reusable = false;  // a view of an operand
      return make_hpu_tensor(it->second, t.dtype(), t.sizes(), t.strides(), t.storage_offset());
    }
    auto it = fresh.find(storage);
    if (it == fresh.end()) {
      auto hpu_storage = upload_storage(t.storage(), device_.index());
      reusable &= ordinal >= 0 || storage->nbytes() == 0;
      entry->storages.push_back({storage->nbytes(), static_cast<uint32_t>(ordinal)});
      it = fresh.emplace(storage, std::make_pair(hpu_storage, static_cast<uint32_t>(entry->storages.size() - 1))).first;
    }
    spec.index = it->second.second;
    spec.dtype = t.dtype();
    spec.sizes = copy_of(t.sizes());
    spec.strides = copy_of(t.strides());
    spec.offset = t.storage_offset();
    entry->outputs.push_back(spec);
    return make_hpu_tensor(it->second.first, t.dtype(), t.sizes(), t.strides(), t.storage_offset());
  };

  c10::Stack results;
  for (const auto& value : cpu) {
    if (value.isTensor()) {
      entry->returns.push_back(-1);
      results.emplace_back(adopt(value.toTensor()));
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const auto& e : value.toListRef()) list.push_back(adopt(e.toTensor()));
      entry->returns.push_back(static_cast<int32_t>(list.size()));
      results.emplace_back(std::move(list));
    } else {
      reusable = false;
      results.emplace_back(value);
    }
  }
  if (reusable) {
    entry->call = std::make_unique<CallTemplate>(describe_call(kernel_, args_));
    for (const auto& s : entry->storages) entry->call->largest = std::max(entry->call->largest, s.nbytes);
  }
  if (C10_UNLIKELY(capturing())) record_learned(reusable ? entry : nullptr, results);
  stack_.resize(stack_.size() - arg_count_);
  for (auto& r : results) stack_.emplace_back(std::move(r));
  return reusable ? entry : nullptr;
}

std::shared_ptr<const ShapeEntry> OpCall::describe_fill() const {
  auto entry = std::make_shared<ShapeEntry>();
  entry->outputs.emplace_back().kind = OutputSpec::Kind::Argument;
  entry->returns.push_back(-1);
  entry->call = std::make_unique<CallTemplate>(describe_call(kernel_, args_));
  return entry;
}

void OpCall::run_on_metadata() {
  c10::Stack cpu;
  ska::flat_hash_map<const c10::StorageImpl*, c10::intrusive_ptr<c10::StorageImpl>> storages;
  alias_arguments(cpu, [&](const at::Tensor& t) {
    auto& storage = storages[t.storage().unsafeGetStorageImpl()];
    if (!storage) storage = resizable_storage(*t.storage().unsafeGetStorageImpl());
    return cpu_alias_over(*t.unsafeGetTensorImpl(), storage);
  });
  kernel_.call_cpu(cpu);
  stack_.resize(stack_.size() - arg_count_);
  for (auto& r : cpu) stack_.emplace_back(std::move(r));
}

}  // namespace openhpu
