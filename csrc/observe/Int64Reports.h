#pragma once

#include <cstdint>
#include <string>

// Integers of 64 bits as on a Gaudi (OPENHPU_INT64=gaudi), which computes them in 32 bits: results wrap. The thread
// that runs an operator notes the results that wrapped. Host threads report them when they wait for the device.
namespace openhpu {

bool narrow_int64() noexcept;
void set_narrow_int64(bool on) noexcept;

// `overflows`: how many results of the operator changed.
void note_overflows(const std::string& op, uint32_t site, int64_t overflows);

// The operator read or computed numbers of float8_e4m3fn that a Gaudi 2 does not have (run/Float8).
void note_e4m3(const std::string& op, uint32_t site);

// Events since the last call, one for each operator and line.
void report_overflows();

}  // namespace openhpu
