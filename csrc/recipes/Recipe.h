#pragma once

#include <ATen/core/Tensor.h>

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
};

// A compiled graph: native code that PyTorch's Inductor made.
class RecipeLibrary {
 public:
  // `constants`: the numbers that are compiled in, by word. `variable`: the numbers that are arguments. Throws if the
  // library cannot be loaded.
  RecipeLibrary(RecipeManifest manifest, const std::vector<uint64_t>& constants, const std::vector<bool>& variable);
  ~RecipeLibrary();

  // How many libraries of such graphs are loaded in this process.
  static size_t loaded() noexcept;
  const RecipeManifest& manifest() const noexcept { return manifest_; }
  // Whether the numbers are what was compiled in, where they are not arguments.
  bool accepts(const std::vector<uint64_t>& numbers) const noexcept;
  // Whether it holds for these values of its symbols.
  bool admits(const std::vector<int64_t>& symbols) const;

 private:
  friend class Recipe;
  RecipeManifest manifest_;
  std::vector<std::pair<size_t, uint64_t>> fixed_;  // words that must be as compiled
  std::unique_ptr<torch::inductor::AOTIModelContainerRunnerCpu> model_;
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
  // After a run that threw: the node of the graph whose kernel did, which is a user's. Null: another error.
  const Graph::Node* take_failed() noexcept { return std::exchange(failed_, nullptr); }

 private:
  struct Output {
    uint32_t slot;
    at::ScalarType dtype;
    std::vector<int64_t> sizes, strides;
    int64_t offset;
    int64_t ordinal;  // which of the code's allocations it is, known after the first run; negative: to be copied
  };
  void set_arguments(const std::vector<SlotMemory>& slots, const std::vector<uint64_t>& numbers);
  void deliver(device::Device& device, const std::vector<at::Tensor>& results, const std::vector<SlotMemory>& slots);

  std::shared_ptr<RecipeLibrary> compiled_;
  std::vector<at::Tensor> arguments_;
  std::vector<Output> outputs_;
  bool ordinals_known_ = false;
  std::vector<PlannedOutput> planned_;
  const Graph::Node* failed_ = nullptr;
};

}  // namespace openhpu
