#pragma once

#include <c10/core/Device.h>

// PyTorch's autograd engine has a thread for each device index, named by the guards of all device types. It starts them
// at the first backward of a process, also where the backward is one of the CPU alone. After that a forked child may do
// no backward. A program that uses no hpu shall have no such threads: the guard names devices from the moment on at
// which the first one is opened. If the engine has started without them, they are started then.
namespace openhpu {

// The guard's answer to the engine: 0 before a device was opened.
c10::DeviceIndex devices_of_autograd() noexcept;
// A device is being opened.
void open_for_autograd();

}  // namespace openhpu
