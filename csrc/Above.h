#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace openhpu {

namespace device {
class Device;
struct TraceRecord;
}  // namespace device
struct HPUMemory;

// The climbs: where a folder calls one that lies above it, it calls a function of this struct. The module sets them
// all, once, when it is loaded (python/module). Without it, as in the tests of device/, they do nothing.
struct Above {
  // Called by device/blocking_wait, supplied by python/module: before a thread blocks. It gives Python's lock away.
  void* (*enter_wait)() = []() -> void* { return nullptr; };
  // Called by device/blocking_wait, supplied by python/module: after that, with what `enter_wait` returned.
  void (*leave_wait)(void* entered) = [](void*) {};
  // Called by device/blocking_wait, supplied by python/signals: whether the calling thread is the one that handles
  // signals.
  bool (*hears_signals)() = [] { return false; };
  // Called by device/blocking_wait, supplied by python/signals: whether an interrupt came. It stays to be handled.
  bool (*interrupt_pending)() = [] { return false; };
  // Called by device/blocking_wait, supplied by python/signals: runs the handlers of all signals that came, and throws
  // what they throw.
  void (*handle_signals)() = [] {};
  // Called by device/command_queue, supplied by run/KernelThreads: on a worker, before its first command.
  void (*set_up_worker)() = [] {};
  // Called by device/command_queue, supplied by run/KernelThreads: calls `run`, which does not throw, on a host thread
  // that runs commands in the worker's place.
  void (*run_as_worker)(const std::function<void()>& run) = [](const std::function<void()>& run) { run(); };
  // Called by device/device, supplied by python/module: before a device is opened, on the thread that opens it, without
  // a lock. It may throw, and the device is not opened then.
  void (*prepare_to_open)() = [] {};
  // Called by device/device, supplied by python/module: after the first device of the process was opened, on the thread
  // that opened it, without a lock. It may use the device.
  void (*first_device_opened)(int index) = [](int) {};
  // Called by device/device, supplied by python/module: right after a device was opened. It may ask for that device.
  void (*set_up_device)(device::Device& d) = [](device::Device&) {};
  // Called by device/trace, supplied by torch/Kineto: the stream (by the record's device), the operation and the
  // annotation of the calling thread.
  void (*describe_origin)(device::TraceRecord& record) = [](device::TraceRecord&) {};
  // Called by observe/site, supplied by python/frames: the line that the calling thread executes; 0: no Python frame.
  uint32_t (*executing_site)() = []() -> uint32_t { return 0; };
  // Called by observe/site, supplied by python/frames: file and line of such a number.
  std::pair<std::string, int> (*place_of_site)(uint32_t site) = [](uint32_t) { return std::pair<std::string, int>(); };
  // Called by torch/HPUDevice, supplied by record/Lazy: hands the recording of the device over to its queue.
  void (*flush)(device::Device& d) = [](device::Device&) {};
  // Called by torch/HPUDevice, supplied by record/Lazy: a script has waited for the device in order to read a result.
  void (*note_read)(device::Device& d) = [](device::Device&) {};
  // Called by torch/HPUDevice, supplied by record/Capture: before a script waits for the device, with the name of the
  // waiting operation. Throws if waiting is not allowed there.
  void (*check_wait)(device::Device& d, const char* what) = [](device::Device&, const char*) {};
  // Called by torch/HPUDevice, supplied by distributed/Collective: before a wait for all work of a device. Queues waits
  // for work outside of its queue.
  void (*await_collectives)(device::Device& d) = [](device::Device&) {};
  // Called by torch/HPUAllocator, supplied by record/Lazy: a storage that takes part in a graph being recorded dies.
  // Returns true if the graph has taken over its memory.
  bool (*forget_memory)(HPUMemory& memory) = [](HPUMemory&) { return false; };
  // Called by torch/HPUAllocator, supplied by record/Lazy: before an allocation fails. Returns true if it may have
  // released memory, so that the allocation is tried again.
  bool (*make_room)(int pool) = [](int) { return false; };
  // Called by torch/HPUAllocator, supplied by record/Lazy: before a command gets the address of a storage's memory, so
  // that its contents are those of the script's order.
  void (*require_memory)(HPUMemory& memory) = [](HPUMemory&) {};
};

// Each library of ours has one of its own.
[[gnu::visibility("hidden")]] inline constinit Above above{};

}  // namespace openhpu
