#pragma once

#include <string>

#include "distributed/Collective.h"

namespace openhpu {

class Capture;

// In a graph capture: runs the collective and makes it an operator of the graph. Replays run it on their worker, from
// start to end. `written_from`, `written_to`: the range of tensors that it changes. The graph keeps the collective's
// arguments alive.
void capture_collective(
    Capture& capture, std::string name, std::string group, Collective::Procedure procedure, const Collective::Tensors& tensors,
    size_t written_from, size_t written_to);
// Drops those whose graphs are gone and whose last runs have ended. Called by a thread of the script's.
void forget_captured_collectives();

}  // namespace openhpu
