#include "recipes/Recompilation.h"

#include <c10/util/StringUtil.h>

#include "observe/events.h"
#include "run/Operator.h"

namespace openhpu {
namespace {

using Kind = CallTemplate::ArgKind;

constexpr uint32_t kKeptOrigins = 1024;
std::mutex origins_mutex;
std::array<std::pair<uint32_t, SizeOrigin>, kKeptOrigins> kept_origins;  // by number, modulo kKeptOrigins
uint32_t last_origin = 0;

// The argument that brings word `word` of a call's numbers, and the value.
std::pair<std::string, std::string> number_at(const CallTemplate& call, const uint64_t* numbers, size_t word) {
  const auto& schema = call.kernel->schema().arguments();
  for (size_t i = 0; i < call.args.size(); ++i) {
    const auto& arg = call.args[i];
    const bool list = arg.kind == Kind::NumberList;
    const auto kinds = list ? c10::ArrayRef<Kind>(arg.kinds) : c10::ArrayRef<Kind>(arg.kind);
    for (size_t k = 0, at = arg.first; arg.kind >= Kind::Int && k < kinds.size(); ++k) {
      const size_t words = kinds[k] == Kind::Complex ? 2 : 1;
      if (word >= at && word < at + words)
        return {
            schema[i].name() + (list ? "[" + std::to_string(k) + "]" : ""),
            c10::str(number_of(kinds[k], numbers + at))};
      at += words;
    }
  }
  for (size_t k = 0; k < call.operands.size(); ++k) {
    const auto& o = call.operands[k];
    if (o.on_host && word >= o.number && word < o.number + 2)
      return {argument_of(call, k), c10::str(c10::IValue(host_value(o, numbers + o.number)))};
  }
  return {"?", "?"};
}

}  // namespace

std::string argument_of(const CallTemplate& call, size_t operand) {
  const auto& schema = call.kernel->schema().arguments();
  for (size_t i = 0; i < call.args.size(); ++i) {
    const auto& arg = call.args[i];
    if (arg.kind == Kind::Tensor && arg.first == operand) return schema[i].name();
    for (size_t k = 0; k < arg.elements.size(); ++k)
      if (arg.elements[k] == static_cast<int32_t>(operand)) return schema[i].name() + "[" + std::to_string(k) + "]";
  }
  return "?";
}

Recompilation at_node(const Graph::Node& node, std::string cause) {
  Recompilation r;
  r.cause = std::move(cause);
  r.op = node.entry->call->kernel->name();
  r.site = node.site;
  r.time_ns = now_ns();
  return r;
}

uint64_t shape_free_hash(const Graph& graph) {
  WordHash hash;
  for (const auto& node : graph.nodes) {
    const auto& call = *node.entry->call;
    hash.add(reinterpret_cast<uintptr_t>(call.kernel));
    hash.add(call.operands.size());
    graph.for_each_slot(node, [&](uint32_t slot) { hash.add(slot); });
  }
  return hash.value();
}

std::optional<Recompilation> compare_numbers(
    const Graph& before, const Graph::Node& a, const Graph& after, const Graph::Node& b,
    const std::unordered_set<uint32_t>& ignored) {
  const auto &ca = *a.entry->call, &cb = *b.entry->call;
  for (uint32_t w = 0; w < ca.numbers; ++w) {
    if (before.numbers[a.numbers + w] == after.numbers[b.numbers + w] || ignored.count(a.numbers + w)) continue;
    auto r = at_node(b, "number");
    std::tie(r.argument, r.before) = number_at(ca, before.numbers.data() + a.numbers, w);
    r.after = number_at(cb, after.numbers.data() + b.numbers, w).second;
    return r;
  }
  return std::nullopt;
}

std::optional<Recompilation> compare_calls(const Graph::Node& a, const Graph& after, const Graph::Node& b) {
  const auto &ca = *a.entry->call, &cb = *b.entry->call;
  if (a.entry == b.entry) return std::nullopt;
  for (size_t k = 0; k < std::min(ca.operands.size(), cb.operands.size()); ++k) {
    const auto &oa = ca.operands[k], &ob = cb.operands[k];
    auto found = [&](const char* cause, int dimension, std::string was, std::string is) {
      auto r = at_node(b, cause);
      r.argument = argument_of(cb, k);
      after.for_each_operand(b, [&](const auto& o, uint64_t place) {
        if (&o == &ob) r.slot = Graph::slot_of(place);
      });
      r.dimension = dimension;
      r.before = std::move(was);
      r.after = std::move(is);
      return r;
    };
    if (oa.dtype != ob.dtype) return found("dtype", -1, c10::str(oa.dtype), c10::str(ob.dtype));
    if (oa.sizes.size() != ob.sizes.size())
      return found("size", -1, c10::str(oa.sizes.size()) + " dimensions", c10::str(ob.sizes.size()) + " dimensions");
    for (size_t d = 0; d < oa.sizes.size(); ++d)
      if (oa.sizes[d] != ob.sizes[d])
        return found("size", static_cast<int>(d), c10::str(oa.sizes[d]), c10::str(ob.sizes[d]));
    for (size_t d = 0; d < oa.strides.size(); ++d)
      if (oa.strides[d] != ob.strides[d])
        return found("stride", static_cast<int>(d), c10::str(oa.strides[d]), c10::str(ob.strides[d]));
  }
  return at_node(b, "graph");
}

Recompilation compare_graphs(const Graph& before, const Graph& after, bool numbers_only) {
  const size_t nodes = std::min(before.nodes.size(), after.nodes.size());
  for (size_t n = 0; n < nodes; ++n) {
    const auto &a = before.nodes[n], &b = after.nodes[n];
    if (auto r = numbers_only ? compare_numbers(before, a, after, b, {}) : compare_calls(a, after, b)) return *r;
  }
  // The operators are the same: offsets, storages' sizes, or what is needed afterwards.
  return at_node(after.nodes.front(), "memory");
}

uint32_t add_size_origin(SizeOrigin origin) {
  std::lock_guard lock(origins_mutex);
  if (++last_origin == 0) ++last_origin;
  kept_origins[last_origin % kKeptOrigins] = {last_origin, std::move(origin)};
  return last_origin;
}

std::optional<SizeOrigin> size_origin(uint32_t number) {
  std::lock_guard lock(origins_mutex);
  const auto& [found, origin] = kept_origins[number % kKeptOrigins];
  return number != 0 && found == number ? std::optional(origin) : std::nullopt;
}

}  // namespace openhpu
