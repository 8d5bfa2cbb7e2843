#include "graph/GraphCache.h"

#include <ATen/Context.h>

#include <chrono>
#include <cstring>

#include "device/wait_hook.h"
#include "runtime/events.h"

namespace openhpu {
namespace {

// The sighting from which a graph is run as a recipe under deterministic algorithms, waiting if need be.
constexpr uint64_t kDeterministicSight = 3;

}  // namespace

GraphCache& GraphCache::instance() {
  static auto* cache = new GraphCache();  // workers may hold recipes after static destructors have run
  return *cache;
}

void GraphCache::configure(CompilePolicy policy, size_t max_graphs) {
  std::lock_guard lock(mutex_);
  policy_ = policy;
  max_graphs_ = max_graphs;
}

GraphCache::Entry* GraphCache::find(uint64_t hash, const std::vector<uint64_t>& words) {
  const auto [first, last] = ids_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    auto& entry = *entries_.at(it->second);
    if (entry.words == words) return &entry;
  }
  return nullptr;
}

void GraphCache::evict() {
  while (entries_.size() > max_graphs_) {
    const uint64_t id = recency_.back();
    recency_.pop_back();
    const auto it = entries_.find(id);
    const auto [first, last] = ids_.equal_range(it->second->hash);
    for (auto k = first; k != last; ++k) {
      if (k->second != id) continue;
      ids_.erase(k);
      break;
    }
    entries_.erase(it);
  }
}

void GraphCache::request(Entry& entry, const Graph& graph) {
  const uint64_t shape_free = shape_free_hash(graph);
  auto& latest = latest_[shape_free];
  if (entry.compiled)
    recompilations_.push_back(compare_graphs(*entry.compiled, graph, /*numbers_only=*/true));
  else if (latest)
    recompilations_.push_back(compare_graphs(*latest, graph, /*numbers_only=*/false));
  entry.compiled = latest = std::make_shared<const Graph>(graph);
  entry.state = State::Compiling;
  ++compiling_;
  requests_.push_back({entry.id, graph, entry.variable});
  requests_changed_.notify_one();
}

void GraphCache::wait_for(std::unique_lock<std::mutex>& lock, uint64_t id) {
  // The service needs Python's lock, which the caller may hold. It is taken back without this cache's lock.
  lock.unlock();
  {
    device::BlockingWait waiting;
    lock.lock();
    states_changed_.wait(lock, [&] {
      const auto it = entries_.find(id);
      return closed_ || it == entries_.end() || it->second->state != State::Compiling;
    });
    lock.unlock();
  }
  lock.lock();
}

std::shared_ptr<Recipe> GraphCache::recipe_for(const Graph& graph, uint64_t hash) {
  return look_up(graph, hash, nullptr);
}

std::shared_ptr<Recipe> GraphCache::recipe_for_captured(
    const Graph& graph, uint64_t hash, const std::vector<bool>& variable) {
  return look_up(graph, hash, &variable);
}

std::shared_ptr<Recipe> GraphCache::look_up(const Graph& graph, uint64_t hash, const std::vector<bool>* variable) {
  if (policy_ == CompilePolicy::Off) return nullptr;
  std::unique_lock lock(mutex_);
  const size_t known = recompilations_.size();
  auto recipe = decide(graph, hash, variable, lock);
  if (C10_LIKELY(recompilations_.size() <= known) || !listening(kRecompilation)) return recipe;
  const auto r = recompilations_.back();
  lock.unlock();  // a listener takes Python's lock
  emit(kRecompilation, {{"cause", r.cause}, {"op", r.op}, {"argument", r.argument},
                        {"dimension", static_cast<int64_t>(r.dimension)}, {"before", r.before}, {"after", r.after}},
       r.site);
  return recipe;
}

std::shared_ptr<Recipe> GraphCache::decide(
    const Graph& graph, uint64_t hash, const std::vector<bool>* variable, std::unique_lock<std::mutex>& lock) {
  Entry* entry = find(hash, graph.words);
  if (C10_UNLIKELY(!entry)) {
    auto made = std::make_unique<Entry>();
    entry = made.get();
    entry->id = next_id_++;
    entry->hash = hash;
    entry->words = graph.words;
    entry->numbers = graph.numbers;
    entry->variable.assign(graph.numbers.size(), false);
    recency_.push_front(entry->id);
    entry->recency = recency_.begin();
    ids_.emplace(hash, entry->id);
    entries_.emplace(entry->id, std::move(made));
    evict();
  } else if (recency_.begin() != entry->recency) {
    recency_.splice(recency_.begin(), recency_, entry->recency);
  }
  entry->sights += variable ? 2 : 1;
  bool changed = false;
  if (variable)
    for (size_t i = 0; i < variable->size(); ++i) {
      changed |= (*variable)[i] && !entry->variable[i];
      entry->variable[i] = entry->variable[i] || (*variable)[i];
    }
  if (std::memcmp(entry->numbers.data(), graph.numbers.data(), graph.numbers.size() * sizeof(uint64_t)) != 0) {
    for (size_t i = 0; i < graph.numbers.size(); ++i) {
      if (entry->variable[i] || entry->numbers[i] == graph.numbers[i]) continue;
      entry->variable[i] = true;
      changed = true;
    }
  }
  const bool sync = policy_ == CompilePolicy::Sync;
  if (entry->state == State::Seen && (sync || entry->sights >= 2)) request(*entry, graph);
  if (entry->state == State::Ready && changed) request(*entry, graph);
  if (entry->state == State::Compiling &&
      (sync || (at::globalContext().deterministicAlgorithms() && entry->sights >= kDeterministicSight))) {
    const uint64_t id = entry->id;
    wait_for(lock, id);
    const auto it = entries_.find(id);
    if (it == entries_.end()) return nullptr;
    entry = it->second.get();
  }
  if (entry->state != State::Ready) return nullptr;
  // A recipe that was asked for before this number was seen to change holds it as a constant.
  if (!entry->recipe->accepts(graph.numbers)) {
    request(*entry, graph);
    if (!sync) return nullptr;
    const uint64_t id = entry->id;
    wait_for(lock, id);
    const auto it = entries_.find(id);
    if (it == entries_.end() || it->second->state != State::Ready) return nullptr;
    entry = it->second.get();
  }
  return entry->recipe;
}

bool GraphCache::next_request(CompileRequest& out) {
  std::unique_lock lock(mutex_);
  requests_changed_.wait(lock, [&] { return closed_ || !requests_.empty(); });
  if (closed_) return false;
  out = std::move(requests_.front());
  requests_.pop_front();
  return true;
}

void GraphCache::succeed(uint64_t id, std::shared_ptr<Recipe> recipe) {
  std::lock_guard lock(mutex_);
  --compiling_;
  count(Counter::RecipesCompiled);
  if (auto it = entries_.find(id); it != entries_.end()) {
    it->second->state = State::Ready;
    it->second->recipe = std::move(recipe);
    version_.fetch_add(1, std::memory_order_release);
  }
  states_changed_.notify_all();
}

void GraphCache::fail(uint64_t id, std::string) {
  std::lock_guard lock(mutex_);
  --compiling_;
  if (auto it = entries_.find(id); it != entries_.end()) it->second->state = State::Failed;
  states_changed_.notify_all();
}

void GraphCache::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  requests_.clear();
  requests_changed_.notify_all();
  states_changed_.notify_all();
}

bool GraphCache::wait_idle(double seconds) {
  device::BlockingWait waiting;
  std::unique_lock lock(mutex_);
  auto idle = [&] { return closed_ || compiling_ == 0; };
  if (seconds < 0) {
    states_changed_.wait(lock, idle);
    return true;
  }
  return states_changed_.wait_for(lock, std::chrono::duration<double>(seconds), idle);
}

std::vector<std::shared_ptr<Recipe>> GraphCache::recipes() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Recipe>> out;
  for (uint64_t id : recency_)
    if (const auto& recipe = entries_.at(id)->recipe) out.push_back(recipe);
  return out;
}

std::vector<Recompilation> GraphCache::recompilations() const {
  std::lock_guard lock(mutex_);
  return recompilations_;
}

size_t GraphCache::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

void GraphCache::clear() {
  std::lock_guard lock(mutex_);
  entries_.clear();
  ids_.clear();
  recency_.clear();
  latest_.clear();
  recompilations_.clear();
}

}  // namespace openhpu
