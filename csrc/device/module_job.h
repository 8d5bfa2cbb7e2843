#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "device/lock_file.h"

namespace openhpu::device {

// The processes that a launcher started together on this machine. They take as many modules, at once: another job that
// starts at the same time gets others, or none.
struct ModuleJob {
  std::string name;  // for its file; the same in each process of the job and in no other. Empty: no job
  int rank = 0;      // of this process among them
  int size = 1;      // how many they are, as far as the launcher says

  bool operator==(const ModuleJob&) const = default;
};

// The lock under which processes of this machine choose modules, one at a time. Held for as long as it exists.
class Choosing {
 public:
  // Waits some seconds for it at most, then throws std::runtime_error naming the holder.
  explicit Choosing(const std::string& folder);

 private:
  LockFile file_;
};

// What a job has put aside for its ranks. Used under `Choosing` only. The job's file is locked, shared, by each of its
// processes: without one the job is over, and nothing is put aside.
class JobFile {
 public:
  struct Place {
    int module;
    bool taken;  // by its rank: from then on only the module's own lock counts
  };

  // This process joins the job.
  JobFile(const std::string& folder, const std::string& name);

  std::map<int, Place> places() const;  // by rank
  void write(const std::map<int, Place>& places);

  // The modules that other jobs than `name` have put aside for ranks that have not come yet. Removes the files of jobs
  // that are over.
  static std::set<int> put_aside(const std::string& folder, const std::string& name);

 private:
  LockFile file_;
};

}  // namespace openhpu::device
