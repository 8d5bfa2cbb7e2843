#include "observe/SizeOrigins.h"

namespace openhpu {
namespace {

constexpr uint32_t kKeptOrigins = 1024;
std::mutex origins_mutex;
std::array<std::pair<uint32_t, SizeOrigin>, kKeptOrigins> kept_origins;  // by number, modulo kKeptOrigins
uint32_t last_origin = 0;

}  // namespace

uint32_t add_size_origin(SizeOrigin origin) {
  std::lock_guard lock(origins_mutex);
  if (++last_origin == 0) ++last_origin;
  kept_origins[last_origin % kKeptOrigins] = {last_origin, std::move(origin)};
  return last_origin;
}

std::optional<SizeOrigin> size_origin(uint32_t number) {
  std::lock_guard lock(origins_mutex);
  const auto& [found, origin] = kept_origins[number % kKeptOrigins];
  return number != 0 && found == number ? std::optional(origin) : std::nullopt;
}

}  // namespace openhpu
