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

// PyTorch drops events of this name, of which it has thousands itself.
constexpr const char* kHiddenName = "profiler::_record_function_exit";

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

void place(Activity& activity, int32_t device, int64_t resource, uint64_t begin, uint64_t end) {
  activity.device = device;
  activity.resource = static_cast<int32_t>(resource);
  activity.startTime = static_cast<int64_t>(begin);
  activity.endTime = static_cast<int64_t>(end);
}

// An arrow from the call to the command.
void link(Activity& activity, const TraceRecord& record, bool begins) {
  activity.id = static_cast<int32_t>(record.correlation);
  activity.flow.id = static_cast<uint32_t>(record.correlation);
  activity.flow.type = libkineto::kLinkAsyncCpuGpu;
  activity.flow.start = begins;
}

std::string metadata_of(const TraceRecord& record) {
  std::string json = "\"device\": " + std::to_string(record.device) + ", \"context\": 0, \"stream\": " +
      std::to_string(record.stream) + ", \"correlation\": " + std::to_string(record.correlation);
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

}  // namespace

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

std::string operator_name(const char* name) {
  const std::string_view text = name;
  const auto colons = text.find("::");
  return std::string(colons == text.npos ? text : text.substr(0, text.find('.', colons)));
}

void Activity::log(ActivityLogger& logger) const {
  Activity in_file(*this);
  in_file.activityType = shown;
  if (!shown_name.empty()) in_file.activityName = shown_name;
  logger.handleActivity(in_file);
}

const std::string Activity::getMetadataValue(const std::string& key) const {
  if (!command) return "";
  if (key == "device") return std::to_string(command->device);
  if (key == "stream") return std::to_string(command->stream);
  if (key == "correlation") return std::to_string(command->correlation);
  if (key == "bytes") return std::to_string(command->bytes);
  return "";
}

std::unique_ptr<Activity> command_activity(const libkineto::TraceSpan& span, const TraceRecord& record) {
  auto out = std::make_unique<Activity>(span, ActivityType::HPU_OP, names_of(record.kind).shown, name_of(record));
  place(*out, record.device, record.stream, record.begin, record.end);
  link(*out, record, false);
  out->command = &record;
  out->metadata = [&record] { return metadata_of(record); };
  return out;
}

std::unique_ptr<Activity> launch_activity(const libkineto::TraceSpan& span, const TraceRecord& record) {
  auto out = std::make_unique<Activity>(
      span, ActivityType::PRIVATEUSE1_RUNTIME, ActivityType::CUDA_RUNTIME, names_of(record.kind).launch);
  place(*out, getpid(), record.thread, record.launch_begin, record.launch_end);
  out->threadId = record.thread;
  link(*out, record, true);
  out->metadata = [&record] {
    return "\"correlation\": " + std::to_string(record.correlation) + ", \"command\": " + quoted(name_of(record));
  };
  return out;
}

std::unique_ptr<Activity> mark_activity(
    const libkineto::TraceSpan& span, const TraceRecord& record, const TraceMark& mark) {
  auto out = std::make_unique<Activity>(span, ActivityType::HPU_OP, ActivityType::HPU_OP, operator_name(mark.name));
  place(*out, record.device, record.stream, mark.begin, mark.end);
  out->metadata = [&record, &mark] {
    std::string json = "\"part of\": " + quoted(name_of(record)) + ", \"device\": " + std::to_string(record.device) +
        ", \"stream\": " + std::to_string(record.stream);
    add_line(json, mark.site);
    return json;
  };
  return out;
}

std::unique_ptr<Activity> span_activity(const libkineto::TraceSpan& span, const device::TraceSpan& what) {
  auto out = std::make_unique<Activity>(span, ActivityType::PRIVATEUSE1_RUNTIME, ActivityType::CUDA_RUNTIME, what.name);
  out->threadId = what.thread == device::TraceSpan::kCompiler ? kCompilerTrack : what.thread;
  place(*out, getpid(), out->threadId, what.begin, what.end);
  out->metadata = [&what] {
    std::string json = "\"detail\": " + quoted(what.detail);
    add_line(json, what.site);
    return json;
  };
  return out;
}

std::unique_ptr<Activity> range_activity(
    const libkineto::TraceSpan& span, std::string name, int device, int64_t stream, uint64_t begin, uint64_t end) {
  auto out = std::make_unique<Activity>(span, ActivityType::HPU_OP, ActivityType::GPU_USER_ANNOTATION, kHiddenName);
  out->shown_name = std::move(name);
  place(*out, device, stream, begin, end);
  return out;
}

}  // namespace openhpu
