#include "device/module_lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "device/wait_hook.h"

namespace openhpu::device {
namespace {

// A flock belongs to the open file, which a forked child shares: a data loader's worker that outlives its parent
// would keep the module locked. So children close what they inherited. The table is of fixed size because the
// handler may not allocate.
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

std::string read_all(int fd, size_t limit) {
  std::string text(limit, '\0');
  const ssize_t got = ::pread(fd, text.data(), limit, 0);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

std::string own_command_line() {
  std::string text;
  const int fd = ::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    // procfs may hand the text out in pieces, and does not support reading it at a fixed offset everywhere.
    char buffer[512];
    ssize_t got;
    while (text.size() < 400 && (got = ::read(fd, buffer, sizeof buffer)) > 0) text.append(buffer, got);
    ::close(fd);
  }
  for (char& c : text) {
    if (c == '\0' || c == '\n') c = ' ';
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  if (text.size() > 300) text = text.substr(0, 297) + "...";
  return text;
}

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw std::runtime_error("HPU module lock: cannot " + what + " " + path + ": " + std::strerror(errno));
}

// Other users may write to /tmp: a folder that somebody else made there must not be trusted.
void ensure_private_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) fail("create", path);
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) fail("inspect", path);
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid()) {
    throw std::runtime_error("HPU module lock: " + path +
                             " is not a folder of this user; remove it, or set XDG_RUNTIME_DIR");
  }
}

bool try_lock(int fd, const std::string& path) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) fail("lock", path);
  }
  return true;
}

bool lock_within(int fd, const std::string& path, double timeout_s) {
  if (try_lock(fd, path)) return true;
  if (timeout_s <= 0) return false;
  BlockingWait waiting;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (try_lock(fd, path)) return true;
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

std::string describe_holder(int fd) {
  const std::string text = read_all(fd, 1024);
  const size_t line = text.find('\n');
  if (line == std::string::npos) return "a process that is just starting";
  const std::string pid = text.substr(0, line);
  std::string command = text.substr(line + 1);
  while (!command.empty() && command.back() == '\n') command.pop_back();
  std::string holder = "process " + pid + " (" + command + ")";
  if (pid == std::to_string(::getpid())) holder += ", which is this process";
  return holder;
}

}  // namespace

std::string ModuleLock::default_directory() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  // The variable often survives a change of user, or names a folder that the container does not have.
  if (runtime && *runtime == '/' && ::access(runtime, W_OK | X_OK) == 0) return std::string(runtime) + "/openhpu";
  return "/tmp/openhpu-" + std::to_string(::geteuid());
}

ModuleLock::ModuleLock(int module, double timeout_s, const std::string& directory) {
  const std::string folder = directory.empty() ? default_directory() : directory;
  ensure_private_directory(folder);
  const std::string path = folder + "/module" + std::to_string(module) + ".lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) fail("open", path);
  try {
    if (!lock_within(fd, path, timeout_s)) {
      throw std::runtime_error("HPU module " + std::to_string(module) + " is in use by " + describe_holder(fd) +
                               ". End that process, or choose another module with HABANA_VISIBLE_MODULES.");
    }
  } catch (...) {
    ::close(fd);
    throw;
  }
  const std::string text = std::to_string(::getpid()) + "\n" + own_command_line() + "\n";
  // The lock holds without its text; only the next process's message would be poorer.
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, text.data(), text.size(), 0) < 0) errno = 0;
  note_held(fd);
  fd_ = fd;
}

ModuleLock::~ModuleLock() {
  if (fd_ >= 0) release(fd_);
}

ModuleLock::ModuleLock(ModuleLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

ModuleLock& ModuleLock::operator=(ModuleLock&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) release(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

}  // namespace openhpu::device
