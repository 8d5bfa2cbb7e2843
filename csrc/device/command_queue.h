#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "device/trace.h"
#include "device/blocking_wait.h"

namespace openhpu::device {

// One unit of work. The host creates it. The thread that runs it destroys it after one run.
class Command {
 public:
  virtual ~Command() = default;

  // Runs on the worker, or on a host thread in the worker's place. An exception becomes the pending error of the queue.
  virtual void run() = 0;
  // Called after `run`, also if `run` threw. The default deletes the command. Commands that are recycled override it.
  virtual void retire() { delete this; }
  // Whether a Gaudi would launch a recipe for it. In the compile-only mode such a command is left out.
  virtual bool launches() const noexcept { return false; }
  // Whether a host thread may run it in the worker's place, when it submits the command or would wait for it. Such a
  // command needs one core only and does not wait for another thread or process. Only the start of a small collective
  // waits a moment for other ranks.
  virtual bool runs_anywhere() const noexcept { return false; }
  // For a command with `waits_beside`: whether the end of its wait has come. The thread that would run the command
  // asks. If it has not come, the queue stops at this command, and no thread waits. The thread that ends the wait then
  // calls CommandQueue::resume().
  virtual bool ready() noexcept { return true; }
  // For messages: the operator ("aten::mm"), and the number of the source line that issued it (0: unknown).
  virtual const char* name() const { return "command"; }
  // While traces are recorded: completes the command's record. Called on the submitting thread.
  virtual void describe(TraceRecord&) const {}
  uint32_t site = 0;
  bool waits_beside = false;
  bool left_out = false;  // it takes its place in the queue, and does not run
  // It may run anywhere, and its submitter knows that this costs less than a worker. If no command is queued before it,
  // the submitting thread runs it.
  bool at_once = false;
  std::unique_ptr<TraceRecord> trace;
};

// Of an owner until the queue has the command. It may be recycled.
struct Retire {
  void operator()(Command* command) const { command->retire(); }
};

// One that calls a function. `name`, `kind` and `bytes`: as traces show it.
template <class Run>
class FunctionCommand final : public Command {
 public:
  FunctionCommand(std::string name, Run run, bool anywhere, TraceKind kind = TraceKind::Kernel, uint64_t bytes = 0)
      : name_(std::move(name)), run_(std::move(run)), anywhere_(anywhere), kind_(kind), bytes_(bytes) {}
  void run() override { run_(); }
  const char* name() const override { return name_.c_str(); }
  bool runs_anywhere() const noexcept override { return anywhere_; }
  void describe(TraceRecord& record) const override {
    record.name = trace_name(name_);
    record.kind = kind_;
    record.bytes = bytes_;
  }

 private:
  const std::string name_;
  Run run_;
  const bool anywhere_;
  const TraceKind kind_;
  const uint64_t bytes_;
};

// The error of a command, as it is rethrown at the next synchronisation.
struct CommandError {
  std::exception_ptr error;
  std::string name;
  uint32_t site = 0;
};

// A queue with one worker thread that runs its commands in order. Any thread may submit. One command runs at a time: on
// the worker, or, if it may run anywhere, on a host thread that would otherwise only wait for it. A command that waits
// for something outside of the queue stops the queue but occupies no thread.
//
// Sequence numbers start at 1 and rise by one for each command, so "everything before now" is `submitted()`. When a
// command throws, the queue keeps the first error, and `take_error` returns it once. Later commands still run. Their
// inputs may be garbage, as on other asynchronous devices.
class CommandQueue {
 public:
  // `capacity`: number of commands in flight after which `submit` blocks, until an eighth of them is done. It bounds
  // how far the host can run ahead. The worker starts when it is first needed.
  explicit CommandQueue(std::string name, size_t capacity = 4096);
  ~CommandQueue();  // drains, then joins the worker

  // Takes ownership. Returns the sequence number. Throws std::runtime_error if the queue is closed or was inherited in
  // a fork. If the queue is full, it waits. With `Throw` a signal may end this wait by an exception. The command is
  // then retired and does not run.
  uint64_t submit(Command* command, OnInterrupt what = OnInterrupt::GoOn);
  uint64_t submit(std::string name, std::function<void()> fn, uint32_t site = 0, bool anywhere = false);

  uint64_t submitted() const noexcept { return submitted_.load(std::memory_order_acquire); }
  uint64_t completed() const noexcept { return completed_.load(std::memory_order_acquire); }
  bool full() const noexcept;  // `submit` would wait

  // Blocks until the command with this number has run and is destroyed. The thread runs commands itself where it may,
  // then polls briefly, then sleeps, in a BlockingWait. It does not throw pending errors. On the worker itself it
  // throws std::logic_error, for a number that was not submitted std::invalid_argument. It returns false if a signal
  // ended the wait; the submitted commands still run.
  bool wait(uint64_t sequence, OnInterrupt what = OnInterrupt::GoOn);
  bool drain(OnInterrupt what = OnInterrupt::GoOn) { return wait(submitted(), what); }

  // Waits until what this command wrote can be read, and for the commands behind it up to the last one that needs a
  // team of threads: a host that went on would take a core from the team, which costs more than the host's work. Also
  // up to the last one that was to run at once and could not, so that the next ones can.
  bool wait_to_read(uint64_t sequence, OnInterrupt what = OnInterrupt::GoOn);

  // Called when a wait outside of the queue has ended. If the waiting command is the next one, the calling thread runs
  // it. The worker runs the others. The calling thread may be any, except one that runs a command of this queue.
  void resume();

  // The first error since the last call, if any; clears it.
  std::unique_ptr<CommandError> take_error();
  bool has_error() const noexcept { return has_error_.load(std::memory_order_acquire); }

  // The source line of the command that the calling thread runs, or nothing if it runs none. A command of many
  // operators keeps the line up to date.
  static std::optional<uint32_t> running_site() noexcept;
  void set_running_site(uint32_t site) noexcept { running_site_ = site; }

  // Whether the calling thread runs commands of this queue: as the worker, or in the worker's place.
  bool on_worker() const noexcept;

  // Microseconds for which an idle worker or a waiting host polls before it sleeps. They poll only while they have a
  // core to themselves. The value is about the time between two graphs of a small step.
  static constexpr int kDefaultSpinUs = 200;
  void set_spin_us(int us) noexcept;

  // The device's index, as traces show it.
  void set_index(int index) noexcept { index_ = index; }

  // For a process that has one core: commands run where they are submitted, if they may run anywhere.
  void set_workerless(bool on) noexcept;

  // Runs the submitted commands, then ends the worker. Later submissions are errors. In a forked child, where the
  // worker does not exist, it does nothing.
  void close();

  // Nanoseconds that the worker has spent inside commands. The value is updated whenever the worker has caught up.
  uint64_t busy_ns() const noexcept { return busy_ns_.load(std::memory_order_relaxed); }

  // The spans of time in which the worker was busy, in nanoseconds of CLOCK_MONOTONIC. Close spans are joined. They are
  // kept only while `record_spans` is on, and at most the first 65,536 between two calls of `take_spans`.
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
