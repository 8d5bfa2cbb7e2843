#pragma once

#include <functional>
#include <string>

namespace openhpu::device {

// A file that processes of this machine lock by flock(). The lock dies with its process, however the process ends, and
// lives while the process is stopped. A forked child closes the file, so that it does not keep the lock.
class LockFile {
 public:
  // Opens the file, or makes it (mode 0600). Throws std::runtime_error with a remedy.
  explicit LockFile(std::string path);
  ~LockFile();
  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&&) = delete;
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  // Whether it is locked now. Each throws std::runtime_error where the file system has no locks.
  bool try_exclusive();
  bool try_shared();
  void unlock();

  // The text in the file. It may be written by the one that has the lock, and read by all.
  std::string read() const;
  void write(const std::string& text);  // a full disk is no error: only messages would be poorer
  void write_owner();                   // pid, start time and command of this process, for `describe_holder`
  const std::string& path() const noexcept { return path_; }

 private:
  int fd_;
  std::string path_;
};

// The process that wrote its name into the file, with its command, and whether it is stopped. A dead one is not shown.
std::string describe_holder(const std::string& path);

// Makes a folder that only this user can use (mode 0700). Throws std::runtime_error for one that somebody else made.
void ensure_private_directory(const std::string& path);

// Calls `done` until it gives true or the time is over, and gives what it gave last. The waiting thread hears an
// interrupt.
bool wait_until(const std::function<bool()>& done, double timeout_s);

}  // namespace openhpu::device
