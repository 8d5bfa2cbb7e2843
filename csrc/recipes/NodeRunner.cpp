#include "recipes/NodeRunner.h"

#include "run/Operator.h"

namespace openhpu {

SlotMemory NodeRunner::memory_of_slot(uint32_t slot, bool after_error) {
  auto memory = (*slots_)[slot];
  if (memory.assigned) return memory;
  auto& storage = storages_[slot];
  if (!storage) {
    // Memory without contents that no operator made (torch.empty), or that one should have made that failed.
    auto* allocator = c10::GetAllocator(c10::kCPU);
    storage = c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), memory.nbytes, allocator->allocate(memory.nbytes), nullptr, false);
    if (after_error && memory.nbytes > 0) std::memset(storage->mutable_data(), 0, memory.nbytes);
  }
  memory.data = storage->mutable_data();
  return memory;
}

void NodeRunner::run_node(const Graph& graph, const Graph::Node& node, bool after_error) {
  const CallTemplate& call = *node.entry->call;
  KernelScope empties(device_.workspace(), nullptr, 0, false);
  operands_.clear();
  const uint64_t* fresh = graph.for_each_operand(node, [&](const auto&, uint64_t place) {
    const uint32_t slot = Graph::slot_of(place);
    const auto memory = memory_of_slot(slot, after_error);
    operands_.push_back({memory.data, memory.nbytes, static_cast<int64_t>(Graph::offset_of(place)), slot});
  });
  outputs_.clear();
  for (size_t k = 0; k < node.entry->storages.size(); ++k) {
    const auto slot = static_cast<uint32_t>(fresh[k]);
    const auto& memory = (*slots_)[slot];
    outputs_.push_back({memory.data, memory.nbytes, memory.assigned ? nullptr : &storages_[slot]});
  }
  device_.queue().set_running_site(node.site);
  device::MarkScope mark(trace_, call.kernel->name().c_str(), node.site);
  CallRunner::of(device_).run(*node.entry, operands_.data(), numbers_ + node.numbers, outputs_.data());
}

void NodeRunner::run(
    const Graph& graph, const std::vector<SlotMemory>& slots, const std::vector<uint64_t>& numbers, int most_threads) {
  slots_ = &slots;
  numbers_ = numbers.data();
  trace_ = device::Trace::current();
  storages_.assign(slots.size(), nullptr);
  last_use_.assign(slots.size(), 0);
  for (uint32_t n = 0; n < graph.nodes.size(); ++n)
    graph.for_each_slot(graph.nodes[n], [&](uint32_t slot) { last_use_[slot] = n; });
  CallRunner::of(device_).limit_threads(most_threads);
  const auto clear = c10::make_scope_exit([this] {
    storages_.clear();
    CallRunner::of(device_).limit_threads(CallRunner::kUnlimited);
  });
  std::exception_ptr error;
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    try {
      run_node(graph, graph.nodes[n], error != nullptr);
    } catch (...) {
      // As in eager mode the operators after it still run, on zeros.
      if (!error) {
        error = std::current_exception();
        failed = n;
      }
    }
    graph.for_each_slot(graph.nodes[n], [&](uint32_t slot) {
      if (last_use_[slot] == n && !slots[slot].assigned) storages_[slot].reset();
    });
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace openhpu
