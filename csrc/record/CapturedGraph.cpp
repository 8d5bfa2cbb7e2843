#include "record/CapturedGraph.h"

#include "device/blocking_wait.h"
#include "observe/events.h"
#include "record/GraphCommand.h"
#include "run/Operator.h"
#include "torch/HPUDevice.h"
#include "torch/HPUGenerator.h"

namespace openhpu {
namespace {

// If the weights of a graph have more bytes together, they stay inputs. A recipe with constants holds a copy of them.
constexpr size_t kMostConstantBytes = size_t{64} << 20;

bool is_collective(const Graph::Node& node) { return node.entry->call->kernel->traits().collective; }

}  // namespace

CapturedGraph::CapturedGraph(
    device::Device& device, c10::DeviceIndex index, CapturedProgram program, std::vector<Draw> draws)
    : device_(device), index_(index), draws_(std::move(draws)) {
  seal(program);
  list_changed(program);
  if (program.collectives && program.graph.nodes.size() > 1) split(program);
  program_ = std::make_shared<const CapturedProgram>(std::move(program));
}

void CapturedGraph::list_changed(CapturedProgram& program) {
  program.changed.clear();
  for (size_t i = 0; i < program.held.size(); ++i)
    if (program.held[i] && (program.written[i] || program.graph.slots[i].fresh))
      program.changed.push_back(program.held[i].get());
}

void CapturedGraph::seal(CapturedProgram& program) const {
  auto& graph = program.graph;
  for (size_t i = 0; i < graph.slots.size(); ++i) {
    const auto [nbytes, fresh] = graph.slots[i];
    const bool alive = fresh && program.slots[i].assigned;
    graph.words.push_back(uint64_t{nbytes} << 2 | uint64_t{fresh} << 1 | uint64_t{alive});
  }
  WordHash hash;
  for (uint64_t word : graph.words) hash.add(word);
  program.hash = hash.value();
  program.written.assign(graph.slots.size(), false);
  for (const auto& node : graph.nodes)
    graph.for_each_operand(node, [&](const auto& o, uint64_t place) {
      if (o.written) program.written[Graph::slot_of(place)] = true;
    });
  program.collectives = std::ranges::any_of(graph.nodes, is_collective);
}

// What lies between two collectives becomes a graph of its own; memory that lives longer than its stage, fixed memory.
void CapturedGraph::split(CapturedProgram& program) {
  const auto& whole = program.graph;
  std::vector<std::pair<size_t, size_t>> ranges;
  for (size_t i = 0; i < whole.nodes.size(); ++i)
    if (i == 0 || is_collective(whole.nodes[i]) || is_collective(whole.nodes[i - 1]))
      ranges.emplace_back(i, i + 1);
    else
      ranges.back().second = i + 1;

  constexpr uint32_t kNever = ~uint32_t{0};
  std::vector<uint32_t> first(whole.slots.size(), kNever), last(whole.slots.size(), 0);
  for (uint32_t stage = 0; stage < ranges.size(); ++stage)
    for (size_t i = ranges[stage].first; i < ranges[stage].second; ++i)
      whole.for_each_slot(whole.nodes[i], [&](uint32_t slot) {
        if (first[slot] == kNever) first[slot] = stage;
        last[slot] = stage;
      });
  for (size_t slot = 0; slot < whole.slots.size(); ++slot)
    if (!program.slots[slot].assigned && first[slot] != kNever && first[slot] != last[slot]) {
      void* data = allocate_block(device_, whole.slots[slot].nbytes);
      program.held[slot] = std::make_shared<SharedBlock>(data, device_.index());
      program.slots[slot].data = data;
      program.slots[slot].assigned = true;
    }

  for (uint32_t stage = 0; stage < ranges.size(); ++stage) {
    const auto [begin, end] = ranges[stage];
    const uint32_t numbers = whole.nodes[begin].numbers;
    const size_t numbers_end = end < whole.nodes.size() ? whole.nodes[end].numbers : whole.numbers.size();
    CapturedProgram part;
    part.named = program.named;
    std::vector<uint32_t> slots, of_whole(whole.slots.size(), kNever);
    const auto enter = [&](uint32_t slot) {
      if (of_whole[slot] != kNever) return of_whole[slot];
      of_whole[slot] = static_cast<uint32_t>(slots.size());
      slots.push_back(slot);
      const bool fresh = whole.slots[slot].fresh && first[slot] == stage;
      part.graph.slots.push_back({whole.slots[slot].nbytes, fresh});
      auto memory = program.slots[slot];
      memory.fresh = fresh;
      memory.assigned = memory.assigned || !fresh;
      part.slots.push_back(memory);
      part.held.push_back(program.held[slot]);
      return of_whole[slot];
    };
    for (size_t i = begin; i < end; ++i)
      part.graph.append(whole, whole.nodes[i], whole.nodes[i].numbers - numbers, enter);
    part.graph.numbers.assign(
        whole.numbers.begin() + numbers, whole.numbers.begin() + static_cast<std::ptrdiff_t>(numbers_end));
    stages_.push_back(
        {std::make_unique<CapturedGraph>(device_, index_, std::move(part), std::vector<Draw>{}), std::move(slots),
         numbers});
  }
}

const std::shared_ptr<Recipe>& CapturedGraph::recipe() {
  if (C10_UNLIKELY(program_->collectives)) return recipe_;  // the stages have theirs
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
  auto lock = device::lock_patiently(mutex_);
  if (program_->collectives) return;
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
  auto lock = device::lock_patiently(mutex_);
  return weights_intact() ? fixed_.size() : 0;
}

bool CapturedGraph::has_recipe() const {
  auto lock = device::lock_patiently(mutex_);
  return recipe_ != nullptr || (!stages_.empty() && std::all_of(stages_.begin(), stages_.end(), [](const auto& stage) {
           return stage.graph->program().collectives || stage.graph->has_recipe();
         }));
}

void CapturedGraph::compile(bool alone) {
  flush(device_);
  auto lock = device::lock_patiently(mutex_);
  alone_ = alone;
  if (!program_->graph.empty()) recipe();
  for (const auto& stage : stages_) stage.graph->compile();
}

std::vector<uint64_t> CapturedGraph::drawn_numbers() const {
  std::vector<uint64_t> numbers;
  if (draws_.empty()) return numbers;
  numbers = program_->graph.numbers;
  for (const auto& draw : draws_) {
    const uint64_t seed = draw_seed(draw.generator, index_);
    for (uint32_t number : draw.numbers) numbers[number] = seed;
  }
  return numbers;
}

void CapturedGraph::replay(const std::vector<Substitute>& substitutes) {
  count(Counter::GraphReplays);
  flush(device_);
  auto lock = device::lock_patiently(mutex_);
  auto numbers = drawn_numbers();
  if (program_->graph.empty()) return;
  if (C10_LIKELY(stages_.empty())) {
    launch(std::move(lock), std::move(numbers), substitutes);
    return;
  }
  for (const auto& stage : stages_) {
    std::vector<Substitute> own;
    for (uint32_t slot = 0; slot < stage.slots.size(); ++slot)
      for (const auto& s : substitutes)
        if (s.slot == stage.slots[slot]) own.push_back({slot, s.data});
    std::vector<uint64_t> drawn;
    if (!numbers.empty()) {
      const auto begin = numbers.begin() + stage.numbers;
      drawn.assign(begin, begin + static_cast<std::ptrdiff_t>(stage.graph->program().graph.numbers.size()));
    }
    stage.graph->launch(device::lock_patiently(stage.graph->mutex_), std::move(drawn), own);
  }
}

void CapturedGraph::launch(
    std::unique_lock<std::mutex> lock, std::vector<uint64_t> numbers, const std::vector<Substitute>& substitutes) {
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
  command->numbers = std::move(numbers);
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
  auto lock = device::lock_patiently(mutex_);
  if (C10_UNLIKELY(!stages_.empty())) {
    if (scratch) return;  // a later stage may read it
    for (const auto& stage : stages_) {
      std::vector<uint32_t> own;
      for (uint32_t slot = 0; slot < stage.slots.size(); ++slot)
        if (std::find(slots.begin(), slots.end(), stage.slots[slot]) != slots.end()) own.push_back(slot);
      if (!own.empty()) stage.graph->release(own, false);
    }
  }
  auto changed = std::make_shared<CapturedProgram>(*program_);
  bool other_program = false;
  for (uint32_t slot : slots) {
    changed->held[slot].reset();
    changed->slots[slot].data = nullptr;
    if (scratch && changed->graph.slots[slot].fresh) {
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

std::vector<uint32_t> CapturedGraph::unused_results(const std::vector<uint32_t>& kept) const {
  auto lock = device::lock_patiently(mutex_);
  std::vector<uint32_t> out;
  for (uint32_t slot = 0; slot < program_->slots.size(); ++slot) {
    const bool result = program_->graph.slots[slot].fresh && program_->slots[slot].assigned;
    if (result && program_->held[slot].use_count() == 1 && std::find(kept.begin(), kept.end(), slot) == kept.end())
      out.push_back(slot);
  }
  return out;
}

}  // namespace openhpu
