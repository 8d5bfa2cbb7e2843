#pragma once

#include "device/device.h"
#include "recipes/Graph.h"
#include "recipes/NodeRunner.h"
#include "recipes/Recipe.h"
#include "record/CapturedGraph.h"
#include "run/Recycler.h"

namespace openhpu {

// A graph on its way through the queue: a recorded one, or a replay of a captured one. Recycled with its buffers.
class GraphCommand final : public device::Command {
 public:
  // Handed to the queue at the end (`release`); until then an exception gives it back.
  using Owned = std::unique_ptr<GraphCommand, device::Retire>;
  static Owned acquire(device::Device& d);
  // How many there are in this process.
  static uint64_t total() noexcept { return Commands::total(); }

  // The recorded one, when it runs node by node or its recipe is divided. Of a recipe with users' kernels: its nodes.
  Graph graph;
  std::shared_ptr<const CapturedProgram> program;  // captured
  std::shared_ptr<Recipe> recipe;                  // when it runs as a recipe
  std::vector<SlotMemory> slots;                   // empty: the captured program's
  std::vector<uint64_t> numbers;                   // empty: the graph's

  bool launches() const noexcept override { return true; }
  const char* name() const override;
  void describe(device::TraceRecord& record) const override;
  bool runs_anywhere() const noexcept override;
  void run() override;
  void retire() override;

 private:
  GraphCommand() = default;
  // The error that is thrown is that of this node.
  void note_failed(const Graph::Node& node);
  device::Device* device_ = nullptr;
  const char* failed_ = nullptr;
  mutable size_t largest_ = 0;  // bytes of the largest tensor of what runs node by node; 0: not looked at
  GraphCommand* next_ = nullptr;
  // Each keeps buffers of the size of a graph, so that a thread takes back the first.
  using Commands = Recycler<GraphCommand, 1>;
  friend Commands;
};

}  // namespace openhpu
