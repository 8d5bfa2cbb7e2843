#pragma once

namespace openhpu {

// Ends the calling host thread's team of OpenMP threads; the next parallel region makes a new one. Called where a host
// thread turns to the device: libgomp counts the threads of all teams, and when they are more than the machine's cores,
// every thread that waits at a barrier goes to sleep at once instead of polling. A team that the host once used and
// no longer needs then doubles the time of kernels on the worker (a GPT training step: 31 ms instead of 15).
// Does nothing inside a parallel region or when there is no team.
void release_host_team() noexcept;

}  // namespace openhpu
