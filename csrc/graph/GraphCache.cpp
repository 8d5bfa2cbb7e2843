#include "graph/GraphCache.h"

#include <ATen/Context.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "device/wait_hook.h"
#include "ops/OpKernel.h"
#include "runtime/events.h"

namespace openhpu {
namespace {

// A family's recipes for all sizes: after so many a size that they don't cover gets a recipe of its own.
constexpr size_t kMostAttempts = 3;

// Compilations of one graph, as more and more of its numbers are seen to change.
constexpr size_t kMostRequests = 8;

// A step of a new size shall not share the processor, nor Python's lock, with the compiler; later ones may.
constexpr std::chrono::milliseconds kRestBeforeRecompiling{50};

// Which of a graph's numbers are variable before any was seen to change: the seeds, which never stay.
std::vector<bool> seeds_of(const Graph& graph) {
  std::vector<bool> out(graph.numbers.size(), false);
  for (const auto& node : graph.nodes) {
    const auto& call = *node.entry->call;
    if (call.kernel->traits().seeded) out[node.numbers + call.args[1].first] = true;
  }
  return out;
}

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

std::shared_ptr<GraphCache::Entry> GraphCache::find(uint64_t hash, const std::vector<uint64_t>& words) {
  const auto [first, last] = entries_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (it->second->words == words) return it->second;
  return nullptr;
}

void GraphCache::evict() {
  if (entries_.size() <= max_graphs_) return;
  while (entries_.size() > max_graphs_) {
    const auto oldest = recency_.back();
    recency_.pop_back();
    const auto [first, last] = entries_.equal_range(oldest->hash);
    entries_.erase(std::find_if(first, last, [&](const auto& e) { return e.second == oldest; }));
  }
  std::erase_if(families_, [](const auto& f) { return f.second.expired(); });
}

std::shared_ptr<GraphCache::Compilation> GraphCache::new_compilation(const Graph& graph) {
  auto made = std::make_shared<Compilation>();
  made->id = next_id_++;
  made->numbers = graph.numbers;
  made->variable = seeds_of(graph);
  return made;
}

std::shared_ptr<GraphCache::Entry> GraphCache::enter(const Graph& graph, uint64_t hash) {
  auto entry = std::make_shared<Entry>();
  entry->hash = hash;
  entry->words = graph.words;
  join_family(*entry, graph);
  if (!entry->compilation) entry->compilation = new_compilation(graph);
  recency_.push_front(entry);
  entry->recency = recency_.begin();
  entries_.emplace(hash, entry);
  evict();
  return entry;
}

// Finds or founds the family of a graph at its first sight. From its second member on, sizes become symbols.
void GraphCache::join_family(Entry& entry, const Graph& graph) {
  Skeleton skeleton(graph);
  const uint64_t hash = skeleton.hash();
  const auto [first, last] = families_.equal_range(hash);
  for (auto it = first; it != last && !entry.family; ++it) {
    auto known = it->second.lock();
    if (known && known->structure == skeleton.structure) entry.family = std::move(known);
  }
  if (!entry.family) {
    entry.family = std::make_shared<Family>();
    entry.family->structure = std::move(skeleton.structure);
    families_.emplace(hash, entry.family);
  }
  auto& family = *entry.family;
  auto serve = [&] {
    if (!family.sizes || family.symbolic->state == State::Failed) return false;
    entry.symbols = family.sizes->solve(skeleton.integers);
    if (entry.symbols.empty()) return false;
    entry.compilation = family.symbolic;
    return true;
  };
  if (serve()) return;
  if (family.attempts == kMostAttempts) return;
  family.recordings.push_back(skeleton.integers);
  if (family.recordings.size() < 2) return;
  if (auto sizes = SymbolicSizes::find(family.recordings, skeleton.input_sizes)) {
    family.sizes = std::move(sizes);
    family.symbolic = new_compilation(graph);
    family.symbolic->formulas = family.sizes->formulas();
    serve();
  } else {
    family.recordings.pop_back();  // others may fit without it
  }
  ++family.attempts;
}

void GraphCache::request(const Entry& entry, const Graph& graph) {
  const auto& c = entry.compilation;
  if (++c->requests > kMostRequests) {
    // The compiler can't take a number as an argument that changes all the time.
    c->state = State::Failed;
    return;
  }
  auto& latest = latest_like(graph);
  std::optional<Recompilation> recompilation;
  if (c->compiled)
    recompilation = compare_graphs(*c->compiled, graph, /*numbers_only=*/true);
  else if (latest)
    recompilation = compare_graphs(*latest, graph, /*numbers_only=*/false);
  std::chrono::steady_clock::time_point not_before;
  if (recompilation) not_before = std::chrono::steady_clock::now() + kRestBeforeRecompiling;
  auto compared = std::make_shared<Graph>();
  compared->nodes = graph.nodes;
  compared->numbers = graph.numbers;
  send(c, {c->id, graph, c->variable, c->formulas, entry.symbols, {}, not_before});
  c->compiled = latest = std::move(compared);
  c->requested_at = c->sights;
  if (!recompilation) return;
  count(Counter::Recompilations);
  ++recompiled_;
  recompilations_.push_back(std::move(*recompilation));
  if (recompilations_.size() > kMostRecompilations) recompilations_.pop_front();
}

// The compilation counts as open only when the request is there that will be answered.
void GraphCache::send(const std::shared_ptr<Compilation>& c, CompileRequest request) {
  requests_.push_back(std::move(request));
  open_.emplace(c->id, c);
  c->state = State::Compiling;
  requests_changed_.notify_one();
}

std::shared_ptr<const Graph>& GraphCache::latest_like(const Graph& graph) {
  auto& latest = latest_[shape_free_hash(graph)];
  latest.used = ++latest_used_;
  if (latest_.size() > kMostLatest)  // only the cause of a recompilation is lost
    latest_.erase(std::min_element(
        latest_.begin(), latest_.end(), [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  return latest.graph;
}

template <class Done>
bool GraphCache::wait_until(Lock& lock, double seconds, Done&& done) {
  const auto ended = [&] { return closed_ || done(); };
  ++waiting_;
  requests_changed_.notify_all();
  bool reached = true;
  if (seconds < 0)
    states_changed_.wait(lock, ended);
  else
    reached = states_changed_.wait_for(lock, std::chrono::duration<double>(seconds), ended);
  --waiting_;
  return reached;
}

void GraphCache::wait_for(Lock& lock, const Compilation& compilation) {
  // The service needs Python's lock, which the caller may hold. It is taken back without this cache's lock.
  lock.unlock();
  {
    device::BlockingWait waiting;
    lock.lock();
    wait_until(lock, -1, [&] { return compilation.state != State::Compiling; });
    lock.unlock();
  }
  lock.lock();
}

std::shared_ptr<Recipe> GraphCache::recipe_for(const Graph& graph, uint64_t hash, bool& waited, bool recurs) {
  if (policy_ == CompilePolicy::Off) return nullptr;
  std::unique_lock lock(mutex_);
  const uint64_t known = recompiled_;
  auto recipe = decide(graph, hash, waited, recurs, lock);
  if (C10_LIKELY(recompiled_ == known) || !listening(kRecompilation) || recompilations_.empty()) return recipe;
  const auto r = recompilations_.back();
  lock.unlock();  // a listener takes Python's lock
  emit(kRecompilation, {{"cause", r.cause}, {"op", r.op}, {"argument", r.argument},
                        {"dimension", static_cast<int64_t>(r.dimension)}, {"before", r.before}, {"after", r.after}},
       r.site);
  return recipe;
}

std::shared_ptr<Recipe> GraphCache::decide(
    const Graph& graph, uint64_t hash, bool& waited, bool recurs, Lock& lock) {
  auto entry = find(hash, graph.words);
  if (C10_UNLIKELY(!entry))
    entry = enter(graph, hash);
  else if (recency_.begin() != entry->recency)
    recency_.splice(recency_.begin(), recency_, entry->recency);

  const auto& shared = *entry->compilation;
  if (C10_UNLIKELY(
          !entry->symbols.empty() &&
          (shared.state == State::Failed || (shared.state == State::Ready && !shared.result->admits(entry->symbols))))) {
    // There is no recipe for all sizes, or not for this one, which may have its own.
    entry->symbols.clear();
    entry->recipe.reset();
    entry->compilation = new_compilation(graph);
  }
  const auto compilation = entry->compilation;
  auto& c = *compilation;
  const bool for_all_sizes = !entry->symbols.empty();
  c.sights += recurs ? 2 : 1;
  bool changed = false;
  if (std::memcmp(c.numbers.data(), graph.numbers.data(), graph.numbers.size() * sizeof(uint64_t)) != 0) {
    for (size_t i = 0; i < graph.numbers.size(); ++i) {
      if (c.variable[i] || c.numbers[i] == graph.numbers[i]) continue;
      c.variable[i] = true;
      changed = true;
    }
  }
  const bool sync = policy_ == CompilePolicy::Sync;
  // A family has been seen before.
  if (c.state == State::Seen && (sync || for_all_sizes || c.sights >= 2)) request(*entry, graph);
  if (c.state == State::Ready && changed) request(*entry, graph);
  if (c.state == State::Compiling &&
      (sync || (at::globalContext().deterministicAlgorithms() && c.sights > c.requested_at))) {
    waited = true;
    wait_for(lock, c);
  }
  if (c.state != State::Ready) return nullptr;
  // A recipe that was asked for before this number was seen to change holds it as a constant.
  if (!c.result->accepts(graph.numbers)) {
    request(*entry, graph);
    if (!sync) return nullptr;
    waited = true;
    wait_for(lock, c);
    if (c.state != State::Ready || !c.result->accepts(graph.numbers)) return nullptr;
  }
  if (C10_UNLIKELY(!entry->recipe || entry->recipe->compiled() != c.result))
    entry->recipe = std::make_shared<Recipe>(c.result, entry->symbols);
  return entry->recipe;
}

std::shared_ptr<GraphCache::Compilation> GraphCache::compile_with(
    const Graph& graph, std::vector<std::pair<uint32_t, std::string>> constants) {
  std::lock_guard lock(mutex_);
  auto c = new_compilation(graph);
  std::erase_if(private_, [](const auto& p) { return p.expired(); });
  private_.push_back(c);
  send(c, {c->id, graph, c->variable, {}, {}, std::move(constants), {}});
  return c;
}

std::shared_ptr<Recipe> GraphCache::recipe_of(const std::shared_ptr<Compilation>& c, bool& failed) {
  Lock lock(mutex_);
  if (c->state == State::Compiling && (policy_ == CompilePolicy::Sync || at::globalContext().deterministicAlgorithms()))
    wait_for(lock, *c);
  failed = c->state == State::Failed;
  return c->state == State::Ready ? std::make_shared<Recipe>(c->result, std::vector<int64_t>{}) : nullptr;
}

bool GraphCache::next_request(CompileRequest& out) {
  std::unique_lock lock(mutex_);
  requests_changed_.wait(lock, [&] { return closed_ || !requests_.empty(); });
  if (closed_) return false;
  const auto not_before = requests_.front().not_before;
  requests_changed_.wait_until(lock, not_before, [&] { return closed_ || waiting_ > 0; });
  if (closed_) return false;
  out = std::move(requests_.front());
  requests_.pop_front();
  return true;
}

void GraphCache::succeed(uint64_t id, std::shared_ptr<CompiledGraph> compiled) {
  std::lock_guard lock(mutex_);
  count(Counter::RecipesCompiled);
  if (auto node = open_.extract(id)) {
    node.mapped()->state = State::Ready;
    node.mapped()->result = std::move(compiled);
    version_.fetch_add(1, std::memory_order_release);
  }
  states_changed_.notify_all();
}

void GraphCache::fail(uint64_t id, std::string) {
  std::lock_guard lock(mutex_);
  if (auto node = open_.extract(id)) node.mapped()->state = State::Failed;
  version_.fetch_add(1, std::memory_order_release);
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
  return wait_until(lock, seconds, [&] { return open_.empty(); });
}

std::vector<std::shared_ptr<const CompiledGraph>> GraphCache::recipes() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const CompiledGraph>> out;
  auto add = [&](const std::shared_ptr<CompiledGraph>& result) {
    if (result && std::find(out.begin(), out.end(), result) == out.end()) out.push_back(result);
  };
  for (const auto& c : private_)
    if (auto held = c.lock()) add(held->result);
  for (const auto& entry : recency_) add(entry->compilation->result);
  return out;
}

std::vector<Recompilation> GraphCache::recompilations() const {
  std::lock_guard lock(mutex_);
  return {recompilations_.begin(), recompilations_.end()};
}

size_t GraphCache::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

void GraphCache::clear() {
  std::lock_guard lock(mutex_);
  entries_.clear();
  families_.clear();
  recency_.clear();
  latest_.clear();
  recompilations_.clear();
}

}  // namespace openhpu
