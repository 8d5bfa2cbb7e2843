#include "device/device.h"

#include <pthread.h>
#include <unistd.h>

#include "Above.h"
#include "device/blocking_wait.h"
#include "device/host.h"

namespace openhpu::device {
namespace {

static_assert(kMaxDevices <= 128, "device indices of PyTorch are 8 bits, signed");

uint64_t physical_memory() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

uint64_t capacity_of(const DeviceConfig& config) {
  return config.memory_bytes ? config.memory_bytes : std::min(device_memory(), physical_memory());
}

}  // namespace

Device::Device(int index, const DeviceConfig& config, const std::vector<int>& modules, Streams& streams)
    : index_(index),
      cores_(usable_cores(config.processes)),
      lock_(
          config.lock_modules ? std::make_unique<ModuleLock>(modules, config.module_wait_s, "", config.job) : nullptr),
      module_(lock_ ? lock_->module() : modules.at(0)),
      queue_(std::make_unique<CommandQueue>(std::to_string(index))),
      streams_(streams) {
  const std::string name = "HPU " + std::to_string(index);
  const size_t capacity = capacity_of(config);
  memory_ = std::make_unique<MemoryPool>(name, capacity, /*watchful=*/true);
  workspace_ = std::make_unique<MemoryPool>(name + " workspace", capacity, /*watchful=*/true);
  memory_->set_protection(config.protect_memory);
  queue_->set_index(index);
  queue_->set_spin_us(cores_ > 1 ? config.spin_us : 0);
  queue_->set_workerless(cores_ == 1);
  streams_.attach(*queue_);
}

Device::~Device() {
  // Before the pools, which its commands use.
  queue_.reset();
}

void Device::close() {
  queue_->close();
  lock_.reset();
}

struct DeviceRegistry::Impl {
  // Recursive: `Above::set_up_device` may ask for the device that is being opened.
  std::recursive_mutex mutex;
  DeviceConfig config;
  std::array<Streams, kMaxDevices> streams;
  std::array<std::unique_ptr<Device>, kMaxDevices> devices;
  // What `get` may hand out. Emptied at shutdown and in forked children, so that the usual case is one load.
  std::array<std::atomic<Device*>, kMaxDevices> open{};
  std::atomic<bool> in_use{false};  // a device is open or just being opened
  std::atomic<bool> bad_fork{false};
  std::atomic<bool> closed{false};

  // `Above::set_up_device` may want Python's lock.
  std::unique_lock<std::recursive_mutex> lock() { return lock_patiently(mutex); }

  void check_usable() const {
    if (bad_fork.load(std::memory_order_acquire)) {
      throw std::runtime_error(
          "Cannot use HPU in a forked subprocess: the device was opened before the fork. To use HPU with "
          "multiprocessing, you must use the 'spawn' start method.");
    }
    if (closed.load(std::memory_order_acquire)) throw std::runtime_error("HPU has been shut down");
  }

  std::string range_error(int index) const {
    const size_t count = config.modules.size();
    return "HPU device index " + std::to_string(index) + " is out of range: this process has " + std::to_string(count) +
           (count == 1 ? " device" : " devices") +
           " (HABANA_VISIBLE_MODULES names the modules, OPENHPU_DEVICE_COUNT their number)";
  }

  // The modules that device `index` may get, in the order in which they are tried.
  std::vector<int> candidates(int index) const {
    const auto& all = config.modules;
    if (config.lock_modules && !config.job.name.empty()) return config.machine;
    if (!config.floating) return {all[static_cast<size_t>(index)]};
    auto start = static_cast<size_t>(index);
    if (devices[0]) {
      start += static_cast<size_t>(std::find(all.begin(), all.end(), devices[0]->module()) - all.begin());
    }
    std::vector<int> turned(all);
    std::rotate(turned.begin(), turned.begin() + static_cast<std::ptrdiff_t>(start % all.size()), turned.end());
    return turned;
  }

  bool any_device() const {
    return std::any_of(devices.begin(), devices.end(), [](const auto& device) { return device != nullptr; });
  }

  Device& open_device(int index) {
    auto& slot = devices[static_cast<size_t>(index)];
    in_use.store(true, std::memory_order_release);
    try {
      slot = std::make_unique<Device>(index, config, candidates(index), streams[static_cast<size_t>(index)]);
      above.set_up_device(*slot);
    } catch (...) {
      slot.reset();
      in_use.store(any_device(), std::memory_order_release);
      throw;
    }
    open[static_cast<size_t>(index)].store(slot.get(), std::memory_order_release);
    return *slot;
  }

  // `first`: whether this call opened the first device of the process.
  Device& get_or_open(int index, int count, bool& first) {
    if (index < 0 || index >= count) throw std::out_of_range(range_error(index));
    auto lock = this->lock();
    check_usable();
    if (auto& device = devices[static_cast<size_t>(index)]) return *device;  // meanwhile, or while it is set up
    const bool none = !any_device();
    Device& device = open_device(index);
    first = none;
    return device;
  }
};

DeviceRegistry& DeviceRegistry::instance() {
  static DeviceRegistry* registry = new DeviceRegistry;
  return *registry;
}

DeviceRegistry::DeviceRegistry() : impl_(std::make_unique<Impl>()) {
  pthread_atfork(nullptr, nullptr, [] {
    // The mutex may be held by a thread that does not exist here. It is not touched: its holder has set `in_use`,
    // and with `bad_fork` no function asks for it.
    Impl& impl = *instance().impl_;
    if (!impl.in_use.load(std::memory_order_acquire)) return;
    impl.bad_fork.store(true, std::memory_order_release);
    for (auto& device : impl.open) device.store(nullptr, std::memory_order_release);
  });
}

void DeviceRegistry::configure(DeviceConfig config) {
  impl_->check_usable();
  if (config.modules.empty() || config.modules.size() > static_cast<size_t>(kMaxDevices)) {
    throw std::invalid_argument(
        "the number of HPU devices must lie between 1 and " + std::to_string(kMaxDevices) + ", but is " +
        std::to_string(config.modules.size()));
  }
  std::array<bool, kMaxDevices> named{};
  for (const int module : config.modules) {
    if (module < 0 || module >= kMaxDevices) {
      throw std::invalid_argument(
          "HPU modules have numbers from 0 to " + std::to_string(kMaxDevices - 1) + ", not " + std::to_string(module));
    }
    if (std::exchange(named[static_cast<size_t>(module)], true)) {
      throw std::invalid_argument("HPU module " + std::to_string(module) + " is named twice");
    }
  }
  auto lock = impl_->lock();
  if (!config.job.name.empty() && (config.modules.size() != 1 || config.machine.empty() || config.job.rank < 0)) {
    throw std::invalid_argument("a process of a job has one HPU module, of a machine that has some, and a rank");
  }
  if (impl_->in_use.load() && !(config == impl_->config)) {
    throw std::logic_error("HPU devices are already open: their configuration can no longer change");
  }
  if (!impl_->in_use.load()) impl_->config = std::move(config);
}

const DeviceConfig& DeviceRegistry::config() const noexcept { return impl_->config; }

int DeviceRegistry::count() const noexcept { return static_cast<int>(impl_->config.modules.size()); }

Device& DeviceRegistry::get(int index) {
  if (Device* device = get_if_open(index)) return *device;
  impl_->check_usable();
  // Neither runs under the registry's lock: both run Python code, which may wait for another thread that wants it.
  above.prepare_to_open();
  bool first = false;
  Device& device = impl_->get_or_open(index, count(), first);
  if (first) above.first_device_opened(index);
  return device;
}

Device* DeviceRegistry::if_open(int index) {
  Device* device = get_if_open(index);
  if (!device && impl_->in_use.load(std::memory_order_acquire)) impl_->check_usable();
  return device;
}

Streams& DeviceRegistry::streams(int index) {
  if (index < 0 || index >= count()) throw std::out_of_range(impl_->range_error(index));
  return impl_->streams[static_cast<size_t>(index)];
}

int DeviceRegistry::module(int index) {
  if (Device* device = get_if_open(index)) return device->module();
  if (index < 0 || index >= count()) throw std::out_of_range(impl_->range_error(index));
  if (bad_fork()) return impl_->config.modules[static_cast<size_t>(index)];  // the lock may be held for ever
  if (!config().job.name.empty()) return config().modules[static_cast<size_t>(index)];
  auto lock = impl_->lock();
  return impl_->candidates(index).front();
}

uint64_t DeviceRegistry::capacity(int index) {
  if (Device* device = get_if_open(index)) return device->memory().stats().limit;
  return capacity_of(config());
}

Device* DeviceRegistry::get_if_open(int index) noexcept {
  if (index < 0 || index >= kMaxDevices) return nullptr;
  return impl_->open[static_cast<size_t>(index)].load(std::memory_order_acquire);
}

bool DeviceRegistry::bad_fork() const noexcept { return impl_->bad_fork.load(std::memory_order_acquire); }

std::vector<Device*> DeviceRegistry::open() {
  std::vector<Device*> found;
  for (int index = 0; index < count(); ++index)
    if (Device* device = get_if_open(index)) found.push_back(device);
  return found;
}

int DeviceRegistry::owner_of(const void* ptr) {
  for (Device* device : open())
    if (device->memory().contains(ptr)) return device->index();
  return -1;
}

void DeviceRegistry::shutdown() noexcept {
  if (bad_fork()) return;
  try {
    auto lock = impl_->lock();
    impl_->closed.store(true, std::memory_order_release);
    for (auto& device : impl_->open) device.store(nullptr, std::memory_order_release);
    for (auto& device : impl_->devices) {
      if (device) device->close();
    }
  } catch (...) {
    // At exit there is nobody left to tell.
  }
}

}  // namespace openhpu::device
