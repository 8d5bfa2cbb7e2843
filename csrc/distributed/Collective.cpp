#include "distributed/Collective.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>

#include "call/Alias.h"
#include "device/event.h"
#include "device/blocking_wait.h"
#include "observe/events.h"
#include "record/Capture.h"
#include "record/Lazy.h"
#include "run/KernelThreads.h"
#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

class AwaitCommand final : public device::Command {
 public:
  explicit AwaitCommand(std::shared_ptr<Collective> collective) : collective_(std::move(collective)) {
    site = collective_->what().site;
    waits_beside = true;
  }
  const char* name() const override { return collective_->what().name.c_str(); }
  void run() override { collective_->await(); }
  bool ready() noexcept override { return collective_->ready(); }
  // Otherwise it may be a message, which ends only in a thread that waits for it.
  bool runs_anywhere() const noexcept override { return collective_->done(); }
  void describe(device::TraceRecord& record) const override {
    record.name = device::trace_name("wait for " + collective_->what().name);
    record.kind = device::TraceKind::Wait;
  }

 private:
  const std::shared_ptr<Collective> collective_;
};

// Completed by the library's threads; none for what ends only in a thread that waits for it.
c10::intrusive_ptr<c10::ivalue::Future> future_of(c10d::Work& work, c10d::OpType type) {
  if (c10d::isP2POp(type)) return nullptr;
  try {
    return work.getFuture();
  } catch (const c10::Error&) {
    return nullptr;
  }
}

// The library copies the state of the calling thread. The state of a host thread holds Python objects (those of a
// backward pass, of modes). The thread that drops the last copy, a thread of the library or a worker, needs Python's
// lock for it. If Python is ending by then, that ends the process.
const at::ThreadLocalState& state_without_python() {
  static const auto* state = [] {
    const at::ThreadLocalState* found = nullptr;
    std::thread([&] {
      c10::InferenceMode no_autograd(true);
      at::DisableRecordFunctionGuard unprofiled;
      found = new at::ThreadLocalState();
    }).join();
    return found;
  }();
  return *state;
}

// A collective that was issued and not yet awaited, or that was aborted while the library uses its memory, with the
// memory of the script's tensors. Only the script's threads may drop it.
struct Held {
  std::shared_ptr<Collective> collective;
  std::vector<c10::Storage> memory;
  bool aborted;
};
std::mutex held_mutex;
auto& all_held = *new std::vector<Held>();

// Takes out those for which `which` is true. The caller drops them without the lock.
template <class Which>
std::vector<Held> take(Which which) {
  std::vector<Held> taken;
  std::lock_guard lock(held_mutex);
  const auto first = std::ranges::find_if(all_held, which);
  const auto middle = std::stable_partition(first, all_held.end(), [&](const Held& h) { return !which(h); });
  std::move(middle, all_held.end(), std::back_inserter(taken));
  all_held.erase(middle, all_held.end());
  return taken;
}

// All collectives that have not ended, for the end of the process.
std::mutex alive_mutex;
auto& alive = *new UnderWay();
std::atomic<bool> abandoned{false};

std::mutex times_mutex;
auto& all_times = *new std::map<std::pair<std::string, uint32_t>, CollectiveTimes>();

bool ended_well(const std::vector<std::shared_ptr<Collective>>& parts) {
  return std::ranges::all_of(parts, [](const auto& part) { return part->done() && !part->error(); });
}

// Queues the waits for them; returns the last one's place. What was issued before runs beside the collectives.
uint64_t await_in_order(const std::vector<std::shared_ptr<Collective>>& parts) {
  cut_for_collective(*parts.front()->what().device);
  uint64_t last = 0;
  for (const auto& part : parts) last = part->await_in_order();
  return last;
}

}  // namespace

std::exception_ptr failure_of(const std::string& name, const std::string& group, std::exception_ptr error) {
  const auto told = [&](const std::string& text) {
    return std::make_exception_ptr(C10_BUILD_ERROR(DistBackendError, name + " failed on " + group + ": " + text));
  };
  try {
    std::rethrow_exception(std::move(error));
  } catch (const c10::Error& e) {
    return told(e.what_without_backtrace());
  } catch (const std::exception& e) {
    return told(e.what());
  } catch (...) {
    return told("unknown error");
  }
}

void cut_for_collective(device::Device& d) {
  if (C10_UNLIKELY(current_capture(d) != nullptr))
    refuse_in_capture("hccl", "A graph waits only for its own collectives. Wait for others before the capture.");
  if (lazy_collectives())
    Recorder::of(d).hand_over_piece();
  else
    flush(d);
}

void UnderWay::add(const std::shared_ptr<Collective>& collective) {
  if (collectives_.size() >= most_) {
    std::erase_if(collectives_, [](const auto& other) {
      auto c = other.lock();
      return !c || c->done();
    });
    most_ = std::max(kFew, 2 * collectives_.size());
  }
  collectives_.push_back(collective);
}

std::vector<std::shared_ptr<Collective>> UnderWay::all() const {
  std::vector<std::shared_ptr<Collective>> found;
  for (const auto& other : collectives_)
    if (auto collective = other.lock()) found.push_back(std::move(collective));
  return found;
}

void note_collective(const std::string& name, uint32_t site, size_t bytes, uint64_t wait_ns) {
  count(Counter::CollectiveWaitNs, wait_ns);
  std::lock_guard lock(times_mutex);
  auto& times = all_times[{name, site}];
  ++times.count;
  times.bytes += bytes;
  times.wait_ns += wait_ns;
}

std::map<std::pair<std::string, uint32_t>, CollectiveTimes> collective_times() {
  std::lock_guard lock(times_mutex);
  return all_times;
}

void Collective::issue(const Tensors& written, const Tensors& read) {
  for (const auto& t : written) written_.push_back(cpu_alias(t));
  for (const auto& t : read) read_.push_back(cpu_alias(t));
  count(Counter::Collectives);
  count(Counter::CollectiveBytes, what_.nbytes);
  {
    std::lock_guard lock(alive_mutex);
    alive.add(shared_from_this());
  }
  Held own{shared_from_this(), {}, false};
  for (const auto* tensors : {&written, &read})
    for (const auto& t : *tensors) {
      own.memory.push_back(t.storage());
      memory_.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(t.storage().unsafeGetStorageImpl()));
    }
  take([](const Held& h) { return h.aborted ? h.collective->released_.load() : h.collective->done(); });
  {
    std::lock_guard lock(held_mutex);
    all_held.push_back(std::move(own));
  }
  // It packs the data, if need be, and hands it to the library's threads. A small collective in shared memory also
  // waits a moment for the other ranks (NodeChannel).
  auto* command = new device::FunctionCommand(
      what_.name, [self = shared_from_this()] { self->start(); }, /*anywhere=*/true, device::TraceKind::Collective,
      what_.nbytes);
  command->site = what_.site;
  command->at_once = true;
  openhpu::submit(*what_.device, command);
}

uint64_t Collective::await_in_order() {
  std::lock_guard lock(awaiting_);
  if (awaited_) return awaited_;
  awaited_ = openhpu::submit(*what_.device, new AwaitCommand(shared_from_this()));
  // From here on every user of the memory is queued behind the wait.
  take([&](const Held& h) { return !h.aborted && h.collective.get() == this; });
  return awaited_;
}

bool Collective::awaited() {
  std::lock_guard lock(awaiting_);
  return awaited_ != 0;
}

void Collective::start() noexcept {
  if (auto trace = device::Trace::take_current()) {
    std::lock_guard lock(mutex_);
    trace_ = std::move(trace);
  }
  try {
    TORCH_CHECK(!abandoned.load(), "the process is ending");
    {
      std::lock_guard lock(mutex_);
      if (done()) return;  // it was aborted
      started_ = true;
    }
    at::ThreadLocalStateGuard bare(state_without_python());
    const uint64_t begun = now_ns();
    auto work = procedure_.start(written_, read_);
    // It holds the library's group, which must not end on one of its own threads.
    procedure_.start = nullptr;
    auto future = future_of(*work, what_.type);
    bool aborted = false;
    {
      std::lock_guard lock(mutex_);
      work_ = work;
      ends_by_itself_ = future != nullptr;
      if (future && future->completed()) ended_in_ns_ = now_ns() - begun;
      aborted = error_ != nullptr;
    }
    changed_.notify_all();
    if (future)
      future->addCallback([self = shared_from_this()](c10::ivalue::Future& f) {
        self->finish(f.hasError() ? f.exception_ptr() : nullptr);
      });
    if (aborted) ask_to_end(*work);
  } catch (...) {
    finish(std::current_exception());
  }
}

// The library has ended it.
void Collective::finish(std::exception_ptr error) noexcept {
  {
    std::lock_guard lock(mutex_);
    released_.store(true);
    if (done_.load() || std::exchange(completing_, true)) return;
    if (error_) error = error_;  // aborted, and held up until now
  }
  if (!error && procedure_.after) {
    try {
      apply_threads(1);
      c10::InferenceMode no_autograd(true);
      procedure_.after(written_);
    } catch (...) {
      error = std::current_exception();
    }
  }
  end(std::move(error));
}

// For the queue, and for the threads that wait.
void Collective::end(std::exception_ptr error) noexcept {
  {
    std::lock_guard lock(mutex_);
    if (done_.load()) return;
    if (trace_) {
      trace_->end = device::trace_clock();
      device::Trace::add(std::move(trace_));
    }
    if (error && !error_) error_ = failure_of(what_.name, what_.group, std::move(error));
    done_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  try {
    what_.device->queue().resume();
  } catch (const std::exception&) {
    // No thread could be started for the rest. The next thread that submits or waits reports it.
  }
}

// For what does not end by itself.
void Collective::end_here() noexcept {
  WorkPtr work;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return work_ || done(); });
    if (done() || ends_by_itself_) return;
    work = work_;
  }
  try {
    TORCH_CHECK(work->wait(), "it was aborted");
    finish(nullptr);
  } catch (...) {
    {
      std::lock_guard lock(mutex_);
      work_.reset();
    }
    work.reset();  // with its buffer, into which nothing comes from then on
    finish(std::current_exception());
  }
}

void Collective::watch() {
  {
    std::lock_guard lock(mutex_);
    if (ends_by_itself_ || watched_ || done()) return;
    watched_ = true;
  }
  std::thread([self = shared_from_this()] { self->end_here(); }).detach();
}

bool Collective::ready() noexcept {
  if (done()) return true;
  std::lock_guard lock(mutex_);
  if (!ends_by_itself_) return true;
  if (!waited_since_) waited_since_ = now_ns();
  return done();
}

void Collective::await() {
  std::unique_lock lock(mutex_);
  const uint64_t since = waited_since_ ? waited_since_ : now_ns();
  const bool here = !ends_by_itself_ && !std::exchange(watched_, true);
  if (here) {
    lock.unlock();
    end_here();
    lock.lock();
  } else {
    changed_.wait(lock, [&] { return done(); });
  }
  note_collective(what_.name, what_.site, what_.nbytes, ended_in_ns_ + now_ns() - since);
  if (error_) std::rethrow_exception(error_);
}

std::exception_ptr Collective::error() const {
  std::lock_guard lock(mutex_);
  return error_;
}

int Collective::source_rank() const {
  std::lock_guard lock(mutex_);
  return work_ ? work_->sourceRank() : -1;
}

bool Collective::wait_for(std::chrono::milliseconds timeout) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = timeout.count() > 0 ? Clock::now() + timeout : Clock::time_point::max();
  watch();
  device::BlockingWait waiting;
  std::unique_lock lock(mutex_);
  return waiting.until(
             lock, changed_, device::OnInterrupt::Throw, [&] { return done(); }, deadline) == device::Waited::Done;
}

void Collective::abort(bool at_end) noexcept {
  const auto aborted = failure_of(
      what_.name, what_.group,
      std::make_exception_ptr(c10::Error({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, "it was aborted")));
  WorkPtr work;
  bool started = false;
  {
    std::lock_guard lock(mutex_);
    if (done() || completing_) return;
    error_ = aborted;
    work = work_;
    started = started_;
  }
  if (work) ask_to_end(*work);
  if (!started || at_end || keep_memory()) end(aborted);
}

void Collective::ask_to_end(c10d::Work& work) noexcept {
  try {
    work.abort();
    watch();
  } catch (const std::exception&) {
    // The library can't (Gloo's collectives): it ends when others take part, or at its time limit.
  }
}

// Keeps the script's tensors from others for as long as the library has them. False: some have gone.
bool Collective::keep_memory() {
  Held kept{shared_from_this(), {}, true};
  for (const auto& weak : memory_) {
    auto storage = weak.lock();
    if (!storage) return false;
    kept.memory.emplace_back(std::move(storage));
  }
  std::lock_guard lock(held_mutex);
  all_held.push_back(std::move(kept));
  return true;
}

void Collective::await_all(device::Device& d) {
  std::vector<std::shared_ptr<Collective>> all;
  {
    std::lock_guard lock(held_mutex);
    for (const auto& h : all_held)
      if (!h.aborted && h.collective->what_.device == &d) all.push_back(h.collective);
  }
  for (const auto& collective : all) collective->await_in_order();
}

void Collective::abandon_all() {
  abandoned.store(true);
  std::vector<std::shared_ptr<Collective>> all;
  {
    std::lock_guard lock(alive_mutex);
    all = alive.all();
  }
  for (const auto& collective : all) collective->abort(/*at_end=*/true);
}

WorkHCCL::WorkHCCL(
    int rank, std::vector<std::shared_ptr<Collective>> parts, std::vector<at::Tensor> outputs, uint64_t sequence,
    const std::optional<Profiled>& profiled)
    : Work(
          rank, parts.size() == 1 ? parts.front()->what().type : c10d::OpType::COALESCED,
          profiled ? profiled->title : nullptr, profiled ? std::optional(profiled->inputs) : std::nullopt),
      parts_(std::move(parts)),
      outputs_(std::move(outputs)),
      sequence_(sequence) {
  if (recordFunctionEndCallback_) recordFunctionEndCallback_();
}

// A message that nobody waits for ends in a thread of its own: waited for in the queue, it would keep back what the
// other side may need first.
WorkHCCL::~WorkHCCL() {
  try {
    for (const auto& part : parts_)
      if (!part->awaited()) part->watch();
  } catch (const std::exception&) {
    // No thread to be had: a wait for the device waits for it.
  }
}

bool WorkHCCL::isCompleted() {
  bool all = true;
  for (const auto& part : parts_) {
    if (!part->awaited()) part->watch();
    all = all && part->done();
  }
  return all;
}

std::exception_ptr WorkHCCL::exception() const {
  for (const auto& part : parts_)
    if (auto error = part->error()) return error;
  return nullptr;
}

bool WorkHCCL::isSuccess() const { return ended_well(parts_); }

int WorkHCCL::sourceRank() const {
  const auto& part = *parts_.front();
  part.what().device->queue().wait(parts_.front()->await_in_order(), device::OnInterrupt::Throw);
  raise_pending_error(*part.what().device);
  return part.source_rank();
}

bool WorkHCCL::wait(std::chrono::milliseconds timeout) {
  if (parts_.empty()) return true;
  const uint64_t last = await_in_order(parts_);
  const bool limited = timeout.count() > 0;
  if (!limited && opType_ != c10d::OpType::BARRIER) return true;
  const auto& what = parts_.back()->what();
  if (limited)
    for (const auto& part : parts_)
      if (!part->wait_for(timeout))
        C10_THROW_ERROR(
            DistBackendError, c10::str(
                                  "caught collective operation timeout: ", part->what().name, " has not ended on ",
                                  what.group, " after ", timeout.count(), " ms"));
  what.device->queue().wait(last, device::OnInterrupt::Throw);
  raise_pending_error(*what.device);
  return true;
}

void WorkHCCL::abort() {
  for (const auto& part : parts_) part->abort();
}

c10::intrusive_ptr<c10::ivalue::Future> WorkHCCL::getFuture() {
  std::vector<c10::Device> devices;
  for (const auto& t : outputs_)
    if (std::find(devices.begin(), devices.end(), t.device()) == devices.end()) devices.push_back(t.device());
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices);
  // Complete at once, as for other accelerators: a wait for it makes a stream wait, not the host.
  const std::shared_ptr<device::Point> end =
      parts_.empty() ? nullptr
                     : std::make_shared<device::Point>(device::Point{
                           parts_.front()->what().device->queue(), [parts = parts_] { return ended_well(parts); },
                           [parts = parts_] { return await_in_order(parts); }});
  const auto recorded = c10::make_scope_exit(
      [before = std::exchange(t_record_beside, end ? &end : nullptr)] { t_record_beside = before; });
  future->markCompleted(c10::IValue(outputs_));
  return future;
}

}  // namespace openhpu
