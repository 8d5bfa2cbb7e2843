#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/Generator.h>

#include <memory>
#include <mutex>
#include <vector>

#include "device/device.h"
#include "graph/Graph.h"
#include "graph/GraphCache.h"
#include "graph/NodeRunner.h"
#include "graph/Recipe.h"
#include "runtime/HPUAllocator.h"

namespace openhpu {

// A captured graph with its memory. Inputs, and what was alive when the capture ended, keep their addresses for as long
// as this lives; everything else is scratch memory of a run.
struct CapturedProgram {
  Graph graph;
  std::vector<SlotMemory> slots;
  std::vector<std::shared_ptr<SharedBlock>> held;  // by slot: the memory, if it is fixed
  std::vector<uint32_t> weights;                  // slots of inputs that may count as constants
  std::vector<SharedBlock*> changed;              // of `held`: what a replay changes
  // What nodes name by a number (captured collectives): it lives as long as the graph.
  std::vector<std::shared_ptr<const void>> named;
  uint64_t hash = 0;
  bool collectives = false;  // other processes take part
};

// Replays a captured graph: one command for the device's worker, which runs a recipe when there is one. Thread-safe.
class CapturedGraph {
 public:
  // A seed that an operator drew: from which generator, and which of the graph's numbers it is. Draws that filled
  // nothing have none.
  struct Draw {
    at::Generator generator;
    std::vector<uint32_t> numbers;
  };
  // Memory that takes the place of a slot's for one replay.
  struct Substitute {
    uint32_t slot;
    void* data;
  };

  CapturedGraph(
      device::Device& device, c10::DeviceIndex index, CapturedProgram program, std::vector<Draw> draws);

  // Weights that count as constants of the recipe, which is faster for it. A write to one of them ends that: from then
  // on all weights are inputs. Before `compile`.
  void fix(std::vector<uint32_t> weights);
  void replay(const std::vector<Substitute>& substitutes = {});
  // Asks for the recipe; under the compile policy `sync` waits for it. `alone`: for one of its own, for exactly these
  // sizes, in place of one that graphs of other sizes share.
  void compile(bool alone = false);

  // Gives up the fixed memory of slots; of those that are made by the graph and of which `scratch` says so, for good: they
  // become scratch memory, of the others until a replay substitutes them.
  void release(const std::vector<uint32_t>& slots, bool scratch);
  // Whether an operator writes into what lies in a slot when it begins.
  bool writes(uint32_t slot) const;
  // Slots of results that nothing but this graph holds, other than `kept`.
  std::vector<uint32_t> unused_results(const std::vector<uint32_t>& kept) const;

  device::Device& device() const noexcept { return device_; }
  c10::DeviceIndex index() const noexcept { return index_; }
  const CapturedProgram& program() const noexcept { return *program_; }
  size_t draws() const noexcept { return draws_.size(); }
  bool has_recipe() const;
  // Weights that count as constants now.
  size_t constants() const;

 private:
  void seal(CapturedProgram& program) const;
  static void list_changed(CapturedProgram& program);
  const std::shared_ptr<Recipe>& recipe();
  // `lock`: of `mutex_`, given back before the command is queued, which may take a while.
  void launch(
      std::unique_lock<std::mutex> lock, std::vector<uint64_t> numbers, const std::vector<Substitute>& substitutes);
  std::vector<uint64_t> drawn_numbers() const;  // empty where nothing is drawn
  void split(CapturedProgram& program);
  bool compile_alone();  // false: interrupted
  bool weights_intact() const noexcept;
  void thaw() noexcept;

  device::Device& device_;
  const c10::DeviceIndex index_;
  mutable std::mutex mutex_;
  std::shared_ptr<const CapturedProgram> program_;
  std::vector<Draw> draws_;
  std::shared_ptr<Recipe> recipe_;
  uint64_t seen_version_ = 0;  // of the graph cache, when the recipe was last looked for
  bool ask_again_ = false;     // whatever that is
  struct Weight {
    uint32_t slot;
    std::shared_ptr<SharedBlock> block;
    uint64_t writes;
  };
  std::vector<Weight> fixed_;
  // A graph with collectives is replayed in stages: what lies between two of them, each with its recipe, and they alone.
  struct Stage {
    std::unique_ptr<CapturedGraph> graph;
    std::vector<uint32_t> slots;  // of the whole, by slot of the stage
    uint32_t numbers;             // of the whole, where the stage's begin
  };
  std::vector<Stage> stages_;
  bool alone_ = false;  // wants a recipe of its own, without weights too
  std::shared_ptr<GraphCache::Compilation> own_;
};

}  // namespace openhpu
