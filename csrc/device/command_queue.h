#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/trace.h"
#include "device/wait_hook.h"

namespace openhpu::device {

// One unit of work. Created by the host, run once and destroyed by whoever runs it.
class Command {
 public:
  Command() = default;
  virtual ~Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Runs on the worker, or in its place on a host thread. An exception becomes the queue's pending error.
  virtual void run() = 0;
  // Called when the command was run, whether run() threw or not. Commands that are recycled override it; the default
  // deletes.
  virtual void retire() { delete this; }
  // Whether a host thread that submits, or would wait, may run it in the worker's place: it needs one core only, and never
  // waits for another thread or process.
  virtual bool runs_anywhere() const noexcept { return false; }
  // For one that `waits_beside`, asked by who would run it next: whether what it waits for has come. Whoever brings that
  // calls CommandQueue::resume() afterwards; until then no thread is kept for it.
  virtual bool ready() noexcept { return true; }
  // For messages: the operator ("aten::mm") and the identifier of the source line that issued it (0: unknown).
  virtual const char* name() const { return "command"; }
  // While traces are recorded: completes what a record says of it. On the thread that submits.
  virtual void describe(TraceRecord&) const {}
  uint32_t site = 0;
  bool waits_beside = false;
  // May run anywhere, takes no time, and others wait for it: where nothing is before it, the thread that submits runs it
  // rather than wake a worker.
  bool at_once = false;
  std::unique_ptr<TraceRecord> trace;
};

// The error of a command, as it is rethrown at the next synchronisation.
struct CommandError {
  std::exception_ptr error;
  std::string name;
  uint32_t site = 0;
  uint64_t sequence = 0;
};

// In-order queue with one worker thread. Any thread may submit; commands run in submission order, one at a time: on the
// worker, or, where they may run anywhere, on a host thread that would otherwise only wait for them. A command that waits
// for something beside the queue holds the queue up, but no thread.
//
// Sequence numbers start at 1 and rise by one per command, so "everything before now" is `submitted()`.
// When a command throws, the first error is kept; later commands still run (their inputs may be garbage, as on
// other asynchronous devices) and the error is handed out once, by `take_error`.
class CommandQueue {
 public:
  // `capacity`: commands in flight before `submit` blocks (bounds the memory that the host can run ahead).
  // The worker starts when it is first needed.
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

  // Blocks until the command with this number has run and is gone. Runs what it may itself, polls briefly, then sleeps;
  // runs the WaitHook.
  // Does not throw pending errors. Called on the worker itself it throws std::logic_error; for a number not yet
  // submitted std::invalid_argument. False if a signal ended the wait; what was submitted runs all the same.
  bool wait(uint64_t sequence, OnInterrupt what = OnInterrupt::GoOn);
  bool drain(OnInterrupt what = OnInterrupt::GoOn) { return wait(submitted(), what); }

  // After something has come that a command waits for beside the queue: runs that command, if it is the next, on the
  // calling thread, which may be any but one that is in a command of this queue, and leaves the others to the worker.
  void resume();

  // The first error since the last call, if any; clears it.
  std::unique_ptr<CommandError> take_error();
  bool has_error() const noexcept { return has_error_.load(std::memory_order_acquire); }

  // Of the command that the calling thread runs: its source line. A command of many operators keeps it up to date.
  // Nothing where the thread runs none.
  static std::optional<uint32_t> running_site() noexcept;
  void set_running_site(uint32_t site) noexcept { running_site_ = site; }

  // Whether the calling thread is running this queue's commands: the worker, or a host thread in its place.
  bool on_worker() const noexcept;

  // Microseconds for which an idle worker, or a waiting host, polls before it sleeps, while it has a core to itself: what
  // lies between two graphs of a small step. In a virtual machine it takes the submitting thread some 35 to wake a worker.
  static constexpr int kDefaultSpinUs = 200;
  void set_spin_us(int us) noexcept;

  // The device's index, as traces show it.
  void set_index(int index) noexcept { index_ = index; }

  // For a process that has one core: commands run where they are submitted, if they may run anywhere.
  void set_workerless(bool on) noexcept;

  // What surrounds commands that a host thread runs (thread-local set-up of the layers above): calls `run(context)`,
  // which does not throw. One for all queues.
  using HostScope = void (*)(void (*run)(void*), void* context);
  static void set_host_scope(HostScope scope) noexcept;

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
  int index_ = 0;
  // Host and worker each write their own cache line, in which nothing else lies.
  alignas(64) std::atomic<uint64_t> submitted_{0};
  alignas(64) std::atomic<uint64_t> completed_{0};
  std::atomic<uint64_t> busy_ns_{0};
  std::atomic<bool> has_error_{false};
  uint32_t running_site_ = 0;  // of who runs commands
  std::atomic<bool> record_spans_{false};
};

}  // namespace openhpu::device
