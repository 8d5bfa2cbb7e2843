#include "device/module_lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "device/blocking_wait.h"

namespace openhpu::device {
namespace {

// A flock belongs to the open file, and a forked child shares this file. If a data loader's worker outlived its parent,
// it would keep the module locked. So children close the files that they inherit. The table has a fixed size, because
// the handler of the fork may not allocate.
constexpr size_t kMaxLocks = 256;
std::array<std::atomic<int>, kMaxLocks> held_files;  // file descriptor + 1; 0: empty

void close_inherited() {
  for (auto& slot : held_files) {
    if (const int file = slot.exchange(0, std::memory_order_relaxed)) ::close(file - 1);
  }
}

void note_held(int fd) {
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, close_inherited);
  for (auto& slot : held_files) {
    int empty = 0;
    if (slot.compare_exchange_strong(empty, fd + 1)) return;
  }
}

// Closes `fd` unless this process has lost it in a fork (the number may by now be another file's).
void release(int fd) {
  for (auto& slot : held_files) {
    int expected = fd + 1;
    if (slot.compare_exchange_strong(expected, 0)) {
      ::close(fd);
      return;
    }
  }
}

// A process as /proc/PID/stat shows it.
struct Status {
  char state = 0;           // 'T': stopped; 0: there is no such process, or it can't be seen
  std::string start_ticks;  // when it began; with the pid it names a process for good
};

Status status_of(const std::string& pid) {
  std::string line;
  std::getline(std::ifstream("/proc/" + pid + "/stat"), line, '\0');
  // "pid (name) state ...": the name may hold anything, the start is the 20th word behind it.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream words(line.substr(name_end + 1));
  Status status;
  words >> status.state;
  for (int field = 0; field < 19; ++field) words >> status.start_ticks;
  return words ? status : Status{};
}

std::string own_command_line() {
  std::string text(400, ' ');
  std::ifstream("/proc/self/cmdline").read(text.data(), static_cast<std::streamsize>(text.size()));
  std::replace_if(text.begin(), text.end(), [](char c) { return c == '\0' || c == '\n'; }, ' ');
  text.erase(text.find_last_not_of(' ') + 1);
  if (text.size() > 300) text = text.substr(0, 297) + "...";
  return text;
}

constexpr const char* kFolderRemedy =
    ". Let XDG_RUNTIME_DIR name a folder that this user can write to, or do without locks (OPENHPU_MODULE_LOCKS=0).";

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw std::runtime_error(
      "HPU module lock: cannot " + what + " " + path + ": " + std::strerror(errno) + kFolderRemedy);
}

// Other users may write to /tmp: a folder that somebody else made there must not be trusted.
void ensure_private_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) fail("create", path);
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) fail("inspect", path);
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid()) {
    throw std::runtime_error(
        "HPU module lock: " + path + " is not a folder of this user. Remove it" + (kFolderRemedy + 1));
  }
}

bool try_lock(int fd, const std::string& path) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) fail("lock", path);
  }
  return true;
}

// Of the lock with this file.
std::string describe_holder(const std::string& path) {
  std::ifstream text(path);
  std::string pid, start, command;
  std::getline(text, pid);
  std::getline(text, start);
  std::getline(text, command);
  const Status status = text && !pid.empty() ? status_of(pid) : Status{};
  // A killed owner's text stays until the next one has written its own: it must not be blamed for that one.
  if (!status.state || status.start_ticks != start) {
    return "a process that can't be seen from here (it is just starting, or runs in another container)";
  }
  std::string holder = "process " + pid + " (" + command + ")";
  if (pid == std::to_string(::getpid())) holder += ", which is this process";
  if (status.state == 'T') holder += ", which is stopped (`kill -CONT " + pid + "` lets it go on)";
  return holder;
}

// The files of the modules that were tried, as long as one is waited for.
struct Candidates {
  struct Candidate {
    int module;
    int fd;
    std::string path;
  };
  std::vector<Candidate> tried;

  ~Candidates() {
    for (const auto& candidate : tried) release(candidate.fd);
  }

  const Candidate& open(int module, const std::string& folder) {
    std::string path = folder + "/module" + std::to_string(module) + ".lock";
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) fail("open", path);
    note_held(fd);  // before it is locked: a child forked while another thread waits here must not share it
    return tried.emplace_back(Candidate{module, fd, std::move(path)});
  }

  const Candidate* try_all() const {
    for (const auto& candidate : tried) {
      if (try_lock(candidate.fd, candidate.path)) return &candidate;
    }
    return nullptr;
  }

  int take(const Candidate* candidate) {
    const int fd = candidate->fd;
    tried.erase(tried.begin() + (candidate - tried.data()));
    return fd;
  }
};

std::string in_use(const Candidates& all, double timeout_s) {
  const auto& tried = all.tried;
  if (tried.size() == 1) {
    return "HPU module " + std::to_string(tried[0].module) + " is in use by " + describe_holder(tried[0].path) +
           ". End that process, or choose another module with HABANA_VISIBLE_MODULES.";
  }
  std::map<int, std::string> holders;
  for (const auto& candidate : tried) holders[candidate.module] = describe_holder(candidate.path);
  std::ostringstream text;
  text << "All " << tried.size() << " HPU modules are in use";
  if (timeout_s > 0) text << ", and none became free within " << timeout_s << " s (OPENHPU_MODULE_WAIT_S)";
  text << ":";
  for (auto first = holders.begin(); first != holders.end();) {
    auto next = first;
    while (next != holders.end() && next->second == first->second) ++next;
    const int last = std::prev(next)->first;
    text << "\n  module" << (last == first->first ? " " : "s ") << first->first;
    if (last != first->first) text << " to " << last;
    text << ": " << first->second;
    first = next;
  }
  text << "\nEnd one of these processes, or allow more modules with OPENHPU_DEVICE_COUNT.";
  return text.str();
}

}  // namespace

std::string ModuleLock::default_directory() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  // The variable often survives a change of user, or names a folder that the container does not have.
  if (runtime && *runtime == '/' && ::access(runtime, W_OK | X_OK) == 0) return std::string(runtime) + "/openhpu";
  return "/tmp/openhpu-" + std::to_string(::geteuid());
}

ModuleLock::ModuleLock(const std::vector<int>& modules, double timeout_s, const std::string& directory) {
  const std::string folder = directory.empty() ? default_directory() : directory;
  ensure_private_directory(folder);
  Candidates candidates;
  candidates.tried.reserve(modules.size());
  const Candidates::Candidate* taken = nullptr;
  for (size_t i = 0; !taken && i < modules.size(); ++i) {
    const auto& candidate = candidates.open(modules[i], folder);
    if (try_lock(candidate.fd, candidate.path)) taken = &candidate;
  }
  if (!taken && timeout_s > 0) {
    BlockingWait waiting;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
    for (auto pause = std::chrono::milliseconds(5); !taken && std::chrono::steady_clock::now() < deadline;) {
      std::this_thread::sleep_for(pause);
      if (waiting.hears(OnInterrupt::Throw)) waiting.interrupted(OnInterrupt::Throw);
      pause = std::min(2 * pause, std::chrono::milliseconds(50));
      taken = candidates.try_all();
    }
  }
  if (!taken) throw std::runtime_error(in_use(candidates, timeout_s));
  const std::string pid = std::to_string(::getpid());
  const std::string text = pid + "\n" + status_of(pid).start_ticks + "\n" + own_command_line() + "\n";
  // The lock holds without its text; only the next process's message would be poorer.
  if (::ftruncate(taken->fd, 0) != 0 || ::pwrite(taken->fd, text.data(), text.size(), 0) < 0) errno = 0;
  module_ = taken->module;
  fd_ = candidates.take(taken);
}

ModuleLock::~ModuleLock() { release(fd_); }

}  // namespace openhpu::device
