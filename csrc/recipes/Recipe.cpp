#include "recipes/Recipe.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner_cpu.h>
#include <torch/csrc/inductor/aoti_torch/utils.h>

#include <dlfcn.h>

#include <unordered_set>

#include "observe/KernelReports.h"
#include "observe/events.h"
#include "run/CallRunner.h"
#include "run/KernelThreads.h"
#include "run/Operator.h"
#include "run/Products.h"
#include "run/UserKernel.h"
#include "run/Tensors.h"

namespace openhpu {
namespace {

std::atomic<size_t> g_loaded{0};

// The libraries of regions, by the keys of their recipes.
std::mutex g_regions_mutex;
auto& g_regions = *new std::unordered_map<std::string, std::weak_ptr<RecipeLibrary>>();

// Memory of the workspace for slots of a graph, which goes back in any case.
class Lent {
 public:
  Lent(device::MemoryPool& workspace, std::vector<SlotMemory>& slots) : workspace_(workspace), slots_(slots) {}
  ~Lent() {
    for (uint32_t slot : lent_) free(slot);
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

  void lend(uint32_t slot) {
    auto& memory = slots_[slot];
    if (memory.assigned || memory.nbytes == 0) return;
    KernelScope scope(workspace_, nullptr, 0, false);
    memory.data = scope.allocate(memory.nbytes);
    memory.assigned = true;
    lent_.insert(slot);
  }
  void take_back(uint32_t slot) {
    if (lent_.erase(slot)) free(slot);
  }

 private:
  void free(uint32_t slot) {
    workspace_.free(std::exchange(slots_[slot].data, nullptr));
    slots_[slot].assigned = false;
  }
  device::MemoryPool& workspace_;
  std::vector<SlotMemory>& slots_;
  std::unordered_set<uint32_t> lent_;
};

// Between the two calls for one kernel: the mark that the first began.
void mark_kernel(const char* name) {
  auto* trace = device::Trace::current();
  if (!trace) return;
  if (name)
    trace->marks.push_back({device::trace_name(name), 0, device::trace_clock(), 0});
  else if (!trace->marks.empty())
    trace->marks.back().end = device::trace_clock();
}

// What a recipe calls for a product: whether it was computed here.
bool product(
    AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle a, AtenTensorHandle b, double beta, double alpha) {
  using torch::aot_inductor::tensor_handle_to_tensor_pointer;
  static const at::Tensor none;
  return product_by_rule(
      *tensor_handle_to_tensor_pointer(out), self ? *tensor_handle_to_tensor_pointer(self) : none,
      *tensor_handle_to_tensor_pointer(a), *tensor_handle_to_tensor_pointer(b), beta, alpha);
}

// The recipe that this thread runs, for the calls of users' kernels in it.
struct Running {
  device::Device& device;
  const Graph& graph;
  size_t next = 0;                     // of its nodes: behind that of the last call
  std::exception_ptr error = nullptr;  // the first one of a kernel
  const Graph::Node* failed = nullptr;

  // The node of the next call of this operator. Its code calls them in the order of the nodes.
  const Graph::Node* node_of(std::string_view op) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const size_t k = (next + n) % graph.nodes.size();
      const auto& call = *graph.nodes[k].entry->call;
      if (!is_user_kernel(*call.kernel) || call.args[0].constant.toStringView() != op) continue;
      next = k + 1;
      return &graph.nodes[k];
    }
    return nullptr;
  }
};
thread_local Running* t_running = nullptr;

// What a recipe calls for a user's kernel. Its code could not say what was thrown, so it goes on, with zeros.
void user_kernel(
    const char* op, void** known, const AtenTensorHandle* inputs, size_t input_count, const AtenTensorHandle* outputs,
    size_t output_count, const int64_t* words, size_t params) {
  using torch::aot_inductor::tensor_handle_to_tensor_pointer;
  c10::SmallVector<at::Tensor, 6> in, out;
  for (size_t i = 0; i < input_count; ++i)
    in.push_back(inputs[i] ? *tensor_handle_to_tensor_pointer(inputs[i]) : at::Tensor());
  for (size_t i = 0; i < output_count; ++i) out.push_back(*tensor_handle_to_tensor_pointer(outputs[i]));
  const auto* node = t_running->node_of(op);
  auto& queue = t_running->device.queue();
  if (node) queue.set_running_site(node->site);
  try {
    run_user_kernel_of_recipe(op, known, in, out, words, params);
  } catch (...) {
    if (!t_running->error) {
      t_running->error = std::current_exception();
      t_running->failed = node;
    }
    for (const auto& t : out)
      if (t.nbytes() > 0) std::memset(t.mutable_data_ptr(), 0, t.nbytes());
  }
}

}  // namespace

RecipeLibrary::RecipeLibrary(
    RecipeManifest manifest, const std::vector<uint64_t>& constants, const std::vector<bool>& variable)
    : manifest_(std::move(manifest)) {
  for (size_t i = 0; i < constants.size(); ++i)
    if (!variable[i]) fixed_.emplace_back(i, constants[i]);
  model_ = std::make_unique<torch::inductor::AOTIModelContainerRunnerCpu>(manifest_.library, 1);
  if (void* library = dlopen(manifest_.library.c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
    mark_kernel_ = static_cast<MarkKernel*>(dlsym(library, "openhpu_mark_kernel"));
    if (void* pointer = dlsym(library, "openhpu_product")) *static_cast<decltype(&product)*>(pointer) = &product;
    if (void* pointer = dlsym(library, "openhpu_user_kernel"))
      *static_cast<decltype(&user_kernel)*>(pointer) = &user_kernel;
    dlclose(library);  // the model holds it
  }
  g_loaded.fetch_add(1);
}

RecipeLibrary::RecipeLibrary(
    RecipeManifest manifest, const Regions& regions, const std::vector<uint64_t>& constants,
    const std::vector<bool>& variable)
    : manifest_(std::move(manifest)), regions_(regions.size()) {
  for (size_t i = 0; i < constants.size(); ++i)
    if (!variable[i]) fixed_.emplace_back(i, constants[i]);
  std::lock_guard lock(g_regions_mutex);
  for (size_t i = 0; i < regions.size(); ++i)
    if (const auto known = g_regions.find(regions[i].first); known != g_regions.end()) call(i, known->second.lock());
}

RecipeLibrary::~RecipeLibrary() {
  for (const auto& region : regions_)
    if (region) region->callers_.fetch_sub(1);
  if (model_) g_loaded.fetch_sub(1);
}

void RecipeLibrary::call(size_t index, std::shared_ptr<RecipeLibrary> region) {
  regions_[index] = std::move(region);
  if (regions_[index]) regions_[index]->callers_.fetch_add(1);
}

size_t RecipeLibrary::missing() const noexcept { return static_cast<size_t>(std::ranges::count(regions_, nullptr)); }

void RecipeLibrary::load(const Regions& regions) {
  std::lock_guard lock(g_regions_mutex);
  std::erase_if(g_regions, [](const auto& known) { return known.second.expired(); });
  for (size_t i = 0; i < regions.size(); ++i) {
    if (regions_[i]) continue;
    const auto& [key, described] = regions[i];
    auto& known = g_regions[key];
    auto library = known.lock();
    if (!library)
      known = library = std::make_shared<RecipeLibrary>(described, std::vector<uint64_t>{}, std::vector<bool>{});
    call(i, std::move(library));
  }
}

size_t RecipeLibrary::libraries_of(const std::vector<std::shared_ptr<RecipeLibrary>>& graphs) {
  size_t libraries = 0;
  std::unordered_map<const RecipeLibrary*, size_t> callers;  // by region: those of its callers that are among `graphs`
  for (const auto& graph : graphs) {
    libraries += graph->model_ != nullptr;
    for (const auto& region : graph->regions_) libraries += ++callers[region.get()] == region->callers_.load();
  }
  return libraries;
}

size_t RecipeLibrary::loaded() noexcept { return g_loaded.load(); }

bool RecipeLibrary::accepts(const std::vector<uint64_t>& numbers) const noexcept {
  return std::ranges::all_of(fixed_, [&](const auto& fixed) { return numbers[fixed.first] == fixed.second; });
}

bool RecipeLibrary::admits(const std::vector<int64_t>& symbols) const {
  return std::all_of(manifest_.guards.begin(), manifest_.guards.end(), [&](const auto& guard) {
    return guard.first(symbols) < guard.second(symbols);
  });
}

Recipe::Recipe(std::shared_ptr<RecipeLibrary> compiled, const std::vector<int64_t>& symbols)
    : compiled_(std::move(compiled)) {
  auto values = [&](const std::vector<Formula>& formulas) {
    std::vector<int64_t> out;
    for (const auto& f : formulas) out.push_back(f(symbols));
    return out;
  };
  if (!compiled_->regions_.empty()) {
    plan_calls(symbols);
    return;
  }
  const auto& manifest = compiled_->manifest_;
  for (const auto& spec : manifest.inputs) {
    arguments_.emplace_back(host_tensor_on(
        host_storage_over(nullptr, 0), c10::scalarTypeToTypeMeta(spec.dtype), values(spec.sizes), values(spec.strides),
        spec.offset(symbols)));
  }
  for (const auto& spec : manifest.numbers)
    arguments_.push_back(at::empty({}, at::TensorOptions().dtype(spec.dtype).device(c10::kCPU)));
  for (const auto& spec : manifest.outputs)
    outputs_.push_back({spec.slot, spec.dtype, values(spec.sizes), values(spec.strides), spec.offset(symbols), -1});
}

void Recipe::set_arguments(const std::vector<SlotMemory>& slots, const std::vector<uint64_t>& numbers) {
  size_t i = 0;
  for (const auto& spec : compiled_->manifest_.inputs) {
    const auto& memory = slots[spec.slot];
    auto* storage = arguments_[i++].unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(c10::DataPtr(memory.data, c10::Device(c10::kCPU)));
    storage->set_nbytes(memory.nbytes);
  }
  for (const auto& spec : compiled_->manifest_.numbers) {
    auto& argument = arguments_[i++];
    const uint64_t* words = numbers.data() + spec.word;
    if (spec.host == spec.dtype) {
      std::memcpy(argument.mutable_data_ptr(), words, argument.itemsize());
    } else if (spec.host == at::ScalarType::Undefined) {
      const auto value = number_of(spec.kind, words).toScalar();
      if (spec.dtype == at::kLong)
        *argument.mutable_data_ptr<int64_t>() = value.toLong();
      else
        *argument.mutable_data_ptr<double>() = value.toDouble();  // it has no other dtype
    } else {
      CallTemplate::Operand o;
      o.dtype = c10::scalarTypeToTypeMeta(spec.host);
      argument.copy_(host_operand(o, words));
    }
  }
}

void Recipe::deliver(
    device::Device& device, const std::vector<at::Tensor>& results, const std::vector<SlotMemory>& slots) {
  Misplaced misplaced;
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const auto& spec = outputs_[k];
    const auto& memory = slots[spec.slot];
    if (memory.nbytes == 0) continue;
    const auto& result = results[k];
    auto* place = static_cast<char*>(memory.data) + spec.offset * result.itemsize();
    if (result.const_data_ptr() == place && result.strides() == c10::IntArrayRef(spec.strides)) continue;
    misplaced.add(
        at::Tensor(host_tensor_on(
            host_storage_over(memory.data, memory.nbytes), c10::scalarTypeToTypeMeta(spec.dtype), spec.sizes,
            spec.strides, spec.offset)),
        result);
  }
  misplaced.deliver(device);
}

void Recipe::plan_calls(const std::vector<int64_t>& symbols) {
  for (const auto& library : compiled_->regions_) regions_.push_back(std::make_unique<Recipe>(library, symbols));
  std::unordered_map<uint32_t, size_t> last;  // by slot of the graph: the call
  for (const auto& call : compiled_->manifest_.calls) {
    Step step;
    const auto use = [&](uint32_t slot) {
      if (!last.contains(slot)) step.first.push_back(slot);
      last[slot] = steps_.size();
    };
    if (call.region < 0) {
      for (uint32_t slot : call.slots) use(slot);
    } else {
      const auto& region = compiled_->regions_[call.region]->manifest_;
      for (const auto* specs : {&region.inputs, &region.outputs})
        for (const auto& spec : *specs) {
          step.slots.emplace_back(spec.slot, call.slots[spec.slot]);
          use(call.slots[spec.slot]);
        }
    }
    steps_.push_back(std::move(step));
  }
  for (const auto& [slot, call] : last) steps_[call].last.push_back(slot);
}

void Recipe::run_calls(
    device::Device& device, const Graph& graph, const std::vector<SlotMemory>& slots,
    const std::vector<uint64_t>& numbers) {
  memory_ = slots;
  Lent lent(device.workspace(), memory_);
  const auto& calls = compiled_->manifest_.calls;
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto& call = calls[i];
    const auto& step = steps_[i];
    for (uint32_t slot : step.first) lent.lend(slot);
    if (call.region < 0) {
      size_t failed = call.range.begin;
      try {
        run_nodes(device, graph, call.range, memory_, numbers, CallRunner::kUnlimited, failed);
      } catch (...) {
        failed_ = &graph.nodes[failed];
        throw;
      }
    } else {
      of_region_.resize(std::max(of_region_.size(), call.slots.size()));
      for (const auto& [inner, outer] : step.slots) of_region_[inner] = memory_[outer];
      numbers_.clear();
      const auto& specs = compiled_->regions_[call.region]->manifest_.numbers;
      for (size_t k = 0; k < specs.size(); ++k)
        for (size_t word = 0; word < specs[k].words(); ++word) numbers_.push_back(numbers[call.words[k] + word]);
      regions_[call.region]->run_code(device, of_region_, numbers_, call.counted, call.overflowing);
    }
    for (uint32_t slot : step.last) lent.take_back(slot);
  }
}

void Recipe::run(
    device::Device& device, const Graph& graph, const std::vector<SlotMemory>& slots,
    const std::vector<uint64_t>& numbers) {
  const auto& manifest = compiled_->manifest_;
  Running running{device, graph};
  const auto outer = c10::make_scope_exit([before = std::exchange(t_running, &running)] { t_running = before; });
  if (regions_.empty()) {
    run_code(device, slots, numbers, manifest.counted, manifest.overflowing);
  } else {
    std::lock_guard lock(compiled_->mutex_);
    run_calls(device, graph, slots, numbers);
  }
  if (C10_UNLIKELY(running.error != nullptr)) {
    failed_ = running.failed;
    std::rethrow_exception(running.error);
  }
}

void Recipe::run_code(
    device::Device& device, const std::vector<SlotMemory>& slots, const std::vector<uint64_t>& numbers,
    const std::vector<RecipeManifest::Counted>& counted, const std::vector<RecipeManifest::Counted>& overflowing) {
  const auto& manifest = compiled_->manifest_;
  std::lock_guard lock(compiled_->mutex_);
  set_arguments(slots, numbers);
  apply_threads(manifest.threads);
  planned_.clear();
  for (const auto& output : outputs_) {
    const auto& memory = slots[output.slot];
    if (output.ordinal >= 0) planned_.push_back({memory.data, memory.nbytes, static_cast<uint32_t>(output.ordinal)});
  }
  order_planned(planned_);
  KernelScope scope(device.workspace(), planned_.data(), planned_.size(), /*record=*/!ordinals_known_);
  if (compiled_->mark_kernel_) *compiled_->mark_kernel_ = device::Trace::current() ? &mark_kernel : nullptr;
  const auto results = [&] {
    try {
      return compiled_->model_->run(arguments_);
    } catch (...) {
      // Its code says only that a call failed.
      if (scope.out_of_memory()) std::rethrow_exception(scope.out_of_memory());
      throw;
    }
  }();
  TORCH_CHECK(
      results.size() == outputs_.size() + manifest.counted.size() + manifest.overflowing.size(), "recipe ",
      manifest.name, " returned ", results.size(), " tensors where its manifest names ",
      outputs_.size() + manifest.counted.size() + manifest.overflowing.size());
  if (!std::exchange(ordinals_known_, true))
    for (size_t k = 0; k < outputs_.size(); ++k) {
      // Only a result that fills its allocation as the slot's storage does can be written there directly.
      const auto& t = results[k];
      auto& output = outputs_[k];
      if (t.storage_offset() == 0 && output.offset == 0 && t.storage().nbytes() == slots[output.slot].nbytes)
        output.ordinal = scope.ordinal_of(t.storage().data());
    }
  deliver(device, results, slots);
  for (size_t k = 0; k < counted.size(); ++k) {
    const auto found = *results[outputs_.size() + k].const_data_ptr<int64_t>();
    if (C10_UNLIKELY(found != 0)) note_indices(counted[k].op, counted[k].site, {found & 0xffffffff, found >> 32});
  }
  for (size_t k = 0; k < overflowing.size(); ++k)
    note_overflows(
        overflowing[k].op, overflowing[k].site,
        *results[outputs_.size() + manifest.counted.size() + k].const_data_ptr<int64_t>());
  count(Counter::ExternalKernels, manifest.external_kernels);
}

}  // namespace openhpu
