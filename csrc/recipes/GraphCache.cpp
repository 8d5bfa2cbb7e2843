#include "recipes/GraphCache.h"

#include <ATen/Context.h>

#include "observe/events.h"
#include "observe/site.h"
#include "run/Operator.h"

namespace openhpu {
namespace {

// How often a family gets a recipe for all sizes. Afterwards a size that none of them covers gets a recipe of its own.
constexpr size_t kMostAttempts = 3;

// The most compilations of one graph. Each follows a change of another of its numbers.
constexpr size_t kMostRequests = 8;

// A step of a new size must not share the processor and Python's lock with the compiler. Later steps may.
constexpr std::chrono::milliseconds kRestBeforeRecompiling{50};

// Under deterministic algorithms recipes take over at a fixed repetition, counted from the request: repetitions of the
// graph, or of all members of its family together. The host does not wait before. Large graphs are slow node by node,
// and a program that repeats one usually repeats it often. So they take over earlier.
constexpr size_t kLargeGraph = 256;
constexpr uint64_t sights_until_use(size_t operators) { return operators < kLargeGraph ? 30 : 14; }

// In a group of ranks: after this many repetitions of a graph without an agreement the ranks exchange no data by which
// they could agree.
constexpr uint64_t kSightsWithoutAgreement = 512;

// The numbers of a graph that are variable from the start: the seeds, which change in each run.
std::vector<bool> seeds_of(const Graph& graph) {
  std::vector<bool> out(graph.numbers.size(), false);
  for (const auto& node : graph.nodes) {
    const auto& call = *node.entry->call;
    if (call.kernel->traits().seeded) out[node.numbers + call.args[1].first] = true;
  }
  return out;
}

using Clock = GraphCache::Clock;

Clock::time_point later(Clock::time_point from, double seconds) {
  return from + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// The operator, dependent on values, that gave the size: that of the operand, or else the last one before the graph.
void add_origin(EventParams& params, const Recompilation& r, const GraphCache::Sight& sight) {
  if (r.cause != "size" || r.dimension < 0) return;
  const auto add = [&](const char* how, uint32_t number) {
    const auto origin = size_origin(number);
    if (!origin || std::none_of(origin->sizes.begin(), origin->sizes.end(), [&](int64_t size) {
          return std::to_string(size) == r.after;
        }))
      return false;
    const auto [file, line] = resolve_site(origin->site);
    params.insert(
        params.end(), {{"origin", std::string(how)},
                       {"origin_op", origin->op},
                       {"origin_file", file},
                       {"origin_line", static_cast<int64_t>(line)}});
    return true;
  };
  for (const auto& [slot, number] : sight.sized)
    if (slot == r.slot && add("from", number)) return;
  add("after", sight.sized_before);
}

}  // namespace

GraphCache& GraphCache::instance() {
  static auto* cache = new GraphCache();  // workers may hold recipes after static destructors have run
  return *cache;
}

void GraphCache::configure(CompilePolicy policy, const Limits& limits) {
  std::lock_guard lock(mutex_);
  policy_ = policy;
  limits_ = limits;
}

std::shared_ptr<GraphCache::Entry> GraphCache::find(uint64_t hash, const std::vector<uint64_t>& words) {
  const auto [first, last] = entries_.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (it->second->words == words) return it->second;
  return nullptr;
}

void GraphCache::drop_oldest() {
  const auto oldest = recency_.back();
  recency_.pop_back();
  const auto [first, last] = entries_.equal_range(oldest->hash);
  entries_.erase(std::find_if(first, last, [&](const auto& e) { return e.second == oldest; }));
}

void GraphCache::make_room(size_t libraries) {
  std::vector<std::shared_ptr<RecipeLibrary>> dropped;  // unloaded without the lock
  size_t unloaded = 0;
  {
    std::lock_guard lock(mutex_);
    // A dropped library may be in use until the device has run it. So only as many graphs are dropped as necessary.
    while (RecipeLibrary::loaded() + libraries > limits_.libraries + unloaded && !recency_.empty()) {
      const auto compilation = recency_.back()->compilation;
      drop_oldest();
      auto& result = compilation->result;
      if (!result || std::find(dropped.begin(), dropped.end(), result) != dropped.end()) continue;
      dropped.push_back(result);
      unloaded = RecipeLibrary::libraries_of(dropped);
    }
    if (!dropped.empty()) std::erase_if(families_, [](const auto& f) { return f.second.expired(); });
  }
  const size_t most = 2 * limits_.libraries;
  dropped.clear();
  TORCH_CHECK(
      libraries == 0 || RecipeLibrary::loaded() + libraries <= most, RecipeLibrary::loaded(),
      " recipes are loaded, and the system lets a process map no "
      "more (vm.max_map_count); they belong to captured graphs: drop some of these");
}

std::shared_ptr<GraphCache::Compilation> GraphCache::new_compilation(const Graph& graph) {
  auto made = std::make_shared<Compilation>();
  made->id = next_id_++;
  made->numbers = graph.numbers;
  made->variable = seeds_of(graph);
  made->operators = graph.nodes.size();
  made->site = graph.nodes.empty() ? 0 : graph.nodes.front().site;
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
  if (entries_.size() <= limits_.graphs) return entry;
  while (entries_.size() > limits_.graphs) drop_oldest();
  std::erase_if(families_, [](const auto& f) { return f.second.expired(); });
  return entry;
}

// Finds or makes the family of a graph at its first repetition. From its second member on, sizes become symbols.
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
    if (!family.sizes) return false;
    if (family.symbolic->state == State::Failed && (family.symbolic->settled || !by_program())) return false;
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

void GraphCache::request(const Entry& entry, const Graph& graph, Sight& sight) {
  const auto& c = entry.compilation;
  if (++c->requests > kMostRequests) {
    // The compiler can't take a number as an argument that changes all the time.
    c->state = State::Failed;
    c->settled = true;
    return;
  }
  const uint64_t program = shape_free_hash(graph);
  const auto latest = latest_.Get(program);
  std::optional<Recompilation> recompilation;
  if (c->compiled)
    recompilation = compare_graphs(*c->compiled, graph, /*numbers_only=*/true);
  else if (latest)
    recompilation = compare_graphs(*latest, graph, /*numbers_only=*/false);
  Clock::time_point not_before;
  if (recompilation) not_before = Clock::now() + kRestBeforeRecompiling;
  auto compared = std::make_shared<Graph>();
  compared->nodes = graph.nodes;
  compared->numbers = graph.numbers;
  send(c, {c->id, graph, c->variable, c->formulas, entry.symbols, {}, not_before});
  c->settled = false;
  c->compiled = compared;
  latest_.Erase(program);
  latest_.Add(program, std::move(compared));
  c->requested_at = c->sights;
  if (!recompilation) return;
  sight.recompiled = true;
  if (sight.same_cause) return;
  count(Counter::Recompilations);
  ++recompiled_;
  recompilations_.push_back(std::move(*recompilation));
  if (recompilations_.size() > kMostRecompilations) recompilations_.pop_front();
}

// The compilation counts as open only when its request exists, which will be answered.
void GraphCache::send(const std::shared_ptr<Compilation>& c, CompileRequest request) {
  requests_.push_back(std::move(request));
  open_.emplace(c->id, c);
  if (open_.size() == 1) leaves_core_from_ = later(Clock::now(), limits_.compiler_idles_s);
  c->asked = Clock::now();
  c->state = State::Compiling;
  c->request = ++requested_;
  untaken_ = true;
  requests_changed_.notify_one();
}

bool GraphCache::by_program() const {
  return policy_ == CompilePolicy::Background &&
         (groups_of_ranks_ > 0 || at::globalContext().deterministicAlgorithms());
}

void GraphCache::add_group_of_ranks(int change) {
  std::lock_guard lock(mutex_);
  groups_of_ranks_ += change;
}

uint64_t GraphCache::answered() const {
  std::lock_guard lock(mutex_);
  uint64_t out = requested_;
  for (const auto& [id, c] : open_) out = std::min(out, c->request - 1);
  return out;
}

void GraphCache::agree(uint64_t answered) {
  std::lock_guard lock(mutex_);
  agreed_ = std::max(agreed_, answered);
  ++agreements_;
}

bool GraphCache::settle(Lock& lock, Compilation& c) {
  if (c.settled) return true;
  bool wait = policy_ == CompilePolicy::Sync;
  if (policy_ == CompilePolicy::Background && at::globalContext().deterministicAlgorithms()) {
    if (c.sights - c.requested_at < sights_until_use(c.operators)) return false;
    wait = true;
  } else if (by_program()) {
    if (c.agreements != agreements_) {
      c.agreements = agreements_;
      c.agreed_at = c.sights;
    }
    const uint64_t since = std::max(c.agreed_at, c.requested_at);
    if (c.request > agreed_ && c.sights - since < kSightsWithoutAgreement) return false;
  }
  if (c.state == State::Compiling && wait) wait_for(lock, c);
  return c.settled = c.state == State::Ready || c.state == State::Failed;
}

template <class Done>
device::Waited GraphCache::wait_until(
    Lock& lock, const device::BlockingWait& waiting, device::OnInterrupt what, CompilerWait wait, double seconds,
    Done&& done) {
  const auto ended = [&] { return closed_ || done(); };
  if (ended()) return device::Waited::Done;
  wait.since = Clock::now();
  wait.wait = next_wait_++;
  const auto self = waits_.insert(waits_.end(), std::move(wait));
  const auto leave = c10::make_scope_exit([&] {  // a handler may throw
    if (!lock.owns_lock()) lock.lock();
    if (self->told > 0 || self->given_up) {
      self->over = true;
      self->seconds = std::chrono::duration<double>(Clock::now() - self->since).count();
      ended_.push_back(*self);
      waits_changed_.notify_all();
    }
    waits_.erase(self);
  });
  requests_changed_.notify_all();
  waits_changed_.notify_all();
  const auto deadline = seconds < 0 ? Clock::time_point::max() : later(self->since, seconds);
  const auto waited = waiting.until(lock, states_changed_, what, ended, deadline);
  self->given_up = waited == device::Waited::TooLong && self->id != 0;
  return waited;
}

void GraphCache::wait_for(Lock& lock, Compilation& compilation) {
  if (compilation.given_up || given_up_) return;
  // The service needs Python's lock, which the caller may hold. It is taken back without this cache's lock.
  lock.unlock();
  {
    device::SpanScope span("hpuWaitForCompiler");
    device::BlockingWait waiting;
    lock.lock();
    // The caller is in the middle of a flush or a replay.
    const auto waited = wait_until(
        lock, waiting, device::OnInterrupt::Return, {compilation.id, compilation.operators, compilation.site},
        limits_.wait_s, [&] { return compilation.state != State::Compiling; });
    if (waited == device::Waited::TooLong) compilation.given_up = given_up_ = true;
    lock.unlock();
  }
  lock.lock();
}

std::vector<uint64_t> GraphCache::awaited() const {
  std::lock_guard lock(mutex_);
  std::vector<uint64_t> out;
  for (const auto& wait : waits_)
    if (wait.id) out.push_back(wait.id);
  return out;
}

bool GraphCache::in_a_hurry() const {
  std::lock_guard lock(mutex_);
  return !waits_.empty() || by_program();
}

bool GraphCache::next_notice(const std::vector<double>& after, CompilerWait& out) {
  const auto due = [&](const CompilerWait& wait) {
    const size_t n = after.size();
    const double seconds = wait.told < n ? after[wait.told] : after.back() * static_cast<double>(wait.told - n + 2);
    return later(wait.since, seconds);
  };
  Lock lock(mutex_);
  for (;;) {
    if (!ended_.empty()) {
      out = ended_.front();
      ended_.erase(ended_.begin());
      return true;
    }
    if (closed_) return false;
    const auto now = Clock::now();
    auto next = Clock::time_point::max();
    for (auto& wait : waits_) {
      if (due(wait) <= now) {
        ++wait.told;
        out = wait;
        out.seconds = std::chrono::duration<double>(now - wait.since).count();
        if (wait.id == 0) {
          out.graphs = open_.size();
          for (const auto& [id, c] : open_)
            if (out.operators < c->operators) out.operators = c->operators, out.site = c->site;
        }
        return true;
      }
      next = std::min(next, due(wait));
    }
    if (waits_.empty())
      waits_changed_.wait(lock);
    else
      waits_changed_.wait_until(lock, next);
  }
}

std::shared_ptr<Recipe> GraphCache::recipe_for(const Graph& graph, uint64_t hash, Sight& sight) {
  if (policy_ == CompilePolicy::Off) return nullptr;
  std::unique_lock lock(mutex_);
  const uint64_t known = recompiled_;
  auto recipe = decide(graph, hash, sight, lock);
  if (C10_LIKELY(recompiled_ == known) || !listening(kRecompilation) || recompilations_.empty()) return recipe;
  const auto r = recompilations_.back();
  lock.unlock();  // a listener takes Python's lock
  EventParams params{{"cause", r.cause},       {"op", r.op},
                     {"argument", r.argument}, {"dimension", static_cast<int64_t>(r.dimension)},
                     {"before", r.before},     {"after", r.after}};
  add_origin(params, r, sight);
  emit(kRecompilation, std::move(params), r.site);
  return recipe;
}

std::shared_ptr<Recipe> GraphCache::decide(const Graph& graph, uint64_t hash, Sight& sight, Lock& lock) {
  auto entry = find(hash, graph.words);
  if (C10_UNLIKELY(!entry))
    entry = enter(graph, hash);
  else if (recency_.begin() != entry->recency)
    recency_.splice(recency_.begin(), recency_, entry->recency);

  const auto& shared = *entry->compilation;
  if (C10_UNLIKELY(
          !entry->symbols.empty() && (shared.settled || !by_program()) &&
          (shared.state == State::Failed ||
           (shared.state == State::Ready && !shared.result->admits(entry->symbols))))) {
    // The family has no recipe for all sizes, or none that covers this size. This size may have its own.
    entry->symbols.clear();
    entry->recipe.reset();
    entry->compilation = new_compilation(graph);
  }
  const auto compilation = entry->compilation;
  auto& c = *compilation;
  const bool for_all_sizes = !entry->symbols.empty();
  ++c.sights;
  bool changed = false;
  if (std::memcmp(c.numbers.data(), graph.numbers.data(), graph.numbers.size() * sizeof(uint64_t)) != 0) {
    for (size_t i = 0; i < graph.numbers.size(); ++i) {
      if (c.variable[i] || c.numbers[i] == graph.numbers[i]) continue;
      c.variable[i] = true;
      changed = true;
    }
  }
  // A family has been seen before.
  const bool recurs = policy_ == CompilePolicy::Sync || sight.recurs || for_all_sizes || c.sights >= 2;
  if (c.state == State::Seen && recurs) request(*entry, graph, sight);
  for (;;) {
    const bool settled = c.state != State::Seen && settle(lock, c);
    if (settled && c.state == State::Ready && changed) {
      changed = false;
      request(*entry, graph, sight);
      continue;
    }
    const bool counts = by_program();
    // A family without a recipe for all sizes: this size gets one of its own.
    sight.again = counts && c.state != State::Seen && (!settled || (c.state == State::Failed && for_all_sizes));
    if (!settled || c.state != State::Ready) return nullptr;
    if (c.result->accepts(graph.numbers)) break;
    // It was requested before this number was seen to change, and it holds the number as a constant.
    request(*entry, graph, sight);
  }
  if (C10_UNLIKELY(!entry->recipe || entry->recipe->compiled() != c.result))
    entry->recipe = std::make_shared<Recipe>(c.result, entry->symbols);
  return entry->recipe;
}

bool GraphCache::leaves_core() const {
  const auto from = leaves_core_from_.load(std::memory_order_relaxed);
  return from != Clock::time_point::max() && Clock::now() >= from && policy_ == CompilePolicy::Background &&
         !by_program();
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

std::shared_ptr<Recipe> GraphCache::recipe_of(const std::shared_ptr<Compilation>& c, bool& failed, bool& again) {
  Lock lock(mutex_);
  ++c->sights;
  const bool settled = settle(lock, *c);
  again = !settled && by_program();
  failed = settled && c->state == State::Failed;
  return settled && !failed ? std::make_shared<Recipe>(c->result, std::vector<int64_t>{}) : nullptr;
}

bool GraphCache::next_request(CompileRequest& out) {
  std::unique_lock lock(mutex_);
  if (requests_.empty()) {
    untaken_ = false;
    states_changed_.notify_all();
  }
  requests_changed_.wait(lock, [&] { return closed_ || !requests_.empty(); });
  if (closed_) return false;
  const auto not_before = requests_.front().not_before;
  requests_changed_.wait_until(lock, not_before, [&] { return closed_ || !waits_.empty(); });
  if (closed_) return false;
  out = std::move(requests_.front());
  requests_.pop_front();
  if (device::Trace::on()) [[unlikely]] {
    if (const auto it = open_.find(out.id); it != open_.end()) it->second->compiling_since = device::trace_clock();
  }
  return true;
}

void GraphCache::answer(uint64_t id, std::shared_ptr<RecipeLibrary> compiled) {
  if (compiled) count(Counter::RecipesCompiled);
  std::lock_guard lock(mutex_);
  given_up_ = false;
  if (auto node = open_.extract(id)) {
    if (open_.empty()) leaves_core_from_ = Clock::time_point::max();
    auto& c = *node.mapped();
    c.state = compiled ? State::Ready : State::Failed;
    c.result = std::move(compiled);
    if (device::Trace::on() && c.compiling_since)
      device::Trace::add(
          {.name = "hpuCompile",
           .detail = c10::str(c.operators, " operators, ", c.result ? "compiled" : "failed"),
           .thread = device::TraceSpan::kCompiler,
           .site = c.site,
           .begin = c.compiling_since,
           .end = device::trace_clock()});
    version_.fetch_add(1, std::memory_order_release);
  }
  states_changed_.notify_all();
}

void GraphCache::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  requests_.clear();
  requests_changed_.notify_all();
  states_changed_.notify_all();
  waits_changed_.notify_all();
}

bool GraphCache::wait_idle(double seconds) {
  device::BlockingWait waiting;
  std::unique_lock lock(mutex_);
  const auto waited = wait_until(lock, waiting, device::OnInterrupt::Throw, {}, seconds, [&] { return open_.empty(); });
  if (waited != device::Waited::Done) return false;
  // The script has said where: what there is takes over now.
  const auto settle_now = [](Compilation& c) { c.settled = c.state == State::Ready || c.state == State::Failed; };
  for (const auto& entry : recency_) settle_now(*entry->compilation);
  for (const auto& [hash, family] : families_)
    if (const auto known = family.lock(); known && known->symbolic) settle_now(*known->symbolic);
  for (const auto& own : private_)
    if (const auto held = own.lock()) settle_now(*held);
  version_.fetch_add(1, std::memory_order_release);
  return true;
}

bool GraphCache::wait_taken(double seconds) {
  device::BlockingWait waiting;
  Lock lock(mutex_);
  const auto waited =
      wait_until(lock, waiting, device::OnInterrupt::Throw, {}, seconds, [&] { return !has_requests(); });
  return waited == device::Waited::Done;
}

std::tuple<size_t, size_t, int64_t> GraphCache::progress() const {
  std::lock_guard lock(mutex_);
  size_t operators = 0;
  const auto now = Clock::now();
  auto first = now;
  for (const auto& [id, c] : open_) {
    operators = std::max(operators, c->operators);
    first = std::min(first, c->asked);
  }
  return {open_.size(), operators, std::chrono::duration_cast<std::chrono::milliseconds>(now - first).count()};
}

std::vector<std::shared_ptr<const RecipeLibrary>> GraphCache::recipes() const {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<const RecipeLibrary>> out;
  auto add = [&](const std::shared_ptr<RecipeLibrary>& result) {
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
  latest_.Clear();
  recompilations_.clear();
}

}  // namespace openhpu
