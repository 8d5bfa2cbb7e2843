#include "graph/CapturedGraph.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "device/wait_hook.h"
#include "graph/GraphCache.h"
#include "graph/GraphCommand.h"
#include "ops/OpKernel.h"
#include "runtime/HPUDevice.h"
#include "runtime/HPUGenerator.h"
#include "runtime/events.h"

namespace openhpu {
namespace {

// Weights of more bytes together stay inputs: a recipe that holds them is a copy of them.
constexpr size_t kMostConstantBytes = size_t{64} << 20;

std::vector<bool> written_slots(const Graph& graph) {
  std::vector<bool> out(graph.slots.size(), false);
  for (const auto& node : graph.nodes) {
    const uint64_t* place = graph.operand_places(node);
    for (const auto& o : node.entry->call->operands) {
      if (o.on_host) continue;
      if (o.written) out[Graph::slot_of(*place)] = true;
      ++place;
    }
  }
  return out;
}

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

CapturedGraph::CapturedGraph(
    device::Device& device, c10::DeviceIndex index, CapturedProgram program, std::vector<Draw> draws)
    : device_(device), index_(index), draws_(std::move(draws)) {
  seal(program);
  list_changed(program);
  program_ = std::make_shared<const CapturedProgram>(std::move(program));
}

void CapturedGraph::list_changed(CapturedProgram& program) {
  const auto written = written_slots(program.graph);
  program.changed.clear();
  for (size_t i = 0; i < program.held.size(); ++i)
    if (program.held[i] && (written[i] || program.graph.slots[i].kind == Graph::SlotKind::Fresh))
      program.changed.push_back(program.held[i].get());
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
  program.collectives = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    return node.entry->call->kernel->traits().collective;
  });
}

const std::shared_ptr<Recipe>& CapturedGraph::recipe() {
  if (C10_UNLIKELY(!fixed_.empty()) && !weights_intact()) thaw();
  if (C10_LIKELY(recipe_ != nullptr)) return recipe_;
  auto& cache = GraphCache::instance();
  const uint64_t version = cache.version();
  if (version == seen_version_ && !ask_again_) return recipe_;
  seen_version_ = version;
  ask_again_ = false;
  if ((alone_ || !fixed_.empty()) && !own_ && cache.policy() != CompilePolicy::Off && !compile_alone()) {
    ask_again_ = true;
    return recipe_;
  }
  bool failed = false;
  if (own_) recipe_ = cache.recipe_of(own_, failed, ask_again_);
  if (failed) {
    alone_ = false;
    thaw();
  }
  if (!own_) {
    GraphCache::Sight sight;
    sight.recurs = true;
    recipe_ = cache.recipe_for(program_->graph, program_->hash, sight);
    ask_again_ = sight.again;
  }
  return recipe_;
}

void CapturedGraph::fix(std::vector<uint32_t> weights) {
  auto lock = lock_patiently(mutex_);
  size_t total = 0;
  fixed_.clear();
  for (uint32_t slot : weights) {
    total += program_->graph.slots[slot].nbytes;
    const auto& block = program_->held[slot];
    fixed_.push_back({slot, block, block->writes.load(std::memory_order_relaxed)});
  }
  if (total > kMostConstantBytes) fixed_.clear();
}

bool CapturedGraph::compile_alone() {
  std::vector<std::pair<uint32_t, std::string>> contents;
  if (!fixed_.empty()) {
    if (!device_.queue().drain(device::OnInterrupt::Return)) return false;
    device::MemoryPool::AccessScope access(device_.memory());
    for (const auto& w : fixed_)
      contents.emplace_back(
          w.slot, std::string(static_cast<const char*>(w.block->data), program_->graph.slots[w.slot].nbytes));
  }
  own_ = GraphCache::instance().compile_with(program_->graph, std::move(contents));
  return true;
}

bool CapturedGraph::weights_intact() const noexcept {
  for (const auto& w : fixed_)
    if (w.block->writes.load(std::memory_order_relaxed) != w.writes) return false;
  return true;
}

void CapturedGraph::thaw() noexcept {
  fixed_.clear();
  own_.reset();
  recipe_.reset();
  seen_version_ = 0;
}

size_t CapturedGraph::constants() const {
  auto lock = lock_patiently(mutex_);
  return weights_intact() ? fixed_.size() : 0;
}

bool CapturedGraph::has_recipe() const {
  auto lock = lock_patiently(mutex_);
  return recipe_ != nullptr;
}

void CapturedGraph::compile(bool alone) {
  flush(device_);
  auto lock = lock_patiently(mutex_);
  alone_ = alone;
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
  const bool replaced = std::any_of(substitutes.begin(), substitutes.end(), [&](const auto& s) {
    return std::any_of(fixed_.begin(), fixed_.end(), [&](const auto& w) { return w.slot == s.slot; });
  });
  if (C10_UNLIKELY(replaced)) thaw();
  const auto& found = recipe();
  for (auto* block : program_->changed)
    if (C10_UNLIKELY(block->watched.load(std::memory_order_relaxed))) block->writes.fetch_add(1);
  auto command = GraphCommand::acquire(device_);
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
  openhpu::submit(device_, command.release(), device::OnInterrupt::Throw);
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
    own_.reset();
    recipe_.reset();
    seen_version_ = 0;
  }
  list_changed(*changed);
  program_ = std::move(changed);
}

bool CapturedGraph::writes(uint32_t slot) const {
  auto lock = lock_patiently(mutex_);
  return written_slots(program_->graph)[slot];
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
