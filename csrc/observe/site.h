#pragma once

#include <cstdint>
#include <string>
#include <utility>

// Source lines of the user's script. The core knows a line only as a number; the bindings, which know Python, give
// the number for the calling thread and resolve it later.
namespace openhpu {

// The line that is issuing an operator on this thread. In a backward, which has no Python frame of its own, it is the
// line of the forward operator, found by the sequence number of the autograd node.
uint32_t current_site();
std::pair<std::string, int> resolve_site(uint32_t site);
std::string describe_site(uint32_t site);  // `"file", line N`, or "" when unknown

}  // namespace openhpu
