#include "device/command_queue.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <stdexcept>

#include "Above.h"
#include "device/polling.h"

namespace openhpu::device {
namespace {

using Clock = std::chrono::steady_clock;

// How many forks lie between program start and this process. A queue that remembers the number at its birth knows by
// comparing whether it was inherited: its worker then does not exist here, and its locks may be held by nobody.
std::atomic<uint32_t> fork_generation{0};
[[maybe_unused]] const int counts_forks =
    pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1, std::memory_order_relaxed); });

// Sleeping on a word without the spinning and the waiter table that std::atomic::wait brings along: the queue does
// its own spinning, and knows whether anybody sleeps. `futex_wait` sleeps while the word has this value. May return
// early.
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
void futex_wait(std::atomic<uint32_t>& word, uint32_t value) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void futex_wake_one(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// Keeps signals away from the worker, so that the host's threads get them. Python handles signals on its main thread
// only, and a signal that the worker received would not interrupt a blocking call there.
void block_signals() {
  sigset_t set;
  sigfillset(&set);
  for (int synchronous : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&set, synchronous);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

// The queue whose commands this thread runs. For a worker that is always its own queue. For a host thread it is a queue
// only while the thread runs commands in the worker's place.
thread_local const CommandQueue* running = nullptr;

[[gnu::noinline, gnu::cold]] void trace_issue(Command* command, int device) {
  auto record = Trace::issue(command->name(), device, command->site);
  command->describe(*record);
  if (record->kind != TraceKind::Hidden) command->trace = std::move(record);
}

// It may be recycled.
void retire_unrun(Command* command) {
  command->trace.reset();
  command->retire();
}

}  // namespace

// Three handshakes of the same kind connect the threads: one side publishes (a number, or that nobody runs commands any
// more) and then looks whether the other sleeps; the other announces its sleep and then looks again. Sequentially
// consistent accesses make sure that at least one of them sees the other.
struct CommandQueue::Impl {
  Impl(std::string queue_name, size_t commands)
      : name(std::move(queue_name)), capacity(commands ? commands : 1), ring(std::bit_ceil(capacity)) {}

  const std::string name;
  const size_t capacity;
  const uint32_t generation = fork_generation.load(std::memory_order_relaxed);
  std::vector<Command*> ring;
  std::thread worker;
  Polling poll{kDefaultSpinUs};
  std::atomic<bool> workerless{false};

  // Producers. The mutex is never held while blocking: a thread that waits for Python's lock with it would deadlock
  // with one that has Python's lock and wants to submit.
  alignas(64) std::mutex submit_mutex;
  uint64_t known_completed = 0;
  bool closed = false;
  std::mutex close_mutex;

  // 1: the worker sleeps, or is about to.
  alignas(64) std::atomic<uint32_t> worker_sleeps{0};
  std::atomic<bool> has_worker{false};  // it was started
  std::atomic<bool> stop{false};

  // A thread runs commands: the worker, or a host thread in its place.
  alignas(64) std::atomic<bool> busy{false};
  // The current command needs a team of threads: a waiting host does not poll.
  std::atomic<bool> wide{false};
  // The last command that needs a team of threads, or that was to run at once and had others queued before it.
  std::atomic<uint64_t> last_to_wait_for{0};
  // The next command, while it waits for an event outside of the queue; 0 if none does. The thread that runs commands
  // writes it and then asks the command once more. `resume` resets it; before that, the command has become ready.
  std::atomic<uint64_t> held_up_by{0};

  // Waiting hosts. `wake_at`: the lowest number that a sleeper waits for.
  static constexpr uint64_t kNobody = UINT64_MAX;
  alignas(64) std::atomic<uint64_t> wake_at{kNobody};
  std::mutex wait_mutex;
  std::condition_variable wait_condition;

  std::mutex rare_mutex;  // the error, the worker's start
  std::unique_ptr<CommandError> error;
  std::vector<std::pair<uint64_t, uint64_t>> spans;  // under rare_mutex
  static constexpr size_t kMaxSpans = 65536;
  static constexpr uint64_t kSpanGapNs = 20000;

  // Inherited in a fork: the worker does not exist in this process.
  bool orphaned() const noexcept { return generation != fork_generation.load(std::memory_order_relaxed); }

  bool begin() noexcept { return !busy.load() && !busy.exchange(true); }
  void end(CommandQueue& queue) {
    busy.store(false);
    if (has_work(queue)) wake_worker(queue);
  }
  // Whether there is something for the worker to run.
  bool has_work(const CommandQueue& queue) const {
    return queue.submitted_.load() > queue.completed_.load() && !busy.load() && !held_up_by.load();
  }
  // Called by the thread that began. The event that the queue waits for may come at any moment.
  bool holds_up(Command& command, uint64_t sequence) {
    if (command.ready()) {
      held_up_by.store(0);
      return false;
    }
    if (command.trace && !command.trace->begin) command.trace->begin = trace_clock();
    wide.store(true, std::memory_order_relaxed);
    held_up_by.store(sequence);
    if (!command.ready()) return true;
    held_up_by.store(0);
    return false;
  }

  void wake_worker(CommandQueue& queue) {
    if (!has_worker.load(std::memory_order_acquire)) start_worker(queue);
    if (worker_sleeps.load() && worker_sleeps.exchange(0)) futex_wake_one(worker_sleeps);
  }
  void start_worker(CommandQueue& queue);
  void loop(CommandQueue& queue);
  void run_commands(CommandQueue& queue, uint64_t end, bool on_host);
  void run_here(CommandQueue& queue, uint64_t end);
  void sleep_until_work(CommandQueue& queue);
  void set_up_worker(CommandQueue& queue);
  void execute(CommandQueue& queue, Command* command);
  void keep_error(CommandQueue& queue, std::exception_ptr error, const char* name, uint32_t site);
  bool sleep_until_completed(CommandQueue& queue, uint64_t sequence, const BlockingWait& waiting, OnInterrupt what);
  void note_span(Clock::time_point begin, Clock::time_point end);
};

void CommandQueue::Impl::note_span(Clock::time_point begin, Clock::time_point end) {
  auto ns = [](Clock::time_point t) {
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count());
  };
  const uint64_t from = ns(begin), to = ns(end);
  std::lock_guard lock(rare_mutex);
  if (!spans.empty() && from <= spans.back().second + kSpanGapNs)
    spans.back().second = to;
  else if (spans.size() < kMaxSpans)
    spans.emplace_back(from, to);
}

void CommandQueue::Impl::keep_error(CommandQueue& queue, std::exception_ptr what, const char* command, uint32_t site) {
  std::lock_guard lock(rare_mutex);
  if (error) return;
  error = std::make_unique<CommandError>(CommandError{std::move(what), command, site});
  queue.has_error_.store(true, std::memory_order_release);
}

void CommandQueue::Impl::execute(CommandQueue& queue, Command* command) {
  queue.running_site_ = command->site;
  {
    std::optional<Trace::Running> traced;
    if (command->trace) [[unlikely]]
      traced.emplace(std::move(command->trace));
    try {
      if (!command->left_out) [[likely]]
        command->run();
    } catch (...) {
      keep_error(queue, std::current_exception(), command->name(), command->site);
    }
  }
  command->retire();
}

void CommandQueue::Impl::set_up_worker(CommandQueue& queue) {
  try {
    above.set_up_worker();
  } catch (...) {
    keep_error(queue, std::current_exception(), "worker initialisation", 0);
  }
}

void CommandQueue::Impl::sleep_until_work(CommandQueue& queue) {
  auto wanted = [&] { return has_work(queue) || stop.load(std::memory_order_relaxed); };
  if (!held_up_by.load() && poll(wanted)) return;
  worker_sleeps.store(1);
  while (worker_sleeps.load() && !has_work(queue) && !stop.load()) futex_wait(worker_sleeps, 1);
  worker_sleeps.store(0);
}

// Called by the thread that began: runs commands in order, up to `end`; on a host thread only to the first one that
// only the worker may run.
void CommandQueue::Impl::run_commands(CommandQueue& queue, uint64_t end, bool on_host) {
  const size_t mask = ring.size() - 1;
  uint64_t next = queue.completed_.load(std::memory_order_relaxed) + 1;
  auto since = Clock::now();
  for (; next <= end; ++next) {
    Command* command = ring[next & mask];
    if (command->waits_beside && holds_up(*command, next)) return;
    const bool anywhere = command->runs_anywhere();
    if (on_host && !anywhere) return;
    if (wide.load(std::memory_order_relaxed) == anywhere) wide.store(!anywhere, std::memory_order_relaxed);
    execute(queue, command);
    if (next == end || on_host) {
      // The worker reads the clock once per batch, and before the host can see that the batch is done.
      const auto now = Clock::now();
      const auto spent = std::chrono::duration_cast<std::chrono::nanoseconds>(now - since).count();
      queue.busy_ns_.store(queue.busy_ns() + spent, std::memory_order_relaxed);
      if (queue.record_spans_.load(std::memory_order_relaxed)) note_span(since, now);
      since = now;
    }
    queue.completed_.store(next);
    if (wake_at.load() <= next) {
      {
        std::lock_guard lock(wait_mutex);
        wake_at.store(kNobody);
      }
      wait_condition.notify_all();
    }
  }
}

// On a host thread, in the worker's place, if nobody runs commands.
void CommandQueue::Impl::run_here(CommandQueue& queue, uint64_t last) {
  if (!begin()) return;
  const auto* outer = std::exchange(running, &queue);
  const auto body = [&] { run_commands(queue, last, /*on_host=*/true); };
  above.run_as_worker(std::ref(body));
  running = outer;
  end(queue);
}

void CommandQueue::Impl::start_worker(CommandQueue& queue) {
  std::lock_guard lock(rare_mutex);
  if (worker.joinable() || stop.load()) return;
  worker = std::thread([this, &queue] { loop(queue); });
  has_worker.store(true, std::memory_order_release);
}

void CommandQueue::Impl::loop(CommandQueue& queue) {
  block_signals();
  running = &queue;
  pthread_setname_np(pthread_self(), ("hpu:" + name).substr(0, 15).c_str());
  bool is_set_up = false;
  for (;;) {
    if (has_work(queue) && begin()) {
      const uint64_t end = queue.submitted();
      if (!std::exchange(is_set_up, true)) set_up_worker(queue);
      run_commands(queue, end, /*on_host=*/false);
      busy.store(false);
    } else if (stop.load(std::memory_order_acquire) && queue.submitted() <= queue.completed()) {
      return;
    } else {
      sleep_until_work(queue);
    }
  }
}

bool CommandQueue::Impl::sleep_until_completed(
    CommandQueue& queue, uint64_t sequence, const BlockingWait& waiting, OnInterrupt what) {
  std::unique_lock lock(wait_mutex);
  const auto done = [&] {
    // Set anew after each waking: the worker wakes everybody and forgets when the lowest number is reached.
    if (wake_at.load() > sequence) wake_at.store(sequence);
    return queue.completed_.load() >= sequence;
  };
  return waiting.until(lock, wait_condition, what, done) == Waited::Done;
}

CommandQueue::CommandQueue(std::string name, size_t capacity)
    : impl_(std::make_unique<Impl>(std::move(name), capacity)) {}

CommandQueue::~CommandQueue() {
  close();
  // The thread object of a worker that exists in another process can neither be joined nor destroyed.
  if (impl_->orphaned()) (void)impl_.release();
}

void CommandQueue::close() {
  if (impl_->orphaned()) return;
  auto closing = lock_patiently(impl_->close_mutex);
  {
    std::lock_guard lock(impl_->submit_mutex);
    if (impl_->closed) return;
  }
  drain();
  {
    std::lock_guard lock(impl_->submit_mutex);
    impl_->closed = true;
  }
  {
    std::lock_guard lock(impl_->rare_mutex);  // no worker is started from here on
    impl_->stop.store(true);
  }
  if (!impl_->worker.joinable()) return;
  impl_->wake_worker(*this);
  BlockingWait waiting;
  impl_->worker.join();
}

std::optional<uint32_t> CommandQueue::running_site() noexcept {
  return running ? std::optional(running->running_site_) : std::nullopt;
}

bool CommandQueue::full() const noexcept { return submitted() >= completed() + impl_->capacity; }

bool CommandQueue::on_worker() const noexcept { return running == this; }

uint64_t CommandQueue::submit(Command* command, OnInterrupt what) {
  Impl& impl = *impl_;
  if (Trace::on() && !impl.orphaned()) [[unlikely]]
    trace_issue(command, index_);
  for (;;) {
    if (impl.orphaned()) {
      // Leaked on purpose: disposing of it may need locks that nobody in this process can release.
      throw std::runtime_error(
          "HPU " + impl.name +
          " cannot be used in a forked subprocess. To use HPU with multiprocessing, "
          "use the 'spawn' start method.");
    }
    // Where it can't be started nothing is queued.
    if (!impl.has_worker.load(std::memory_order_acquire) && !impl.workerless.load(std::memory_order_relaxed))
      impl.start_worker(*this);
    uint64_t sequence;
    bool at_once = false;
    {
      std::unique_lock lock(impl.submit_mutex);
      if (impl.closed) {
        lock.unlock();  // retiring may free memory, which may call other code
        retire_unrun(command);
        throw std::runtime_error("HPU " + impl.name + " has been shut down");
      }
      sequence = submitted_.load(std::memory_order_relaxed) + 1;
      // The worker's counter is read only when the last known value no longer suffices: reading it takes the
      // cache line away from the worker.
      if (sequence - impl.known_completed > impl.capacity) impl.known_completed = completed();
      if (sequence - impl.known_completed <= impl.capacity) {
        if (command->trace) [[unlikely]]
          command->trace->launch_end = trace_clock();
        at_once = command->at_once && completed() + 1 == sequence;
        if ((command->at_once && !at_once) || !command->runs_anywhere())
          impl.last_to_wait_for.store(sequence, std::memory_order_relaxed);
        impl.ring[sequence & (impl.ring.size() - 1)] = command;
        submitted_.store(sequence);
        command = nullptr;
      }
    }
    if (!command) {
      // If other threads want the cores, waking a worker costs more than most commands.
      const bool here = at_once || impl.workerless.load(std::memory_order_relaxed) ||
                        (impl.worker_sleeps.load() && impl.poll.crowded());
      if (impl.held_up_by.load()) {
        // The thread that ends the wait continues the queue.
      } else if (here && !on_worker()) {
        BlockingWait not_python;  // as PyTorch's own calls of kernels
        impl.run_here(*this, sequence);
      } else {
        impl.wake_worker(*this);
      }
      return sequence;
    }
    if (on_worker()) {
      retire_unrun(command);
      throw std::logic_error("a command cannot submit to its own queue while that is full");
    }
    try {
      // Until there is room for more than one: the host then runs for a while, with warm caches.
      wait(sequence - impl.capacity + impl.capacity / 8, what);
    } catch (...) {
      retire_unrun(command);
      throw;
    }
  }
}

uint64_t CommandQueue::submit(std::string name, std::function<void()> fn, uint32_t site, bool anywhere) {
  // What has no operator's name only orders others.
  const auto kind = name.find("::") == std::string::npos ? TraceKind::Hidden : TraceKind::Kernel;
  auto* command = new FunctionCommand(std::move(name), std::move(fn), anywhere, kind);
  command->site = site;
  return submit(command);
}

bool CommandQueue::wait(uint64_t sequence, OnInterrupt what) {
  if (on_worker()) throw std::logic_error("a command waits for its own queue, which would never end");
  if (completed() >= sequence) return true;
  Impl& impl = *impl_;
  if (impl.orphaned()) {
    throw std::runtime_error(
        "HPU " + impl.name +
        " cannot be waited for in a forked subprocess. To use HPU with multiprocessing, "
        "use the 'spawn' start method.");
  }
  if (sequence > submitted()) {
    throw std::invalid_argument("command " + std::to_string(sequence) + " was not submitted yet");
  }
  SpanScope span("hpuSynchronize");
  BlockingWait waiting;
  impl.run_here(*this, sequence);
  if (!impl.wide.load(std::memory_order_relaxed) && impl.poll([&] { return completed() >= sequence; })) return true;
  return impl.sleep_until_completed(*this, sequence, waiting, what);
}

bool CommandQueue::wait_to_read(uint64_t sequence, OnInterrupt what) {
  // Another thread may be about to submit that one.
  const uint64_t last = std::min(impl_->last_to_wait_for.load(std::memory_order_relaxed), submitted());
  return wait(std::max(sequence, last), what);
}

void CommandQueue::resume() {
  // In a forked child its commands are nobody's.
  if (impl_->orphaned() || on_worker()) return;
  if (const uint64_t sequence = impl_->held_up_by.exchange(0)) impl_->run_here(*this, sequence);
}

std::vector<std::pair<uint64_t, uint64_t>> CommandQueue::take_spans() {
  std::lock_guard lock(impl_->rare_mutex);
  return std::exchange(impl_->spans, {});
}

std::unique_ptr<CommandError> CommandQueue::take_error() {
  if (!has_error()) return nullptr;
  std::lock_guard lock(impl_->rare_mutex);
  has_error_.store(false, std::memory_order_release);
  return std::move(impl_->error);
}

void CommandQueue::set_spin_us(int us) noexcept { impl_->poll.set_us(us); }

void CommandQueue::set_workerless(bool on) noexcept { impl_->workerless.store(on, std::memory_order_relaxed); }

}  // namespace openhpu::device
