#include "modes/Lazy.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <cstdio>

#include "device/wait_hook.h"
#include "graph/GraphCache.h"
#include "graph/GraphCommand.h"
#include "modes/Capture.h"
#include "modes/Eager.h"
#include "runtime/events.h"

namespace openhpu {

std::atomic<bool> g_lazy{false};

namespace {

std::atomic<size_t> max_graph_size{size_t{1} << 18};
thread_local int learning_depth = 0;

std::array<std::atomic<Recorder*>, kMaxDevices> recorders{};

Recorder* recorder_if_any(int pool) { return recorders[pool].load(std::memory_order_acquire); }

// By slot: the line of the operator that made its storage.
std::vector<uint32_t> lines_of_slots(const Graph& graph) {
  std::vector<uint32_t> lines(graph.slots.size());
  for (const auto& node : graph.nodes) {
    const uint64_t* place = graph.operand_places(node);
    for (const auto& operand : node.entry->call->operands) place += !operand.on_host;
    for (size_t k = 0; k < node.entry->storages.size(); ++k) lines[place[k]] = node.site;
  }
  return lines;
}

// What becomes of a flushed graph, as events.
struct GraphReport {
  uint64_t hash;
  bool compiled, cut, waited;
  size_t operators;
  uint32_t site;
  std::string name;

  void operator()() const {
    char id[17];
    std::snprintf(id, sizeof id, "%016llx", static_cast<unsigned long long>(hash));
    if (listening(kGraphRecorded))
      emit(kGraphRecorded, {{"recipe_id", std::string(id)}, {"recipe", name},
                            {"operators", static_cast<int64_t>(operators)},
                            {"ran", std::string(cut ? "cut" : compiled ? "recipe" : "node by node")}}, site);
    const auto kind = compiled && !waited ? kCacheHit : kCacheMiss;
    if (!cut && listening(kind)) emit(kind, {{"recipe_id", std::string(id)}, {"recipe", name}}, site);
  }
};

}  // namespace

LearningScope::LearningScope() { ++learning_depth; }
LearningScope::~LearningScope() { --learning_depth; }

void set_max_graph_size(size_t operators) { max_graph_size.store(operators, std::memory_order_relaxed); }

void set_lazy_mode(bool lazy) {
  // In eager mode, too: captures record.
  set_memory_hooks({
      [](HPUMemory& m) {
        auto* r = recorder_if_any(m.pool);
        return r && r->forget(m);
      },
      [](int pool) {
        auto* r = recorder_if_any(pool);
        return r && r->make_room();
      },
      [](HPUMemory& m) { Recorder::of(device_of(m.device)).require(m); },
  });
  set_flush_hook([](device::Device& d) {
    if (auto* r = recorder_if_any(d.index())) r->flush();
  });
  set_wait_check(&check_not_capturing);
  g_lazy.store(lazy, std::memory_order_relaxed);
}

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

Recorder::Lock::Lock(Recorder& r) : recorder_(r) {
  if (C10_LIKELY(r.mutex_.try_lock())) return;
  // Whoever holds it may be waiting for Python's lock.
  device::BlockingWait waiting;
  r.mutex_.lock();
}

uint32_t Recorder::enter(HPUMemory& memory) {
  const auto slot = static_cast<uint32_t>(graph_.slots.size());
  graph_.slots.push_back({memory.nbytes, memory.pending() ? Graph::SlotKind::Fresh : Graph::SlotKind::Input});
  members_.push_back({&memory, memory.data, false, captured_ ? capture_->slot_of(memory) : 0, nullptr});
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

void Recorder::begin_node(const std::shared_ptr<const ShapeEntry>& entry, uint32_t site) {
  if (C10_UNLIKELY(capture_ != nullptr)) choose_capture();
  graph_.nodes.push_back({entry, site, static_cast<uint32_t>(graph_.words.size()),
                          static_cast<uint32_t>(graph_.numbers.size())});
  add_word(entry->call->id);
}

void Recorder::choose_capture() {
  const bool captured = current_capture(device_) == capture_;
  if (captured == captured_) return;
  flush();
  captured_ = captured;
}

void Recorder::note_seed(uint32_t number) {
  if (captured_) seeds_.emplace_back(graph_.nodes.back().numbers + number, Capture::last_draw());
}

bool Recorder::begin_capture(Capture& capture) {
  if (capture_) return false;
  flush();
  capture_ = &capture;
  return true;
}

void Recorder::end_capture() {
  struct Off {
    Recorder& recorder;
    ~Off() {
      recorder.capture_ = nullptr;
      recorder.captured_ = false;
      recorder.seeds_.clear();
    }
  } off{*this};
  flush();
}

void Recorder::end_node() {
  if (C10_LIKELY(graph_.nodes.size() < max_graph_size.load(std::memory_order_relaxed))) return;
  try {
    flush();
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
  // Whoever holds it may be waiting for Python's lock, or, now or soon, for a recipe that this thread is to deliver:
  // Python's collector frees tensors in any thread.
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
  member.taken_over = memory.data != nullptr && !memory.shared;
  member.shared = std::move(memory.shared);
  return true;
}

// Another thread may be destroying the storage, and waiting in `forget` to say so: then it is gone. Else it cannot go
// while it is in `kept_`.
bool Recorder::keep_alive(Member& member) {
  if (!member.memory) return false;
  if (auto storage = member.memory->owner.lock(); C10_LIKELY(storage.defined())) {
    kept_.emplace_back(std::move(storage));
    return true;
  }
  member.memory = nullptr;
  return false;
}

void Recorder::require(HPUMemory& memory) {
  Lock lock(*this);
  if (memory.graph.load(std::memory_order_relaxed) == number_) flush();
  assign_memory(memory);
}

bool Recorder::make_room() {
  Lock lock(*this);
  if (flushing_ || graph_.empty()) return false;
  flush();
  return true;
}

void Recorder::flush() {
  Lock lock(*this);
  if (graph_.empty() || flushing_) return;
  struct Flushing {
    bool& flag;
    explicit Flushing(bool& f) : flag(f) { flag = true; }
    ~Flushing() { flag = false; }
  } flushing(flushing_);
  hand_over();
}

void Recorder::hand_over() {
  // Memory for what is still alive, before anything is changed.
  const size_t words = graph_.words.size();
  const auto hash_before = hash_;
  auto command = GraphCommand::acquire(device_);
  command->slots.reserve(graph_.slots.size());
  const auto made_at = C10_UNLIKELY(listening(kAllocationPeak)) ? lines_of_slots(graph_) : std::vector<uint32_t>();
  try {
    for (size_t i = 0; i < graph_.slots.size(); ++i) {
      const auto& slot = graph_.slots[i];
      const bool fresh = slot.kind == Graph::SlotKind::Fresh;
      const bool alive = fresh && keep_alive(members_[i]);
      add_word(uint64_t{slot.nbytes} << 2 | uint64_t{fresh} << 1 | uint64_t{alive});
      command->slots.push_back(
          {alive ? allocate_block(device_, slot.nbytes, made_at.empty() ? 0 : made_at[i]) : members_[i].data,
           slot.nbytes, alive || !fresh});
    }
  } catch (...) {
    for (size_t i = 0; i < command->slots.size(); ++i)
      if (graph_.slots[i].kind == Graph::SlotKind::Fresh && command->slots[i].data)
        device_.memory().free(command->slots[i].data);
    graph_.words.resize(words);
    hash_ = hash_before;
    kept_.clear();
    throw;
  }
  for (size_t i = 0; i < members_.size(); ++i)
    if (graph_.slots[i].kind == Graph::SlotKind::Fresh && members_[i].memory)
      assign_memory(*members_[i].memory, command->slots[i].data);
  kept_.clear();

  const size_t operators = graph_.nodes.size();
  if (C10_UNLIKELY(captured_)) {
    std::vector<uint32_t> slots;
    for (const auto& member : members_) slots.push_back(member.capture_slot);
    capture_->take(graph_, slots, seeds_);
    seeds_.clear();
  }
  // Of a capture it is the whole that may become a recipe.
  const bool cut = learning_depth > 0 || captured_;
  count(Counter::GraphsFlushed);
  if (cut && !captured_) count(Counter::GraphsCut);
  bool waited = false;
  command->recipe = cut ? nullptr : recipe_for_graph(waited);
  command->site = graph_.nodes.front().site;
  GraphReport report{hash_.value(), command->recipe != nullptr, cut, waited, operators, command->site, {}};
  const bool reported = listening(kGraphRecorded) || listening(kCacheHit) || listening(kCacheMiss);
  if (C10_UNLIKELY(reported) && command->recipe) report.name = command->recipe->compiled()->manifest().name;
  if (command->recipe) {
    count(Counter::OpsInRecipes, operators);
    count(Counter::RecipeHits);
    command->numbers.swap(graph_.numbers);
  } else {
    count(Counter::OpsNodeByNode, operators);
    if (!cut) count(Counter::RecipeMisses);
    std::swap(command->graph, graph_);
  }
  // From here on the memory of this graph's storages is like any other: what is queued later comes later.
  ++number_;
  overdue_ = false;
  hash_.reset();
  graph_.clear();
  const uint64_t sequence = openhpu::submit(device_, command.release());
  for (const auto& member : members_)
    if (member.taken_over) device_.memory().free(member.data);
  members_.clear();
  limit_steps_in_flight(sequence);
  if (C10_UNLIKELY(reported)) report();  // last, since a listener may use the device
}

std::shared_ptr<Recipe> Recorder::recipe_for_graph(bool& waited) {
  struct Open {
    Recorder& recorder;
    explicit Open(Recorder& r) : recorder(r) { set(true); }
    ~Open() { set(false); }
    void set(bool open) {
      std::lock_guard deaths(recorder.deaths_mutex_);
      recorder.deaths_open_ = open;
    }
  } open(*this);
  return GraphCache::instance().recipe_for(graph_, hash_.value(), waited);
}

void Recorder::limit_steps_in_flight(uint64_t sequence) {
  auto& oldest = in_flight_[next_in_flight_];
  next_in_flight_ = (next_in_flight_ + 1) % kInFlight;
  const uint64_t wait_for = std::exchange(oldest, sequence);
  // A flush may be in the middle of something: a signal is handled when the script goes on.
  if (wait_for > 0 && !device_.queue().on_worker()) device_.queue().wait(wait_for, device::OnInterrupt::Return);
}

}  // namespace openhpu
