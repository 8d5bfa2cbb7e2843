#include "device/module_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <utility>

#include "child_process.h"

namespace openhpu::device {
namespace {

using testing::Child;
using testing::error_of;
using testing::require;
using testing::TemporaryFolder;

TEST(ModuleLock, AnEmptyLockHoldsNothing) {
  ModuleLock lock;
  EXPECT_FALSE(lock.held());
}

TEST(ModuleLock, ModulesAreIndependentAndLocksAreReleased) {
  TemporaryFolder folder;
  ModuleLock zero(0, 0, folder.path());
  ModuleLock one(1, 0, folder.path());
  EXPECT_TRUE(zero.held());
  EXPECT_TRUE(one.held());
  { ModuleLock two(2, 0, folder.path()); }
  EXPECT_TRUE(ModuleLock(2, 0, folder.path()).held());
}

TEST(ModuleLock, MovesCarryTheLock) {
  TemporaryFolder folder;
  ModuleLock first(0, 0, folder.path());
  ModuleLock second(std::move(first));
  EXPECT_FALSE(first.held());
  EXPECT_TRUE(second.held());
  EXPECT_NE(error_of([&] { ModuleLock(0, 0, folder.path()); }), "no error");
  second = ModuleLock();
  EXPECT_TRUE(ModuleLock(0, 0, folder.path()).held());
}

TEST(ModuleLock, TheSecondProcessIsToldWhoHoldsIt) {
  TemporaryFolder folder;
  Child holder([&](Child& parent) {
    ModuleLock lock(3, 0, folder.path());
    parent.tell();
    parent.await();
  });
  holder.await();
  const std::string text = error_of([&] { ModuleLock(3, 0, folder.path()); });
  // A forked child has its parent's command line.
  for (const std::string& part : {std::string("module 3"), "process " + std::to_string(holder.pid()),
                                  std::string("device_tests"), std::string("HABANA_VISIBLE_MODULES")}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in: " << text;
  }
  holder.tell();
  EXPECT_EQ(holder.wait(), 0);
  EXPECT_TRUE(ModuleLock(3, 0, folder.path()).held());
}

TEST(ModuleLock, ItsOwnProcessIsToldSo) {
  TemporaryFolder folder;
  ModuleLock lock(0, 0, folder.path());
  EXPECT_NE(error_of([&] { ModuleLock(0, 0, folder.path()); }).find("this process"), std::string::npos);
}

TEST(ModuleLock, DiesWithItsProcess) {
  TemporaryFolder folder;
  Child holder([&](Child& parent) {
    ModuleLock lock(0, 0, folder.path());
    parent.tell();
    parent.await();
  });
  holder.await();
  EXPECT_EQ(holder.kill(), 128 + SIGKILL);
  EXPECT_TRUE(ModuleLock(0, 0, folder.path()).held());
}

TEST(ModuleLock, WaitsForAHolderThatIsEnding) {
  TemporaryFolder folder;
  Child holder([&](Child& parent) {
    ModuleLock lock(0, 0, folder.path());
    parent.tell();
    parent.await();
  });
  holder.await();
  holder.tell();
  EXPECT_TRUE(ModuleLock(0, 60, folder.path()).held());
  EXPECT_EQ(holder.wait(), 0);
}

TEST(ModuleLock, AForkedChildNeitherKeepsNorReleasesIt) {
  TemporaryFolder folder;
  auto lock = ModuleLock(0, 0, folder.path());
  Child survivor([&](Child& parent) {
    lock = ModuleLock();  // must not close a file that by now is another's
    require(error_of([&] { ModuleLock(0, 0, folder.path()); }).find("in use") != std::string::npos,
            "the parent still holds the module");
    parent.tell();
    parent.await();
  });
  survivor.await();
  lock = ModuleLock();
  EXPECT_TRUE(ModuleLock(0, 0, folder.path()).held()) << "kept by a child that outlived its parent's lock";
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
