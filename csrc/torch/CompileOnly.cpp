#include "torch/CompileOnly.h"

#include <map>
#include <mutex>

#include "observe/events.h"
#include "observe/site.h"
#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

struct MadeMeanwhile {
  uint32_t site;
  size_t nbytes;
};

std::mutex made_mutex;
uint32_t compile_only_periods = 0;
std::map<const HPUMemory*, MadeMeanwhile> made_meanwhile;  // in this period, without contents

void tell_not_run(const char* what, const std::string& op, size_t nbytes, uint32_t site) {
  if (listening(kNotRun))
    emit(kNotRun, {{"what", std::string(what)}, {"op", op}, {"bytes", static_cast<int64_t>(nbytes)}}, site);
}

}  // namespace

void set_compile_only(bool on) {
  if (on == (compile_only() != 0)) return;
  for (int index = 0; index < kMaxDevices; ++index)
    if (auto* d = device::DeviceRegistry::instance().get_if_open(index)) flush(*d);
  std::map<const HPUMemory*, MadeMeanwhile> kept;
  {
    std::lock_guard lock(made_mutex);
    kept.swap(made_meanwhile);
    g_compile_only.store(on ? ++compile_only_periods : 0, std::memory_order_relaxed);
  }
  std::map<uint32_t, size_t> lines;  // a line that made many is told once
  for (const auto& [memory, one] : kept) lines[one.site] += one.nbytes;
  for (const auto& [site, nbytes] : lines) tell_not_run("kept", "", nbytes, site);
}

void note_made(HPUMemory& memory) {
  memory.born = compile_only();
  if (memory.nbytes == 0) return;
  std::lock_guard lock(made_mutex);
  made_meanwhile[&memory] = {current_site(), memory.nbytes};
}

void note_contents(HPUMemory& memory) {
  if (memory.born == 0) return;
  forget_made(memory);
  memory.born = 0;
}

void forget_made(HPUMemory& memory) {
  std::lock_guard lock(made_mutex);
  made_meanwhile.erase(&memory);
}

void note_left_out_write(const HPUMemory& memory, const std::string& op) {
  if (memory.born != compile_only()) tell_not_run("write", op, memory.nbytes, current_site());
}

void note_undefined_read(const HPUMemory& memory, const char* op) {
  if (memory.born == compile_only()) tell_not_run("read", op, memory.nbytes, current_site());
}

}  // namespace openhpu
