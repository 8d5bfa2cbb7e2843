#define FMT_HEADER_ONLY 1
#include "torch/Activities.h"

#include <unistd.h>

#include "observe/site.h"

namespace openhpu {
namespace {

using device::TraceKind;
using device::TraceMark;
using device::TraceRecord;
using libkineto::ActivityLogger;
using libkineto::ActivityType;
using libkineto::ITraceActivity;

// PyTorch drops events of this name, of which it has thousands itself.
constexpr const char* kHiddenName = "profiler::_record_function_exit";

// An activity as it is in a file.
class Shown final : public ITraceActivity {
 public:
  Shown(const Activity& of, ActivityType type) : of_(of), type_(type) {}
  int64_t deviceId() const override { return of_.deviceId(); }
  int64_t resourceId() const override { return of_.resourceId(); }
  int32_t getThreadId() const override { return of_.getThreadId(); }
  int64_t timestamp() const override { return of_.timestamp(); }
  int64_t duration() const override { return of_.duration(); }
  int64_t correlationId() const override { return of_.correlationId(); }
  int flowType() const override { return of_.flowType(); }
  int64_t flowId() const override { return of_.flowId(); }
  bool flowStart() const override { return of_.flowStart(); }
  ActivityType type() const override { return type_; }
  const std::string name() const override { return of_.shown_name(); }
  const ITraceActivity* linkedActivity() const override { return of_.linkedActivity(); }
  const libkineto::TraceSpan* traceSpan() const override { return of_.traceSpan(); }
  void log(ActivityLogger& logger) const override { logger.handleActivity(*this); }
  const std::string metadataJson() const override { return of_.metadataJson(); }
  const std::string getMetadataValue(const std::string& key) const override { return of_.getMetadataValue(key); }

 private:
  const Activity& of_;
  ActivityType type_;
};

ActivityType shown_type(TraceKind kind) {
  switch (kind) {
    case TraceKind::HostToDevice:
    case TraceKind::DeviceToHost:
    case TraceKind::DeviceToDevice: return ActivityType::GPU_MEMCPY;
    case TraceKind::Wait: return ActivityType::CUDA_SYNC;
    default: return ActivityType::CONCURRENT_KERNEL;
  }
}

std::string name_of(const TraceRecord& record) {
  switch (record.kind) {
    case TraceKind::HostToDevice: return "Memcpy HtoD";
    case TraceKind::DeviceToHost: return "Memcpy DtoH";
    case TraceKind::DeviceToDevice: return "Memcpy DtoD";
    default: return operator_name(record.name);
  }
}

void add_line(std::string& json, uint32_t site) {
  const auto [file, line] = resolve_site(site);
  if (line) json += ", \"line\": " + quoted(file + ":" + std::to_string(line));
}

}  // namespace

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

std::string operator_name(const char* name) {
  const std::string_view text = name;
  const auto colons = text.find("::");
  return std::string(colons == text.npos ? text : text.substr(0, text.find('.', colons)));
}

const char* launch_name(TraceKind kind) {
  switch (kind) {
    case TraceKind::Graph: return "hpuLaunchGraph";
    case TraceKind::HostToDevice:
    case TraceKind::DeviceToHost:
    case TraceKind::DeviceToDevice: return "hpuMemcpyAsync";
    case TraceKind::Collective: return "hpuLaunchCollective";
    case TraceKind::Wait: return "hpuStreamWait";
    default: return "hpuLaunchKernel";
  }
}

void Activity::log(ActivityLogger& logger) const { Shown(*this, shown_).log(logger); }

CommandActivity::CommandActivity(const libkineto::TraceSpan& span, const TraceRecord& record)
    : Activity(span, ActivityType::HPU_OP, shown_type(record.kind), name_of(record)), record_(record) {
  device = record.device;
  resource = static_cast<int32_t>(record.stream);
  startTime = static_cast<int64_t>(record.begin);
  endTime = static_cast<int64_t>(record.end);
  id = static_cast<int32_t>(record.correlation);
  flow.id = static_cast<uint32_t>(record.correlation);
  flow.type = libkineto::kLinkAsyncCpuGpu;
  flow.start = 0;
}

const std::string CommandActivity::metadataJson() const {
  std::string json = "\"device\": " + std::to_string(record_.device) + ", \"context\": 0, \"stream\": " +
      std::to_string(record_.stream) + ", \"correlation\": " + std::to_string(record_.correlation);
  if (record_.bytes) {
    json += ", \"bytes\": " + std::to_string(record_.bytes);
    if (record_.end > record_.begin)
      json += ", \"memory bandwidth (GB/s)\": " +
          std::to_string(static_cast<double>(record_.bytes) / static_cast<double>(record_.end - record_.begin));
  }
  if (record_.operators) json += ", \"operators\": " + std::to_string(record_.operators);
  if (record_.begin > record_.launch_end)
    json += ", \"queued (ns)\": " + std::to_string(record_.begin - record_.launch_end);
  add_line(json, record_.site);
  return json;
}

const std::string CommandActivity::getMetadataValue(const std::string& key) const {
  if (key == "device") return std::to_string(record_.device);
  if (key == "stream") return std::to_string(record_.stream);
  if (key == "correlation") return std::to_string(record_.correlation);
  if (key == "bytes") return std::to_string(record_.bytes);
  return "";
}

LaunchActivity::LaunchActivity(const libkineto::TraceSpan& span, const TraceRecord& record)
    : Activity(span, ActivityType::PRIVATEUSE1_RUNTIME, ActivityType::CUDA_RUNTIME, launch_name(record.kind)),
      record_(record) {
  device = getpid();
  resource = threadId = record.thread;
  startTime = static_cast<int64_t>(record.launch_begin);
  endTime = static_cast<int64_t>(record.launch_end);
  id = static_cast<int32_t>(record.correlation);
  flow.id = static_cast<uint32_t>(record.correlation);
  flow.type = libkineto::kLinkAsyncCpuGpu;
  flow.start = 1;
}

const std::string LaunchActivity::metadataJson() const {
  return "\"correlation\": " + std::to_string(record_.correlation) + ", \"command\": " + quoted(name_of(record_));
}

MarkActivity::MarkActivity(const libkineto::TraceSpan& span, const TraceRecord& record, const TraceMark& mark)
    : Activity(span, ActivityType::HPU_OP, ActivityType::HPU_OP, operator_name(mark.name)), record_(record), mark_(mark) {
  device = record.device;
  resource = static_cast<int32_t>(record.stream);
  startTime = static_cast<int64_t>(mark.begin);
  endTime = static_cast<int64_t>(mark.end);
}

const std::string MarkActivity::metadataJson() const {
  std::string json = "\"part of\": " + quoted(name_of(record_)) + ", \"device\": " + std::to_string(record_.device) +
      ", \"stream\": " + std::to_string(record_.stream);
  add_line(json, mark_.site);
  return json;
}

SpanActivity::SpanActivity(const libkineto::TraceSpan& span, const device::TraceSpan& what)
    : Activity(span, ActivityType::PRIVATEUSE1_RUNTIME, ActivityType::CUDA_RUNTIME, what.name), what_(what) {
  device = getpid();
  resource = threadId = what.thread == device::TraceSpan::kCompiler ? kCompilerTrack : what.thread;
  startTime = static_cast<int64_t>(what.begin);
  endTime = static_cast<int64_t>(what.end);
}

const std::string SpanActivity::metadataJson() const {
  std::string json = "\"detail\": " + quoted(what_.detail);
  add_line(json, what_.site);
  return json;
}

RangeActivity::RangeActivity(
    const libkineto::TraceSpan& span, std::string name, int on, int64_t stream, uint64_t begin, uint64_t end)
    : Activity(span, ActivityType::HPU_OP, ActivityType::GPU_USER_ANNOTATION, kHiddenName), shown_name_(std::move(name)) {
  device = on;
  resource = static_cast<int32_t>(stream);
  startTime = static_cast<int64_t>(begin);
  endTime = static_cast<int64_t>(end);
}

}  // namespace openhpu
