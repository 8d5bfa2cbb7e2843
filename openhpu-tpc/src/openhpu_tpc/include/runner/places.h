#pragma once

#include <string>

namespace tpc {

// The user's file and line of an address of this library, as far as addr2line finds it; else the library and an offset.
std::string place_of_address(void* address);

}  // namespace tpc
