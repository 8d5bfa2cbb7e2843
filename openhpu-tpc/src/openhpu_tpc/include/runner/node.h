#pragma once

#include <memory>
#include <string>
#include <vector>

#include "library.h"
#include "registry.h"
#include "tpc/engine.h"

namespace tpc {

// Tensors that a kernel's glue makes besides those of the node: tables.
struct Auxiliary {
  std::vector<char> data;
  OpenhpuTpcTensor description{};
};

// What a member i accesses of a dimension: start_a * i + start_b to end_a * i + end_b.
struct Range {
  int space;  // the dimension of the index space
  double start_a, start_b, end_a, end_b;
  bool all;
};
// What the glue says about the accesses of a tensor.
struct Pattern {
  bool declared = false;
  bool all = false;
  bool complete = false;  // members write every element
  Range dimensions[kMaxDimensions] = {};
};

// What the glue says about a node.
struct Instance {
  int kernel = -1;  // in the table; -1: the glue gave no marker
  std::vector<int64_t> space;
  std::vector<uint32_t> scalars;
  std::vector<uint32_t> padding;  // of inputs
  std::vector<bool> cleared;      // outputs that are zero before the kernel runs
  std::vector<Auxiliary> auxiliary;
  std::vector<Pattern> patterns;  // of inputs, then of outputs
};

// A node: its tensors and its instance.
struct Node {
  std::string guid;
  std::vector<OpenhpuTpcTensor> inputs, outputs;
  Instance instance;

  int64_t members() const {
    int64_t all = 1;
    for (const int64_t size : instance.space) all *= size;
    return all;
  }
};

int element_bytes(int type);

// Both throw std::runtime_error with what the user has to do.
std::vector<std::string> guids_of_glue(int generation);
Instance instantiate(const Node& node, int generation, const void* parameters, size_t parameter_bytes);
// The number of the kernel whose marker the glue copied. Throws for anything else, such as a program for a card.
int kernel_of_marker(const void* elf, size_t bytes, const std::string& guid);

void run_node(
    const Node& node, void* const* inputs, void* const* outputs, OpenhpuTpcParallel parallel, int pieces,
    double seconds);

// What the checks of a run have found, a line each, and what the kernel has done.
struct Checked {
  std::string errors, notes;
  OpenhpuTpcAccount account{};
};
// Runs each member alone, with checks. Throws as run_node does if the kernel was ended. `in_place`: as in
// openhpu_tpc_check.
Checked check_node(
    const Node& node, void* const* inputs, void* const* outputs, const uint8_t* in_place, double seconds);

}  // namespace tpc
