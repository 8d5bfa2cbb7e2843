#pragma once

#include <c10/core/Device.h>

// PyTorch's autograd engine has a thread for each device index, named by the guards of all device types. It starts them
// at the first backward of a process, also where the backward is one of the CPU alone. After that a forked child may do
// no backward. A program that uses no hpu shall have no such threads: the guard names devices from the moment on at
// which the first one is opened. If the engine has started without them, they are started then. Tensors without memory
// (FakeTensorMode) open no device. Their backward is found in Python (integration/patches).
namespace openhpu {

// The guard's answer to the engine: 0 before a device was opened.
c10::DeviceIndex devices_of_autograd() noexcept;
// A device is being opened, or a backward has tensors of hpu that have no memory.
void open_for_autograd();

// While true, this thread's questions for the current stream are a script's, and not autograd's.
inline constinit thread_local bool t_script_asks = false;
// The current stream is asked for. Autograd does so for each tensor that it notes, before any device is open, too.
void note_stream_question();
// Whether the next backward may have tensors of hpu while no device is open: a stream was asked for since the last
// call.
bool may_note_tensors();

}  // namespace openhpu
