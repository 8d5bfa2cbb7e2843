#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/module_job.h"

namespace openhpu::device {

// Exclusive ownership of a module between processes of this machine, as the driver gives it on Gaudi.
// A lock is a locked file (LockFile). The file names the owner (pid, start time, command line) for the error message of
// the next process. The entry of a dead owner is recognised and not shown.
class ModuleLock {
 public:
  // Takes the first free one of `modules`, tried in this order, which no job has put aside. Where none is, waits up to
  // `timeout_s` for one. A process of a job takes what the job has put aside for its rank. The first one that comes
  // puts modules aside for each of them; where too few are free it waits, and takes none.
  // Throws std::runtime_error naming modules, holders' pids and commands, whether they are stopped, and the remedy.
  // Files lie in `directory`, by default a per-user folder under $XDG_RUNTIME_DIR or /tmp (mode 0700).
  explicit ModuleLock(
      const std::vector<int>& modules, double timeout_s = 0.0, const std::string& directory = {},
      const ModuleJob& job = {});
  // The same for one module that was asked for by its number. It counts as free also where a job has put it aside.
  explicit ModuleLock(int module, double timeout_s = 0.0, const std::string& directory = {})
      : ModuleLock(std::vector<int>{module}, timeout_s, directory) {}
  ~ModuleLock();
  ModuleLock(const ModuleLock&) = delete;
  ModuleLock& operator=(const ModuleLock&) = delete;

  int module() const noexcept { return module_; }  // that was taken
  static std::string default_directory();

 private:
  std::unique_ptr<LockFile> file_;
  std::unique_ptr<JobFile> job_;
  int module_ = -1;
};

}  // namespace openhpu::device
