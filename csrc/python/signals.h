#pragma once

// Signals that end a wait of Python's main thread (device/wait_hook).
namespace openhpu {
bool hears_signals();      // whether this is the thread that handles them
bool interrupt_pending();  // whether Ctrl-C was pressed; it stays to be handled
void handle_signals();     // throws py::error_already_set if a handler raised
}
