#include "device/module_lock.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace openhpu::device {
namespace {

// One process's search for a module.
class Search {
 public:
  Search(std::string folder, const std::vector<int>& modules, const ModuleJob& job)
      : folder_(std::move(folder)), modules_(modules), job_(job) {}

  // Whether a module was taken.
  bool attempt() {
    if (modules_.size() == 1 && job_.name.empty()) return lock(modules_[0]) && take(modules_[0]);
    const Choosing choosing(folder_);
    put_aside_ = JobFile::put_aside(folder_, job_.name);
    if (!job_.name.empty()) return attempt_of_job();
    for (const int module : modules_) {
      if (!put_aside_.contains(module) && lock(module)) return take(module);
    }
    return false;
  }

  int module() const noexcept { return taken_; }
  LockFile& file() { return files_.at(taken_); }
  std::unique_ptr<LockFile> take_file() { return std::make_unique<LockFile>(std::move(files_.at(taken_))); }
  std::unique_ptr<JobFile> take_job() { return std::move(job_file_); }

  std::string in_use(double timeout_s) {
    if (modules_.size() == 1 && job_.name.empty()) {
      return "HPU module " + std::to_string(modules_[0]) + " is in use by " + describe_holder(path_of(modules_[0])) +
             ". End that process, or choose another module with HABANA_VISIBLE_MODULES.";
    }
    std::map<int, std::string> holders;
    for (const int module : modules_) {
      if (put_aside_.contains(module)) {
        holders[module] = "put aside for a job whose processes have not all begun";
      } else if (lock(module)) {
        files_.at(module).unlock();
        if (job_.name.empty()) holders[module] = "free by now";
      } else {
        holders[module] = describe_holder(path_of(module));
      }
    }
    std::ostringstream text;
    if (holders.size() == modules_.size()) {
      text << "All " << modules_.size() << " HPU modules are in use";
    } else {
      text << "This job's " << wanted_ << " processes need as many HPU modules, and " << holders.size() << " of "
           << modules_.size() << " are in use";
    }
    if (timeout_s > 0) text << ", and none became free within " << timeout_s << " s (OPENHPU_MODULE_WAIT_S)";
    text << ":";
    for (auto first = holders.begin(); first != holders.end();) {
      auto next = std::next(first);
      int last = first->first;
      while (next != holders.end() && next->first == last + 1 && next->second == first->second) {
        last = next->first;
        ++next;
      }
      text << "\n  module" << (last == first->first ? " " : "s ") << first->first;
      if (last != first->first) text << " to " << last;
      text << ": " << first->second;
      first = next;
    }
    text << "\nEnd one of these processes, or allow more modules with OPENHPU_DEVICE_COUNT.";
    return text.str();
  }

 private:
  bool attempt_of_job() {
    if (!job_file_) job_file_ = std::make_unique<JobFile>(folder_, job_.name);
    auto places = job_file_->places();
    if (const auto own = places.find(job_.rank); own != places.end() && lock(own->second.module)) {
      return take_place(places, own->second.module);
    }
    std::set<int> not_free = put_aside_;
    for (const auto& [rank, place] : places) {
      if (!place.taken && rank != job_.rank) not_free.insert(place.module);
    }
    // The first process of the job; one of which the launcher has not said that it would come; or one whose module
    // was asked for by its number meanwhile.
    std::vector<int> missing;
    for (int rank = 0; rank < std::max(job_.size, job_.rank + 1); ++rank) {
      if (!places.contains(rank) || rank == job_.rank) missing.push_back(rank);
    }
    wanted_ = missing.size();
    std::vector<int> found;
    for (const int module : modules_) {
      if (found.size() < wanted_ && !not_free.contains(module) && lock(module)) found.push_back(module);
    }
    const bool enough = found.size() == wanted_;
    for (size_t i = 0; i < found.size(); ++i) {
      if (enough) places[missing[i]] = {found[i], false};
      if (!enough || missing[i] != job_.rank) files_.at(found[i]).unlock();
    }
    return enough && take_place(places, places.at(job_.rank).module);
  }

  bool take_place(std::map<int, JobFile::Place>& places, int module) {
    places[job_.rank] = {module, true};
    job_file_->write(places);
    return take(module);
  }

  bool take(int module) {
    taken_ = module;
    return true;
  }

  bool lock(int module) { return files_.try_emplace(module, path_of(module)).first->second.try_exclusive(); }

  std::string path_of(int module) const { return folder_ + "/module" + std::to_string(module) + ".lock"; }

  std::string folder_;
  const std::vector<int>& modules_;
  const ModuleJob& job_;
  std::map<int, LockFile> files_;  // of the modules that were tried, for as long as one is waited for
  std::unique_ptr<JobFile> job_file_;
  std::set<int> put_aside_;
  size_t wanted_ = 1;
  int taken_ = -1;
};

}  // namespace

std::string ModuleLock::default_directory() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  // The variable often survives a change of user, or names a folder that the container does not have.
  if (runtime && *runtime == '/' && ::access(runtime, W_OK | X_OK) == 0) return std::string(runtime) + "/openhpu";
  return "/tmp/openhpu-" + std::to_string(::geteuid());
}

ModuleLock::ModuleLock(
    const std::vector<int>& modules, double timeout_s, const std::string& directory, const ModuleJob& job) {
  const std::string folder = directory.empty() ? default_directory() : directory;
  ensure_private_directory(folder);
  Search search(folder, modules, job);
  if (!wait_until([&] { return search.attempt(); }, timeout_s)) throw std::runtime_error(search.in_use(timeout_s));
  search.file().write_owner();  // without it only the next process's message would be poorer
  module_ = search.module();
  file_ = search.take_file();
  job_ = search.take_job();
}

ModuleLock::~ModuleLock() = default;

}  // namespace openhpu::device
