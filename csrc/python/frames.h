#pragma once

namespace openhpu {
// Teaches the core to find the line of the user's script that a thread is executing.
void install_site_hooks();
}
