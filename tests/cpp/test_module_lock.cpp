#include "device/module_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "Above.h"
#include "child_process.h"
#include "device/blocking_wait.h"

namespace openhpu::device {
namespace {

using testing::Child;
using testing::error_of;
using testing::require;
using testing::require_contains;
using testing::TemporaryFolder;

// A child process that holds a module until it is told to go on.
struct Holder : Child {
  Holder(const TemporaryFolder& folder, int module)
      : Child([&](Child& parent) {
          ModuleLock lock(module, 0, folder.path());
          parent.meet();
        }) {
    await();
  }
};

TEST(ModuleLock, WhereAllAreTakenTheErrorNamesEachHolder) {
  TemporaryFolder folder;
  Child holder([&](Child& parent) {
    ModuleLock zero(0, 0, folder.path()), one(1, 0, folder.path());
    parent.meet();
  });
  holder.await();
  ModuleLock own(2, 0, folder.path());
  const std::string text = error_of([&] { ModuleLock(std::vector{1, 2, 0}, 0, folder.path()); });
  require_contains(text, "All 3 HPU modules are in use:\n");
  require_contains(text, "\n  modules 0 to 1: process " + std::to_string(holder.pid()) + " (");
  require_contains(text, "device_tests");
  require_contains(text, "\n  module 2: process " + std::to_string(::getpid()) + " (");
  require_contains(text, "which is this process\n");
  require_contains(text, "End one of these processes, or allow more modules with OPENHPU_DEVICE_COUNT");
  // Nothing was kept: the holder's end frees both.
  EXPECT_EQ(holder.release(), 0);
  EXPECT_EQ(ModuleLock(std::vector{0}, 0, folder.path()).module(), 0);
}

TEST(ModuleLock, OneOfSeveralThatBecomesFreeIsTaken) {
  TemporaryFolder folder;
  ModuleLock zero(0, 0, folder.path());
  Holder holder(folder, 1);
  holder.tell();
  EXPECT_EQ(ModuleLock(std::vector{0, 1}, 60, folder.path()).module(), 1);
  EXPECT_EQ(holder.wait(), 0);
}

TEST(ModuleLock, WhatADeadHolderLeftInTheFileIsNotShown) {
  TemporaryFolder folder;
  Holder holder(folder, 0);
  const std::string pid = std::to_string(holder.pid());
  holder.kill();
  // The next owner has the lock and has not written its name yet.
  const int fd = ::open((folder.path() + "/module0.lock").c_str(), O_RDWR);
  ASSERT_EQ(::flock(fd, LOCK_EX | LOCK_NB), 0);
  std::string text = error_of([&] { ModuleLock(0, 0, folder.path()); });
  EXPECT_EQ(text.find(pid), std::string::npos) << text;
  require_contains(text, "a process that can't be seen from here");
  // A process that has the dead one's number by now, such as this one, is another.
  const std::string other = std::to_string(::getpid()) + "\n1\nsomething else\n";
  ASSERT_EQ(::pwrite(fd, other.data(), other.size(), 0), static_cast<ssize_t>(other.size()));
  text = error_of([&] { ModuleLock(0, 0, folder.path()); });
  EXPECT_EQ(text.find("something else"), std::string::npos) << text;
  EXPECT_EQ(text.find("this process"), std::string::npos) << text;
  ::close(fd);
}

TEST(ModuleLock, AChildForkedWhileAnotherThreadWaitsForItDoesNotKeepIt) {
  TemporaryFolder folder;
  Holder holder(folder, 0);
  static std::atomic<bool> waiting{false};
  above.enter_wait = []() -> void* {
    waiting = true;
    return nullptr;
  };
  std::unique_ptr<ModuleLock> lock;
  std::thread waiter([&] { lock = std::make_unique<ModuleLock>(0, 60, folder.path()); });
  while (!waiting) std::this_thread::yield();
  Child survivor([](Child& parent) { parent.meet(); });
  survivor.await();
  EXPECT_EQ(holder.release(), 0);
  waiter.join();
  above.enter_wait = Above().enter_wait;
  EXPECT_TRUE(lock);
  lock.reset();
  EXPECT_EQ(ModuleLock(0, 0, folder.path()).module(), 0) << "kept by a child forked while it was waited for";
  EXPECT_EQ(survivor.release(), 0);
}

TEST(ModuleLock, FilesThatCanNotBeWrittenAreErrorsWithARemedy) {
  TemporaryFolder folder;
  ::mkdir((folder.path() + "/module0.lock").c_str(), 0700);
  for (const std::string& place : {folder.path(), std::string("/proc/1/openhpu"), folder.path() + "/a/b"}) {
    const std::string text = error_of([&] { ModuleLock(0, 0, place); });
    for (const char* part : {"HPU module lock: cannot ", "XDG_RUNTIME_DIR", "OPENHPU_MODULE_LOCKS=0"}) {
      require_contains(text, part);
    }
  }
}

TEST(ModuleLock, AForkedChildNeitherKeepsNorReleasesIt) {
  TemporaryFolder folder;
  auto lock = std::make_unique<ModuleLock>(0, 0, folder.path());
  Child survivor([&](Child& parent) {
    lock.reset();  // must not close a file that by now is another's
    require_contains(error_of([&] { ModuleLock(0, 0, folder.path()); }), "in use");
    parent.meet();
  });
  survivor.await();
  lock.reset();
  EXPECT_EQ(ModuleLock(0, 0, folder.path()).module(), 0) << "kept by a child that outlived its parent's lock";
  EXPECT_EQ(survivor.release(), 0);
}

TEST(ModuleLock, MakesAPrivateFolder) {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/locks";
  ModuleLock lock(0, 0, path);
  struct stat info{};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST(ModuleLock, RefusesWhatIsNotAFolderOfThisUser) {
  TemporaryFolder folder;
  const std::string link = folder.path() + "/link";
  ASSERT_EQ(::symlink("/tmp", link.c_str()), 0);
  require_contains(error_of([&] { ModuleLock(0, 0, link); }), "not a folder of this user");
}

TEST(ModuleLock, TheDefaultFolderIsTheUsersOwn) {
  TemporaryFolder folder;
  testing::in_own_process([&] {
    ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
    require(ModuleLock::default_directory() == folder.path() + "/openhpu", "the runtime folder is used");
    ::setenv("XDG_RUNTIME_DIR", "/does/not/exist", 1);
    require(ModuleLock::default_directory() == "/tmp/openhpu-" + std::to_string(::geteuid()), "a stale one is not");
    ::unsetenv("XDG_RUNTIME_DIR");
    require(ModuleLock::default_directory() == "/tmp/openhpu-" + std::to_string(::geteuid()), "nor a missing one");
  });
}

}  // namespace
}  // namespace openhpu::device
