#pragma once

#include <string>

#include "distributed/Collective.h"

namespace openhpu {

// In a graph capture: runs the collective and makes it an operator of the graph, which replays run on their worker, from
// its start to its end. `written_from`, `written_to`: which of the tensors it changes, by position.
void capture_collective(
    std::string name, std::string group, Collective::Procedure procedure, const Collective::Tensors& tensors,
    size_t written_from, size_t written_to);

}  // namespace openhpu
