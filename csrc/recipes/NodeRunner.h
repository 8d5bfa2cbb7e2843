#pragma once

#include "device/device.h"
#include "recipes/Graph.h"

namespace openhpu {

// The memory of a slot while a graph runs. The host fills in the memory of inputs and of results that are needed
// afterwards. Other slots live in the workspace, from the node that makes them to the last node that reads them.
struct SlotMemory {
  void* data = nullptr;
  size_t nbytes = 0;
  bool assigned = false;  // by the host
  bool fresh = false;     // made by the graph
};

// A part of a graph: the nodes from `begin` on, before `end`.
struct NodeRange {
  uint32_t begin = 0, end = 0;
};

// Runs nodes one by one, over the slots' memory. Worker thread only. An exception leaves `failed` at the node that
// threw. `numbers`: other than the graph's own. `most_threads`: of a kernel. Slots that other nodes use, too, have
// memory.
void run_nodes(
    device::Device& device, const Graph& graph, NodeRange range, const std::vector<SlotMemory>& slots,
    const std::vector<uint64_t>& numbers, int most_threads, size_t& failed);

}  // namespace openhpu
