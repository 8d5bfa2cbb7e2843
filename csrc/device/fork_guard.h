#pragma once

#include <cstdint>

namespace openhpu::device {

// How many forks lie between program start and this process. An object that remembers the number at its birth
// knows by comparing whether it was inherited: its threads then do not exist here, and its locks may be held by
// nobody. One relaxed load, so that hot paths can afford it.
uint32_t fork_generation() noexcept;

}  // namespace openhpu::device
