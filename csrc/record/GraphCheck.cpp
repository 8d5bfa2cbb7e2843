// Checks of captured graphs: what a replay computes beside a run node by node, and how two captures differ.
#include <ATen/Dispatch_v2.h>
#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>

#include <limits>

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
  int64_t row = 1;  // elements in the last dimension
};

template <class Sizes>
int64_t row_of(const Sizes& sizes) {
  return sizes.empty() ? 1 : std::max<int64_t>(sizes.back(), 1);
}

// By slot: the last node that writes to it, and as which dtype.
std::vector<Writer> last_writers(const Graph& graph) {
  std::vector<Writer> out(graph.slots.size());
  for (const auto& node : graph.nodes) {
    const uint64_t* fresh = graph.for_each_operand(node, [&](const auto& o, uint64_t place) {
      if (o.written) out[Graph::slot_of(place)] = {&node, c10::typeMetaToScalarType(o.dtype), row_of(o.sizes)};
    });
    for (const auto& o : node.entry->outputs)
      if (o.kind == OutputSpec::Kind::Fresh)
        out[fresh[o.index]] = {&node, c10::typeMetaToScalarType(o.dtype), row_of(o.sizes)};
  }
  return out;
}

at::Tensor on_host(const void* data, size_t nbytes, at::ScalarType dtype, int64_t row) {
  auto out = at::empty({static_cast<int64_t>(nbytes / c10::elementSize(dtype))}, dtype);
  std::memcpy(out.mutable_data_ptr(), data, out.nbytes());
  return out.numel() % row == 0 ? out.view({-1, row}) : out;
}

// The distance from 1 to the next number of a dtype, by which values are rounded; 0 for integers.
double step_of(at::ScalarType dtype) {
  if (!c10::isFloatingType(dtype) && !c10::isComplexType(dtype)) return 0;
  double step = 0;
  const auto real = c10::toRealValueType(dtype);
  if (real == at::kDouble) return std::numeric_limits<double>::epsilon();
  if (real == at::kFloat) return std::numeric_limits<float>::epsilon();
  AT_DISPATCH_V2(
      real, "step_of", AT_WRAP([&] { step = static_cast<double>(std::numeric_limits<scalar_t>::epsilon()); }),
      at::kHalf, at::kBFloat16, AT_EXPAND(AT_FLOAT8_TYPES));
  return step;
}

// By slot: the coarsest dtype to which a value on the way to what it holds at the end is rounded.
std::vector<at::ScalarType> coarsest_of_slots(const Graph& graph) {
  std::vector<at::ScalarType> out(graph.slots.size(), at::kByte);
  const auto raise = [](at::ScalarType& of, at::ScalarType to) {
    if (step_of(to) > step_of(of)) of = to;
  };
  for (const auto& node : graph.nodes) {
    auto read = at::kByte;
    graph.for_each_operand(node, [&](const auto&, uint64_t place) { raise(read, out[Graph::slot_of(place)]); });
    const auto write = [&](uint32_t slot, caffe2::TypeMeta dtype) {
      raise(out[slot], read);
      raise(out[slot], c10::typeMetaToScalarType(dtype));
    };
    const uint64_t* fresh = graph.for_each_operand(node, [&](const auto& o, uint64_t place) {
      if (o.written) write(Graph::slot_of(place), o.dtype);
    });
    for (const auto& o : node.entry->outputs)
      if (o.kind == OutputSpec::Kind::Fresh) write(static_cast<uint32_t>(fresh[o.index]), o.dtype);
  }
  return out;
}

// The first constant argument that differs between two calls of one operator.
std::optional<Recompilation> compare_constants(const Graph::Node& a, const Graph::Node& b) {
  const auto &ca = *a.entry->call, &cb = *b.entry->call;
  for (size_t i = 0; i < std::min(ca.args.size(), cb.args.size()); ++i) {
    const auto &x = ca.args[i], &y = cb.args[i];
    const auto was = c10::str(x.constant), is = c10::str(y.constant);
    if (x.kind == y.kind && (x.kind != CallTemplate::ArgKind::Constant || was == is)) continue;
    auto r = at_node(b, "number");
    r.argument = cb.kernel->schema().arguments()[i].name();
    r.before = was;
    r.after = is;
    return r;
  }
  return std::nullopt;
}

bool same_bits(const CallTemplate& a, const CallTemplate& b) {
  if (a.operands.size() != b.operands.size()) return false;
  for (size_t k = 0; k < a.operands.size(); ++k) {
    const auto &x = a.operands[k], &y = b.operands[k];
    if (x.conj != y.conj || x.neg != y.neg || x.on_host != y.on_host) return false;
  }
  return true;
}

// Looks for the first difference between two captures of one function.
class Differences {
 public:
  Differences(const CapturedGraph& was, const CapturedGraph& is, CapturedGraph::Comparison& comparison)
      : was_(was.program()), is_(is.program()), comparison_(comparison), pairs_(comparison.inputs) {
    for (const auto& draw : was.all_draws()) seeds_.insert(draw.numbers.begin(), draw.numbers.end());
  }

  std::optional<Recompilation> find() {
    const auto &before = was_.graph, &now = is_.graph;
    const size_t all = std::min(comparison_.nodes, now.nodes.size());
    const size_t nodes = std::min(before.nodes.size(), all);
    for (size_t n = 0; n < nodes; ++n)
      if (auto found = at_nodes(before.nodes[n], now.nodes[n])) return found;
    if (before.nodes.size() != all) {
      const bool longer = all > nodes;
      return at_node(longer ? now.nodes[nodes] : before.nodes[nodes], longer ? "more" : "fewer");
    }
    for (const auto& r : comparison_.results)
      if (auto found = at_result(r)) return found;
    return std::nullopt;
  }

 private:
  std::optional<Recompilation> at_nodes(const Graph::Node& a, const Graph::Node& b) {
    auto found = compare_calls(a, is_.graph, b);
    if (found && found->cause == "graph") {
      const auto &ca = *a.entry->call, &cb = *b.entry->call;
      found->before = ca.kernel->name();
      if (ca.kernel == cb.kernel) {
        // Entries of one signature may be two, if the first one was given up meanwhile.
        auto constant = compare_constants(a, b);
        if (constant || same_bits(ca, cb)) found = std::move(constant);
      }
    }
    if (!found) found = compare_numbers(was_.graph, a, is_.graph, b, seeds_);
    if (found) return found;
    std::vector<std::pair<uint64_t, CallTemplate::Operand>> places;
    const uint64_t* fresh =
        was_.graph.for_each_operand(a, [&](const auto& o, uint64_t place) { places.emplace_back(place, o); });
    size_t k = 0;
    const uint64_t* other_fresh = is_.graph.for_each_operand(b, [&](const auto& o, uint64_t place) {
      const auto& [before, operand] = places[k++];
      if (found) return;
      const char* cause = compare_places(before, place, operand);
      if (!cause) return;
      found = at_node(b, cause);
      const size_t index = static_cast<size_t>(&o - b.entry->call->operands.data());
      found->argument = argument_of(*b.entry->call, index);
    });
    if (found) return found;
    for (size_t s = 0; s < a.entry->storages.size(); ++s)
      pairs_.add(static_cast<uint32_t>(fresh[s]), static_cast<uint32_t>(other_fresh[s]));
    return std::nullopt;
  }

  // The cause of a difference between what two operands hold, or null.
  const char* compare_places(uint64_t before, uint64_t now, const CallTemplate::Operand& operand) {
    const uint32_t was = Graph::slot_of(before), is = Graph::slot_of(now);
    const auto &x = was_.slots[was], &y = is_.slots[is];
    const int64_t offset = Graph::offset_of(before), other_offset = Graph::offset_of(now);
    if (const auto agree = pairs_.agree(was, is)) return *agree && offset == other_offset ? nullptr : "operand";
    const auto& given = comparison_.given;
    if (x.fresh != y.fresh) return "operand";
    if (x.fresh || std::find(given.begin(), given.end(), was) != given.end()) {
      pairs_.add(was, is);
      return nullptr;
    }
    if (!x.data || !y.data || (x.data == y.data && offset == other_offset)) return nullptr;
    if (const auto agree = agree_in_forward(x.data, y.data))
      return *agree && offset == other_offset ? nullptr : "operand";
    if (same_contents(x, offset, y, other_offset, operand)) return nullptr;
    // Of a copy from the host nobody but the graph has the memory.
    return is_.held[is].use_count() == 1 ? "host" : "contents";
  }

  // For a backward: whether its forward left both in the same place; nothing if it did not make the first.
  std::optional<bool> agree_in_forward(const void* data, const void* other) const {
    for (const auto& [was, is, pairs] : comparison_.forward) {
      const auto slot = made_at(*was, data);
      if (!slot) continue;
      const auto partner = made_at(*is, other);
      return partner && pairs.agree(*slot, *partner).value_or(false);
    }
    return std::nullopt;
  }

  static std::optional<uint32_t> made_at(const CapturedGraph& graph, const void* data) {
    const auto& slots = graph.program().slots;
    for (uint32_t i = 0; i < slots.size(); ++i)
      if (slots[i].fresh && slots[i].data == data) return i;
    return std::nullopt;
  }

  static bool same_contents(
      const SlotMemory& x, int64_t offset, const SlotMemory& y, int64_t other_offset, const CallTemplate::Operand& o) {
    int64_t elements = 1;
    for (size_t d = 0; d < o.sizes.size(); ++d) elements += (o.sizes[d] - 1) * o.strides[d];
    if (std::find(o.sizes.begin(), o.sizes.end(), 0) != o.sizes.end()) elements = 0;
    const auto item = static_cast<int64_t>(o.dtype.itemsize());
    const auto fits = [&](const SlotMemory& slot, int64_t first) {
      return (first + elements) * item <= static_cast<int64_t>(slot.nbytes);
    };
    if (!fits(x, offset) || !fits(y, other_offset)) return false;
    const auto* a = static_cast<const char*>(x.data) + offset * item;
    const auto* b = static_cast<const char*>(y.data) + other_offset * item;
    return std::memcmp(a, b, static_cast<size_t>(elements * item)) == 0;
  }

  std::optional<Recompilation> at_result(const CapturedGraph::Comparison::Result& r) {
    const auto agree = pairs_.agree(r.slot, r.other);
    const auto &x = was_.slots[r.slot], &y = is_.slots[r.other];
    const bool same = agree ? *agree : x.fresh == y.fresh && (x.fresh || x.data == y.data);
    if (same && r.same_view) return std::nullopt;
    const auto writer = last_writers(is_.graph)[r.other].node;
    Recompilation found;
    if (writer) found = at_node(*writer, "");
    found.cause = "result";
    found.argument = std::to_string(r.number);
    return found;
  }

  const CapturedProgram &was_, &is_;
  CapturedGraph::Comparison& comparison_;
  CapturedGraph::Pairs& pairs_;
  std::unordered_set<uint32_t> seeds_;
};

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
    const auto& [node, dtype, row] = writers[c.slot];
    out.push_back(
        {node->entry->call->kernel->name(), node->site, on_host(c.real, nbytes, dtype, row),
         on_host(c.block->data, nbytes, dtype, row)});
  }
  return out;
}

void CapturedGraph::Pairs::add(uint32_t slot, uint32_t other) {
  others_.emplace(slot, other);
  slots_.emplace(other, slot);
}

std::optional<bool> CapturedGraph::Pairs::agree(uint32_t slot, uint32_t other) const {
  const auto a = others_.find(slot);
  const auto b = slots_.find(other);
  if (a == others_.end() && b == slots_.end()) return std::nullopt;
  return a != others_.end() && b != slots_.end() && a->second == other;
}

std::optional<Recompilation> CapturedGraph::difference(const CapturedGraph& other, Comparison comparison) const {
  device_.queue().drain();
  device::MemoryPool::AccessScope access(device_.memory());
  return Differences(*this, other, comparison).find();
}

std::vector<at::ScalarType> CapturedGraph::coarsest(const std::vector<uint32_t>& slots) const {
  const auto of_slots = coarsest_of_slots(program_->graph);
  std::vector<at::ScalarType> out;
  for (uint32_t slot : slots) out.push_back(of_slots[slot]);
  return out;
}

const Graph::Node* CapturedGraph::writer_of(uint32_t slot) const { return last_writers(program_->graph)[slot].node; }

}  // namespace openhpu
