#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/device.h"
#include "graph/CallTemplate.h"
#include "graph/NodeRunner.h"

namespace torch::inductor {
class AOTIModelContainerRunnerCpu;
}

namespace openhpu {

// What the compiler says of a recipe's arguments and results.
struct RecipeManifest {
  struct TensorSpec {
    uint32_t slot = 0;
    at::ScalarType dtype = at::kFloat;
    std::vector<int64_t> sizes, strides;
    int64_t offset = 0;
  };
  struct NumberSpec {
    uint32_t word = 0;                    // in the graph's numbers
    CallTemplate::ArgKind kind = CallTemplate::ArgKind::Double;  // Int, Double or Bool, as recorded
    at::ScalarType host = at::ScalarType::Undefined;             // a 0-dim CPU operand of this dtype
    at::ScalarType dtype = at::kDouble;   // as which the recipe takes it
  };
  std::string name;
  std::string library;  // path of the shared object
  std::string program;  // the same graph as a Python program
  std::vector<TensorSpec> inputs;
  std::vector<NumberSpec> numbers;        // after the inputs
  std::vector<TensorSpec> outputs;
  int threads = 1;                        // for which it was compiled
  size_t operators = 0;
  size_t external_kernels = 0;            // library calls (mm, convolution) in one run
};

// A compiled graph: native code that PyTorch's Inductor made, run by the worker without Python.
class Recipe {
 public:
  // `constants`: the numbers that were compiled in, by word; `variable`: those that are arguments. Throws when the library
  // can't be loaded or does not fit the manifest.
  Recipe(RecipeManifest manifest, std::vector<uint64_t> constants, std::vector<bool> variable);
  ~Recipe();

  const RecipeManifest& manifest() const noexcept { return manifest_; }
  // Whether the numbers are what was compiled in, where they are not arguments.
  bool accepts(const std::vector<uint64_t>& numbers) const noexcept;

  // Worker thread. Reads inputs and writes results in the slots' memory.
  void run(device::Device& device, const std::vector<SlotMemory>& slots, const std::vector<uint64_t>& numbers);

 private:
  void set_arguments(const std::vector<SlotMemory>& slots, const std::vector<uint64_t>& numbers);
  void deliver(const std::vector<at::Tensor>& results, const std::vector<SlotMemory>& slots);

  RecipeManifest manifest_;
  std::vector<uint64_t> constants_;
  std::vector<size_t> fixed_;  // words that must be as compiled
  std::unique_ptr<torch::inductor::AOTIModelContainerRunnerCpu> model_;
  std::mutex mutex_;           // a recipe may be used by the workers of several devices
  std::vector<at::Tensor> arguments_;
  std::vector<PlannedOutput> planned_;
  std::vector<int64_t> ordinals_;  // by output: which of the code's allocations it is; empty before the first run
};

}  // namespace openhpu
