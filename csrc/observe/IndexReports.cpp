#include "observe/IndexReports.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "observe/events.h"
#include "observe/site.h"

namespace openhpu {
namespace {

using Place = std::pair<std::string, uint32_t>;  // operator and line

std::atomic<bool> lenient{true};
std::mutex notes_mutex;
std::map<Place, IndicesOutOfRange> notes;
std::set<Place> warned;
std::atomic<bool> has_notes{false};

bool is_news(const Place& place) {
  std::lock_guard<std::mutex> lock(notes_mutex);
  // A line is warned of once; where the line is unknown, an operator.
  return warned.insert(place.second ? Place{"", place.second} : place).second;
}

}  // namespace

bool lenient_indices() noexcept { return lenient.load(std::memory_order_relaxed); }
void set_lenient_indices(bool on) noexcept { lenient.store(on, std::memory_order_relaxed); }

void note_indices(const std::string& op, uint32_t site, const IndicesOutOfRange& found) {
  if (found.count == 0) return;
  count(Counter::IndicesOutOfRange, found.count);
  std::lock_guard<std::mutex> lock(notes_mutex);
  auto& note = notes[{op, site}];
  if (note.count == note.padding || note.size < 0) {  // the first that is no padding is the example
    note.example = found.example;
    note.size = found.size;
  }
  note.count += found.count;
  note.padding += found.padding;
  has_notes.store(true, std::memory_order_release);
}

void report_indices() {
  if (!has_notes.load(std::memory_order_acquire)) return;
  std::map<Place, IndicesOutOfRange> taken;
  {
    std::lock_guard<std::mutex> lock(notes_mutex);
    taken.swap(notes);
    has_notes.store(false, std::memory_order_release);
  }
  for (const auto& [place, found] : taken) {
    const auto& [op, site] = place;
    if (listening(kIndicesOutOfRange))
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

}  // namespace openhpu
