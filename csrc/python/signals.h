#pragma once

// Signals that end a wait of Python's main thread (device/blocking_wait).
namespace openhpu {
bool hears_signals();      // whether this is the thread that handles them
bool interrupt_pending();  // whether Ctrl-C was pressed; it stays to be handled
void handle_signals();     // throws py::error_already_set if a handler raised

// Python drops an exception in a function that os.register_at_fork was given, and that function ends half-way. A large
// process forks for tens of milliseconds: a Ctrl-C meanwhile would be lost. With this it comes again after the fork.
void hold_interrupts_during_forks();
}
