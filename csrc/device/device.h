#pragma once

#include <array>

#include "device/command_queue.h"
#include "device/memory_pool.h"
#include "device/module_lock.h"
#include "device/stream.h"

namespace openhpu::device {

// Number of devices of a process, and of modules of a machine. Every array with one element for each device has this
// size.
constexpr int kMaxDevices = 64;

// How devices are opened. Filled from the settings table before the first use.
struct DeviceConfig {
  std::vector<int> modules{0};  // module number of each device index
  // The user chose no modules: these are all of the machine. Index 0 takes the first free one. Index i takes the next
  // free one from the i-th behind it, in a circle.
  bool floating = false;
  // A launcher started the process, and the user chose no modules: its one device takes the free module of `machine`
  // that the job has for this process. `modules` is the one that it would have on an idle machine.
  ModuleJob job;
  std::vector<int> machine;
  double module_wait_s = 1.0;   // how long to wait for a module while all that may be taken are in use
  uint64_t memory_bytes = 0;    // capacity per device; 0: what the machine can give when it is opened
  bool protect_memory = false;  // debug: device memory inaccessible outside kernels
  bool lock_modules = true;     // take the inter-process module locks
  int spin_us = CommandQueue::kDefaultSpinUs;
  int processes = 1;  // of a launcher on this machine, which share its cores

  bool operator==(const DeviceConfig&) const = default;
};

// One software accelerator: memory, workspace (scratch memory of kernels, in worker order), queue, streams.
class Device {
 public:
  // On the first free one of the modules, or that of the job.
  Device(int index, const DeviceConfig& config, const std::vector<int>& modules, Streams& streams);
  ~Device();

  int index() const noexcept { return index_; }
  int module() const noexcept { return module_; }
  MemoryPool& memory() noexcept { return *memory_; }
  MemoryPool& workspace() noexcept { return *workspace_; }
  CommandQueue& queue() noexcept { return *queue_; }
  // Usable cores when the device was opened (usable_cores). With one core there is no worker, and commands run on the
  // submitting thread.
  int cores() const noexcept { return cores_; }

  Stream& stream(int64_t id) { return streams_.at(id, index_); }  // throws std::out_of_range for an unknown id
  // Runs the submitted commands, ends the worker and releases the module. The memory stays, so that late frees are
  // safe.
  void close();

 private:
  int index_;
  int cores_;
  std::unique_ptr<ModuleLock> lock_;  // null without locks, and once the device is closed
  int module_;
  std::unique_ptr<MemoryPool> memory_;
  std::unique_ptr<MemoryPool> workspace_;
  std::unique_ptr<CommandQueue> queue_;
  Streams& streams_;  // of the registry
};

// The devices of this process. Memory and work open them, one by one; questions (`if_open` and what follows) open
// none. A forked child that inherits open devices can not use them (their workers do not exist there): `get` and
// `if_open` throw std::runtime_error, `bad_fork` tells.
class DeviceRegistry {
 public:
  static DeviceRegistry& instance();

  // Throws std::logic_error when a device is already open and the new configuration differs.
  void configure(DeviceConfig config);
  const DeviceConfig& config() const noexcept;
  int count() const noexcept;
  // Opens device `index` if need be. Throws std::out_of_range "HPU device index 3 is out of range: ..." .
  Device& get(int index);
  // For a question: null where the device is not open, which has nothing to wait for and no memory in use. Throws as
  // `get` in a forked child, and after the shutdown of devices that were open.
  Device* if_open(int index);
  Device* get_if_open(int index) noexcept;  // the same without an error
  Streams& streams(int index);              // throws std::out_of_range
  // The module that device `index` has, or the one that it would try first.
  int module(int index);
  // The capacity of a device in bytes: that of the one that is open, or what the configuration says.
  uint64_t capacity(int index);
  std::vector<Device*> open();  // those that are open, by index; none in a forked child
  bool bad_fork() const noexcept;
  // Which open device's memory holds `ptr`; -1 if none.
  int owner_of(const void* ptr);
  // Drains and closes everything (at exit). From then on `get` throws and no device counts as open; the objects
  // stay, since tensors may be freed later still. Does nothing in a forked child.
  void shutdown() noexcept;

 private:
  DeviceRegistry();
  ~DeviceRegistry() = delete;  // leaked: workers must outlive static destructors
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace openhpu::device
