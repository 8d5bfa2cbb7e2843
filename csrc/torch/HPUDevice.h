#pragma once

#include <c10/core/Stream.h>

#include "Above.h"
#include "device/device.h"
#include "device/event.h"

// Current device and stream of a thread, and the way from a c10::Device to the software device.
namespace openhpu {

using device::kMaxDevices;

// The number of indices that scripts may use. torch.hpu.device_count() may be smaller: see settings/devices.py.
int device_count() noexcept;
c10::DeviceIndex current_device() noexcept;
// The index that a tensor created with `index` reports (-1: the current device). Throws for one out of range.
c10::DeviceIndex normalize_index(c10::DeviceIndex index);
c10::DeviceIndex exchange_device(c10::DeviceIndex index);  // throws for an index out of range
void unchecked_set_device(c10::DeviceIndex index) noexcept;

// Sets it. In a process that owns one module every index means that module.
void set_visible_indices(int visible) noexcept;

// For memory and work: opens the device at first use. Index -1 is the current device.
device::Device& device_of(c10::DeviceIndex index);
inline device::Device& device_of(c10::Device d) { return device_of(d.index()); }
// For a question: null where the device is not open. Throws in a forked child whose parent had opened one.
device::Device* open_device(c10::DeviceIndex index);

c10::Stream current_stream(c10::DeviceIndex index);
c10::Stream exchange_stream(c10::Stream stream);
c10::Stream new_stream(c10::DeviceIndex index, int priority);
device::Stream& stream_of(const c10::Stream& stream);  // opens no device
// Unless null: events that this thread records are this point, on any stream.
inline constinit thread_local const std::shared_ptr<device::Point>* t_record_beside = nullptr;

// After a wait: emits kernels' warnings and throws the pending error of the device's queue, if any, with the operator
// and the line that issued it.
void raise_pending_error(device::Device& d);
void raise_pending_errors();  // of all open devices
// Waits for all commands, then raises what went wrong.
void synchronize(c10::DeviceIndex index);
// The same without raising the error, which stays for the caller of the command. `what` waits.
void wait_for_commands(device::Device& d, const char* what);

// Hands over the recording of the device (lazy mode; otherwise there is none). Called wherever a script waits for the
// device or marks a place in its queue.
inline void flush(device::Device& d) { above.flush(d); }

// Called where a script waits for a device, with the name of the waiting operation. Throws if waiting is not allowed
// there.
inline void check_wait(device::Device& d, const char* what) { above.check_wait(d, what); }
// Called when a script has waited for a device in order to read a result.
inline void note_read(device::Device& d) { above.note_read(d); }

// Queues a command on the current stream of the device.
uint64_t submit(device::Device& d, device::Command* command, device::OnInterrupt what = device::OnInterrupt::GoOn);

// Threads that kernels use: torch.set_num_threads, but not more than there are usable cores. Looked at for each
// command.
void set_kernel_threads(int n) noexcept;
void limit_kernel_threads(int cores) noexcept;
int kernel_threads() noexcept;

}  // namespace openhpu
