#include "device/module_job.h"

#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace openhpu::device {
namespace {

// Choosing takes microseconds; whoever holds the lock for longer is stopped.
constexpr double kChoosingTimeoutS = 10;
constexpr const char* kPrefix = "job-";
constexpr const char* kSuffix = ".lock";

std::string path_of(const std::string& folder, const std::string& name) {
  return folder + "/" + kPrefix + name + kSuffix;
}

std::map<int, JobFile::Place> parsed(const std::string& text) {
  std::map<int, JobFile::Place> places;
  std::istringstream lines(text);
  int rank = 0, module = 0, taken = 0;
  while (lines >> rank >> module >> taken) places[rank] = {module, taken != 0};
  return places;
}

}  // namespace

Choosing::Choosing(const std::string& folder) : file_(folder + "/choosing.lock") {
  if (!wait_until([this] { return file_.try_exclusive(); }, kChoosingTimeoutS)) {
    std::ostringstream text;
    text << "HPU module lock: " << file_.path() << " was not free within " << kChoosingTimeoutS
         << " s: " << describe_holder(file_.path()) << ". End that process, or let it go on.";
    throw std::runtime_error(text.str());
  }
  file_.write_owner();
}

JobFile::JobFile(const std::string& folder, const std::string& name) : file_(path_of(folder, name)) {
  if (file_.try_exclusive()) file_.write("");  // an earlier job of this name is over
  file_.try_shared();
}

std::map<int, JobFile::Place> JobFile::places() const { return parsed(file_.read()); }

void JobFile::write(const std::map<int, Place>& places) {
  std::ostringstream text;
  for (const auto& [rank, place] : places) text << rank << ' ' << place.module << ' ' << place.taken << '\n';
  file_.write(text.str());
}

std::set<int> JobFile::put_aside(const std::string& folder, const std::string& name) {
  std::set<int> modules;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string file = entry.path().filename();
    if (!file.starts_with(kPrefix) || !file.ends_with(kSuffix) || entry.path() == path_of(folder, name)) continue;
    LockFile job(entry.path());
    if (job.try_exclusive()) {
      ::unlink(entry.path().c_str());
      continue;
    }
    for (const auto& [rank, place] : parsed(job.read())) {
      if (!place.taken) modules.insert(place.module);
    }
  }
  return modules;
}

}  // namespace openhpu::device
