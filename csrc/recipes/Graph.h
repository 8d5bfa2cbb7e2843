#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "run/ShapeCache.h"

namespace openhpu {

// A recorded program: operator calls on slots. A slot stands for one storage; an operand is a view of a slot, so views
// need no nodes, and aliasing is explicit.
struct Graph {
  struct Node {
    std::shared_ptr<const ShapeEntry> entry;  // operator, operands' metadata, outputs' metadata
    uint32_t site;                            // source line
    uint32_t words;                           // index into `words`: template id, operands' places, outputs' slots
    uint32_t numbers;                         // index into `numbers`
  };
  struct Slot {
    size_t nbytes;
    bool fresh;  // made by the graph; an input had contents before
  };

  std::vector<Node> nodes;
  std::vector<Slot> slots;
  std::vector<uint64_t> numbers;  // values of numbers that count by type
  // The key of the graph without the values of numbers: the words that each node appended, then the slots and which of
  // the fresh slots are needed afterwards.
  std::vector<uint64_t> words;

  void clear() {
    nodes.clear();
    slots.clear();
    numbers.clear();
    words.clear();
  }
  bool empty() const noexcept { return nodes.empty(); }

  // An operand's place: a slot and an offset in elements.
  static constexpr int kOffsetBits = 40;
  static constexpr uint64_t place(uint32_t slot, uint64_t offset) { return uint64_t{slot} << kOffsetBits | offset; }
  static constexpr uint32_t slot_of(uint64_t place) { return static_cast<uint32_t>(place >> kOffsetBits); }
  static constexpr int64_t offset_of(uint64_t place) {
    return static_cast<int64_t>(place & ((uint64_t{1} << kOffsetBits) - 1));
  }
  // Bytes of the largest tensor in the graph, for the thread policy.
  size_t largest() const {
    size_t bytes = 0;
    for (const auto& node : nodes) bytes = std::max(bytes, node.entry->call->largest);
    return bytes;
  }
  // The words of a node are its template, the place of each operand on the device, and the slot of each fresh storage.
  // Visits the operands on the device: `visit(operand, place)`. Returns the words with the slots of fresh storages.
  template <class Visit>
  const uint64_t* for_each_operand(const Node& n, Visit&& visit) const {
    const uint64_t* place = words.data() + n.words + 1;
    for (const auto& o : n.entry->call->operands)
      if (!o.on_host) visit(o, *place++);
    return place;
  }
  // Appends a node of another graph: `slot(s)` is its slot s here, `numbers` where its numbers begin here.
  template <class Slot>
  void append(const Graph& other, const Node& n, uint32_t numbers_begin, Slot&& slot) {
    nodes.push_back({n.entry, n.site, static_cast<uint32_t>(words.size()), numbers_begin});
    words.push_back(other.words[n.words]);
    const uint64_t* fresh = other.for_each_operand(n, [&](const auto&, uint64_t at) {
      words.push_back(place(slot(slot_of(at)), static_cast<uint64_t>(offset_of(at))));
    });
    for (size_t k = 0; k < n.entry->storages.size(); ++k) words.push_back(slot(static_cast<uint32_t>(fresh[k])));
  }
  // Visits the slots of all operands on the device, then those of the fresh storages: `visit(slot)`.
  template <class Visit>
  void for_each_slot(const Node& n, Visit&& visit) const {
    const uint64_t* fresh = for_each_operand(n, [&](const auto&, uint64_t place) { visit(slot_of(place)); });
    for (size_t k = 0; k < n.entry->storages.size(); ++k) visit(static_cast<uint32_t>(fresh[k]));
  }
  // Visits the graph's integers in their order: for each node sizes, strides and offset of each operand on the device,
  // integer arguments, sizes, strides and offset of each fresh output; then the bytes of slots.
  // `visit(node, of, values, input)`: `of` is the operand, argument, output or (without a node) slot that has these
  // values; `input`: they are the sizes of a tensor that the graph is given.
  template <class Visit>
  void visit_integers(Visit&& visit) const {
    for (const auto& n : nodes) {
      const auto visit_tensor = [&](const auto& of, int64_t offset, bool input) {
        visit(&n, &of, c10::IntArrayRef(of.sizes), input);
        visit(&n, &of, c10::IntArrayRef(of.strides), false);
        visit(&n, &of, c10::IntArrayRef(offset), false);
      };
      for_each_operand(
          n, [&](const auto& o, uint64_t place) { visit_tensor(o, offset_of(place), !slots[slot_of(place)].fresh); });
      for (const auto& arg : n.entry->call->args) {
        if (arg.constant.isInt()) visit(&n, &arg, c10::IntArrayRef(arg.constant.toInt()), false);
        if (arg.constant.isIntList()) visit(&n, &arg, c10::IntArrayRef(arg.constant.toIntVector()), false);
      }
      for (const auto& o : n.entry->outputs)
        if (o.kind == OutputSpec::Kind::Fresh) visit_tensor(o, o.offset, false);
    }
    for (const auto& slot : slots) visit(nullptr, &slot, c10::IntArrayRef(static_cast<int64_t>(slot.nbytes)), false);
  }
};

}  // namespace openhpu
