#include "graph/NodeRunner.h"

#include <c10/util/Exception.h>

#include <cstring>

#include "modes/Eager.h"
#include "ops/OpKernel.h"
#include "runtime/events.h"

namespace openhpu {
namespace {

using Kind = CallTemplate::ArgKind;

void delete_nothing(void*) {}

c10::intrusive_ptr<c10::StorageImpl> storage_over(void* data, size_t nbytes) {
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), nbytes, c10::DataPtr(data, nullptr, &delete_nothing, c10::Device(c10::kCPU)),
      nullptr, /*resizable=*/false);
}

}  // namespace

c10::intrusive_ptr<c10::StorageImpl>& NodeRunner::storage_of(uint32_t slot) {
  auto& storage = storages_[slot];
  if (!storage) {
    const auto& memory = (*slots_)[slot];
    if (memory.assigned) {
      storage = storage_over(memory.data, memory.nbytes);
    } else {
      // Memory without contents that no operator made (torch.empty).
      auto* allocator = c10::GetAllocator(c10::kCPU);
      storage = c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), memory.nbytes, allocator->allocate(memory.nbytes), nullptr, false);
    }
  }
  return storage;
}

at::Tensor NodeRunner::operand(const CallTemplate::Operand& o, uint64_t place, const uint64_t* numbers) {
  if (o.on_host) return host_operand(o, numbers + o.number);
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(storage_of(Graph::slot_of(place))),
      c10::DispatchKeySet(c10::DispatchKey::CPU), o.dtype);
  impl->set_sizes_and_strides(o.sizes, o.strides, Graph::offset_of(place));
  if (C10_UNLIKELY(o.conj)) impl->_set_conj(true);
  if (C10_UNLIKELY(o.neg)) impl->_set_neg(true);
  if (C10_UNLIKELY(o.wrapped_number)) impl->set_wrapped_number(true);
  return at::Tensor(std::move(impl));
}

void NodeRunner::run_node(const Graph& graph, const Graph::Node& node) {
  const CallTemplate& call = *node.entry->call;
  const uint64_t* places = graph.operand_places(node);
  const uint64_t* numbers = numbers_ + node.numbers;
  const auto& schema = call.kernel->schema();
  KernelScope empties(device_.workspace(), nullptr, 0, false);

  // Operands on the host have no place of their own.
  c10::SmallVector<at::Tensor, 8> operands;
  c10::SmallVector<uint64_t, 8> identities;
  size_t next = 0;
  for (const auto& o : call.operands) {
    const uint64_t place = o.on_host ? ~uint64_t{0} : places[next++];
    if (call.any_written && !o.on_host) {
      // An operand given twice is one tensor for the kernel too: in-place composites pass self as input and as output.
      size_t same = 0;
      for (; same < identities.size(); ++same) {
        const auto& other = call.operands[same];
        if (identities[same] == place && other.sizes == o.sizes && other.strides == o.strides &&
            other.dtype == o.dtype && other.conj == o.conj && other.neg == o.neg)
          break;
      }
      if (same < identities.size() && call.operands.size() <= 16) {
        operands.push_back(operands[same]);
        identities.push_back(place);
        continue;
      }
    }
    operands.push_back(operand(o, place, numbers));
    if (call.operands.size() <= 16) identities.push_back(place);
  }

  stack_.clear();
  for (size_t i = 0; i < call.args.size(); ++i) {
    const auto& arg = call.args[i];
    switch (arg.kind) {
      case Kind::Constant: stack_.push_back(arg.constant); break;
      case Kind::Tensor: stack_.emplace_back(operands[arg.first]); break;
      case Kind::TensorList: {
        c10::List<at::Tensor> list;
        list.reserve(arg.elements.size());
        for (int32_t k : arg.elements) list.push_back(k < 0 ? at::Tensor() : operands[k]);
        stack_.emplace_back(std::move(list));
        break;
      }
      case Kind::OptionalTensorList: {
        c10::List<std::optional<at::Tensor>> list;
        for (int32_t k : arg.elements)
          list.push_back(k < 0 ? std::optional<at::Tensor>() : std::optional<at::Tensor>(operands[k]));
        stack_.emplace_back(std::move(list));
        break;
      }
      case Kind::NumberList: {
        auto type = schema.arguments()[i].real_type();
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
  operands.clear();

  const uint64_t* fresh = places + next;
  planned_.clear();
  for (size_t k = 0; k < node.entry->storages.size(); ++k) {
    const auto& memory = (*slots_)[fresh[k]];
    if (memory.assigned) planned_.push_back({memory.data, memory.nbytes, node.entry->storages[k].ordinal});
  }
  apply_kernel_threads(call.largest);
  {
    KernelScope scope(device_.workspace(), planned_.data(), planned_.size(), /*record=*/false);
    call.kernel->call_cpu(stack_);
    keep_outputs(node, fresh);
  }
  stack_.clear();
}

void NodeRunner::keep_outputs(const Graph::Node& node, const uint64_t* fresh) {
  const auto& entry = *node.entry;
  size_t i = 0;
  // A kernel whose order of allocations varies may put one output where another belongs: copies leave by way of a
  // buffer, after all have been looked at.
  std::vector<std::pair<void*, std::vector<char>>> misplaced;
  for (const auto& value : stack_) {
    for_each_tensor(value, [&](const at::Tensor& t) {
      const auto& spec = entry.outputs[i++];
      if (spec.kind != OutputSpec::Kind::Fresh) return;
      const auto slot = static_cast<uint32_t>(fresh[spec.index]);
      const auto& memory = (*slots_)[slot];
      const auto& storage = t.storage();
      TORCH_INTERNAL_ASSERT(
          storage.nbytes() == memory.nbytes, node.entry->call->kernel->name(), " returned ", storage.nbytes(),
          " bytes where ", memory.nbytes, " were expected from its operands");
      if (!memory.assigned) {
        storages_[slot] = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage.unsafeGetStorageImpl());
      } else if (storage.data() != memory.data && memory.nbytes > 0) {
        const auto* data = static_cast<const char*>(storage.data());
        misplaced.emplace_back(memory.data, std::vector<char>(data, data + memory.nbytes));
      }
    });
  }
  for (const auto& [to, bytes] : misplaced) std::memcpy(to, bytes.data(), bytes.size());
  if (!misplaced.empty()) count(Counter::OutputsCopied, misplaced.size());
}

void NodeRunner::run(
    const Graph& graph, const std::vector<SlotMemory>& slots, const std::vector<uint64_t>& numbers) {
  slots_ = &slots;
  numbers_ = numbers.data();
  storages_.assign(slots.size(), nullptr);
  last_use_.assign(slots.size(), 0);
  auto each_slot = [&](const Graph::Node& node, auto&& visit) {
    const uint64_t* places = graph.operand_places(node);
    size_t next = 0;
    for (const auto& o : node.entry->call->operands)
      if (!o.on_host) visit(Graph::slot_of(places[next++]));
    for (size_t k = 0; k < node.entry->storages.size(); ++k) visit(static_cast<uint32_t>(places[next + k]));
  };
  for (uint32_t n = 0; n < graph.nodes.size(); ++n)
    each_slot(graph.nodes[n], [&](uint32_t slot) { last_use_[slot] = n; });
  struct Clear {
    NodeRunner& runner;
    ~Clear() {
      runner.stack_.clear();
      runner.storages_.clear();
    }
  } clear{*this};
  std::exception_ptr error;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    try {
      run_node(graph, graph.nodes[n]);
    } catch (...) {
      // As in eager mode the operators after it still run, if on garbage.
      if (!error) {
        error = std::current_exception();
        failed = n;
      }
      stack_.clear();
    }
    each_slot(graph.nodes[n], [&](uint32_t slot) {
      if (last_use_[slot] == n && !slots[slot].assigned) storages_[slot].reset();
    });
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace openhpu
