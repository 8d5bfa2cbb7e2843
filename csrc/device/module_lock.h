#pragma once

#include <string>

namespace openhpu::device {

// Exclusive ownership of a module between processes of this machine, as the driver gives it on Gaudi.
// A lock is an flock()ed file, so it dies with its process, however that ends. The file holds the owner's pid and
// command line for the error message of the next.
class ModuleLock {
 public:
  // An empty lock that owns nothing.
  ModuleLock() = default;
  // Takes module `module`. Waits up to `timeout_s` for a holder that is ending. Throws std::runtime_error naming
  // module, holder's pid and command, and the remedy (end it, or choose another by HABANA_VISIBLE_MODULES).
  // Files lie in `directory`, by default a per-user folder under $XDG_RUNTIME_DIR or /tmp (mode 0700).
  explicit ModuleLock(int module, double timeout_s = 0.0, const std::string& directory = {});
  ~ModuleLock();
  ModuleLock(ModuleLock&& other) noexcept;
  ModuleLock& operator=(ModuleLock&& other) noexcept;

  bool held() const noexcept { return fd_ >= 0; }
  static std::string default_directory();

 private:
  int fd_ = -1;
};

}  // namespace openhpu::device
