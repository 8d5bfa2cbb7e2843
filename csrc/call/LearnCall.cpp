// Runs a call whose results' metadata are not known, and learns the metadata from the run.
#include <omp.h>

#include "call/OpCall.h"
#include "observe/site.h"
#include "record/Capture.h"
#include "record/Lazy.h"
#include "run/Eager.h"
#include "run/KernelMemory.h"
#include "torch/CompileOnly.h"

namespace openhpu {
namespace {

// Operands of more bytes are too dear to make up, see OpCall::rehearse.
constexpr size_t kMostRehearsed = size_t{64} << 20;

void learn(const OpKernel& kernel, KernelScope& scope, OpCall::OnHost& call) {
  call.widening = learn_cpu(kernel, call.stack);
  for_each_tensor(call.stack, [&](const at::Tensor& t) {
    call.ordinals.push_back(t.defined() && t.has_storage() ? scope.ordinal_of(t.storage().data()) : -1);
  });
}

// The storages of these results learn that their sizes come from this operator.
uint32_t number_sizes(const std::string& op, const c10::Stack& results) {
  SizeOrigin origin{op, current_site(), {}};
  std::vector<HPUMemory*> made;
  for_each_tensor(results, [&](const at::Tensor& t) {
    if (!t.defined() || !t.has_storage()) return;
    origin.sizes.insert(origin.sizes.end(), t.sizes().begin(), t.sizes().end());
    if (auto* memory = memory_of(*t.storage().unsafeGetStorageImpl())) made.push_back(memory);
  });
  const uint32_t number = add_size_origin(std::move(origin));
  for (auto* memory : made) memory->sized_by = number;
  return number;
}

c10::SmallVector<int64_t, 6> copy_of(c10::IntArrayRef a) { return {a.begin(), a.end()}; }

}  // namespace

void OpCall::alias_on_host(OnHost& call, StorageOver storage_over, c10::DispatchKey key) const {
  call.stack.reserve(arg_count_ + 1);
  uint32_t next = 0;  // operand
  const auto alias_new = [&](const at::Tensor& t, uint32_t operand) -> at::Tensor {
    // A CPU operand's value is taken now: the script may change it before the command runs.
    if (t.device().type() == c10::kCPU) {
      auto copy = t.clone();
      if (t.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
      return copy;
    }
    const auto& hpu_storage = t.storage();
    auto& storage = call.storages[hpu_storage.unsafeGetStorageImpl()];
    if (!storage) {
      storage = storage_over(*hpu_storage.unsafeGetStorageImpl());
      call.origin[storage.get()] = hpu_storage;
    }
    auto alias = alias_over(*t.unsafeGetTensorImpl(), storage, key);
    call.aliases.push_back({operand, alias, storage->data(), storage->nbytes()});
    return alias;
  };
  // An operand given twice is one tensor for the kernel too: in-place composites pass self as input and as output.
  ska::flat_hash_map<const c10::TensorImpl*, at::Tensor> made;
  const auto alias = [&](const at::Tensor& t) -> at::Tensor {
    if (!t.defined()) return t;
    const uint32_t operand = next++;
    if (!kernel_.any_written_) return alias_new(t, operand);
    auto& known = made[t.unsafeGetTensorImpl()];
    if (!known.defined()) known = alias_new(t, operand);
    return known;
  };
  for (size_t i = 0; i < arg_count_; ++i)
    call.stack.push_back(args_[i].isDevice() ? c10::IValue(c10::Device(c10::kCPU)) : map_tensors(args_[i], alias));
}

std::shared_ptr<const ShapeEntry> OpCall::run_and_wait(bool on_host) {
  auto& device = device_of(device_);
  TORCH_CHECK(
      on_host || !device.queue().on_worker(), kernel_.name(),
      " was called on hpu tensors inside a kernel that runs on ",
      "the device's worker, which can't wait for itself. Use CPU tensors in CPU kernels.");
  OnHost call;
  // Resizable, since the effect on `out=` is not known yet.
  alias_on_host(call, [](const c10::StorageImpl& storage) {
    require_memory(storage);
    auto* data = const_cast<void*>(storage.data());
    return storage_over(c10::DataPtr(data, nullptr, [](void*) {}, c10::Device(c10::kCPU)), storage.nbytes());
  });

  std::exception_ptr error;
  if (on_host) {
    synchronize(device_.index());
    device::SpanScope span("hpuFallback");
    if (span) span.set_detail(kernel_.name());
    c10::InferenceMode no_autograd(true);
    device::MemoryPool::AccessScope access(device.memory());
    kernel_.call_cpu(call.stack);
  } else {
    const Claim claim;
    const int threads = threads_for(largest_tensor(call.stack));
    // Its error is the caller's, not the queue's.
    auto run = [&, claim, threads] {
      if (!claim.take()) return;  // the caller may be gone
      try {
        apply_threads(threads);
        device::MemoryPool::AccessScope access(device.memory());
        KernelScope scope(device.workspace(), nullptr, 0, /*record=*/true);
        learn(kernel_, scope, call);
      } catch (...) {
        error = std::current_exception();
      }
    };
    const bool anywhere = threads == 1 && !kernel_.traits().collective;
    auto* command = new device::FunctionCommand(kernel_.name(), std::move(run), anywhere);
    command->site = current_site();
    wait_or_take_back(device.queue(), openhpu::submit(device, command, device::OnInterrupt::Throw), claim);
    emit_kernel_warnings();
    if (error) std::rethrow_exception(error);
  }

  if (C10_UNLIKELY(compile_only() != 0))  // it ran
    for (const auto& o : operands_)
      if (o.written && o.tensor->device().type() == c10::kHPU)
        if (auto* memory = memory_of(*o.tensor->storage().unsafeGetStorageImpl())) note_contents(*memory);
  const bool reusable = !on_host && !waits_for_sizes() && signature.cacheable();
  c10::Stack results;
  auto entry = describe_results(call, reusable, &results);
  if (C10_UNLIKELY(listening(kRecompilation)) && lazy_mode() && waits_for_sizes())
    Recorder::of(device).note_sizes(number_sizes(kernel_.name(), results));
  if (C10_UNLIKELY(capturing())) record_learned(entry, results);
  if (!results_) return entry;
  results_->resize(results_->size() - on_stack_);
  std::move(results.begin(), results.end(), std::back_inserter(*results_));
  return entry;
}

std::shared_ptr<const ShapeEntry> OpCall::rehearse() {
  size_t total = 0;
  for (const auto& o : operands_)
    if (o.tensor->device().type() == c10::kHPU) total += o.tensor->storage().nbytes();
  if (total > kMostRehearsed && compile_only() == 0) return nullptr;
  // Its warnings and errors come again when it runs.
  const NoWarnings quiet;
  c10::InferenceMode no_autograd(true);
  // A team of the script's own would spin on the worker's core afterwards: small steps then took twice as long.
  const auto restore = c10::make_scope_exit([before = omp_get_max_threads()] { omp_set_num_threads(before); });
  omp_set_num_threads(1);
  OnHost call;
  // The zeros are made up.
  const auto noted =
      c10::make_scope_exit([before = std::exchange(t_unnoted_indices, true)] { t_unnoted_indices = before; });
  try {
    alias_on_host(call, [](const c10::StorageImpl& storage) {
      auto* zeros = std::calloc(storage.nbytes() + 1, 1);  // of many bytes no page is made before a kernel uses it
      TORCH_CHECK(zeros, "no memory for zeros");
      return storage_over(c10::DataPtr(zeros, zeros, &std::free, c10::Device(c10::kCPU)), storage.nbytes());
    });
    KernelScope scope(device_of(device_).workspace(), nullptr, 0, /*record=*/true);
    learn(kernel_, scope, call);
  } catch (const std::exception&) {
    return nullptr;  // it minds the zeros, or the script has an error: the call itself will tell
  }
  return describe_results(call, /*reusable=*/true, nullptr);
}

std::shared_ptr<const ShapeEntry> OpCall::describe_results(OnHost& call, bool reusable, c10::Stack* results) {
  auto entry = new_entry();
  // Operands that the operator resized: the hpu tensor takes over the new size, and the contents.
  std::set<const c10::StorageImpl*> moved;
  for (auto& [operand, alias, data, nbytes] : call.aliases) {
    auto* impl = operands_[operand].tensor->unsafeGetTensorImpl();
    const auto* storage = alias.storage().unsafeGetStorageImpl();
    if ((storage->data() != data || storage->nbytes() != nbytes) && moved.insert(storage).second) {
      const bool was_empty = nbytes == 0;
      if (results) {
        auto memory = upload(alias.storage(), device_.index());
        replace_memory(*impl->unsafe_storage().unsafeGetStorageImpl(), std::move(memory), storage->nbytes());
      }
      reusable &= was_empty && impl->storage_offset() == 0;
      entry->resizes.push_back({operand, storage->nbytes(), copy_of(alias.sizes()), copy_of(alias.strides())});
    } else if (impl->sizes() != alias.sizes() || impl->strides() != alias.strides()) {
      reusable = false;
    }
    if (results && (impl->sizes() != alias.sizes() || impl->strides() != alias.strides() ||
                    impl->storage_offset() != alias.storage_offset()))
      impl->set_sizes_and_strides(alias.sizes(), alias.strides(), alias.storage_offset());
    // Some linear algebra leaves its output conjugated lazily.
    if (impl->is_conj() != alias.is_conj() || impl->is_neg() != alias.is_neg()) {
      if (results) {
        impl->_set_conj(alias.is_conj());
        impl->_set_neg(alias.is_neg());
      }
      reusable = false;
    }
  }

  ska::flat_hash_map<const c10::StorageImpl*, std::pair<c10::Storage, uint32_t>> fresh;
  size_t flat = 0;
  ska::flat_hash_map<const c10::TensorImpl*, uint32_t> operand_of;
  for (const auto& alias : call.aliases) operand_of.emplace(alias.cpu.unsafeGetTensorImpl(), alias.operand);
  auto adopt = [&](const at::Tensor& t) -> at::Tensor {
    const int64_t ordinal = flat < call.ordinals.size() ? call.ordinals[flat] : -1;
    ++flat;
    auto& spec = entry->outputs.emplace_back();
    if (!t.defined()) {
      spec.kind = OutputSpec::Kind::Undefined;
      return t;
    }
    if (const auto known = operand_of.find(t.unsafeGetTensorImpl()); known != operand_of.end()) {
      spec.kind = OutputSpec::Kind::Argument;
      spec.index = known->second;
      return *operands_[spec.index].tensor;
    }
    if (t.layout() != c10::kStrided || t.is_conj() || t.is_neg() || t.is_quantized()) {
      reusable = false;
      return results ? adopt_result(t, device_.index()) : at::Tensor();
    }
    const auto* storage = t.storage().unsafeGetStorageImpl();
    if (auto it = call.origin.find(storage); it != call.origin.end()) {
      reusable = false;  // a view of an operand
      return make_hpu_tensor(it->second, t.dtype(), t.sizes(), t.strides(), t.storage_offset());
    }
    auto it = fresh.find(storage);
    if (it == fresh.end()) {
      c10::Storage hpu_storage;
      if (results) hpu_storage = upload_storage(t.storage(), device_.index());
      reusable &= ordinal >= 0 || storage->nbytes() == 0;
      entry->storages.push_back({storage->nbytes(), static_cast<uint32_t>(ordinal)});
      it = fresh.emplace(storage, std::make_pair(hpu_storage, static_cast<uint32_t>(entry->storages.size() - 1))).first;
    }
    spec.index = it->second.second;
    spec.dtype = t.dtype();
    spec.sizes = copy_of(t.sizes());
    spec.strides = copy_of(t.strides());
    spec.offset = t.storage_offset();
    if (!results) return {};
    return make_hpu_tensor(it->second.first, t.dtype(), t.sizes(), t.strides(), t.storage_offset());
  };

  auto keep = [&](c10::IValue value) {
    if (results) results->push_back(std::move(value));
  };
  for (const auto& value : call.stack) {
    if (value.isTensor()) {
      entry->returns.push_back(-1);
      keep(adopt(value.toTensor()));
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const auto& e : value.toListRef()) list.push_back(adopt(e.toTensor()));
      entry->returns.push_back(static_cast<int32_t>(list.size()));
      keep(std::move(list));
    } else {
      reusable = false;
      keep(value);
    }
  }
  if (!reusable) return nullptr;
  describe(*entry);
  entry->call->widening = call.widening;
  return entry;
}

void OpCall::describe(ShapeEntry& entry) const {
  entry.call = std::make_unique<CallTemplate>(describe_call(kernel_, args_));
  for (const auto& r : entry.resizes) {  // as they are when the call is recorded
    auto& operand = entry.call->operands[r.operand];
    operand.sizes.assign(r.sizes.begin(), r.sizes.end());
    operand.strides.assign(r.strides.begin(), r.strides.end());
    entry.call->largest = std::max(entry.call->largest, r.nbytes);
  }
  for (const auto& s : entry.storages) entry.call->largest = std::max(entry.call->largest, s.nbytes);
}

}  // namespace openhpu
