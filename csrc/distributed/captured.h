#pragma once

#include <string>

#include "distributed/Collective.h"

namespace openhpu {

class Capture;

// In a graph capture: runs the collective and makes it an operator of the graph. Replays run it on their worker, from
// start to end. The graph keeps the collective's arguments alive.
void capture_collective(
    Capture& capture, std::string name, std::string group, Collective::Procedure procedure,
    const Collective::Tensors& written, const Collective::Tensors& read);
// Drops those whose graphs are gone and whose last runs have ended. Called by a thread of the script's.
void forget_captured_collectives();

}  // namespace openhpu
