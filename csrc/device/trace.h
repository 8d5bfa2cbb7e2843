#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// Records of the work of a device, with times, while a trace is being recorded. Otherwise a command costs one relaxed
// load. Times are nanoseconds since 1970 (CLOCK_REALTIME), as in PyTorch's profiler and in the traces of other
// processes.
namespace openhpu::device {

uint64_t trace_clock() noexcept;
int32_t trace_thread() noexcept;  // the system's number of the calling thread

// A name that lives as long as the process.
const char* trace_name(std::string_view name);

enum class TraceKind : uint8_t {
  Kernel,
  Graph,  // many operators as one command
  HostToDevice,
  DeviceToHost,
  DeviceToDevice,
  Collective,
  Wait,    // the device waits for something else
  Hidden,  // nothing that a trace shows
};

// A part of a command.
struct TraceMark {
  const char* name;
  uint32_t site;
  uint64_t begin, end;
};

// One command, from the thread that issued it to its end.
struct TraceRecord {
  const char* name = "";
  TraceKind kind = TraceKind::Kernel;
  uint32_t site = 0;
  int32_t device = 0;
  int64_t stream = 0;
  uint64_t correlation = 0;  // its number, from 1
  uint64_t bytes = 0;        // of a copy or a collective
  uint64_t operators = 0;    // of a graph
  uint64_t operation = 0;    // of the profiler's: which issued it; 0: none
  uint64_t annotation = 0;   // the innermost range of the script's; 0: none
  int32_t thread = 0;        // which issued it
  uint64_t launch_begin = 0, launch_end = 0;
  uint64_t begin = 0, end = 0;
  std::vector<TraceMark> marks;  // in order
};

// What a host thread did for the device: a flush, a wait, a compilation.
struct TraceSpan {
  static constexpr int32_t kCompiler = -1;  // in the place of a thread: the compiler's process
  const char* name = "";
  std::string detail;
  int32_t thread = 0;
  uint32_t site = 0;
  uint64_t operation = 0;
  uint64_t begin = 0, end = 0;
};

struct TraceData {
  std::vector<TraceRecord> records;
  std::vector<TraceSpan> spans;
  uint64_t dropped = 0;  // for which there was no room
  uint64_t begin = 0, end = 0;
};

class Trace {
 public:
  // Whether anybody listens.
  static bool on() noexcept { return listeners_.load(std::memory_order_relaxed) != 0; }

  // Begins a trace. Several traces may run at a time. Returns the argument for `stop`.
  static uint64_t start(size_t most_records = size_t{1} << 22);
  // The records of commands that were issued since its start and have ended. A caller that wants all of them waits for
  // the devices first.
  static TraceData stop(uint64_t listener);

  // A new record, with who issues it.
  static std::unique_ptr<TraceRecord> issue(const char* name, int device, uint32_t site);
  static void add(std::unique_ptr<TraceRecord> record);
  static void add(TraceSpan span);

  // Of the command that the calling thread runs: its record; null if there is none.
  static TraceRecord* current() noexcept;
  // Hands the record over to the caller, which adds it later. This is for a command that ends before the work that it
  // started.
  static std::unique_ptr<TraceRecord> take_current() noexcept;

  // Makes a record the current one of this thread while its command runs, then adds it.
  class Running {
   public:
    explicit Running(std::unique_ptr<TraceRecord> record) noexcept;
    ~Running();

   private:
    friend Trace;
    std::unique_ptr<TraceRecord> record_;
    Running* outer_;
  };

 private:
  static std::atomic<uint32_t> listeners_;
};

// A part of the command that the calling thread runs. `record`: Trace::current(), asked for once for many marks.
class MarkScope {
 public:
  MarkScope(TraceRecord* record, const char* name, uint32_t site = 0)
      : record_(record), name_(name), site_(site), begin_(record ? trace_clock() : 0) {}
  ~MarkScope() {
    if (record_) record_->marks.push_back({name_, site_, begin_, trace_clock()});
  }
  MarkScope(const MarkScope&) = delete;
  MarkScope& operator=(const MarkScope&) = delete;

 private:
  TraceRecord* record_;
  const char* name_;
  uint32_t site_;
  uint64_t begin_;
};

// What the calling thread does from here to the end of the scope.
class SpanScope {
 public:
  explicit SpanScope(const char* name) : name_(name), begin_(Trace::on() ? trace_clock() : 0) {}
  ~SpanScope() {
    if (begin_) end();
  }
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;
  explicit operator bool() const noexcept { return begin_ != 0; }
  void set_detail(std::string detail) { detail_ = std::move(detail); }

 private:
  void end();
  const char* name_;
  std::string detail_;
  uint64_t begin_;
};

}  // namespace openhpu::device
