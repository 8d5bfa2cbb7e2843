#pragma once

#include <string>

#include "distributed/Collective.h"

namespace openhpu {

class Capture;

// In a graph capture: runs the collective and makes it an operator of the graph, which replays run on their worker, from
// its start to its end. `written_from`, `written_to`: which of the tensors it changes, by position. What is kept of it
// goes with the graph.
void capture_collective(
    Capture& capture, std::string name, std::string group, Collective::Procedure procedure, const Collective::Tensors& tensors,
    size_t written_from, size_t written_to);
// Drops those whose graphs are gone and whose last runs have ended. Called by a thread of the script's.
void forget_captured_collectives();

}  // namespace openhpu
