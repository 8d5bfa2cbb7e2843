#include "device/device.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <latch>
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
using testing::require;
using testing::require_contains;
using testing::TemporaryFolder;

DeviceConfig small(std::vector<int> modules = {0}) {
  DeviceConfig config;
  config.modules = std::move(modules);
  config.memory_bytes = 16 << 20;
  config.lock_modules = false;
  return config;
}

DeviceRegistry& registry() { return DeviceRegistry::instance(); }

TEST(DeviceRegistry, OneDeviceIsOpenedOnceByManyThreads) {
  in_own_process([] {
    registry().configure(small());
    static std::atomic<int> opened{0};
    above.set_up_device = [](Device&) { ++opened; };
    std::vector<Device*> seen(8);
    std::latch start(8);
    std::vector<std::thread> threads;
    for (auto& device : seen) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        device = &registry().get(0);
      });
    }
    for (auto& thread : threads) thread.join();
    require(opened == 1, "opened once");
    for (Device* device : seen) require(device == seen[0], "the same for everybody");
    registry().shutdown();
  });
}

TEST(DeviceRegistry, ConfigurationIsFixedOnceADeviceIsOpen) {
  in_own_process([] {
    registry().configure(small({0, 1}));
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
    registry().shutdown();
  });
}

DeviceConfig eight() {
  DeviceConfig config = small({0, 1, 2, 3, 4, 5, 6, 7});
  config.floating = true;
  config.lock_modules = true;
  config.module_wait_s = 0;
  return config;
}

TEST(DeviceRegistry, WhereNobodyChoseADeviceGetsTheFirstFreeModule) {
  TemporaryFolder folder;
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  ModuleLock one(1), six(6);
  in_own_process([] {
    registry().configure(eight());
    require(registry().get(0).module() == 0, "the first");
    require(registry().get(1).module() == 2, "the next free one behind it");
    require(registry().get(2).module() == 3, "module 2 is taken by index 1");
    require(registry().get(7).module() == 7, "their own number where it is free");
    registry().shutdown();
  });
  ModuleLock zero(0);
  in_own_process([] {
    registry().configure(eight());
    require(registry().get(1).module() == 2, "before index 0 is open");
    require(registry().get(0).module() == 3, "which gets what is left");
    require(registry().get(7).module() == 4, "10 in a circle of 8 is 2, which is taken, as is 3");
    registry().shutdown();
  });
}

TEST(DeviceRegistry, ThreadsThatOpenDevicesAtOnceGetDifferentModules) {
  TemporaryFolder folder;
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  in_own_process([] {
    registry().configure(eight());
    std::vector<int> modules(8, -1);
    std::latch start(8);
    std::vector<std::thread> threads;
    for (int index = 0; index < 8; ++index) {
      threads.emplace_back([&, index] {
        start.arrive_and_wait();
        modules[static_cast<size_t>(index)] = registry().get(index).module();
      });
    }
    for (auto& thread : threads) thread.join();
    require(std::set<int>(modules.begin(), modules.end()).size() == 8, "eight modules");
    registry().shutdown();
  });
}

TEST(DeviceRegistry, AChildForkedBeforeTheFirstUseTakesAModuleOfItsOwn) {
  TemporaryFolder folder;
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  in_own_process([] {
    registry().configure(eight());
    Child child([](Child& parent) {
      parent.await();
      require(registry().get(0).module() == 1, "the next one");
      registry().shutdown();
    });
    require(registry().get(0).module() == 0, "the first");
    child.tell();
    require(child.wait() == 0, "the child");
    registry().shutdown();
  });
}

TEST(DeviceRegistry, AFailedOpeningCanBeRepeated) {
  TemporaryFolder folder;
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  Child holder([&](Child& parent) {
    DeviceConfig config = small();
    config.lock_modules = true;
    registry().configure(config);
    registry().get(0);
    parent.tell();
    parent.await();
    registry().shutdown();
  });
  holder.await();
  Child second([&](Child& parent) {
    DeviceConfig config = small();
    config.lock_modules = true;
    registry().configure(config);
    require_contains(error_of([] { registry().get(0); }), "in use by process " + std::to_string(holder.pid()));
    require(registry().get_if_open(0) == nullptr, "not open");
    registry().configure(config);
    parent.tell();
    parent.await();
    registry().get(0);
    registry().shutdown();
  });
  second.await();
  holder.tell();
  EXPECT_EQ(holder.wait(), 0);
  second.tell();
  EXPECT_EQ(second.wait(), 0);
}

TEST(DeviceRegistry, KnowsTheOwnerOfAnAddress) {
  in_own_process([] {
    registry().configure(small({0, 1}));
    int local = 0;
    require(registry().owner_of(&local) == -1, "nobody's");
    void* zero = registry().get(0).memory().allocate(100);
    void* one = registry().get(1).memory().allocate(100);
    require(registry().owner_of(zero) == 0 && registry().owner_of(one) == 1, "owners");
    require(registry().owner_of(static_cast<char*>(one) + 50) == 1, "inner addresses too");
    require(registry().owner_of(nullptr) == -1, "null is nobody's");
    registry().shutdown();
  });
}

TEST(DeviceRegistry, ShutdownDrainsAndCloses) {
  in_own_process([] {
    registry().configure(small());
    Device& device = registry().get(0);
    void* block = device.memory().allocate(100);
    int ran = 0;
    for (int i = 0; i < 100; ++i) device.queue().submit("c", [&] { ++ran; });
    registry().shutdown();
    require(ran == 100, "everything has run");
    require_contains(error_of([] { registry().get(0); }), "HPU has been shut down");
    require(registry().get_if_open(0) == nullptr, "no device counts as open");
    device.memory().free(block);  // a tensor that dies late
    registry().shutdown();
  });
}

TEST(DeviceRegistry, AForkWhileThreadsAllocateLeavesThePoolUsable) {
  in_own_process([] {
    registry().configure(small());
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
    registry().shutdown();
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
