#include "recipes/Symbols.h"

#include <charconv>

#include "run/Operator.h"
#include "run/Signature.h"

namespace openhpu {
namespace {

using Values = c10::SmallVector<int64_t, 4>;  // of one integer, by recording

constexpr int64_t kSmallestSymbol = 2;
constexpr size_t kMostSymbols = 8;

void add_constant(const c10::IValue& value, std::vector<uint64_t>& structure) {
  if (value.isInt() || value.isIntList()) {
    structure.push_back(value.isInt() ? UINT64_MAX - 1 : value.toListRef().size());
    return;
  }
  Signature exact;
  if (value.isTensor())
    exact.add_undefined();
  else
    exact.add_value(value, /*by_type=*/false);
  structure.insert(structure.end(), exact.words().begin(), exact.words().end());
  // A value that words can't express is like no other.
  if (!exact.cacheable()) structure.push_back(UINT64_MAX);
}

// factor * base + term for all recordings, where `base` changes.
std::optional<std::pair<int64_t, int64_t>> line_through(const Values& base, const Values& values) {
  size_t k = 1;
  while (k < base.size() && base[k] == base[0]) ++k;
  if (k == base.size()) return std::nullopt;
  const int64_t run = base[k] - base[0], rise = values[k] - values[0];
  if (rise % run != 0 || rise == 0) return std::nullopt;
  const int64_t factor = rise / run, term = values[0] - factor * base[0];
  for (size_t i = 0; i < base.size(); ++i)
    if (factor * base[i] + term != values[i]) return std::nullopt;
  return std::make_pair(factor, term);
}

// The simplest formula first: a multiple of a symbol, of a product of two, then a line that misses the origin.
std::optional<Formula> explain(const std::vector<Values>& symbols, const Values& values) {
  std::optional<Formula> line;
  for (size_t i = 0; i < symbols.size(); ++i) {
    const auto found = line_through(symbols[i], values);
    if (!found) continue;
    Formula formula{found->first, {static_cast<uint8_t>(i)}, found->second};
    if (formula.term == 0) return formula;
    if (!line) line = formula;
  }
  for (size_t i = 0; i < symbols.size(); ++i)
    for (size_t j = i; j < symbols.size(); ++j) {
      Values product;
      for (size_t k = 0; k < values.size(); ++k) product.push_back(symbols[i][k] * symbols[j][k]);
      const auto found = line_through(product, values);
      if (found && found->second == 0)
        return Formula{found->first, {static_cast<uint8_t>(i), static_cast<uint8_t>(j)}, 0};
    }
  return line;
}

}  // namespace

Skeleton::Skeleton(const Graph& graph) {
  graph.visit_integers([&](const void*, const void*, c10::IntArrayRef values, bool input) {
    for (int64_t value : values) {
      if (input) input_sizes.push_back(static_cast<uint32_t>(integers.size()));
      integers.push_back(value);
    }
  });
  for (const auto& node : graph.nodes) {
    const auto& call = *node.entry->call;
    structure.push_back(reinterpret_cast<uintptr_t>(call.kernel));
    for (const auto& o : call.operands)
      structure.push_back(
          static_cast<uint64_t>(c10::typeMetaToScalarType(o.dtype)) | uint64_t{o.conj} << 8 | uint64_t{o.neg} << 9 |
          uint64_t{o.wrapped_number} << 10 | uint64_t{o.on_host} << 11 | o.sizes.size() << 16);
    const uint64_t* fresh =
        graph.for_each_operand(node, [&](const auto&, uint64_t place) { structure.push_back(Graph::slot_of(place)); });
    for (const auto& arg : call.args) {
      structure.push_back(static_cast<uint64_t>(arg.kind) | arg.kinds.size() << 8 | arg.elements.size() << 32);
      for (int32_t k : arg.elements) structure.push_back(static_cast<uint64_t>(k));
      for (auto kind : arg.kinds) structure.push_back(static_cast<uint64_t>(kind));
      if (arg.kind == CallTemplate::ArgKind::Constant) add_constant(arg.constant, structure);
    }
    for (const auto& o : node.entry->outputs) {
      structure.push_back(static_cast<uint64_t>(o.kind) | uint64_t{o.index} << 8);
      if (o.kind != OutputSpec::Kind::Fresh) continue;
      structure.push_back(fresh[o.index]);
      structure.push_back(static_cast<uint64_t>(c10::typeMetaToScalarType(o.dtype)) | o.sizes.size() << 16);
    }
  }
  const uint64_t* liveness = graph.words.data() + graph.words.size() - graph.slots.size();
  for (size_t i = 0; i < graph.slots.size(); ++i) structure.push_back(liveness[i] & 3);
}

uint64_t Skeleton::hash() const noexcept {
  WordHash hash;
  for (uint64_t w : structure) hash.add(w);
  return hash.value();
}

std::optional<SymbolicSizes> SymbolicSizes::find(
    const std::vector<std::vector<int64_t>>& recordings, const std::vector<uint32_t>& input_sizes) {
  auto values_at = [&](size_t position) {
    Values values;
    for (const auto& r : recordings) values.push_back(r[position]);
    return values;
  };
  auto changes = [](const Values& v) { return std::any_of(v.begin(), v.end(), [&](int64_t x) { return x != v[0]; }); };
  std::vector<std::pair<Values, uint32_t>> candidates;
  for (uint32_t position : input_sizes) {
    auto values = values_at(position);
    if (changes(values) && *std::min_element(values.begin(), values.end()) >= kSmallestSymbol)
      candidates.emplace_back(std::move(values), position);
  }
  // The smallest first: a flattened size (batch * length) follows from its factors, not they from it.
  std::stable_sort(
      candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.first[0] < b.first[0]; });
  SymbolicSizes out;
  std::vector<Values> symbols;
  for (auto& [values, position] : candidates) {
    const auto formula = explain(symbols, values);
    if (formula && formula->term == 0) continue;
    if (symbols.size() == kMostSymbols) return std::nullopt;
    symbols.push_back(std::move(values));
    out.positions_.push_back(position);
  }
  if (symbols.empty()) return std::nullopt;
  for (size_t i = 0; i < recordings[0].size(); ++i) {
    const auto values = values_at(i);
    if (!changes(values)) {
      out.formulas_.push_back(Formula::constant(values[0]));
      continue;
    }
    auto formula = explain(symbols, values);
    if (!formula) return std::nullopt;
    out.formulas_.push_back(std::move(*formula));
  }
  return out;
}

std::vector<int64_t> SymbolicSizes::solve(const std::vector<int64_t>& integers) const {
  std::vector<int64_t> values;
  for (uint32_t position : positions_) {
    if (integers[position] < kSmallestSymbol) return {};
    values.push_back(integers[position]);
  }
  for (size_t i = 0; i < integers.size(); ++i)
    if (formulas_[i](values) != integers[i]) return {};
  return values;
}

std::string Formula::text() const {
  if (is_constant()) return std::to_string(term);
  std::string out = factor == 1 ? "" : std::to_string(factor);
  for (uint8_t s : symbols) out += (out.empty() ? "n" : "*n") + std::to_string(s);
  if (term > 0) out += "+";
  if (term != 0) out += std::to_string(term);
  return out;
}

Formula Formula::parse(std::string_view text) {
  Formula out{1, {}, 0};
  const char *at = text.data(), *end = at + text.size();
  auto number = [&](auto& value) {
    if (at < end && *at == '+') ++at;
    const auto [rest, error] = std::from_chars(at, end, value);
    TORCH_CHECK(error == std::errc(), "expected a formula such as 64*n0*n1+1, but got '", text, "'");
    at = rest;
  };
  while (at < end && (*at == 'n' || out.symbols.empty() || *at == '*')) {
    if (*at == '*') ++at;
    if (at < end && *at == 'n') {
      ++at;
      uint8_t symbol = 0;
      number(symbol);
      out.symbols.push_back(symbol);
    } else {
      number(out.factor);
      if (at == end && out.symbols.empty()) return constant(out.factor);
    }
  }
  if (at < end) number(out.term);
  TORCH_CHECK(at == end, "expected a formula such as 64*n0*n1+1, but got '", text, "'");
  return out;
}

}  // namespace openhpu
