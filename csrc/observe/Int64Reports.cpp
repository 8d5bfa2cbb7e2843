#include "observe/Int64Reports.h"

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "observe/events.h"

namespace openhpu {
namespace {

std::atomic<bool> narrow{false};
std::mutex overflow_mutex;
std::map<std::pair<std::string, uint32_t>, int64_t> overflow_notes;  // by operator and line; 0: of float8_e4m3fn
std::atomic<bool> has_overflows{false};

}  // namespace

bool narrow_int64() noexcept { return narrow.load(std::memory_order_relaxed); }
void set_narrow_int64(bool on) noexcept { narrow.store(on, std::memory_order_relaxed); }

void note_overflows(const std::string& op, uint32_t site, int64_t overflows) {
  if (overflows == 0) return;
  count(Counter::Int64Overflows, overflows);
  std::lock_guard<std::mutex> lock(overflow_mutex);
  overflow_notes[{op, site}] += overflows;
  has_overflows.store(true, std::memory_order_release);
}

void note_e4m3(const std::string& op, uint32_t site) {
  std::lock_guard<std::mutex> lock(overflow_mutex);
  overflow_notes.emplace(std::pair(op, site), 0);
  has_overflows.store(true, std::memory_order_release);
}

void report_overflows() {
  if (!has_overflows.load(std::memory_order_acquire)) return;
  decltype(overflow_notes) taken;
  {
    std::lock_guard<std::mutex> lock(overflow_mutex);
    taken.swap(overflow_notes);
    has_overflows.store(false, std::memory_order_release);
  }
  for (const auto& [place, overflows] : taken)
    if (overflows == 0 && listening(kKindness))
      emit(kKindness, {{"kind", std::string("e4m3-range")}, {"detail", place.first}}, place.second);
    else if (overflows > 0 && listening(kInt64Overflow))
      emit(kInt64Overflow, {{"op", place.first}, {"overflows", overflows}}, place.second);
}

}  // namespace openhpu
