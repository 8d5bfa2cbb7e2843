#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// The one in-process source of events and counters. Every mode and tool reports through it.
namespace openhpu {

// Counters are always on: one relaxed increment each.
enum class Counter : int {
  OpsSubmitted,   // operators queued without waiting, because their outputs' metadata was known
  OpsWaited,      // operators run on the worker while the host waited (first sight, data-dependent shapes)
  OpsFallback,    // operators executed on the host (CPU fallback)
  OutputsCopied,  // outputs that a kernel did not write in place and that had to be copied
  OperandsMoved,  // operands on the CPU that lazy mode moved to the device
  CopiesH2D,
  CopiesD2H,
  CopiesD2D,
  BytesH2D,
  BytesD2H,
  BlockingReads,        // item(), cpu(), equal(), ...: the host waited for a value
  ReadsComputedOnHost,  // those of a small value that the host computed itself, while the device was busy
  Synchronizations,
  OpsRecorded,           // operators recorded into graphs (lazy mode)
  OpsRehearsed,          // operators run once more, on zeros, to learn their metadata without cutting a graph
  OpsPredicted,          // operators of new sizes whose metadata PyTorch computed without a run
  OpsInRecipes,          // recorded operators that ran as part of a compiled recipe
  OpsNodeByNode,         // recorded operators that ran one by one
  GraphsNew,             // graphs seen for the first time, for which a Gaudi would have called its compiler
  GraphsFlushed,         // graphs handed over to the device
  GraphsStartedEarly,    // pieces of a step, handed over before the rest was recorded
  GraphsCut,             // of these: cut short because an operator's metadata had to be learned
  GraphsBesideCompiler,  // graphs that ran node by node and left a core to the compiler
  RecipeHits,            // graphs that ran as a recipe
  RecipeMisses,          // graphs that did not, although they were whole
  ExternalKernels,       // calls of library kernels (mm, convolution, ...) made inside recipes
  RecipesCompiled,
  Recompilations,  // of programs that had been compiled before, for other sizes, numbers, ...
  HostWaitNs,      // nanoseconds that threads of the script were blocked
  GraphsCaptured,
  GraphReplays,
  Collectives,          // issued, ends of messages among them
  CollectivesInMemory,  // of these: through memory that the ranks of one machine have
  CollectiveBytes,      // that this rank contributed or received, whichever was more
  CollectiveWaitNs,     // nanoseconds that the device waited for collectives to end
  IndicesOutOfRange,    // that operators were given and that read zeros or wrote nothing
  Int64Overflows,       // results that wrapped to 32 bits (OPENHPU_INT64=gaudi)
  LaunchesLeftOut,      // commands that did not run, in the compile-only mode
  ReleaseFaults,        // errors while something was released, which a destructor can't raise
  kCount
};
extern std::array<std::atomic<uint64_t>, static_cast<size_t>(Counter::kCount)> g_counters;
inline void count(Counter c, uint64_t n = 1) noexcept {
  g_counters[static_cast<size_t>(c)].fetch_add(n, std::memory_order_relaxed);
}
std::vector<std::pair<std::string, uint64_t>> counter_values();

// Events exist only while somebody listens for their kind; `listening` is one relaxed load.
enum EventKind : uint32_t {
  kCpuFallback = 1,
  kBlockingRead = 2,
  kAllocationPeak = 4,
  kCopy = 8,
  kError = 16,
  kRecompilation = 32,
  kGraphRecorded = 64,  // a graph was handed over
  kCacheHit = 128,      // a graph that was seen before
  kCacheMiss = 256,     // a new one
  kIndicesOutOfRange = 512,
  kOperandMoved = 1024,
  kInt64Overflow = 2048,
  kDifference = 4096,  // see Differences.h
  kWait = 8192,        // of another kind than a read, see `emit_wait`
  kNotRun = 16384,     // see torch/CompileOnly.h
  kAllEvents = 32767
};
const char* kind_name(EventKind kind);
using EventValue = std::variant<int64_t, double, std::string>;
using EventParams = std::vector<std::pair<const char*, EventValue>>;
struct Event {
  const char* kind;
  uint64_t time_ns;  // CLOCK_MONOTONIC
  uint32_t site;     // see site.h
  EventParams params;
};
using EventListener = std::function<void(const Event&)>;

extern std::atomic<uint32_t> g_listening;
inline bool listening(EventKind kind) noexcept { return g_listening.load(std::memory_order_relaxed) & kind; }
void set_event_listener(EventListener listener, uint32_t kinds);  // empty: stop listening
void emit(EventKind kind, EventParams params, uint32_t site);
uint64_t now_ns() noexcept;
// The host has waited since `since`. `kind`: "shape" (sizes depend on values); and, which no Gaudi has, "first_sight"
// (an operator ran so that the host learned its results' sizes) and "queue" (there was no room).
void emit_wait(const char* kind, const char* op, uint64_t since, uint32_t site);

// Runs a part of a destructor, which must not throw. An error becomes a line of the log, an event and a count.
void note_release_fault(const char* what, std::exception_ptr error) noexcept;
template <class Release>
void release(const char* what, Release&& release) noexcept {
  try {
    release();
  } catch (...) {
    note_release_fault(what, std::current_exception());
  }
}

}  // namespace openhpu
