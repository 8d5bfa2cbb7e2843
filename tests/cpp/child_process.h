#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>

namespace openhpu::device::testing {

// Inside a child, where GoogleTest's own checks would not reach the parent's report.
inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("not so: " + what);
}

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

inline void require_contains(const std::string& text, const std::string& part) {
  require(text.find(part) != std::string::npos, "'" + part + "' in '" + text + "'");
}

// A forked process that runs a function; it ends with 0 unless that throws. Lines go both ways through pipes, so
// that a test can order what the two do.
class Child {
 public:
  template <class Body>
  explicit Child(Body body) {
    int down[2], up[2];
    if (::pipe(down) != 0 || ::pipe(up) != 0) throw std::runtime_error("no pipe");
    std::fflush(nullptr);
    pid_ = ::fork();
    in_child_ = pid_ == 0;
    read_ = in_child_ ? down[0] : up[0];
    write_ = in_child_ ? up[1] : down[1];
    ::close(in_child_ ? down[1] : up[1]);
    ::close(in_child_ ? up[0] : down[0]);
    if (!in_child_) return;
    ::alarm(60);  // a child that hangs must not outlive the test
    int status = 0;
    try {
      body(*this);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
      status = 1;
    }
    std::fflush(nullptr);
    ::_exit(status);
  }
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      wait();
    }
    ::close(read_);
    ::close(write_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // One byte each way: "I am there", "go on".
  void tell() {
    if (::write(write_, "x", 1) != 1) throw std::runtime_error("the other process is gone");
  }
  void await() {
    char byte;
    if (::read(read_, &byte, 1) != 1) throw std::runtime_error("the other process is gone");
  }
  // In the child: tells that it is there, and waits until it may go on.
  void meet() {
    tell();
    await();
  }
  // Lets it go on, and waits for its end.
  int release() {
    tell();
    return wait();
  }
  // Exit status; 128 + signal when killed.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int kill() {
    ::kill(pid_, SIGKILL);
    return wait();
  }

 private:
  pid_t pid_ = -1;
  int read_ = -1;
  int write_ = -1;
  bool in_child_ = false;
};

// Runs a test's body in a process of its own: the device registry exists once per process and cannot be reset.
template <class Body>
void in_own_process(Body body) {
  Child child([&](Child&) { body(); });
  EXPECT_EQ(child.wait(), 0);
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "openhpu-test-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace openhpu::device::testing
