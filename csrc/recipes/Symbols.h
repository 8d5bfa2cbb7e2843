#pragma once

#include <c10/util/SmallVector.h>

#include <optional>
#include <string>
#include <string_view>

#include "recipes/Graph.h"

// Sizes that change from one recording of a program to the next become symbols, so that one recipe serves all of them.
namespace openhpu {

// An integer of a graph: factor * (product of symbols) + term.
struct Formula {
  int64_t factor = 0;
  c10::SmallVector<uint8_t, 2> symbols;
  int64_t term = 0;

  static Formula constant(int64_t value) { return {0, {}, value}; }
  int64_t operator()(const std::vector<int64_t>& values) const {
    int64_t product = factor;
    for (uint8_t s : symbols) product *= values[s];
    return product + term;
  }
  bool is_constant() const noexcept { return factor == 0; }
  // As the compiler takes it: "64*n0*n1+1". `parse` throws c10::Error on anything else.
  std::string text() const;
  static Formula parse(std::string_view text);
};

// A graph in two parts: the part that must be equal for two graphs to be the same program at different sizes, and the
// graph's integers (sizes, strides, offsets, integer arguments, bytes of storages) in the order of a description.
struct Skeleton {
  std::vector<uint64_t> structure;
  std::vector<int64_t> integers;
  std::vector<uint32_t> input_sizes;  // positions of integers that are sizes of tensors that the graph is given

  explicit Skeleton(const Graph& graph);
  uint64_t hash() const noexcept;
};

// The formulas that several recordings of a program have in common.
class SymbolicSizes {
 public:
  // Finds formulas that hold for all `recordings` of a program (the integers of each). Returns nullopt if there are
  // none: an integer changes that no size of an input explains.
  static std::optional<SymbolicSizes> find(
      const std::vector<std::vector<int64_t>>& recordings, const std::vector<uint32_t>& input_sizes);

  // The symbols' values for another recording; empty where the formulas do not hold for it, or a symbol is below 2
  // (compilers treat 0 and 1 as constants).
  std::vector<int64_t> solve(const std::vector<int64_t>& integers) const;

  const std::vector<Formula>& formulas() const noexcept { return formulas_; }

 private:
  std::vector<uint32_t> positions_;  // by symbol: an integer that is its value
  std::vector<Formula> formulas_;    // by integer
};

}  // namespace openhpu
