#pragma once

#include <libkineto.h>
#include <output_base.h>

#include <string>

#include "device/trace.h"

// Records of a trace as kineto's activities. In `prof.events()` all that the device does has the device type HPU (which
// ActivityType::HPU_OP means there); an exported file names it by the categories that readers of traces know.
namespace openhpu {

class Activity : public libkineto::GenericTraceActivity {
 public:
  // `shown`: its type in a file.
  Activity(const libkineto::TraceSpan& span, libkineto::ActivityType type, libkineto::ActivityType shown, std::string name)
      : GenericTraceActivity(span, type, std::move(name)), shown_(shown) {}
  void log(libkineto::ActivityLogger& logger) const final;
  // As it is in a file.
  virtual std::string shown_name() const { return name(); }

 private:
  libkineto::ActivityType shown_;
};

// A command on the device. `record` outlives it.
class CommandActivity final : public Activity {
 public:
  CommandActivity(const libkineto::TraceSpan& span, const device::TraceRecord& record);
  const std::string metadataJson() const override;
  const std::string getMetadataValue(const std::string& key) const override;

 private:
  const device::TraceRecord& record_;
};

// The call on the host that issued it: where its arrow begins.
class LaunchActivity final : public Activity {
 public:
  LaunchActivity(const libkineto::TraceSpan& span, const device::TraceRecord& record);
  const std::string metadataJson() const override;

 private:
  const device::TraceRecord& record_;
};

// A part of a command.
class MarkActivity final : public Activity {
 public:
  MarkActivity(const libkineto::TraceSpan& span, const device::TraceRecord& record, const device::TraceMark& mark);
  const std::string metadataJson() const override;

 private:
  const device::TraceRecord& record_;
  const device::TraceMark& mark_;
};

// What a host thread did for the device, or the compiler.
class SpanActivity final : public Activity {
 public:
  SpanActivity(const libkineto::TraceSpan& span, const device::TraceSpan& what);
  const std::string metadataJson() const override;

 private:
  const device::TraceSpan& what_;
};

// A range of the script's (record_function) on the device: from the first to the last command issued in it. In
// `prof.events()` the range itself stands, with its device time, so that this one is for files only.
class RangeActivity final : public Activity {
 public:
  RangeActivity(const libkineto::TraceSpan& span, std::string name, int device, int64_t stream, uint64_t begin, uint64_t end);
  std::string shown_name() const override { return shown_name_; }

 private:
  std::string shown_name_;
};

// The track of the compiler in a process.
constexpr int32_t kCompilerTrack = 0x7ffffffe;

const char* launch_name(device::TraceKind kind);
// An operator's name as PyTorch's events have it: without the overload's.
std::string operator_name(const char* name);
// A string in JSON, with its quotes.
std::string quoted(const std::string& text);

}  // namespace openhpu
