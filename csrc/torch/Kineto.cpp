#define FMT_HEADER_ONLY 1
#include "torch/Kineto.h"

#include <libkineto.h>
#include <output_base.h>
#include <unistd.h>

#include "device/device.h"
#include "observe/MemoryHistory.h"
#include "observe/site.h"
#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

using device::Trace;
using device::TraceData;
using device::TraceKind;
using device::TraceRecord;
using libkineto::ActivityLogger;
using libkineto::ActivityType;
using libkineto::ITraceActivity;

// Records of a trace as kineto's activities. In `prof.events()` all that the device does has the device type HPU (which
// ActivityType::HPU_OP means there); an exported file names it by the categories that readers of traces know.
struct Activity final : public libkineto::GenericTraceActivity {
  // `shown`: its type in a file.
  Activity(
      const libkineto::TraceSpan& span, ActivityType type, ActivityType shown, std::string name, int32_t on,
      int64_t track, uint64_t begin, uint64_t end)
      : GenericTraceActivity(span, type, std::move(name)), shown(shown) {
    device = on;
    resource = static_cast<int32_t>(track);
    startTime = static_cast<int64_t>(begin);
    endTime = static_cast<int64_t>(end);
  }
  void log(ActivityLogger& logger) const override {
    Activity in_file(*this);
    in_file.activityType = shown;
    if (!shown_name.empty()) in_file.activityName = shown_name;
    logger.handleActivity(in_file);
  }
  const std::string metadataJson() const override { return metadata ? metadata() : ""; }
  const std::string getMetadataValue(const std::string& key) const override {
    if (!command) return "";
    if (key == "device") return std::to_string(command->device);
    if (key == "stream") return std::to_string(command->stream);
    if (key == "correlation") return std::to_string(command->correlation);
    if (key == "bytes") return std::to_string(command->bytes);
    return "";
  }

  ActivityType shown;
  std::string shown_name;                 // in a file; empty: as elsewhere
  std::function<std::string()> metadata;  // a traced run has very many: written only where it is asked for
  const TraceRecord* command = nullptr;   // of a command's
};

// The track of the compiler in a process.
constexpr int32_t kCompilerTrack = 0x7ffffffe;

// By kind of a record: the kind's name, its type in a file, the name of the call on the host, and, of copies, their
// own.
struct KindNames {
  const char* kind;
  ActivityType shown;
  const char* launch;
  const char* copy;
};

// PyTorch drops events of this name, of which it has thousands itself.
constexpr const char* kHiddenName = "profiler::_record_function_exit";

const KindNames& names_of(TraceKind kind) {
  constexpr auto kKernel = ActivityType::CONCURRENT_KERNEL, kCopy = ActivityType::GPU_MEMCPY;
  static constexpr KindNames kNames[] = {
      {"kernel", kKernel, "hpuLaunchKernel", nullptr},
      {"graph", kKernel, "hpuLaunchGraph", nullptr},
      {"h2d", kCopy, "hpuMemcpyAsync", "Memcpy HtoD"},
      {"d2h", kCopy, "hpuMemcpyAsync", "Memcpy DtoH"},
      {"d2d", kCopy, "hpuMemcpyAsync", "Memcpy DtoD"},
      {"collective", kKernel, "hpuLaunchCollective", nullptr},
      {"wait", ActivityType::CUDA_SYNC, "hpuStreamWait", nullptr},
      {"hidden", kKernel, "hpuLaunchKernel", nullptr},
  };
  static_assert(std::size(kNames) == static_cast<size_t>(TraceKind::Hidden) + 1);
  return kNames[static_cast<size_t>(kind)];
}

std::string name_of(const TraceRecord& record) {
  const char* copy = names_of(record.kind).copy;
  return copy ? copy : operator_name(record.name);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

void add_line(std::string& json, uint32_t site) {
  const auto [file, line] = resolve_site(site);
  if (line) json += ", \"line\": " + quoted(file + ":" + std::to_string(line));
}

// An arrow from the call to the command.
void link(Activity& activity, const TraceRecord& record, bool begins) {
  activity.id = static_cast<int32_t>(record.correlation);
  activity.flow.id = static_cast<uint32_t>(record.correlation);
  activity.flow.type = libkineto::kLinkAsyncCpuGpu;
  activity.flow.start = begins;
}

std::string metadata_of(const TraceRecord& record) {
  std::string json = "\"device\": " + std::to_string(record.device) +
                     ", \"context\": 0, \"stream\": " + std::to_string(record.stream) +
                     ", \"correlation\": " + std::to_string(record.correlation);
  if (record.bytes) {
    json += ", \"bytes\": " + std::to_string(record.bytes);
    if (record.end > record.begin)
      json += ", \"memory bandwidth (GB/s)\": " +
              std::to_string(static_cast<double>(record.bytes) / static_cast<double>(record.end - record.begin));
  }
  if (record.operators) json += ", \"operators\": " + std::to_string(record.operators);
  if (record.begin > record.launch_end)
    json += ", \"queued (ns)\": " + std::to_string(record.begin - record.launch_end);
  add_line(json, record.site);
  return json;
}

// What they refer to outlives them. A command on the device, the call on the host that issued it (where its arrow
// begins), a part of a command, and what a host thread did for the device, or the compiler.
std::unique_ptr<Activity> command_activity(const libkineto::TraceSpan& span, const TraceRecord& record) {
  auto out = std::make_unique<Activity>(
      span, ActivityType::HPU_OP, names_of(record.kind).shown, name_of(record), record.device, record.stream,
      record.begin, record.end);
  link(*out, record, false);
  out->command = &record;
  out->metadata = [&record] { return metadata_of(record); };
  return out;
}

std::unique_ptr<Activity> launch_activity(const libkineto::TraceSpan& span, const TraceRecord& record) {
  auto out = std::make_unique<Activity>(
      span, ActivityType::PRIVATEUSE1_RUNTIME, ActivityType::CUDA_RUNTIME, names_of(record.kind).launch, getpid(),
      record.thread, record.launch_begin, record.launch_end);
  out->threadId = record.thread;
  link(*out, record, true);
  out->metadata = [&record] {
    return "\"correlation\": " + std::to_string(record.correlation) + ", \"command\": " + quoted(name_of(record));
  };
  return out;
}

std::unique_ptr<Activity> mark_activity(
    const libkineto::TraceSpan& span, const TraceRecord& record, const device::TraceMark& mark) {
  auto out = std::make_unique<Activity>(
      span, ActivityType::HPU_OP, ActivityType::HPU_OP, operator_name(mark.name), record.device, record.stream,
      mark.begin, mark.end);
  out->metadata = [&record, &mark] {
    std::string json = "\"part of\": " + quoted(name_of(record)) + ", \"device\": " + std::to_string(record.device) +
                       ", \"stream\": " + std::to_string(record.stream);
    add_line(json, mark.site);
    return json;
  };
  return out;
}

std::unique_ptr<Activity> span_activity(const libkineto::TraceSpan& span, const device::TraceSpan& what) {
  const int32_t thread = what.thread == device::TraceSpan::kCompiler ? kCompilerTrack : what.thread;
  auto out = std::make_unique<Activity>(
      span, ActivityType::PRIVATEUSE1_RUNTIME, ActivityType::CUDA_RUNTIME, what.name, getpid(), thread, what.begin,
      what.end);
  out->threadId = thread;
  out->metadata = [&what] {
    std::string json = "\"detail\": " + quoted(what.detail);
    add_line(json, what.site);
    return json;
  };
  return out;
}

// The open operations and ranges of a thread, by the profiler's numbers. They belong to one session. If an earlier
// session ended in the middle of an operation, its rest is dropped.
struct Within {
  uint64_t session = 0;
  std::vector<uint64_t> operations, ranges;
};
thread_local Within within;

void push(std::vector<uint64_t> Within::* stack, uint64_t session, uint64_t id) {
  if (within.session != session) within = {session, {}, {}};
  (within.*stack).push_back(id);
}
void pop(std::vector<uint64_t> Within::* stack, uint64_t session) {
  if (within.session == session && !(within.*stack).empty()) (within.*stack).pop_back();
}

// Ranges lie within each other on the script's thread, and so they must on a track.
bool nests(const std::vector<std::pair<uint64_t, uint64_t>>& others, uint64_t begin, uint64_t end) {
  return std::all_of(others.begin(), others.end(), [&](const auto& o) {
    return end <= o.first || o.second <= begin || (begin <= o.first && o.second <= end) ||
           (o.first <= begin && end <= o.second);
  });
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    status_ = libkineto::TraceStatus::RECORDING;
    listener_ = Trace::start();
  }
  void stop() override {
    for (auto* d : device::DeviceRegistry::instance().open())
      if (!d->queue().on_worker()) d->queue().drain();
    data_ = Trace::stop(listener_);
    status_ = libkineto::TraceStatus::PROCESSING;
  }
  std::vector<std::string> errors() override { return {}; }

  void processTrace(ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) -> const ITraceActivity* { return nullptr; }, 0, 0);
  }
  void processTrace(
      ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t begin, int64_t end) override {
    buffer_ = std::make_unique<Buffer>();
    buffer_->data = std::move(data_);
    buffer_->span = libkineto::TraceSpan(begin, end, "HPU");
    put_in_order(buffer_->data, linked);
    for (const auto& record : buffer_->data.records) {
      const ITraceActivity* issuer = record.operation ? linked(static_cast<int32_t>(record.operation)) : nullptr;
      keep(logger, issuer, launch_activity(buffer_->span, record));
      keep(logger, issuer, command_activity(buffer_->span, record));
      for (const auto& mark : record.marks) keep(logger, nullptr, mark_activity(buffer_->span, record, mark));
    }
    for (const auto& span : buffer_->data.spans)
      keep(
          logger, span.operation ? linked(static_cast<int32_t>(span.operation)) : nullptr,
          span_activity(buffer_->span, span));
    add_ranges(logger, linked);
    name_tracks(logger, begin);
    status_ = libkineto::TraceStatus::READY;
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t id) override { push(&Within::operations, number_, id); }
  void popCorrelationId() override { pop(&Within::operations, number_); }
  void pushUserCorrelationId(uint64_t id) override {
    push(&Within::ranges, number_, id);
    // Commands that are issued directly in a range have the range as their operation.
    push(&Within::operations, number_, id);
    if (within.ranges.size() > 1) {
      std::lock_guard lock(mutex_);
      outer_[id] = within.ranges[within.ranges.size() - 2];
    }
  }
  void popUserCorrelationId() override {
    pop(&Within::ranges, number_);
    pop(&Within::operations, number_);
  }

  std::string getDeviceProperties() override {
    std::string out;
    for (auto* d : device::DeviceRegistry::instance().open())
      out += (out.empty() ? "" : ", ") + ("{\"id\": " + std::to_string(d->index())) +
             ", \"name\": \"hpu\", \"totalGlobalMem\": " + std::to_string(d->memory().stats().limit) + "}";
    return out;
  }
  std::unordered_map<std::string, std::string> getMetadata() override {
    std::unordered_map<std::string, std::string> out{{"hpu_trace", "1"}};
    if (data_.dropped) out["hpu_dropped"] = std::to_string(data_.dropped);
    return out;
  }

 private:
  // What activities refer to lives as long as they do.
  struct Buffer final : libkineto::CpuTraceBuffer {
    TraceData data;
  };

  void keep(ActivityLogger& logger, const ITraceActivity* issuer, std::unique_ptr<Activity> activity) {
    activity->linked = issuer;
    logger.handleActivity(*activity);
    buffer_->activities.push_back(std::move(activity));
  }

  // PyTorch converts its times from another clock. A difference of some nanoseconds must not make events cross.
  static void put_in_order(TraceData& data, const libkineto::getLinkedActivityCallback& linked) {
    auto& records = data.records;
    std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    std::map<std::pair<int32_t, int64_t>, uint64_t> last;
    for (auto& r : records) {
      // Collectives run beside the queue.
      if (r.kind == TraceKind::Collective) r.stream = kCollectiveStream;
      if (const ITraceActivity* op = r.operation ? linked(static_cast<int32_t>(r.operation)) : nullptr) {
        const auto from = static_cast<uint64_t>(op->timestamp());
        const auto to = from + static_cast<uint64_t>(std::max<int64_t>(op->duration(), 0));
        if (op->getThreadId() == r.thread || op->resourceId() == r.thread) {
          r.launch_begin = std::clamp(r.launch_begin, from, std::max(from, to));
          r.launch_end = std::clamp(r.launch_end, r.launch_begin, std::max(r.launch_begin, to));
        }
      }
      auto& end = last[{r.device, r.stream}];
      r.begin = std::max({r.begin, r.launch_begin, end});
      r.end = std::max(r.end, r.begin);
      end = r.end;
      for (auto& m : r.marks) {
        m.begin = std::clamp(m.begin, r.begin, r.end);
        m.end = std::clamp(m.end, m.begin, r.end);
      }
    }
    // The compiler does one thing at a time, in the order in which it ends.
    std::sort(data.spans.begin(), data.spans.end(), [](const auto& a, const auto& b) { return a.end < b.end; });
    uint64_t compiled = 0;
    for (auto& s : data.spans) {
      if (s.thread != device::TraceSpan::kCompiler) continue;
      s.begin = std::max(s.begin, compiled);
      compiled = s.end;
    }
  }

  void add_ranges(ActivityLogger& logger, const libkineto::getLinkedActivityCallback& linked) {
    std::map<std::tuple<int32_t, int64_t, uint64_t>, std::pair<uint64_t, uint64_t>> ranges;
    for (const auto& r : buffer_->data.records) {
      for (uint64_t id = r.annotation; id;) {
        auto [it, fresh] = ranges.emplace(std::tuple(r.device, r.stream, id), std::pair(r.begin, r.end));
        if (!fresh) it->second = {std::min(it->second.first, r.begin), std::max(it->second.second, r.end)};
        const auto outer = outer_.find(id);
        id = outer == outer_.end() ? 0 : outer->second;
      }
    }
    std::map<std::pair<int32_t, int64_t>, std::vector<std::pair<uint64_t, uint64_t>>> placed;
    for (const auto& [key, times] : ranges) {
      const auto [on, stream, id] = key;
      const ITraceActivity* range = linked(static_cast<int32_t>(id));
      if (!range) continue;
      auto& others = placed[{on, stream}];
      // Several threads may issue on one stream.
      if (!nests(others, times.first, times.second)) continue;
      others.push_back(times);
      // From the first to the last command issued in it. In `prof.events()` the range itself stands, with its device
      // time, so that this one is for files only.
      auto activity = std::make_unique<Activity>(
          buffer_->span, ActivityType::HPU_OP, ActivityType::GPU_USER_ANNOTATION, kHiddenName, on, stream, times.first,
          times.second);
      activity->shown_name = range->name();
      keep(logger, nullptr, std::move(activity));
    }
  }

  // Kineto names processes 0 to 15 after the script at `time`, in case they are devices that it knows. Readers that go
  // by time (Perfetto) take the later name.
  void name_tracks(ActivityLogger& logger, int64_t time) {
    std::set<std::pair<int32_t, int64_t>> streams;
    for (const auto& r : buffer_->data.records) streams.emplace(r.device, r.stream);
    int32_t known = -1;
    for (const auto& [on, stream] : streams) {
      if (on != std::exchange(known, on))
        logger.handleDeviceInfo(
            {on, libkineto::kExceedMaxPid + on, "HPU " + std::to_string(on), "HPU " + std::to_string(on)}, time + 1000);
      const std::string name = stream == kCollectiveStream
                                   ? "collectives"
                                   : "stream " + std::to_string(stream) + (stream ? "" : " (default)");
      logger.handleResourceInfo({stream, stream, on, name}, time);
    }
    for (const auto& s : buffer_->data.spans)
      if (s.thread == device::TraceSpan::kCompiler) {
        logger.handleResourceInfo({kCompilerTrack, kCompilerTrack, getpid(), "hpu compiler"}, time);
        return;
      }
  }

  static constexpr int64_t kCollectiveStream = 1000;  // streams of scripts are fewer

  static inline std::atomic<uint64_t> next_{1};
  const uint64_t number_ = next_.fetch_add(1);
  uint64_t listener_ = 0;
  TraceData data_;
  std::unique_ptr<Buffer> buffer_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, uint64_t> outer_;  // of a range: the one around it
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string name = "hpu";
    return name;
  }
  const std::set<ActivityType>& availableActivities() const override {
    static const std::set<ActivityType> types{ActivityType::HPU_OP};
    return types;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<ActivityType>& types, const libkineto::Config&) override {
    expect_memory_profiles();
    if (!types.count(ActivityType::HPU_OP)) return nullptr;
    return std::make_unique<Session>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t, int64_t, const std::set<ActivityType>& types, const libkineto::Config& config) override {
    return configure(types, config);
  }
};

}  // namespace

std::string operator_name(const char* name) {
  const std::string_view text = name;
  const auto colons = text.find("::");
  return std::string(colons == text.npos ? text : text.substr(0, text.find('.', colons)));
}

const char* kind_name(TraceKind kind) { return names_of(kind).kind; }

void describe_origin(device::TraceRecord& record) {
  record.stream = current_stream(static_cast<c10::DeviceIndex>(record.device)).id();
  if (!within.operations.empty()) record.operation = within.operations.back();
  if (!within.ranges.empty()) record.annotation = within.ranges.back();
}

void register_profiler() {
  libkineto::api().registerProfilerFactory([] { return std::make_unique<Profiler>(); });
}

}  // namespace openhpu
