#pragma once

#include "registry.h"
#include "tpc/engine.h"

namespace tpc {

// Handlers of this process's signals, which pass on what is not a kernel's.
void install_handlers();

// Runs one part of a kernel's index space. False: it was ended, and the engine has the message and the place.
bool run_guarded(Engine& here, const KernelEntry& kernel, const uint32_t* scalars, double seconds);
// The same for any work on an engine, such as many members one after the other.
bool guarded(Engine& here, double seconds, void (*work)(Engine& here, void* argument), void* argument);

}  // namespace tpc
