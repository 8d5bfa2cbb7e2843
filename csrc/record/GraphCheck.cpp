// Checks of captured graphs: what a replay computes beside a run node by node, and how two captures differ.
#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>

#include "device/blocking_wait.h"
#include "observe/events.h"
#include "record/CapturedGraph.h"
#include "record/GraphCommand.h"
#include "run/Operator.h"
#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

struct Writer {
  const Graph::Node* node = nullptr;
  at::ScalarType dtype = at::kByte;
};

// By slot: the last node that writes to it, and as which dtype.
std::vector<Writer> last_writers(const Graph& graph) {
  std::vector<Writer> out(graph.slots.size());
  for (const auto& node : graph.nodes) {
    const uint64_t* fresh = graph.for_each_operand(node, [&](const auto& o, uint64_t place) {
      if (o.written) out[Graph::slot_of(place)] = {&node, c10::typeMetaToScalarType(o.dtype)};
    });
    for (const auto& o : node.entry->outputs)
      if (o.kind == OutputSpec::Kind::Fresh) out[fresh[o.index]] = {&node, c10::typeMetaToScalarType(o.dtype)};
  }
  return out;
}

at::Tensor on_host(const void* data, size_t nbytes, at::ScalarType dtype) {
  auto out = at::empty({static_cast<int64_t>(nbytes / c10::elementSize(dtype))}, dtype);
  std::memcpy(out.mutable_data_ptr(), data, out.nbytes());
  return out;
}

}  // namespace

std::vector<CapturedGraph::Unequal> CapturedGraph::replay_beside(const std::vector<Substitute>& substitutes) {
  flush(device_);
  auto lock = device::lock_patiently(mutex_);
  const auto program = program_;
  const auto writers = last_writers(program->graph);
  struct Copy {
    uint32_t slot;
    void* real;
    std::unique_ptr<SharedBlock> block;
  };
  std::vector<Copy> copies;
  auto slots = program->slots;
  for (const auto& s : substitutes) slots[s.slot].data = s.data;
  for (uint32_t i = 0; i < slots.size(); ++i) {
    if (!writers[i].node || !slots[i].assigned || !slots[i].data || !slots[i].nbytes) continue;
    auto block = std::make_unique<SharedBlock>(allocate_block(device_, slots[i].nbytes), device_.index());
    copies.push_back({i, slots[i].data, std::move(block)});
    slots[i].data = copies.back().block->data;
  }
  count(Counter::GraphReplays);
  auto numbers = drawn_numbers();
  if (program->graph.empty()) return {};
  for (const auto& c : copies) copy_in_order(device_, "graph check", c.block->data, c.real, slots[c.slot].nbytes);
  auto plain = GraphCommand::acquire(device_);
  plain->program = program;
  plain->site = program->graph.nodes.front().site;
  plain->numbers = numbers;
  plain->slots = slots;
  openhpu::submit(device_, plain.release(), device::OnInterrupt::Throw);
  launch(std::move(lock), std::move(numbers), substitutes);
  device_.queue().drain();
  device::MemoryPool::AccessScope access(device_.memory());
  std::sort(copies.begin(), copies.end(), [&](const auto& a, const auto& b) {
    return writers[a.slot].node < writers[b.slot].node;
  });
  std::vector<Unequal> out;
  for (const auto& c : copies) {
    const size_t nbytes = slots[c.slot].nbytes;
    if (std::memcmp(c.real, c.block->data, nbytes) == 0) continue;
    const auto& [node, dtype] = writers[c.slot];
    out.push_back(
        {node->entry->call->kernel->name(), node->site, on_host(c.real, nbytes, dtype),
         on_host(c.block->data, nbytes, dtype)});
  }
  return out;
}

std::optional<Recompilation> CapturedGraph::difference(
    const CapturedGraph& other, const std::vector<uint32_t>& given) const {
  device_.queue().drain();
  device::MemoryPool::AccessScope access(device_.memory());
  std::unordered_set<uint32_t> seeds;
  for (const auto& draw : draws_) seeds.insert(draw.numbers.begin(), draw.numbers.end());
  const auto &before = program_->graph, &now = other.program_->graph;
  const size_t nodes = std::min(before.nodes.size(), now.nodes.size());
  for (size_t n = 0; n < nodes; ++n) {
    const auto &a = before.nodes[n], &b = now.nodes[n];
    auto found = compare_calls(a, now, b);
    if (!found) found = compare_numbers(before, a, now, b, seeds);
    if (found) {
      if (found->cause == "graph") found->before = a.entry->call->kernel->name();
      return found;
    }
    std::vector<uint32_t> slots;
    before.for_each_operand(a, [&](const auto&, uint64_t place) { slots.push_back(Graph::slot_of(place)); });
    size_t k = 0;
    now.for_each_operand(b, [&](const auto&, uint64_t place) {
      const uint32_t was = slots[k++], is = Graph::slot_of(place);
      const auto &x = program_->slots[was], &y = other.program_->slots[is];
      const bool outside = !x.fresh && !y.fresh && std::find(given.begin(), given.end(), was) == given.end();
      if (found || !outside || !x.data || !y.data || x.data == y.data) return;
      if (x.nbytes == y.nbytes && std::memcmp(x.data, y.data, x.nbytes) == 0) return;
      // Of a copy from the host nobody but the graph has the memory.
      found = at_node(b, other.program_->held[is].use_count() == 1 ? "host" : "contents");
    });
    if (found) return found;
  }
  if (before.nodes.size() == now.nodes.size()) return std::nullopt;
  const bool longer = now.nodes.size() > nodes;
  return at_node(longer ? now.nodes[nodes] : before.nodes[nodes], longer ? "more" : "fewer");
}

const Graph::Node* CapturedGraph::writer_of(uint32_t slot) const { return last_writers(program_->graph)[slot].node; }

}  // namespace openhpu
