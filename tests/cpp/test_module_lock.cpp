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
using testing::TemporaryFolder;

// A child process that holds a module until it is told to go on.
struct Holder : Child {
  Holder(const TemporaryFolder& folder, int module)
      : Child([&](Child& parent) {
          ModuleLock lock(module, 0, folder.path());
          parent.tell();
          parent.await();
        }) {
    await();
  }
};

TEST(ModuleLock, WhereAllAreTakenTheErrorNamesEachHolder) {
  TemporaryFolder folder;
  Child holder([&](Child& parent) {
    ModuleLock zero(0, 0, folder.path()), one(1, 0, folder.path());
    parent.tell();
    parent.await();
  });
  holder.await();
  ModuleLock own(2, 0, folder.path());
  const std::string text = error_of([&] { ModuleLock(std::vector{1, 2, 0}, 0, folder.path()); });
  for (const std::string& part :
       {std::string("All 3 HPU modules are in use:\n"),
        "\n  modules 0 to 1: process " + std::to_string(holder.pid()) + " (", std::string("device_tests"),
        "\n  module 2: process " + std::to_string(::getpid()) + " (", std::string("which is this process\n"),
        std::string("End one of these processes, or allow more modules with OPENHPU_DEVICE_COUNT")}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in: " << text;
  }
  // Nothing was kept: the holder's end frees both.
  holder.tell();
  EXPECT_EQ(holder.wait(), 0);
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
  EXPECT_NE(text.find("a process that can't be seen from here"), std::string::npos) << text;
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
  Child survivor([](Child& parent) {
    parent.tell();
    parent.await();
  });
  survivor.await();
  holder.tell();
  EXPECT_EQ(holder.wait(), 0);
  waiter.join();
  above.enter_wait = Above().enter_wait;
  EXPECT_TRUE(lock);
  lock.reset();
  EXPECT_EQ(ModuleLock(0, 0, folder.path()).module(), 0) << "kept by a child forked while it was waited for";
  survivor.tell();
  EXPECT_EQ(survivor.wait(), 0);
}

TEST(ModuleLock, FilesThatCanNotBeWrittenAreErrorsWithARemedy) {
  TemporaryFolder folder;
  ::mkdir((folder.path() + "/module0.lock").c_str(), 0700);
  for (const std::string& text : {error_of([&] { ModuleLock(0, 0, folder.path()); }),
                                  error_of([] { ModuleLock(0, 0, "/proc/1/openhpu"); }),
                                  error_of([&] { ModuleLock(0, 0, folder.path() + "/a/b"); })}) {
    EXPECT_NE(text.find("HPU module lock: cannot "), std::string::npos) << text;
    EXPECT_NE(text.find("XDG_RUNTIME_DIR"), std::string::npos) << text;
    EXPECT_NE(text.find("OPENHPU_MODULE_LOCKS=0"), std::string::npos) << text;
  }
}

TEST(ModuleLock, AForkedChildNeitherKeepsNorReleasesIt) {
  TemporaryFolder folder;
  auto lock = std::make_unique<ModuleLock>(0, 0, folder.path());
  Child survivor([&](Child& parent) {
    lock.reset();  // must not close a file that by now is another's
    require(error_of([&] { ModuleLock(0, 0, folder.path()); }).find("in use") != std::string::npos,
            "the parent still holds the module");
    parent.tell();
    parent.await();
  });
  survivor.await();
  lock.reset();
  EXPECT_EQ(ModuleLock(0, 0, folder.path()).module(), 0) << "kept by a child that outlived its parent's lock";
  survivor.tell();
  EXPECT_EQ(survivor.wait(), 0);
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
  EXPECT_NE(error_of([&] { ModuleLock(0, 0, link); }).find("not a folder of this user"), std::string::npos);
  EXPECT_NE(error_of([&] { ModuleLock(0, 0, folder.path() + "/a/b"); }).find("cannot create"), std::string::npos);
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
