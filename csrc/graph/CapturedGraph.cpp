#include "graph/CapturedGraph.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "device/wait_hook.h"
#include "graph/GraphCache.h"
#include "graph/SpinLock.h"
#include "ops/OpKernel.h"
#include "runtime/HPUDevice.h"
#include "runtime/HPUGenerator.h"
#include "runtime/events.h"

namespace openhpu {
namespace {

// A replay on its way through the queue. Recycled with its buffers.
class ReplayCommand final : public device::Command {
 public:
  static ReplayCommand* acquire() {
    std::lock_guard<SpinLock> lock(free_lock);
    ReplayCommand* c = free_list;
    if (c)
      free_list = c->next_;
    else
      c = new ReplayCommand();
    return c;
  }

  device::Device* device = nullptr;
  std::shared_ptr<const CapturedProgram> program;
  std::shared_ptr<Recipe> recipe;
  std::vector<SlotMemory> slots;    // empty: the program's
  std::vector<uint64_t> numbers;    // empty: the graph's

  const char* name() const override { return failed_ ? failed_ : "graph replay"; }

  void run() override {
    const auto& graph = program->graph;
    const auto& memory = slots.empty() ? program->slots : slots;
    const auto& values = numbers.empty() ? graph.numbers : numbers;
    device::MemoryPool::AccessScope access(device->memory());
    if (recipe) {
      recipe->run(*device, memory, values);
      return;
    }
    NodeRunner runner(*device);
    try {
      runner.run(graph, memory, values);
    } catch (...) {
      const auto& node = graph.nodes[runner.failed];
      failed_ = node.entry->call->kernel->name().c_str();
      site = node.site;
      throw;
    }
  }

  void retire() override {
    program.reset();
    recipe.reset();
    slots.clear();
    numbers.clear();
    failed_ = nullptr;
    site = 0;
    std::lock_guard<SpinLock> lock(free_lock);
    next_ = free_list;
    free_list = this;
  }

 private:
  ReplayCommand() = default;
  const char* failed_ = nullptr;
  ReplayCommand* next_ = nullptr;
  static SpinLock free_lock;
  static ReplayCommand* free_list;
};
SpinLock ReplayCommand::free_lock;
ReplayCommand* ReplayCommand::free_list = nullptr;

// A thread that finds it taken gives up Python's lock, which the holder may be waiting for.
std::unique_lock<std::mutex> lock_patiently(std::mutex& mutex) {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (C10_UNLIKELY(!lock.owns_lock())) {
    device::BlockingWait waiting;
    lock.lock();
  }
  return lock;
}

}  // namespace

bool changes_operand(const CallTemplate& call, size_t operand) {
  if (call.operands[operand].written) return true;
  constexpr size_t kMean = 3, kVariance = 4;
  if (call.kernel->name() != "aten::native_batch_norm") return false;
  for (size_t i : {kMean, kVariance})
    if (call.args[i].kind == CallTemplate::ArgKind::Tensor && call.args[i].first == operand) return true;
  return false;
}

CapturedGraph::CapturedGraph(
    device::Device& device, c10::DeviceIndex index, CapturedProgram program, std::vector<Draw> draws)
    : device_(device), index_(index), draws_(std::move(draws)) {
  seal(program);
  program_ = std::make_shared<const CapturedProgram>(std::move(program));
}

void CapturedGraph::seal(CapturedProgram& program) const {
  auto& graph = program.graph;
  for (size_t i = 0; i < graph.slots.size(); ++i) {
    const bool fresh = graph.slots[i].kind == Graph::SlotKind::Fresh;
    const bool alive = fresh && program.slots[i].assigned;
    graph.words.push_back(uint64_t{graph.slots[i].nbytes} << 2 | uint64_t{fresh} << 1 | uint64_t{alive});
  }
  WordHash hash;
  for (uint64_t word : graph.words) hash.add(word);
  program.hash = hash.value();
}

const std::shared_ptr<Recipe>& CapturedGraph::recipe() {
  if (C10_LIKELY(recipe_ != nullptr)) return recipe_;
  auto& cache = GraphCache::instance();
  const uint64_t version = cache.version();
  if (version != seen_version_) {
    bool waited = false;
    recipe_ = cache.recipe_for(program_->graph, program_->hash, waited, /*recurs=*/true);
    seen_version_ = version;
  }
  return recipe_;
}

bool CapturedGraph::has_recipe() const {
  auto lock = lock_patiently(mutex_);
  return recipe_ != nullptr;
}

void CapturedGraph::compile() {
  auto lock = lock_patiently(mutex_);
  if (!program_->graph.empty()) recipe();
}

void CapturedGraph::replay(const std::vector<Substitute>& substitutes) {
  count(Counter::GraphReplays);
  flush(device_);
  auto lock = lock_patiently(mutex_);
  if (program_->graph.empty()) {
    for (const auto& draw : draws_) draw_seed(draw.generator, index_);
    return;
  }
  const auto& found = recipe();
  auto* command = ReplayCommand::acquire();
  struct Undo {
    ReplayCommand* command;
    ~Undo() {
      if (command) command->retire();
    }
  } undo{command};
  command->device = &device_;
  command->program = program_;
  command->recipe = found;
  command->site = program_->graph.nodes.front().site;
  if (!draws_.empty()) {
    command->numbers = program_->graph.numbers;
    for (const auto& draw : draws_) {
      const uint64_t seed = draw_seed(draw.generator, index_);
      for (uint32_t number : draw.numbers) command->numbers[number] = seed;
    }
  }
  if (!substitutes.empty()) {
    command->slots = program_->slots;
    for (const auto& s : substitutes) command->slots[s.slot].data = s.data;
  }
  const size_t operators = program_->graph.nodes.size();
  const bool compiled = found != nullptr;
  lock.unlock();
  count(compiled ? Counter::OpsInRecipes : Counter::OpsNodeByNode, operators);
  count(compiled ? Counter::RecipeHits : Counter::RecipeMisses);
  undo.command = nullptr;
  openhpu::submit(device_, command);
}

void CapturedGraph::release(const std::vector<uint32_t>& slots, bool scratch) {
  auto lock = lock_patiently(mutex_);
  auto changed = std::make_shared<CapturedProgram>(*program_);
  bool other_program = false;
  for (uint32_t slot : slots) {
    changed->held[slot].reset();
    changed->slots[slot].data = nullptr;
    if (scratch && changed->graph.slots[slot].kind == Graph::SlotKind::Fresh) {
      changed->slots[slot].assigned = false;
      other_program = true;
    }
  }
  if (other_program) {
    auto& words = changed->graph.words;
    words.resize(words.size() - changed->graph.slots.size());
    seal(*changed);
    recipe_.reset();
    seen_version_ = 0;
  }
  program_ = std::move(changed);
}

bool CapturedGraph::writes(uint32_t slot) const {
  auto lock = lock_patiently(mutex_);
  const auto& graph = program_->graph;
  for (const auto& node : graph.nodes) {
    const uint64_t* place = graph.operand_places(node);
    const auto& call = *node.entry->call;
    for (size_t k = 0; k < call.operands.size(); ++k)
      if (!call.operands[k].on_host && Graph::slot_of(*place++) == slot && changes_operand(call, k)) return true;
  }
  return false;
}

std::vector<uint32_t> CapturedGraph::unused_results(const std::vector<uint32_t>& kept) const {
  auto lock = lock_patiently(mutex_);
  std::vector<uint32_t> out;
  for (uint32_t slot = 0; slot < program_->slots.size(); ++slot) {
    const bool result = program_->graph.slots[slot].kind == Graph::SlotKind::Fresh && program_->slots[slot].assigned;
    if (result && program_->held[slot].use_count() == 1 && std::find(kept.begin(), kept.end(), slot) == kept.end())
      out.push_back(slot);
  }
  return out;
}

}  // namespace openhpu
