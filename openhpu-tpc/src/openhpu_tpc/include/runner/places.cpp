// The line of an address. It is asked for once a kernel was ended, so that a process may be started.
#include "places.h"

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sstream>

extern char** environ;

namespace tpc {
namespace {

constexpr int kMilliseconds = 5000;

// What a program prints within the deadline.
std::string output_of(char* const* arguments) {
  int ends[2];
  if (pipe(ends) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  pid_t child = 0;
  const bool started = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments, environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  struct timespec start{};
  clock_gettime(CLOCK_MONOTONIC, &start);
  while (started) {
    struct timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    const long spent = (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000;
    struct pollfd wait{ends[0], POLLIN, 0};
    if (spent >= kMilliseconds || poll(&wait, 1, static_cast<int>(kMilliseconds - spent)) <= 0) break;
    char buffer[512];
    const ssize_t got = read(ends[0], buffer, sizeof(buffer));
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  if (started) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  return text;
}

}  // namespace

std::string place_of_address(void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  char offset[32];
  snprintf(
      offset, sizeof(offset), "%#zx",
      static_cast<size_t>(static_cast<char*>(address) - static_cast<char*>(info.dli_fbase)));
  const char* arguments[] = {"addr2line", "-i", "-e", info.dli_fname, offset, nullptr};
  std::istringstream lines(output_of(const_cast<char* const*>(arguments)));
  std::string line;
  // Functions of the language come first; the user's line follows.
  while (std::getline(lines, line))
    if (line.find("/include/tpc/") == std::string::npos && line.find("??") == std::string::npos && !line.empty())
      return line.substr(0, line.find(" ("));
  return std::string(info.dli_fname) + "+" + offset;
}

}  // namespace tpc
