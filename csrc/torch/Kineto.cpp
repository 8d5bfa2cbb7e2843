#define FMT_HEADER_ONLY 1
#include "torch/Kineto.h"

#include <libkineto.h>
#include <output_base.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <unordered_map>

#include "device/device.h"
#include "device/trace.h"
#include "observe/MemoryHistory.h"
#include "torch/Activities.h"
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

// The open operations and ranges of a thread, by the profiler's numbers. They belong to one session. If an earlier
// session ended in the middle of an operation, its rest is dropped.
struct Within {
  uint64_t session = 0;
  std::vector<uint64_t> operations, ranges;
};
thread_local Within within;

void push(std::vector<uint64_t> Within::*stack, uint64_t session, uint64_t id) {
  if (within.session != session) within = {session, {}, {}};
  (within.*stack).push_back(id);
}
void pop(std::vector<uint64_t> Within::*stack, uint64_t session) {
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
    auto& registry = device::DeviceRegistry::instance();
    // In a forked child there are none.
    if (!registry.bad_fork())
      for (int i = 0; i < registry.count(); ++i)
        if (auto* d = registry.get_if_open(i); d && !d->queue().on_worker()) d->queue().drain();
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
      keep(logger, span.operation ? linked(static_cast<int32_t>(span.operation)) : nullptr,
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
    auto& registry = device::DeviceRegistry::instance();
    for (int i = 0; i < registry.count(); ++i)
      if (auto* d = registry.get_if_open(i))
        out += (out.empty() ? "" : ", ") + ("{\"id\": " + std::to_string(i)) + ", \"name\": \"hpu\", \"totalGlobalMem\": " +
            std::to_string(d->memory().stats().limit) + "}";
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
      keep(logger, nullptr,
           range_activity(buffer_->span, range->name(), on, stream, times.first, times.second));
    }
  }

  // Kineto names processes 0 to 15 after the script at `time`, in case they are devices that it knows. Readers that go by
  // time (Perfetto) take the later name.
  void name_tracks(ActivityLogger& logger, int64_t time) {
    std::set<std::pair<int32_t, int64_t>> streams;
    for (const auto& r : buffer_->data.records) streams.emplace(r.device, r.stream);
    int32_t known = -1;
    for (const auto& [on, stream] : streams) {
      if (on != std::exchange(known, on))
        logger.handleDeviceInfo(
            {on, libkineto::kExceedMaxPid + on, "HPU " + std::to_string(on), "HPU " + std::to_string(on)},
            time + 1000);
      const std::string name =
          stream == kCollectiveStream ? "collectives" : "stream " + std::to_string(stream) + (stream ? "" : " (default)");
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

void describe_origin(device::TraceRecord& record) {
  record.stream = current_stream(static_cast<c10::DeviceIndex>(record.device)).id();
  if (!within.operations.empty()) record.operation = within.operations.back();
  if (!within.ranges.empty()) record.annotation = within.ranges.back();
}

void register_profiler() {
  libkineto::api().registerProfilerFactory([] { return std::make_unique<Profiler>(); });
}

}  // namespace openhpu
