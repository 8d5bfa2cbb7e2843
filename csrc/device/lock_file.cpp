#include "device/lock_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

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

bool try_lock(int fd, int kind, const std::string& path) {
  while (::flock(fd, kind | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) fail("lock", path);
  }
  return true;
}

}  // namespace

LockFile::LockFile(std::string path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd_ < 0) fail("open", path_);
  note_held(fd_);  // before it is locked: a child forked while another thread waits here must not share it
}

LockFile::~LockFile() {
  if (fd_ >= 0) release(fd_);
}

LockFile::LockFile(LockFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

bool LockFile::try_exclusive() { return try_lock(fd_, LOCK_EX, path_); }

bool LockFile::try_shared() { return try_lock(fd_, LOCK_SH, path_); }

void LockFile::unlock() { ::flock(fd_, LOCK_UN); }

std::string LockFile::read() const {
  std::string text(1 << 16, '\0');
  const ssize_t length = ::pread(fd_, text.data(), text.size(), 0);
  text.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return text;
}

void LockFile::write(const std::string& text) {
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, text.data(), text.size(), 0) < 0) errno = 0;
}

void LockFile::write_owner() {
  const std::string pid = std::to_string(::getpid());
  write(pid + "\n" + status_of(pid).start_ticks + "\n" + own_command_line() + "\n");
}

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

bool wait_until(const std::function<bool()>& done, double timeout_s) {
  if (done()) return true;
  if (timeout_s <= 0) return false;
  BlockingWait waiting;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  for (auto pause = std::chrono::milliseconds(5); std::chrono::steady_clock::now() < deadline;) {
    std::this_thread::sleep_for(pause);
    if (waiting.hears(OnInterrupt::Throw)) waiting.interrupted(OnInterrupt::Throw);
    pause = std::min(2 * pause, std::chrono::milliseconds(50));
    if (done()) return true;
  }
  return false;
}

}  // namespace openhpu::device
