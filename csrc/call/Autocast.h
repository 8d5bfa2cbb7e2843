#pragma once

#include <string>
#include <vector>

namespace openhpu {

enum class CastPolicy { LowerPrecision, Float32, Promote };

// Gives all overloads of the named aten operators ("linear") a policy. An operator that already has one keeps it.
// Returns the names that are no aten operators.
std::vector<std::string> register_autocast(std::vector<std::string> names, CastPolicy policy);

}  // namespace openhpu
