#include "observe/KernelReports.h"

#include <c10/util/StringUtil.h>

#include "device/shared.h"
#include "observe/Differences.h"
#include "observe/events.h"
#include "observe/site.h"

namespace openhpu {
namespace {

using Place = std::pair<std::string, uint32_t>;  // operator and line

struct Note {
  IndicesOutOfRange indices;
  int64_t overflows = 0;
  bool e4m3 = false;
};

device::Inbox<std::map<Place, Note>> notes;
std::mutex warned_mutex;
std::set<Place> warned;

bool is_news(const Place& place) {
  std::lock_guard<std::mutex> lock(warned_mutex);
  // A line is warned of once; where the line is unknown, an operator.
  return warned.insert(place.second ? Place{"", place.second} : place).second;
}

device::Inbox<std::vector<c10::Warning>> warnings;

struct CollectWarnings final : c10::WarningHandler {
  void process(const c10::Warning& w) override {
    warnings.leave([&](auto& all) {
      if (all.size() < 64) all.push_back(w);
    });
  }
};

}  // namespace

void note_indices(const std::string& op, uint32_t site, const IndicesOutOfRange& found) {
  if (found.count == 0) return;
  count(Counter::IndicesOutOfRange, found.count);
  notes.leave([&](auto& all) {
    auto& known = all[{op, site}].indices;
    if (known.count == known.padding || known.size < 0) {  // the first that is no padding is the example
      known.example = found.example;
      known.size = found.size;
    }
    known.count += found.count;
    known.padding += found.padding;
  });
}

void note_overflows(const std::string& op, uint32_t site, int64_t overflows) {
  if (overflows == 0) return;
  count(Counter::Int64Overflows, overflows);
  notes.leave([&](auto& all) { all[{op, site}].overflows += overflows; });
}

void note_e4m3(const std::string& op, uint32_t site) {
  notes.leave([&](auto& all) { all[{op, site}].e4m3 = true; });
}

void report_kernels() {
  for (const auto& [place, noted] : notes.take()) {
    const auto& [op, site] = place;
    const auto& found = noted.indices;
    if (noted.e4m3) note(Difference::E4m3Range, op, site);
    if (noted.overflows > 0 && listening(kInt64Overflow))
      emit(kInt64Overflow, {{"op", op}, {"overflows", noted.overflows}}, site);
    if (found.count > 0 && listening(kIndicesOutOfRange))
      emit(kIndicesOutOfRange, {{"op", op}, {"indices", found.count}, {"padding", found.padding}}, site);
    if (found.count == found.padding || !is_news(place)) continue;
    const std::string where = describe_site(site);
    const std::string what =
        found.size < 0
            ? c10::str(found.count - found.padding, " of its indices, without those that are -1, are out of range")
            : c10::str("index ", found.example, " is out of range for a dimension of size ", found.size);
    // Verbatim: the place that matters is the script's.
    c10::warn(
        c10::Warning(
            c10::UserWarning(), {__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
            c10::str(
                op, ": ", what, where.empty() ? "" : ", at " + where,
                ". On hpu reading it gives zeros and writing to it changes nothing; an accelerator reads an "
                "unspecified row "
                "here. OPENHPU_OUT_OF_RANGE=error makes it an error."),
            /*verbatim=*/true));
  }
}

c10::WarningHandler* kernel_warnings() {
  static CollectWarnings collect;
  return &collect;
}

void emit_kernel_warnings() {
  report_kernels();
  for (const auto& w : warnings.take()) c10::warn(w);
}

}  // namespace openhpu
