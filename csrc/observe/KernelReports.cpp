#include "observe/KernelReports.h"

#include <c10/util/StringUtil.h>

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

std::mutex notes_mutex;
std::map<Place, Note> notes;
std::set<Place> warned;
std::atomic<bool> has_notes{false};

template <class Add>
void note(const std::string& op, uint32_t site, Add&& add) {
  std::lock_guard<std::mutex> lock(notes_mutex);
  add(notes[{op, site}]);
  has_notes.store(true, std::memory_order_release);
}

bool is_news(const Place& place) {
  std::lock_guard<std::mutex> lock(notes_mutex);
  // A line is warned of once; where the line is unknown, an operator.
  return warned.insert(place.second ? Place{"", place.second} : place).second;
}

std::mutex warnings_mutex;
std::vector<c10::Warning> warnings;
std::atomic<bool> has_warnings{false};

struct CollectWarnings final : c10::WarningHandler {
  void process(const c10::Warning& w) override {
    std::lock_guard<std::mutex> lock(warnings_mutex);
    if (warnings.size() < 64) warnings.push_back(w);
    has_warnings.store(true, std::memory_order_release);
  }
};

}  // namespace

void note_indices(const std::string& op, uint32_t site, const IndicesOutOfRange& found) {
  if (found.count == 0) return;
  count(Counter::IndicesOutOfRange, found.count);
  note(op, site, [&](Note& n) {
    auto& known = n.indices;
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
  note(op, site, [&](Note& n) { n.overflows += overflows; });
}

void note_e4m3(const std::string& op, uint32_t site) {
  note(op, site, [](Note& n) { n.e4m3 = true; });
}

void report_kernels() {
  if (!has_notes.load(std::memory_order_acquire)) return;
  std::map<Place, Note> taken;
  {
    std::lock_guard<std::mutex> lock(notes_mutex);
    taken.swap(notes);
    has_notes.store(false, std::memory_order_release);
  }
  for (const auto& [place, noted] : taken) {
    const auto& [op, site] = place;
    const auto& found = noted.indices;
    if (noted.e4m3 && listening(kKindness)) emit(kKindness, {{"kind", std::string("e4m3-range")}, {"detail", op}}, site);
    if (noted.overflows > 0 && listening(kInt64Overflow))
      emit(kInt64Overflow, {{"op", op}, {"overflows", noted.overflows}}, site);
    if (found.count > 0 && listening(kIndicesOutOfRange))
      emit(kIndicesOutOfRange, {{"op", op}, {"indices", found.count}, {"padding", found.padding}}, site);
    if (found.count == found.padding || !is_news(place)) continue;
    const std::string where = describe_site(site);
    const std::string what = found.size < 0
        ? c10::str(found.count - found.padding, " of its indices, without those that are -1, are out of range")
        : c10::str("index ", found.example, " is out of range for a dimension of size ", found.size);
    // Verbatim: the place that matters is the script's.
    c10::warn(c10::Warning(
        c10::UserWarning(), {__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
        c10::str(
            op, ": ", what, where.empty() ? "" : ", at " + where,
            ". On hpu reading it gives zeros and writing to it changes nothing; an accelerator reads an unspecified row "
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
  if (!has_warnings.load(std::memory_order_acquire)) return;
  std::vector<c10::Warning> taken;
  {
    std::lock_guard<std::mutex> lock(warnings_mutex);
    taken.swap(warnings);
    has_warnings.store(false, std::memory_order_release);
  }
  for (auto& w : taken) c10::warn(w);
}

}  // namespace openhpu
