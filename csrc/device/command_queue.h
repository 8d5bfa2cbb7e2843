#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/wait_hook.h"

namespace openhpu::device {

// One unit of work. Created by the host, run once by the worker and destroyed by it.
class Command {
 public:
  Command() = default;
  virtual ~Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Runs on the worker. An exception becomes the queue's pending error.
  virtual void run() = 0;
  // Called by the worker when it is done with the command, whether run() threw or not. Commands that are
  // recycled override it; the default deletes.
  virtual void retire() { delete this; }
  // For messages: the operator ("aten::mm") and the identifier of the source line that issued it (0: unknown).
  virtual const char* name() const { return "command"; }
  uint32_t site = 0;
};

// The error of a command, as it is rethrown at the next synchronisation.
struct CommandError {
  std::exception_ptr error;
  std::string name;
  uint32_t site = 0;
  uint64_t sequence = 0;
};

// In-order queue with one worker thread. Any thread may submit; commands run in submission order.
//
// Sequence numbers start at 1 and rise by one per command, so "everything before now" is `submitted()`.
// When a command throws, the first error is kept; later commands still run (their inputs may be garbage, as on
// other asynchronous devices) and the error is handed out once, by `take_error`.
class CommandQueue {
 public:
  // `capacity`: commands in flight before `submit` blocks (bounds the memory that the host can run ahead).
  explicit CommandQueue(std::string name, size_t capacity = 4096);
  ~CommandQueue();  // drains, then joins the worker
  CommandQueue(const CommandQueue&) = delete;
  CommandQueue& operator=(const CommandQueue&) = delete;

  // Takes ownership. Returns the command's sequence number. Throws std::runtime_error when the queue is closed or
  // was inherited in a fork. A full queue is waited for; a signal that ends this wait by an exception (`Throw`) ends the
  // submission: the command is retired and does not run.
  uint64_t submit(Command* command, OnInterrupt what = OnInterrupt::GoOn);
  uint64_t submit(std::string name, std::function<void()> fn, uint32_t site = 0);

  uint64_t submitted() const noexcept { return submitted_.load(std::memory_order_acquire); }
  uint64_t completed() const noexcept { return completed_.load(std::memory_order_acquire); }

  // Blocks until the command with this number has run and is gone. Spins briefly, then sleeps; runs the WaitHook.
  // Does not throw pending errors. Called on the worker itself it throws std::logic_error; for a number not yet
  // submitted std::invalid_argument. False if a signal ended the wait; what was submitted runs all the same.
  bool wait(uint64_t sequence, OnInterrupt what = OnInterrupt::GoOn);
  bool drain(OnInterrupt what = OnInterrupt::GoOn) { return wait(submitted(), what); }

  // The first error since the last call, if any; clears it.
  std::unique_ptr<CommandError> take_error();
  bool has_error() const noexcept { return has_error_.load(std::memory_order_acquire); }

  bool on_worker() const noexcept { return std::this_thread::get_id() == worker_id_; }

  // Microseconds for which an idle worker (or a waiting host) spins before it sleeps. Default 20.
  void set_spin_us(int us) noexcept;

  // The queue whose worker this thread is; null if it is none.
  static CommandQueue* of_this_worker() noexcept;
  // On the worker: the threads (their system identifiers) that run kernels together with it.
  void set_team(std::vector<pid_t> members);
  // On the worker: whether they take part in what it runs from now on.
  void note_team(bool works) noexcept;

  // Runs on the worker thread before its first command (thread-local set-up of the layers above).
  void set_worker_init(std::function<void()> fn);

  // Runs what was submitted, then ends the worker. Submitting is an error from then on. In a forked child, where
  // the worker does not exist, it does nothing.
  void close();

  // Nanoseconds that the worker has spent inside commands, brought up to date whenever it has caught up.
  uint64_t busy_ns() const noexcept { return busy_ns_.load(std::memory_order_relaxed); }

  // When the worker was busy: spans of CLOCK_MONOTONIC nanoseconds, those that lie close together as one. Nothing is
  // kept unless asked for, and at most the first 65,536 between two calls of `take_spans`.
  void record_spans(bool on) noexcept { record_spans_.store(on, std::memory_order_relaxed); }
  std::vector<std::pair<uint64_t, uint64_t>> take_spans();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::thread::id worker_id_;
  // Host and worker each write their own cache line, in which nothing else lies.
  alignas(64) std::atomic<uint64_t> submitted_{0};
  alignas(64) std::atomic<uint64_t> completed_{0};
  std::atomic<uint64_t> busy_ns_{0};
  std::atomic<bool> has_error_{false};
  std::atomic<bool> record_spans_{false};
};

}  // namespace openhpu::device
