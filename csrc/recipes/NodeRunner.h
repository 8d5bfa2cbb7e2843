#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>

#include <vector>

#include "device/device.h"
#include "recipes/Graph.h"
#include "run/CallRunner.h"

namespace openhpu {

// The memory of a slot while a graph runs. The host fills in the memory of inputs and of results that are needed
// afterwards. Other slots live in the workspace, from the node that makes them to the last node that reads them.
struct SlotMemory {
  void* data = nullptr;
  size_t nbytes = 0;
  bool assigned = false;  // by the host
  bool fresh = false;     // made by the graph
};

// Runs nodes one by one, over the slots' memory. Worker thread only.
class NodeRunner {
 public:
  explicit NodeRunner(device::Device& device) : device_(device) {}

  // Runs the whole graph. An exception leaves `failed` at the node that threw.
  // `numbers`: other than the graph's own.
  // `most_threads`: of a kernel.
  void run(
      const Graph& graph, const std::vector<SlotMemory>& slots, const std::vector<uint64_t>& numbers,
      int most_threads);
  size_t failed = 0;

 private:
  SlotMemory memory_of_slot(uint32_t slot, bool after_error);
  void run_node(const Graph& graph, const Graph::Node& node, bool after_error);

  device::Device& device_;
  const std::vector<SlotMemory>* slots_ = nullptr;
  const uint64_t* numbers_ = nullptr;
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> storages_;
  std::vector<uint32_t> last_use_;
  device::TraceRecord* trace_ = nullptr;
  c10::SmallVector<OperandMemory, 8> operands_;
  c10::SmallVector<OutputMemory, 4> outputs_;
};

}  // namespace openhpu
