#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Operators whose results' sizes depend on values, so that a recompilation can name them. The table holds the last ones,
// and is empty while nobody listens for recompilations.
namespace openhpu {

struct SizeOrigin {
  std::string op;
  uint32_t site = 0;
  std::vector<int64_t> sizes;  // of its results
};

// Returns its number, which is never 0.
uint32_t add_size_origin(SizeOrigin origin);
// Nothing for 0, and for one that is too old.
std::optional<SizeOrigin> size_origin(uint32_t number);

}  // namespace openhpu
