#include "runtime/HostTeam.h"

#include <omp.h>

namespace openhpu {

void release_host_team() noexcept { omp_pause_resource_all(omp_pause_soft); }

}  // namespace openhpu
