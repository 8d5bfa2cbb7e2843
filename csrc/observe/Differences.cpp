#include "observe/Differences.h"

#include <stdexcept>

#include "observe/site.h"

namespace openhpu {
namespace {

// In the order of the enumeration.
constexpr std::array<const char*, 4> kDifferenceNames{"int64-range", "float64-range", "e4m3-range", "lazy-collectives"};
static_assert(kDifferenceNames.size() == g_levels.size());

}  // namespace

void set_level(std::string_view kind, Level level) {
  for (size_t i = 0; i < kDifferenceNames.size(); ++i)
    if (kind == kDifferenceNames[i]) return g_levels[i].store(level, std::memory_order_relaxed);
  std::string known;
  for (const char* name : kDifferenceNames) known += std::string(known.empty() ? "" : ", ") + name;
  throw std::invalid_argument("the core does not decide the difference " + std::string(kind) + "; it has: " + known);
}

void note(Difference difference, std::string detail) { note(difference, std::move(detail), current_site()); }

void note(Difference difference, std::string detail, uint32_t site) {
  if (level_of(difference) != Level::Note || !listening(kDifference)) return;
  const std::string kind = kDifferenceNames[static_cast<size_t>(difference)];
  emit(kDifference, {{"kind", kind}, {"detail", std::move(detail)}}, site);
}

}  // namespace openhpu
