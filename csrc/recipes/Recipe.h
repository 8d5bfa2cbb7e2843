#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>

#include "device/device.h"
#include "recipes/Graph.h"
#include "recipes/NodeRunner.h"
#include "recipes/Symbols.h"
#include "run/CallTemplate.h"
#include "run/KernelMemory.h"

namespace torch::inductor {
class AOTIModelContainerRunnerCpu;
}

namespace openhpu {

// The compiler's description of a recipe's arguments and results.
struct RecipeManifest {
  struct TensorSpec {
    uint32_t slot = 0;
    at::ScalarType dtype = at::kFloat;
    std::vector<Formula> sizes, strides;
    Formula offset;
  };
  struct NumberSpec {
    uint32_t word = 0;                                           // in the graph's numbers
    CallTemplate::ArgKind kind = CallTemplate::ArgKind::Double;  // Int, Double or Bool, as recorded
    at::ScalarType host = at::ScalarType::Undefined;             // a 0-dim CPU operand of this dtype
    at::ScalarType dtype = at::kDouble;                          // as which the recipe takes it

    size_t words() const noexcept {
      return host != at::ScalarType::Undefined || kind == CallTemplate::ArgKind::Complex ? 2 : 1;
    }
  };
  // What one of its nodes counts.
  struct Counted {
    std::string op;
    uint32_t site = 0;
  };
  // A call of one of its regions, or (negative `region`) of the operators of the graph's nodes in `range`.
  struct Call {
    int32_t region = -1;
    NodeRange range;
    std::vector<uint32_t> slots;  // by slot of the region: the graph's; of nodes: those that other calls use, too
    std::vector<uint32_t> words;  // by number that the region takes: its first word in the graph's numbers
    std::vector<Counted> counted, overflowing;
  };
  std::string name;
  std::string library;  // path of the shared object
  std::string program;  // the same graph as a Python program
  std::vector<TensorSpec> inputs;
  std::vector<NumberSpec> numbers;  // after the inputs
  std::vector<TensorSpec> outputs;
  std::vector<Counted> counted;                     // after the outputs: indices out of range
  std::vector<Counted> overflowing;                 // after these: results that wrapped to 32 bits
  std::vector<std::pair<Formula, Formula>> guards;  // it holds for symbols with first < second
  int threads = 1;                                  // for which it was compiled
  size_t operators = 0;
  size_t external_kernels = 0;  // library calls (mm, convolution) in one run
  std::vector<Call> calls;      // of a graph with regions: all that it does
};

// A compiled graph: native code that PyTorch's Inductor made, or calls of regions, each of which has such code.
class RecipeLibrary {
 public:
  // `constants`: the numbers that are compiled in, by word. `variable`: the numbers that are arguments. Throws if the
  // library cannot be loaded.
  RecipeLibrary(RecipeManifest manifest, const std::vector<uint64_t>& constants, const std::vector<bool>& variable);
  // A graph that calls regions: each with the key of its recipe. Those that other graphs call, too, are loaded already
  // and stay. The others are to be loaded by `load`.
  using Regions = std::vector<std::pair<std::string, RecipeManifest>>;
  RecipeLibrary(
      RecipeManifest manifest, const Regions& regions, const std::vector<uint64_t>& constants,
      const std::vector<bool>& variable);
  ~RecipeLibrary();
  RecipeLibrary(const RecipeLibrary&) = delete;
  RecipeLibrary& operator=(const RecipeLibrary&) = delete;

  // How many libraries `load` adds to those of the process.
  size_t missing() const noexcept;
  void load(const Regions& regions);
  // How many libraries go when these graphs go: their own, and those of regions that no other graph calls.
  static size_t libraries_of(const std::vector<std::shared_ptr<RecipeLibrary>>& graphs);

  // How many libraries of such graphs are loaded in this process.
  static size_t loaded() noexcept;
  const RecipeManifest& manifest() const noexcept { return manifest_; }
  // Whether the numbers are what was compiled in, where they are not arguments.
  bool accepts(const std::vector<uint64_t>& numbers) const noexcept;
  // Whether it holds for these values of its symbols.
  bool admits(const std::vector<int64_t>& symbols) const;

 private:
  friend class Recipe;
  void call(size_t index, std::shared_ptr<RecipeLibrary> region);
  RecipeManifest manifest_;
  std::vector<std::pair<size_t, uint64_t>> fixed_;                       // words that must be as compiled
  std::unique_ptr<torch::inductor::AOTIModelContainerRunnerCpu> model_;  // null: it has regions
  std::vector<std::shared_ptr<RecipeLibrary>> regions_;
  std::atomic<size_t> callers_{0};  // of a region: graphs that call it
  // In the library: the functions that its code calls before and after each kernel. Null in a recipe that was made
  // without them.
  using MarkKernel = void (*)(const char* name);
  MarkKernel* mark_kernel_ = nullptr;
  std::mutex mutex_;  // it may be used by the workers of several devices
};

// A compiled graph for certain sizes. The worker runs it without Python.
class Recipe {
 public:
  // `symbols`: values of the symbols in the manifest's formulas.
  Recipe(std::shared_ptr<RecipeLibrary> compiled, const std::vector<int64_t>& symbols);

  const std::shared_ptr<RecipeLibrary>& compiled() const noexcept { return compiled_; }

  // Worker thread. Reads inputs and writes results in the slots' memory. `graph`: whose recipe it is.
  void run(
      device::Device& device, const Graph& graph, const std::vector<SlotMemory>& slots,
      const std::vector<uint64_t>& numbers);
  // After a run that threw: the node of the graph that did, a user's kernel or one that runs by itself. Null: unknown.
  const Graph::Node* take_failed() noexcept { return std::exchange(failed_, nullptr); }

 private:
  struct Output {
    uint32_t slot;
    at::ScalarType dtype;
    std::vector<int64_t> sizes, strides;
    int64_t offset;
    int64_t ordinal;  // which of the code's allocations it is, known after the first run; negative: to be copied
  };
  // What a call of a region needs, beside the manifest's.
  struct Step {
    std::vector<std::pair<uint32_t, uint32_t>> slots;  // that it reads or writes: the region's, and the graph's
    // Slots of the graph that this call is the first or the last one to use: where the host assigned no memory, the
    // workspace lends some from the one to the other.
    std::vector<uint32_t> first, last;
  };
  void plan_calls(const std::vector<int64_t>& symbols);
  void run_calls(
      device::Device& device, const Graph& graph, const std::vector<SlotMemory>& slots,
      const std::vector<uint64_t>& numbers);
  // `counted`, `overflowing`: where its nodes stand in the script.
  void run_code(
      device::Device& device, const std::vector<SlotMemory>& slots, const std::vector<uint64_t>& numbers,
      const std::vector<RecipeManifest::Counted>& counted, const std::vector<RecipeManifest::Counted>& overflowing);
  void set_arguments(const std::vector<SlotMemory>& slots, const std::vector<uint64_t>& numbers);
  void deliver(device::Device& device, const std::vector<at::Tensor>& results, const std::vector<SlotMemory>& slots);

  std::shared_ptr<RecipeLibrary> compiled_;
  std::vector<at::Tensor> arguments_;
  std::vector<Output> outputs_;
  bool ordinals_known_ = false;
  std::vector<PlannedOutput> planned_;
  const Graph::Node* failed_ = nullptr;
  std::vector<std::unique_ptr<Recipe>> regions_;
  std::vector<Step> steps_;  // by call
  std::vector<SlotMemory> memory_, of_region_;
  std::vector<uint64_t> numbers_;
};

}  // namespace openhpu
