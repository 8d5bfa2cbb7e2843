#include "device/command_queue.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <stdexcept>
#include <utility>
#include <vector>

#include "device/cores.h"
#include "device/fork_guard.h"
#include "device/futex.h"
#include "device/wait_hook.h"

namespace openhpu::device {
namespace {

using Clock = std::chrono::steady_clock;

// How long a waiting host spins before it runs the hook: giving Python's lock away and taking it back costs more.
constexpr int kSpinBeforeHookUs = 2;

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until `done` or until the time is over. Returns whether it is done.
// `meets(cpu)`: whether the thread that we wait for has to run on our own core, where it cannot as long as we spin; a
// hand-over would then cost both spinning times.
template <class Meets, class Done>
bool spin(Clock::time_point deadline, Meets meets, Done done) {
  do {
    if (meets(::sched_getcpu())) break;
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      pause();
    }
  } while (Clock::now() < deadline);
  return done();
}

// The same for a long time, offering the core to others. `crowded`: somebody took it, and kept it as long as the system
// allows (until the clock's next tick, 4 ms). A thread that sleeps instead is given the core when it is woken.
template <class Meets, class Done>
bool spin_politely(Clock::time_point deadline, Meets meets, Done done, bool& crowded) {
  constexpr auto kLong = std::chrono::microseconds(200);
  for (auto now = Clock::now(); now < deadline;) {
    if (meets(::sched_getcpu())) break;
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      pause();
    }
    const auto before = Clock::now();
    ::sched_yield();
    now = Clock::now();
    if ((crowded = now - before > kLong)) break;
  }
  return done();
}

void note_cpu(std::atomic<int>& cpu) {
  const int now = ::sched_getcpu();
  if (cpu.load(std::memory_order_relaxed) != now) cpu.store(now, std::memory_order_relaxed);
}

// Signals are for the host's threads: Python handles them on its main thread only, and a blocking call there is
// not interrupted by a signal that the worker received.
void block_signals() {
  sigset_t set;
  sigfillset(&set);
  for (int synchronous : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&set, synchronous);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

thread_local CommandQueue* this_worker = nullptr;

class FunctionCommand : public Command {
 public:
  FunctionCommand(std::string name, std::function<void()> fn) : name_(std::move(name)), fn_(std::move(fn)) {}
  void run() override { fn_(); }
  const char* name() const override { return name_.c_str(); }

 private:
  std::string name_;
  std::function<void()> fn_;
};

}  // namespace

// Two handshakes of the same kind connect host and worker: one side publishes its number and then looks whether
// the other sleeps; the other announces its sleep and then looks at the number again. Sequentially consistent
// accesses make sure that at least one of them sees the other.
struct CommandQueue::Impl {
  Impl(std::string queue_name, size_t commands)
      : name(std::move(queue_name)), capacity(commands ? commands : 1), ring(std::bit_ceil(capacity)) {}

  const std::string name;
  const size_t capacity;
  const uint32_t generation = fork_generation();
  std::vector<Command*> ring;
  std::thread worker;
  std::atomic<int> spin_us{20};
  static constexpr int kPatienceUs = 1000;
  int64_t last_pause_us = 0;  // the worker's
  static constexpr auto kCrowdedFor = std::chrono::milliseconds(100);
  Clock::time_point crowded_until{};  // the worker's: others want its core

  // Producers. The mutex is never held while blocking: a thread that waits for Python's lock with it would deadlock
  // with one that has Python's lock and wants to submit.
  alignas(64) std::mutex submit_mutex;
  uint64_t known_completed = 0;
  bool closed = false;
  std::atomic<int> producer_cpu{-1};
  static constexpr int kStartUs = 150;
  std::atomic<Clock::rep> patient_until{0};  // of a waiting host

  // 1: the worker sleeps, or is about to.
  alignas(64) std::atomic<uint32_t> worker_sleeps{0};
  std::atomic<bool> stop{false};
  std::atomic<bool> has_worker_init{false};
  std::atomic<int> worker_cpu{-1};
  std::atomic<int> avoided{-1};  // the core that the worker is kept off
  std::mutex place_mutex;        // held while that changes
  pid_t worker_thread = 0;       // under it, from when the worker runs
  std::vector<pid_t> team;       // under it
  std::atomic<bool> team_works{false};

  // Waiting hosts. `wake_at`: the lowest number that a sleeper waits for.
  static constexpr uint64_t kNobody = UINT64_MAX;
  alignas(64) std::atomic<uint64_t> wake_at{kNobody};
  std::mutex wait_mutex;
  std::condition_variable wait_condition;

  std::mutex rare_mutex;  // the error and the worker's initialisation
  std::unique_ptr<CommandError> error;
  std::function<void()> worker_init;
  std::vector<std::pair<uint64_t, uint64_t>> spans;  // under rare_mutex
  static constexpr size_t kMaxSpans = 65536;
  static constexpr uint64_t kSpanGapNs = 20000;

  // Inherited in a fork: the worker does not exist in this process.
  bool orphaned() const noexcept { return generation != fork_generation(); }

  void wake_worker() {
    if (!worker_sleeps.load() || !worker_sleeps.exchange(0)) return;
    keep_apart();
    note_start();
    futex_wake_one(worker_sleeps);
  }
  // Called before the worker is woken: keeps it off the core of the thread that feeds it.
  void keep_apart() { keep_off(producer_cpu.load(std::memory_order_relaxed)); }
  // Whether the worker has to run elsewhere.
  bool keep_off(int core) {
    if (avoided.load(std::memory_order_relaxed) == core) return true;
    std::lock_guard lock(place_mutex);
    if (worker_thread == 0) return false;  // about to start
    if (!avoid_core(worker_thread, team, core)) return false;
    avoided.store(core, std::memory_order_relaxed);
    note_start();
    return true;
  }
  // The worker is about to begin on a core that sleeps, which takes longer than the host would wait awake. A host that
  // sleeps meanwhile is woken on the worker's core, and all begins again.
  void note_start() {
    const auto until = Clock::now() + std::chrono::microseconds(kStartUs);
    patient_until.store(until.time_since_epoch().count(), std::memory_order_relaxed);
  }
  // For `spin`. The system moves a host that slept to the core of the worker that woke it, and from then on each would
  // sleep for the other; moving the worker costs a tenth of one such waking.
  bool meets_worker(int core) { return worker_cpu.load(std::memory_order_relaxed) == core && !keep_off(core); }
  bool meets_producer(int core) { return producer_cpu.load(std::memory_order_relaxed) == core && !keep_off(core); }
  void loop(CommandQueue& queue);
  void sleep_until_work(CommandQueue& queue, uint64_t next);
  void run_worker_init(CommandQueue& queue);
  void execute(CommandQueue& queue, Command* command, uint64_t sequence);
  void keep_error(CommandQueue& queue, std::exception_ptr error, const char* name, uint32_t site, uint64_t sequence);
  bool sleep_until_completed(CommandQueue& queue, uint64_t sequence, const BlockingWait& waiting, OnInterrupt what);
  void note_span(Clock::time_point begin, Clock::time_point end);
};

void CommandQueue::Impl::note_span(Clock::time_point begin, Clock::time_point end) {
  auto ns = [](Clock::time_point t) {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count());
  };
  const uint64_t from = ns(begin), to = ns(end);
  std::lock_guard lock(rare_mutex);
  if (!spans.empty() && from <= spans.back().second + kSpanGapNs)
    spans.back().second = to;
  else if (spans.size() < kMaxSpans)
    spans.emplace_back(from, to);
}

void CommandQueue::Impl::keep_error(CommandQueue& queue, std::exception_ptr what, const char* command, uint32_t site,
                                    uint64_t sequence) {
  std::lock_guard lock(rare_mutex);
  if (error) return;
  error = std::make_unique<CommandError>(CommandError{std::move(what), command, site, sequence});
  queue.has_error_.store(true, std::memory_order_release);
}

void CommandQueue::Impl::execute(CommandQueue& queue, Command* command, uint64_t sequence) {
  try {
    command->run();
  } catch (...) {
    keep_error(queue, std::current_exception(), command->name(), command->site, sequence);
  }
  command->retire();
}

void CommandQueue::Impl::run_worker_init(CommandQueue& queue) {
  std::function<void()> init;
  {
    std::lock_guard lock(rare_mutex);
    has_worker_init.store(false, std::memory_order_relaxed);
    init = std::exchange(worker_init, nullptr);
  }
  try {
    if (init) init();
  } catch (...) {
    keep_error(queue, std::current_exception(), "worker initialisation", 0, 0);
  }
}

void CommandQueue::Impl::sleep_until_work(CommandQueue& queue, uint64_t next) {
  auto has_work = [&] { return queue.submitted() >= next || stop.load(std::memory_order_relaxed); };
  const auto since = Clock::now();
  int patience = spin_us.load(std::memory_order_relaxed);
  // Waking a sleeping core costs the script tens of microseconds. Where the last pause was short, as between the steps
  // of a training, this one probably is too.
  if (patience > 0 && last_pause_us <= kPatienceUs) patience = std::max(patience, kPatienceUs);
  if (since < crowded_until) patience = 0;
  bool crowded = false;
  const auto deadline = since + std::chrono::microseconds(patience);
  if (!spin_politely(deadline, [&](int core) { return meets_producer(core); }, has_work, crowded)) {
    if (crowded) crowded_until = Clock::now() + kCrowdedFor;
    worker_sleeps.store(1);
    while (worker_sleeps.load() && queue.submitted_.load() < next && !stop.load()) futex_wait(worker_sleeps, 1);
    worker_sleeps.store(0);
  }
  last_pause_us = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - since).count();
}

void CommandQueue::Impl::loop(CommandQueue& queue) {
  block_signals();
  this_worker = &queue;
  {
    std::lock_guard lock(place_mutex);
    worker_thread = gettid();
  }
  pthread_setname_np(pthread_self(), ("hpu:" + name).substr(0, 15).c_str());
  const size_t mask = ring.size() - 1;
  uint64_t next = 1;
  for (;;) {
    uint64_t end = queue.submitted();
    if (end < next) {
      if (stop.load(std::memory_order_acquire) && queue.submitted() < next) return;
      sleep_until_work(queue, next);
      continue;
    }
    auto since = Clock::now();
    while (next <= end) {
      note_cpu(worker_cpu);
      // Looked at after every reading of `end`: an initialisation set before a submission is then visible.
      if (has_worker_init.load(std::memory_order_acquire)) run_worker_init(queue);
      for (; next <= end; ++next) {
        execute(queue, ring[next & mask], next);
        if (next == end) {
          // The clock is read once per batch, and before the host can see that the batch is done.
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
      end = queue.submitted();
    }
  }
}

bool CommandQueue::Impl::sleep_until_completed(CommandQueue& queue, uint64_t sequence, const BlockingWait& waiting,
                                               OnInterrupt what) {
  const bool hears = waiting.hears(what);
  std::unique_lock lock(wait_mutex);
  for (;;) {
    // Set anew after each waking: the worker wakes everybody and forgets when the lowest number is reached.
    if (wake_at.load() > sequence) wake_at.store(sequence);
    if (queue.completed_.load() >= sequence) return true;
    if (!hears) {
      wait_condition.wait(lock);
    } else if (wait_condition.wait_for(lock, BlockingWait::kAsk) == std::cv_status::timeout) {
      lock.unlock();
      if (waiting.interrupted(what)) return queue.completed() >= sequence;
      lock.lock();
    }
  }
}

CommandQueue::CommandQueue(std::string name, size_t capacity)
    : impl_(std::make_unique<Impl>(std::move(name), capacity)) {
  (void)process_cores();  // before any thread of ours is bound
  // A core that the worker needs is not to be spent on waiting for it.
  if (std::thread::hardware_concurrency() == 1) impl_->spin_us = 0;
  impl_->worker = std::thread([this] { impl_->loop(*this); });
  worker_id_ = impl_->worker.get_id();
}

CommandQueue::~CommandQueue() {
  close();
  // The thread object of a worker that exists in another process can neither be joined nor destroyed.
  if (impl_->orphaned()) (void)impl_.release();
}

void CommandQueue::close() {
  if (impl_->orphaned()) return;
  {
    std::lock_guard lock(impl_->submit_mutex);
    if (impl_->closed) return;
  }
  drain();
  {
    std::lock_guard lock(impl_->submit_mutex);
    impl_->closed = true;
  }
  impl_->stop.store(true);
  impl_->wake_worker();
  BlockingWait waiting;
  impl_->worker.join();
  worker_id_ = {};  // the system may give the same identifier to a later thread
}

uint64_t CommandQueue::submit(Command* command, OnInterrupt what) {
  Impl& impl = *impl_;
  for (;;) {
    if (impl.orphaned()) {
      // Leaked on purpose: disposing of it may need locks that nobody in this process can release.
      throw std::runtime_error("HPU " + impl.name +
                               " cannot be used in a forked subprocess. To use HPU with multiprocessing, "
                               "use the 'spawn' start method.");
    }
    uint64_t sequence;
    {
      std::unique_lock lock(impl.submit_mutex);
      if (impl.closed) {
        lock.unlock();  // retiring may free memory, and whatever hangs on that
        command->retire();
        throw std::runtime_error("HPU " + impl.name + " has been shut down");
      }
      sequence = submitted_.load(std::memory_order_relaxed) + 1;
      // The worker's counter is read only when the last known value no longer suffices: reading it takes the
      // cache line away from the worker.
      if (sequence - impl.known_completed > impl.capacity) impl.known_completed = completed();
      if (sequence - impl.known_completed <= impl.capacity) {
        impl.ring[sequence & (impl.ring.size() - 1)] = command;
        note_cpu(impl.producer_cpu);
        submitted_.store(sequence);
        command = nullptr;
      }
    }
    if (!command) {
      impl.wake_worker();
      return sequence;
    }
    if (on_worker()) {
      command->retire();
      throw std::logic_error("a command cannot submit to its own queue while that is full");
    }
    try {
      wait(sequence - impl.capacity, what);
    } catch (...) {
      command->retire();
      throw;
    }
  }
}

uint64_t CommandQueue::submit(std::string name, std::function<void()> fn, uint32_t site) {
  auto command = std::make_unique<FunctionCommand>(std::move(name), std::move(fn));
  command->site = site;
  return submit(command.release());
}

bool CommandQueue::wait(uint64_t sequence, OnInterrupt what) {
  if (on_worker()) throw std::logic_error("a command waits for its own queue, which would never end");
  if (completed() >= sequence) return true;
  Impl& impl = *impl_;
  if (impl.orphaned()) {
    throw std::runtime_error("HPU " + impl.name +
                             " cannot be waited for in a forked subprocess. To use HPU with multiprocessing, "
                             "use the 'spawn' start method.");
  }
  if (sequence > submitted()) {
    throw std::invalid_argument("command " + std::to_string(sequence) + " was not submitted yet");
  }
  auto done = [&] { return completed() >= sequence; };
  const int spin_us = impl.spin_us.load(std::memory_order_relaxed);
  const auto since = Clock::now();
  const auto until = [&](int us) { return since + std::chrono::microseconds(us); };
  auto meets = [&](int core) { return impl.meets_worker(core); };
  if (spin_us > 0 && spin(until(std::min(spin_us, kSpinBeforeHookUs)), meets, done)) return true;
  BlockingWait waiting;
  // Where the worker has a team, that needs this core.
  const bool alone = !impl.team_works.load(std::memory_order_relaxed);
  if (spin_us > kSpinBeforeHookUs && alone) {
    if (spin(until(spin_us), meets, done)) return true;
    const Clock::time_point patient(Clock::duration(impl.patient_until.load(std::memory_order_relaxed)));
    if (Clock::now() < patient && spin(patient, meets, done)) return true;
  }
  return impl.sleep_until_completed(*this, sequence, waiting, what);
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

void CommandQueue::set_spin_us(int us) noexcept {
  impl_->spin_us.store(std::thread::hardware_concurrency() == 1 ? 0 : us, std::memory_order_relaxed);
}

CommandQueue* CommandQueue::of_this_worker() noexcept { return this_worker; }

void CommandQueue::note_team(bool works) noexcept { impl_->team_works.store(works, std::memory_order_relaxed); }

void CommandQueue::set_team(std::vector<pid_t> members) {
  Impl& impl = *impl_;
  std::lock_guard lock(impl.place_mutex);
  impl.team = std::move(members);
  const int core = impl.avoided.load(std::memory_order_relaxed);
  if (core >= 0) avoid_core(impl.worker_thread, impl.team, core);
}

void CommandQueue::set_worker_init(std::function<void()> fn) {
  std::lock_guard lock(impl_->rare_mutex);
  impl_->worker_init = std::move(fn);
  impl_->has_worker_init.store(true, std::memory_order_release);
}

}  // namespace openhpu::device
