#include "recipes/NodeRunner.h"

#include <c10/core/StorageImpl.h>

#include "run/CallRunner.h"
#include "run/Operator.h"

namespace openhpu {

void run_nodes(
    device::Device& device, const Graph& graph, NodeRange range, const std::vector<SlotMemory>& slots,
    const std::vector<uint64_t>& numbers, int most_threads, size_t& failed) {
  auto& runner = CallRunner::of(device);
  auto* trace = device::Trace::current();
  std::exception_ptr error;
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> storages(slots.size());
  const auto memory_of_slot = [&](uint32_t slot) {
    auto memory = slots[slot];
    if (memory.assigned) return memory;
    auto& storage = storages[slot];
    if (!storage) {
      // Memory without contents that no operator made (torch.empty), or that one should have made that failed.
      auto* allocator = c10::GetAllocator(c10::kCPU);
      storage = c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), memory.nbytes, allocator->allocate(memory.nbytes), nullptr, false);
      if (error && memory.nbytes > 0) std::memset(storage->mutable_data(), 0, memory.nbytes);
    }
    memory.data = storage->mutable_data();
    return memory;
  };
  c10::SmallVector<OperandMemory, 8> operands;
  c10::SmallVector<OutputMemory, 4> outputs;
  const auto run = [&](const Graph::Node& node) {
    const CallTemplate& call = *node.entry->call;
    KernelScope empties(device.workspace(), nullptr, 0, false);
    operands.clear();
    const uint64_t* fresh = graph.for_each_operand(node, [&](const auto&, uint64_t place) {
      const uint32_t slot = Graph::slot_of(place);
      const auto memory = memory_of_slot(slot);
      operands.push_back({memory.data, memory.nbytes, static_cast<int64_t>(Graph::offset_of(place)), slot});
    });
    outputs.clear();
    for (size_t k = 0; k < node.entry->storages.size(); ++k) {
      const auto slot = static_cast<uint32_t>(fresh[k]);
      const auto& memory = slots[slot];
      outputs.push_back({memory.data, memory.nbytes, memory.assigned ? nullptr : &storages[slot]});
    }
    device.queue().set_running_site(node.site);
    device::MarkScope mark(trace, call.kernel->name().c_str(), node.site);
    runner.run(*node.entry, operands.data(), numbers.data() + node.numbers, outputs.data());
  };
  std::vector<uint32_t> last_use(slots.size(), 0);
  for (uint32_t n = range.begin; n < range.end; ++n)
    graph.for_each_slot(graph.nodes[n], [&](uint32_t slot) { last_use[slot] = n; });
  runner.limit_threads(most_threads);
  const auto unlimited = c10::make_scope_exit([&] { runner.limit_threads(CallRunner::kUnlimited); });
  for (uint32_t n = range.begin; n < range.end; ++n) {
    try {
      run(graph.nodes[n]);
    } catch (...) {
      // As in eager mode the operators after it still run, on zeros.
      if (!error) {
        error = std::current_exception();
        failed = n;
      }
    }
    graph.for_each_slot(graph.nodes[n], [&](uint32_t slot) {
      if (last_use[slot] == n && !slots[slot].assigned) storages[slot].reset();
    });
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace openhpu
