#pragma once

#include <ATen/core/Generator.h>

#include "device/device.h"
#include "recipes/Graph.h"
#include "recipes/GraphCache.h"
#include "recipes/NodeRunner.h"
#include "recipes/Recipe.h"
#include "recipes/Recompilation.h"
#include "torch/HPUAllocator.h"

namespace openhpu {

// A captured graph with its memory. Inputs, and storages that were alive at the end of the capture, keep their
// addresses while this object lives. All other memory is temporary memory of a run.
struct CapturedProgram {
  Graph graph;
  std::vector<SlotMemory> slots;
  std::vector<std::shared_ptr<SharedBlock>> held;  // by slot: the memory, if it is fixed
  std::vector<uint32_t> weights;                   // slots of inputs that may count as constants
  std::vector<bool> written;                       // by slot: an operator writes into what lies there when it begins
  std::vector<SharedBlock*> changed;               // of `held`: what a replay changes
  // Objects that nodes name by a number (captured collectives). They live as long as the graph.
  std::vector<std::shared_ptr<const void>> named;
  uint64_t hash = 0;
  bool collectives = false;  // other processes take part
};

// Replays a captured graph: one command for the device's worker, which runs a recipe when there is one. Thread-safe.
class CapturedGraph {
 public:
  // A seed that an operator drew: its generator, and its positions in the numbers of the graph. A draw that filled no
  // number has no positions.
  struct Draw {
    at::Generator generator;
    std::vector<uint32_t> numbers;
  };
  // Memory that replaces the memory of a slot for one replay.
  struct Substitute {
    uint32_t slot;
    void* data;
  };

  CapturedGraph(device::Device& device, c10::DeviceIndex index, CapturedProgram program, std::vector<Draw> draws);

  // Makes weights constants of the recipe, which is then faster. After a write to one of them all weights are inputs
  // again. Call it before `compile`.
  void fix(std::vector<uint32_t> weights);
  void replay(const std::vector<Substitute>& substitutes = {});
  // Asks for the recipe. Under the compile policy `sync` it waits for the recipe. `alone`: for a recipe for exactly
  // these sizes instead of one that graphs of other sizes share.
  void compile(bool alone = false);

  // Releases the fixed memory of slots. A slot that the graph makes, and for which `scratch` is true, becomes temporary
  // memory for good. Any other slot has no memory until a replay substitutes it.
  void release(const std::vector<uint32_t>& slots, bool scratch);
  // Slots of results that only this graph holds, except those in `kept`.
  std::vector<uint32_t> unused_results(const std::vector<uint32_t>& kept) const;

  device::Device& device() const noexcept { return device_; }
  c10::DeviceIndex index() const noexcept { return index_; }
  const CapturedProgram& program() const noexcept { return *program_; }
  size_t draws() const noexcept { return draws_.size(); }
  bool has_recipe() const;
  // Weights that count as constants now.
  size_t constants() const;

  // For checks of what a replay computes (record/GraphCheck).
  struct Unequal {
    std::string op;  // that wrote it last
    uint32_t site;
    at::Tensor replayed, plain;  // on the host, in rows of the last dimension of what was written
  };
  // Replays the graph, and runs it node by node with the same seeds on copies of what it changes. Waits for both.
  // Returns what differs in bits, in the order of the operators. Throws c10::OutOfMemoryError, before anything runs, if
  // there is no memory for the copies.
  std::vector<Unequal> replay_beside(const std::vector<Substitute>& substitutes);
  // Slots of this graph and of another one that stand for each other.
  class Pairs {
   public:
    void add(uint32_t slot, uint32_t other);
    // Whether these two stand for each other; nothing if neither was added.
    std::optional<bool> agree(uint32_t slot, uint32_t other) const;

   private:
    std::unordered_map<uint32_t, uint32_t> others_, slots_;
  };
  // What is known of another capture of the same function.
  struct Comparison {
    struct Result {
      size_t number;
      uint32_t slot, other;
      bool same_view;  // of what the slots hold
    };
    struct Forward {
      const CapturedGraph *graph, *other;
      Pairs pairs;
    };
    size_t nodes = SIZE_MAX;      // of the other one, from its begin, that belong to the function
    Pairs& inputs;                // tensors that differ from call to call; gets all other slots
    std::vector<uint32_t> given;  // inputs of this graph, if those of the other one are not known
    std::vector<Result> results;
    std::vector<Forward> forward;  // of captures of a backward: those of the forward, at most one
  };
  // The first difference of another capture of the same function: an operator, a number, a constant, another operand or
  // result, or ("contents", "host") an outside tensor that was read and that has other contents. Waits for the device.
  std::optional<Recompilation> difference(const CapturedGraph& other, Comparison comparison) const;
  // By slot of `slots`: the coarsest dtype to which the graph rounds a value on the way to its contents; kByte if it
  // rounds none.
  std::vector<at::ScalarType> coarsest(const std::vector<uint32_t>& slots) const;
  const std::vector<Draw>& all_draws() const noexcept { return draws_; }
  // The node that writes to a slot last; null if none does.
  const Graph::Node* writer_of(uint32_t slot) const;

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
  uint64_t seen_version_ = 0;  // version of the graph cache at the last search for the recipe
  bool ask_again_ = false;     // even if the version is the same
  struct Weight {
    uint32_t slot;
    std::shared_ptr<SharedBlock> block;
    uint64_t writes;
  };
  std::vector<Weight> fixed_;
  // A graph with collectives is replayed in stages. A stage is the collectives alone, or the operators between two
  // collectives, with a recipe of their own.
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
