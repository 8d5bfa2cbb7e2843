#include "record/Lazy.h"

#include <cstdio>

#include "observe/MemoryHistory.h"
#include "observe/events.h"
#include "observe/site.h"
#include "record/Capture.h"
#include "record/GraphCommand.h"
#include "record/GraphSights.h"
#include "run/Eager.h"

namespace openhpu {

namespace {

std::atomic<size_t> max_graph_size{size_t{1} << 18};

// The step for which this thread should wait before it goes on.
struct Owed {
  const Recorder* recorder = nullptr;
  uint64_t step = 0;
};
thread_local Owed owed;

std::array<std::atomic<Recorder*>, kMaxDevices> recorders{};

// By slot: the line of the operator that made its storage, or was the first to use it (torch.ones is an empty tensor
// first).
std::vector<uint32_t> lines_of_slots(const Graph& graph) {
  std::vector<uint32_t> lines(graph.slots.size());
  for (const auto& node : graph.nodes) {
    const uint64_t* fresh = graph.for_each_operand(node, [&](const auto&, uint64_t place) {
      auto& line = lines[Graph::slot_of(place)];
      if (line == 0) line = node.site;
    });
    for (size_t k = 0; k < node.entry->storages.size(); ++k) lines[fresh[k]] = node.site;
  }
  return lines;
}

std::string name_of(uint64_t hash) {
  char id[17];
  std::snprintf(id, sizeof id, "%016llx", static_cast<unsigned long long>(hash));
  return id;
}

// What becomes of a flushed graph, as events.
struct GraphReport {
  uint64_t hash;
  bool compiled, cut;
  size_t operators;
  uint32_t site, step_site;  // where it begins, and its step
  std::string name;
  std::optional<GraphSights::Sight> sight;

  const char* how() const {
    if (cut) return "cut";
    return compiled ? "recipe" : "node by node";
  }

  void operator()() const {
    if (operators > 0 && listening(kGraphRecorded))
      emit(
          kGraphRecorded,
          {{"recipe_id", name_of(hash)},
           {"recipe", name},
           {"operators", static_cast<int64_t>(operators)},
           {"ran", std::string(how())}},
          site);
    if (!sight) return;
    const auto kind = sight->first ? kCacheMiss : kCacheHit;
    if (listening(kind)) emit(kind, {{"recipe_id", name_of(sight->id)}, {"recipe", name}}, step_site);
  }
};

}  // namespace

void set_max_graph_size(size_t operators) { max_graph_size.store(operators, std::memory_order_relaxed); }

Recorder* Recorder::of_if_any(int pool) { return recorders[pool].load(std::memory_order_acquire); }

void check_capacity(c10::DeviceIndex index, size_t nbytes) {
  constexpr size_t kSmall = size_t{64} << 20;
  if (nbytes < kSmall) return;
  auto& d = device_of(index);
  if (nbytes > d.memory().stats().limit) allocate_block(d, nbytes);  // throws, with what is in use
}

Recorder& Recorder::of(device::Device& d) {
  auto& slot = recorders[d.index()];
  Recorder* r = slot.load(std::memory_order_acquire);
  if (C10_LIKELY(r != nullptr)) return *r;
  auto* fresh = new Recorder(d);  // lives as long as the device: for ever
  if (slot.compare_exchange_strong(r, fresh)) return *fresh;
  delete fresh;
  return *r;
}

uint32_t Recorder::enter(HPUMemory& memory) {
  const auto slot = static_cast<uint32_t>(graph_.slots.size());
  graph_.slots.push_back({memory.nbytes, memory.pending()});
  members_.push_back({&memory, memory.data, false, captured_ ? capture_->slot_of(memory) : 0, nullptr, false, false});
  if (C10_UNLIKELY(memory.sized_by != 0)) sized_.emplace_back(slot, memory.sized_by);
  memory.slot = slot;
  memory.graph.store(number_, std::memory_order_relaxed);
  return slot;
}

c10::Storage Recorder::fresh(c10::DeviceIndex index, size_t nbytes, uint32_t& slot) {
  auto storage = make_pending_storage(index, nbytes);
  if (C10_UNLIKELY(captured_)) capture_->made_here(*memory_of(*storage));
  slot = enter(*memory_of(*storage));
  return c10::Storage(std::move(storage));
}

void Recorder::note_call(const ShapeEntry& entry, uint32_t site) {
  if (C10_UNLIKELY(!std::exchange(step_begun_, true))) step_site_ = site;
  sequence_.add(entry.call->id);
}

void Recorder::note_learned(const ShapeEntry& entry, uint32_t site) {
  Lock lock(*this);
  note_call(entry, site);
  in_parts_ = true;
}

void Recorder::begin_node(const std::shared_ptr<const ShapeEntry>& entry, uint32_t site) {
  if (C10_LIKELY(!captured_)) note_call(*entry, site);
  graph_.nodes.push_back(
      {entry, site, static_cast<uint32_t>(graph_.words.size()), static_cast<uint32_t>(graph_.numbers.size())});
  add_word(entry->call->id);
}

void Recorder::choose_capture() {
  const bool captured = current_capture(device_) == capture_;
  if (captured == captured_) return;
  flush_locked();
  captured_ = captured;
}

void Recorder::note_seed(uint32_t number) {
  if (captured_) seeds_.emplace_back(graph_.nodes.back().numbers + number, Capture::last_draw());
}

bool Recorder::begin_capture(Capture& capture) {
  if (capture_) return false;
  flush_locked();
  capture_ = &capture;
  return true;
}

std::exception_ptr Recorder::end_capture(std::function<void()> restore) {
  std::exception_ptr error;
  try {
    flush_locked();
  } catch (...) {
    error = std::current_exception();
  }
  capture_ = nullptr;
  captured_ = false;
  seeds_.clear();
  if (!restore) return error;
  if (error)
    after_flush_.push_back(std::move(restore));
  else
    restore();
  return error;
}

void Recorder::end_node() {
  if (C10_LIKELY(graph_.nodes.size() < max_graph_size.load(std::memory_order_relaxed))) return;
  try {
    flush_locked();
  } catch (const c10::OutOfMemoryError&) {
    overdue_ = true;
  }
}

bool Recorder::forget(HPUMemory& memory) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (C10_LIKELY(lock.owns_lock())) {
    if (C10_LIKELY(!flushing_)) return note_death(memory);
    std::lock_guard deaths(deaths_mutex_);  // this thread's own flush: others may note theirs
    return note_death(memory);
  }
  // The holder may be waiting for Python's lock, or for a recipe that this thread is to deliver: Python's collector
  // frees tensors in any thread.
  device::BlockingWait waiting;
  while (!lock.try_lock_for(std::chrono::milliseconds(1))) {
    std::lock_guard deaths(deaths_mutex_);
    if (deaths_open_) return note_death(memory);
  }
  return note_death(memory);
}

bool Recorder::note_death(HPUMemory& memory) {
  if (capture_) capture_->forget(memory);
  if (memory.graph.load(std::memory_order_relaxed) != number_) return false;
  auto& member = members_[memory.slot];
  member.memory = nullptr;
  member.data = memory.data;
  if (C10_UNLIKELY(memory.in_order.load(std::memory_order_relaxed))) share_memory(memory);
  member.taken_over = memory.data != nullptr && !memory.shared;
  member.shared = std::move(memory.shared);
  return true;
}

// Another thread may be destroying the storage and waiting in `forget`. Then the storage is gone. Otherwise it cannot
// go while it is in `kept_`.
bool Recorder::keep_alive(Member& member) {
  if (!member.memory) return false;
  if (auto storage = member.memory->owner.lock(); C10_LIKELY(storage.defined())) {
    kept_.emplace_back(std::move(storage));
    return true;
  }
  member.memory = nullptr;
  return false;
}

// If its results find no memory, the piece stays in the recording and is handed over later.
void Recorder::start_early() {
  if (capture_ || t_learning || flushing_ || device_.cores() == 1) return;
  try {
    flush_piece_locked();
    count(Counter::GraphsStartedEarly);
  } catch (const c10::OutOfMemoryError&) {
  }
}

void Recorder::flush_piece_locked() {
  const auto whole = c10::make_scope_exit([this, before = std::exchange(piece_, true)] { piece_ = before; });
  flush_locked();
}

void Recorder::hand_over_piece() {
  Lock lock(*this);
  if (!graph_.empty() && !flushing_) flush_piece_locked();
}

void Recorder::note_wait() {
  Lock lock(*this);
  early_.waited();
  if (graph_.empty() && !flushing_) end_sight();
}

void Recorder::require(HPUMemory& memory) {
  {
    Lock lock(*this);
    if (memory.graph.load(std::memory_order_relaxed) == number_) flush_locked();
    assign_memory(memory);
  }
  settle();
}

bool Recorder::make_room() {
  Lock lock(*this);
  if (flushing_ || graph_.empty()) return false;
  flush_locked();
  return true;
}

void Recorder::flush() {
  {
    Lock lock(*this);
    flush_locked();
  }
  settle();
}

void Recorder::flush_locked() {
  if (flushing_) return;
  if (graph_.empty()) return end_sight();
  const auto flushed = c10::make_scope_exit([this, before = std::exchange(flushing_, true)] { flushing_ = before; });
  hand_over();
}

// For a step whose operators all ran on their own, or whose last one did.
void Recorder::end_sight() {
  if (!step_begun_ || t_learning || captured_ || piece_) return;
  const auto sight = GraphSights::instance().note(sequence_.value(), /*in_parts=*/true);
  const GraphReport report{0, false, true, 0, 0, step_site_, {}, sight};
  sequence_.reset();
  step_begun_ = in_parts_ = false;
  report();
}

// Memory for the results, the last words of the key, and (in `kept_`) the storages that are alive. Returns the bytes of
// the storages that the graph makes, also of those that are gone.
size_t Recorder::allocate(std::vector<SlotMemory>& slots) {
  slots.reserve(graph_.slots.size());
  kept_.reserve(graph_.slots.size());
  const bool lines_wanted = listening(kAllocationPeak) || recording_memory();
  const auto made_at = C10_UNLIKELY(lines_wanted) ? lines_of_slots(graph_) : std::vector<uint32_t>();
  size_t written = 0;
  for (size_t i = 0; i < graph_.slots.size(); ++i) {
    const auto [nbytes, fresh] = graph_.slots[i];
    const bool alive = fresh && keep_alive(members_[i]);
    if (fresh) written += nbytes;
    add_word(uint64_t{nbytes} << 2 | uint64_t{fresh} << 1 | uint64_t{alive});
    void* data = fresh ? nullptr : members_[i].data;
    if (alive) data = allocate_block(device_, nbytes, made_at.empty() ? 0 : made_at[i]);
    slots.push_back({data, nbytes, alive || !fresh, fresh});
  }
  return written;
}

// A result of an operator may have the size of an operand.
void Recorder::pass_on_sizes() {
  std::vector<uint32_t> sized_by(graph_.slots.size());
  for (const auto& [slot, number] : sized_) sized_by[slot] = number;
  for (const auto& node : graph_.nodes) {
    uint32_t number = 0;
    const uint64_t* fresh = graph_.for_each_operand(node, [&](const auto&, uint64_t place) {
      if (number == 0) number = sized_by[Graph::slot_of(place)];
    });
    if (number == 0) continue;
    for (size_t k = 0; k < node.entry->storages.size(); ++k) {
      sized_by[fresh[k]] = number;
      if (auto* memory = members_[fresh[k]].memory) memory->sized_by = number;
    }
  }
}

void Recorder::hand_over() {
  device::SpanScope span("hpuFlush");
  // All that may throw, before anything is changed; what is taken is given back unless the graph is submitted.
  const auto drop_kept = c10::make_scope_exit([&] { kept_.clear(); });
  auto command = GraphCommand::acquire(device_);
  auto undo = c10::make_scope_exit([&, words = graph_.words.size(), hash = hash_] {
    for (const auto& slot : command->slots)
      if (slot.fresh) free_block(device_, slot.data);
    graph_.words.resize(words);
    hash_ = hash;
  });
  const size_t written = allocate(command->slots);
  const size_t operators = graph_.nodes.size();
  // Of a capture it is the whole that may become a recipe.
  const bool cut = t_learning || captured_;
  GraphCache::Sight sight;
  sight.same_cause = step_recompiled_;
  sight.sized_before = sized_before_;
  if (C10_UNLIKELY(!sized_.empty())) {
    sight.sized = sized_;
    pass_on_sizes();
  }
  auto recipe = cut ? nullptr : recipe_for_graph(sight);
  step_recompiled_ = piece_ && (step_recompiled_ || sight.recompiled);
  GraphReport report{hash_.value(), recipe != nullptr, cut, operators, graph_.nodes.front().site, step_site_, {}, {}};
  const bool reported = listening(kGraphRecorded) || listening(kCacheHit) || listening(kCacheMiss);
  if (C10_UNLIKELY(reported) && recipe) report.name = recipe->compiled()->manifest().name;
  if (C10_UNLIKELY(static_cast<bool>(span)))
    span.set_detail(
        c10::str(
            operators, " operators, ",
            recipe ? "recipe " + recipe->compiled()->manifest().name : std::string(cut ? "cut" : "node by node")));
  if (C10_UNLIKELY(captured_)) {
    capture_->take(graph_, [this](uint32_t slot) { return members_[slot].capture_slot; }, seeds_);
    seeds_.clear();
  }

  undo.release();  // from here on the storages own their memory
  for (size_t i = 0; i < members_.size(); ++i)
    if (command->slots[i].fresh && members_[i].memory) {
      assign_memory(*members_[i].memory, command->slots[i].data);
      members_[i].made = true;
    }
  count(Counter::GraphsFlushed);
  if (cut && !captured_) count(Counter::GraphsCut);
  command->site = report.site;
  if (recipe) {
    count(Counter::OpsInRecipes, operators);
    count(Counter::RecipeHits);
    command->numbers.swap(graph_.numbers);
    if (!recipe->compiled()->manifest().calls.empty())
      std::swap(command->graph, graph_);  // it may call nodes
    else if (C10_UNLIKELY(has_user_kernels_))
      command->graph.nodes.swap(graph_.nodes);
    command->recipe = std::move(recipe);
  } else {
    count(Counter::OpsNodeByNode, operators);
    if (!cut) count(Counter::RecipeMisses);
    std::swap(command->graph, graph_);
  }
  if (cut || piece_) {
    in_parts_ = in_parts_ || !captured_;
  } else {
    auto& sights = GraphSights::instance();
    report.sight = in_parts_ ? sights.note(sequence_.value(), true) : sights.whole(hash_.value(), sequence_.value());
    sequence_.reset();
    step_begun_ = in_parts_ = false;
  }
  if (!cut) early_.handed_over(operators, written, piece_);
  // From here on the memory of this graph's storages is like any other: later commands are queued behind it.
  ++number_;
  overdue_ = false;
  has_user_kernels_ = false;
  hash_.reset();
  graph_.clear();
  const uint64_t sequence = openhpu::submit(device_, command.release());  // throws at the end of the process only
  for (const auto& member : members_) {
    if (member.taken_over) free_block(device_, member.data);
    if (member.has_new_contents() && !captured_) member.memory->end_write(sequence);
  }
  members_.clear();
  sized_.clear();
  if (!piece_ && !cut) sized_before_ = 0;
  if (!piece_) note_step(sequence, operators);
  for (const auto& act : std::exchange(after_flush_, {})) act();
  if (C10_UNLIKELY(reported)) report();  // last, since a listener may use the device
}

std::shared_ptr<Recipe> Recorder::recipe_for_graph(GraphCache::Sight& sight) {
  const auto open_deaths = [this](bool open) {
    std::lock_guard deaths(deaths_mutex_);
    deaths_open_ = open;
  };
  open_deaths(true);
  const auto close = c10::make_scope_exit([&] { open_deaths(false); });
  device::SpanScope span("hpuRecipeLookup");
  auto recipe = GraphCache::instance().recipe_for(graph_, hash_.value(), sight);
  if (C10_UNLIKELY(static_cast<bool>(span))) span.set_detail(recipe ? "hit" : "miss");
  return recipe;
}

void Recorder::note_step(uint64_t sequence, size_t operators) {
  in_flight_.push_back({sequence, operators});
  operators_in_flight_ += operators;
  const auto pop = [this] {
    const InFlight oldest = in_flight_.front();
    operators_in_flight_ -= oldest.operators;
    in_flight_.pop_front();
    return oldest.sequence;
  };
  if (operators_in_flight_ <= kOperatorsInFlight) return;
  const uint64_t done = device_.queue().completed();
  while (!in_flight_.empty() && in_flight_.front().sequence <= done) pop();
  if (operators_in_flight_ <= kOperatorsInFlight) return;
  uint64_t step = 0;
  // An eighth less: the host then runs for a while, with warm caches.
  while (operators_in_flight_ > kOperatorsInFlight / 8 * 7 && in_flight_.size() > kGraphsInFlight) step = pop();
  if (step == 0 || device_.queue().on_worker()) return;
  if (std::exchange(owed, {this, step}).recorder != this) owing_.fetch_add(1, std::memory_order_relaxed);
}

void Recorder::wait_for_steps() {
  if (owed.recorder != this) return;
  const auto step = std::exchange(owed, {}).step;
  owing_.fetch_sub(1, std::memory_order_relaxed);
  const bool told = listening(kWait) && device_.queue().completed() < step;
  const uint64_t since = C10_UNLIKELY(told) ? now_ns() : 0;
  // A flush may be in the middle of something: a signal is handled when the script goes on.
  device_.queue().wait(step, device::OnInterrupt::Return);
  if (C10_UNLIKELY(told)) emit_wait("queue", "graph", since, current_site());
}

}  // namespace openhpu
