#pragma once

#include <optional>
#include <string>
#include <unordered_set>

#include "recipes/Graph.h"

namespace openhpu {

// Why a program that had a recipe needed another one: the first difference between the two.
struct Recompilation {
  std::string cause;     // "size", "stride", "dtype", "number", "memory" or "graph"
  std::string op;        // the operator at which they differ
  std::string argument;  // its argument
  int dimension = -1;    // for sizes and strides
  uint32_t slot = 0;     // of the operand, likewise
  std::string before, after;
  uint32_t site = 0;  // source line of the operator
  uint64_t time_ns = 0;
};

// With the operator and the line of a node, and the time.
Recompilation at_node(const Graph::Node& node, std::string cause);

// The schema argument to which an operand of a call belongs, with its index in a list.
std::string argument_of(const CallTemplate& call, size_t operand);

// Hash of a graph without its sizes: operators, and which operands share storages.
uint64_t shape_free_hash(const Graph& graph);
// `numbers_only`: the graphs are the same program, and differ in numbers.
Recompilation compare_graphs(const Graph& before, const Graph& after, bool numbers_only);
// The difference of one node from the one in its place: of calls of one entry in their numbers, but for the `ignored`
// ones of `before`; otherwise in operators, operands' metadata and constants. Nothing if they are alike.
std::optional<Recompilation> compare_numbers(
    const Graph& before, const Graph::Node& a, const Graph& after, const Graph::Node& b,
    const std::unordered_set<uint32_t>& ignored);
std::optional<Recompilation> compare_calls(const Graph::Node& a, const Graph& after, const Graph::Node& b);

// An operator whose results' sizes depend on values, so that a recompilation can name it. The table holds the last
// ones, and is empty while nobody listens for recompilations.
struct SizeOrigin {
  std::string op;
  uint32_t site = 0;
  std::vector<int64_t> sizes;  // of its results
};
// Returns its number, which is never 0.
uint32_t add_size_origin(SizeOrigin origin);
// Nothing for 0, and for one that is too old.
std::optional<SizeOrigin> size_origin(uint32_t number);

}  // namespace openhpu
