#include "observe/events.h"

#include <c10/util/ApproximateClock.h>

#include <bit>
#include <cstdio>

#include "observe/site.h"

namespace openhpu {

std::array<std::atomic<uint64_t>, static_cast<size_t>(Counter::kCount)> g_counters{};
std::atomic<uint32_t> g_listening{0};

namespace {

constexpr const char* kCounterNames[] = {
    "ops_submitted",
    "ops_waited",
    "ops_fallback",
    "outputs_copied",
    "operands_moved",
    "copies_h2d",
    "copies_d2h",
    "copies_d2d",
    "bytes_h2d",
    "bytes_d2h",
    "blocking_reads",
    "reads_computed_on_host",
    "synchronizations",
    "ops_recorded",
    "ops_rehearsed",
    "ops_predicted",
    "ops_in_recipes",
    "ops_node_by_node",
    "graphs_new",
    "graphs_flushed",
    "graphs_started_early",
    "graphs_cut",
    "graphs_beside_compiler",
    "recipe_hits",
    "recipe_misses",
    "external_kernels",
    "recipes_compiled",
    "recompilations",
    "host_wait_ns",
    "graphs_captured",
    "graph_replays",
    "collectives",
    "collectives_in_memory",
    "collective_bytes",
    "collective_wait_ns",
    "indices_out_of_range",
    "int64_overflows",
    "launches_left_out",
    "release_faults",
};
static_assert(std::size(kCounterNames) == static_cast<size_t>(Counter::kCount));

std::mutex listener_mutex;
std::shared_ptr<EventListener> listener;

}  // namespace

std::vector<std::pair<std::string, uint64_t>> counter_values() {
  std::vector<std::pair<std::string, uint64_t>> out;
  for (size_t i = 0; i < g_counters.size(); ++i)
    out.emplace_back(kCounterNames[i], g_counters[i].load(std::memory_order_relaxed));
  return out;
}

const char* kind_name(EventKind kind) {
  constexpr const char* kNames[] = {
      "cpu_fallback",  "blocking_read",  "allocation_peak", "copy",       "error",
      "recompilation", "graph_recorded", "cache_hit",       "cache_miss", "indices_out_of_range",
      "operand_moved", "int64_overflow", "difference",      "wait",       "not_run",
  };
  static_assert(std::size(kNames) == std::bit_width(uint32_t{kAllEvents}));
  return kNames[std::countr_zero(uint32_t{kind})];
}

void set_event_listener(EventListener fn, uint32_t kinds) {
  std::lock_guard<std::mutex> lock(listener_mutex);
  listener = fn ? std::make_shared<EventListener>(std::move(fn)) : nullptr;
  g_listening.store(listener ? kinds : 0, std::memory_order_relaxed);
}

void emit(EventKind kind, EventParams params, uint32_t site) {
  std::shared_ptr<EventListener> current;
  {
    // The listener is called outside the lock: it may take Python's lock, whose holder may be emitting.
    std::lock_guard<std::mutex> lock(listener_mutex);
    current = listener;
  }
  if (current) (*current)(Event{kind_name(kind), now_ns(), site, std::move(params)});
}

void emit_wait(const char* kind, const char* op, uint64_t since, uint32_t site) {
  emit(
      kWait,
      {{"kind", std::string(kind)}, {"op", std::string(op)}, {"wait_ns", static_cast<int64_t>(now_ns() - since)}},
      site);
}

void note_release_fault(const char* what, std::exception_ptr error) noexcept {
  count(Counter::ReleaseFaults);
  try {
    std::string message;
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      message = e.what();
    } catch (...) {
      message = "unknown error";
    }
    message = std::string("could not release ") + what + ": " + message;
    std::fprintf(stderr, "openhpu: %s\n", message.c_str());
    if (listening(kError)) emit(kError, {{"op", std::string("release")}, {"message", std::move(message)}}, 0);
  } catch (...) {  // no memory for the message, or an error of a listener
  }
}

uint64_t now_ns() noexcept { return static_cast<uint64_t>(c10::getTime(/*allow_monotonic=*/true)); }

}  // namespace openhpu
