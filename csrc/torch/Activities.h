#pragma once

#include <libkineto.h>
#include <output_base.h>

#include <functional>
#include <memory>
#include <string>

#include "device/trace.h"

// Records of a trace as kineto's activities. In `prof.events()` all that the device does has the device type HPU (which
// ActivityType::HPU_OP means there); an exported file names it by the categories that readers of traces know.
namespace openhpu {

struct Activity final : public libkineto::GenericTraceActivity {
  // `shown`: its type in a file.
  Activity(const libkineto::TraceSpan& span, libkineto::ActivityType type, libkineto::ActivityType shown, std::string name)
      : GenericTraceActivity(span, type, std::move(name)), shown(shown) {}
  void log(libkineto::ActivityLogger& logger) const override;
  const std::string metadataJson() const override { return metadata ? metadata() : ""; }
  const std::string getMetadataValue(const std::string& key) const override;

  libkineto::ActivityType shown;
  std::string shown_name;                        // in a file; empty: as elsewhere
  std::function<std::string()> metadata;         // a traced run has very many: written only where it is asked for
  const device::TraceRecord* command = nullptr;  // of a command's
};

// What they refer to outlives them. A command on the device, the call on the host that issued it (where its arrow
// begins), a part of a command, and what a host thread did for the device, or the compiler.
std::unique_ptr<Activity> command_activity(const libkineto::TraceSpan& span, const device::TraceRecord& record);
std::unique_ptr<Activity> launch_activity(const libkineto::TraceSpan& span, const device::TraceRecord& record);
std::unique_ptr<Activity> mark_activity(
    const libkineto::TraceSpan& span, const device::TraceRecord& record, const device::TraceMark& mark);
std::unique_ptr<Activity> span_activity(const libkineto::TraceSpan& span, const device::TraceSpan& what);
// A range of the script's (record_function) on the device: from the first to the last command issued in it. In
// `prof.events()` the range itself stands, with its device time, so that this one is for files only.
std::unique_ptr<Activity> range_activity(
    const libkineto::TraceSpan& span, std::string name, int device, int64_t stream, uint64_t begin, uint64_t end);

// The track of the compiler in a process.
constexpr int32_t kCompilerTrack = 0x7ffffffe;

// By kind of a record: the kind's name, its type in a file, the name of the call on the host, and, of copies, their own.
struct KindNames {
  const char* kind;
  libkineto::ActivityType shown;
  const char* launch;
  const char* copy;
};
const KindNames& names_of(device::TraceKind kind);
// An operator's name as PyTorch's events have it: without the overload's.
std::string operator_name(const char* name);

}  // namespace openhpu
