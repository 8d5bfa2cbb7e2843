#pragma once

#include <array>
#include <atomic>
#include <string>
#include <string_view>

#include "observe/events.h"

// Where a Gaudi refuses or computes otherwise. The rows of openhpu/observe/differences.toml that the core decides, each
// with its level, which openhpu.observe.differences sets.
namespace openhpu {

enum class Difference : uint8_t { Int64Range, Float64Range, E4m3Range, LazyCollectives };
// Pass: the device goes its own way, as the script asked for. Note: that is reported. AsGaudi: the device does, or
// refuses, as a Gaudi.
enum class Level : uint8_t { Pass, Note, AsGaudi };

inline std::array<std::atomic<Level>, 4> g_levels{};
inline Level level_of(Difference difference) noexcept {
  return g_levels[static_cast<size_t>(difference)].load(std::memory_order_relaxed);
}
// Throws std::invalid_argument for a name that is no row of the core's.
void set_level(std::string_view kind, Level level);

// Whether to look for it: somebody acts on what is found.
inline bool watches(Difference difference) noexcept {
  const Level level = level_of(difference);
  return level == Level::AsGaudi || (level == Level::Note && listening(kDifference));
}
// The script did it, on the line of the calling thread, or on the one that is given. Reported at the level Note.
void note(Difference difference, std::string detail);
void note(Difference difference, std::string detail, uint32_t site);

}  // namespace openhpu
