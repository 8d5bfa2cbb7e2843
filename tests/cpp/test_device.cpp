#include "device/device.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "Above.h"
#include "child_process.h"
#include "gates.h"

namespace openhpu::device {
namespace {

using testing::Child;
using testing::error_of;
using testing::Gate;
using testing::in_own_process;
using testing::in_threads;
using testing::require;
using testing::require_contains;
using testing::TemporaryFolder;

DeviceConfig small(std::vector<int> modules = {0}, bool locked = false) {
  DeviceConfig config;
  config.modules = std::move(modules);
  config.memory_bytes = 16 << 20;
  config.lock_modules = locked;
  return config;
}

DeviceRegistry& registry() { return DeviceRegistry::instance(); }

// Runs a test's body in a process of its own that has these devices.
template <class Body>
void with_devices(const DeviceConfig& config, Body body) {
  in_own_process([&] {
    registry().configure(config);
    body();
    registry().shutdown();
  });
}

TEST(DeviceRegistry, OneDeviceIsOpenedOnceByManyThreads) {
  with_devices(small(), [] {
    static std::atomic<int> opened{0};
    above.set_up_device = [](Device&) { ++opened; };
    std::vector<Device*> seen(8);
    in_threads(8, [&](int number) { seen[static_cast<size_t>(number)] = &registry().get(0); });
    require(opened == 1, "opened once");
    for (Device* device : seen) require(device == seen[0], "the same for everybody");
  });
}

TEST(DeviceRegistry, ConfigurationIsFixedOnceADeviceIsOpen) {
  with_devices(small({0, 1}), [] {
    registry().configure(small({5}));
    require(registry().config().modules == std::vector{5}, "the last one counts");
    registry().get(0);
    registry().configure(small({5}));  // the same again is fine
    try {
      registry().configure(small({6}));
      require(false, "refused");
    } catch (const std::logic_error& error) {
      require_contains(error.what(), "already open");
    }
    require_contains(error_of([] { registry().configure(small({})); }), "between 1 and 64");
  });
}

DeviceConfig eight() {
  DeviceConfig config = small({0, 1, 2, 3, 4, 5, 6, 7}, true);
  config.floating = true;
  config.module_wait_s = 0;
  return config;
}

// The folder of the locks, for a test.
struct LockFolder : TemporaryFolder {
  LockFolder() { ::setenv("XDG_RUNTIME_DIR", path().c_str(), 1); }
};

TEST(DeviceRegistry, WhereNobodyChoseADeviceGetsTheFirstFreeModule) {
  LockFolder folder;
  ModuleLock one(1), six(6);
  with_devices(eight(), [] {
    require(registry().get(0).module() == 0, "the first");
    require(registry().get(1).module() == 2, "the next free one behind it");
    require(registry().get(2).module() == 3, "module 2 is taken by index 1");
    require(registry().get(7).module() == 7, "their own number where it is free");
  });
  ModuleLock zero(0);
  with_devices(eight(), [] {
    require(registry().get(1).module() == 2, "before index 0 is open");
    require(registry().get(0).module() == 3, "which gets what is left");
    require(registry().get(7).module() == 4, "10 in a circle of 8 is 2, which is taken, as is 3");
  });
}

TEST(DeviceRegistry, ThreadsThatOpenDevicesAtOnceGetDifferentModules) {
  LockFolder folder;
  with_devices(eight(), [] {
    std::vector<int> modules(8, -1);
    in_threads(8, [&](int index) { modules[static_cast<size_t>(index)] = registry().get(index).module(); });
    require(std::set<int>(modules.begin(), modules.end()).size() == 8, "eight modules");
  });
}

TEST(DeviceRegistry, AChildForkedBeforeTheFirstUseTakesAModuleOfItsOwn) {
  LockFolder folder;
  with_devices(eight(), [] {
    Child child([](Child& parent) {
      parent.await();
      require(registry().get(0).module() == 1, "the next one");
      registry().shutdown();
    });
    require(registry().get(0).module() == 0, "the first");
    require(child.release() == 0, "the child");
  });
}

TEST(DeviceRegistry, AFailedOpeningCanBeRepeated) {
  LockFolder folder;
  const DeviceConfig config = small({0}, true);
  Child holder([&](Child& parent) {
    registry().configure(config);
    registry().get(0);
    parent.meet();
    registry().shutdown();
  });
  holder.await();
  Child second([&](Child& parent) {
    registry().configure(config);
    require_contains(error_of([] { registry().get(0); }), "in use by process " + std::to_string(holder.pid()));
    require(registry().get_if_open(0) == nullptr, "not open");
    registry().configure(config);
    parent.meet();
    registry().get(0);
    registry().shutdown();
  });
  second.await();
  EXPECT_EQ(holder.release(), 0);
  EXPECT_EQ(second.release(), 0);
}

TEST(DeviceRegistry, KnowsTheOwnerOfAnAddress) {
  with_devices(small({0, 1}), [] {
    int local = 0;
    require(registry().owner_of(&local) == -1, "nobody's");
    void* zero = registry().get(0).memory().allocate(100);
    void* one = registry().get(1).memory().allocate(100);
    require(registry().owner_of(zero) == 0 && registry().owner_of(one) == 1, "owners");
    require(registry().owner_of(static_cast<char*>(one) + 50) == 1, "inner addresses too");
    require(registry().owner_of(nullptr) == -1, "null is nobody's");
  });
}

TEST(DeviceRegistry, ShutdownDrainsAndCloses) {
  with_devices(small(), [] {
    Device& device = registry().get(0);
    void* block = device.memory().allocate(100);
    int ran = 0;
    for (int i = 0; i < 100; ++i) device.queue().submit("c", [&] { ++ran; });
    registry().shutdown();
    require(ran == 100, "everything has run");
    require_contains(error_of([] { registry().get(0); }), "HPU has been shut down");
    require(registry().get_if_open(0) == nullptr, "no device counts as open");
    device.memory().free(block);  // a tensor that dies late
  });
}

TEST(DeviceRegistry, AForkWhileThreadsAllocateLeavesThePoolUsable) {
  with_devices(small(), [] {
    Device& device = registry().get(0);
    void* block = device.memory().allocate(100);
    std::atomic<bool> stop{false};
    std::thread busy([&] {
      while (!stop) device.memory().free(device.memory().allocate(200));
    });
    int failures = 0;
    for (int i = 0; i < 50; ++i) {
      Child child([&](Child&) {
        ::alarm(10);
        device.memory().free(block);
      });
      failures += child.wait() != 0;
    }
    stop = true;
    busy.join();
    require(failures == 0, "no child hung");
  });
}

TEST(CommandQueue, AnInheritedQueueIsDestroyedWithoutHanging) {
  CommandQueue queue("test");
  Gate gate(queue);
  gate.wait_entered();
  in_own_process([&] {
    queue.~CommandQueue();
    CommandQueue own("own");  // one born in the child works
    bool ran = false;
    own.wait(own.submit("c", [&] { ran = true; }));
    require(ran, "it ran");
  });
}

}  // namespace
}  // namespace openhpu::device
