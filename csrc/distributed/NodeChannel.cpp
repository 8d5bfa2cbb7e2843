#include "distributed/NodeTransport.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/add.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_or.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "distributed/NodeMemory.h"
#include "distributed/transport.h"
#include "observe/events.h"
#include "run/KernelThreads.h"

namespace openhpu {
namespace {

using Clock = std::chrono::steady_clock;
using Tensors = std::vector<at::Tensor>;
using c10d::ReduceOp;

// A collective of at most kSmallBytes runs on the thread that starts it, if the other ranks arrive within kPoll.
constexpr size_t kSmallBytes = size_t{1} << 18;
constexpr std::chrono::microseconds kPoll{200};

}  // namespace

// Not in the anonymous namespace, because the class Channel, which is not in it either, uses these types.
namespace node {

enum class Kind : uint32_t { AllReduce, AllGather, ReduceScatter, Broadcast, Barrier };
// One tensor's, or one list's with a tensor for each rank.
struct Part {
  std::vector<const std::byte*> in;  // one, or for each rank what it gets
  std::vector<std::byte*> out;       // one, or for each rank what comes from it
  size_t elements;                   // of each
};

struct Job {
  Kind kind;
  ReduceOp::RedOpType reduction;
  at::ScalarType dtype;
  int root;
  std::vector<Part> parts;
  Tensors kept;
  std::chrono::milliseconds limit;  // 0: none
  c10::intrusive_ptr<c10::ivalue::Future> ended = c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get());
  Clock::time_point begun = Clock::now();
  // How far it is.
  size_t part = 0, element = 0;
  bool published = false;

  size_t nbytes() const {
    size_t sum = 0;
    for (const Part& p : parts) sum += p.elements * std::max(p.in.size(), p.out.size()) * c10::elementSize(dtype);
    return sum;
  }
};

}  // namespace node

using node::Job, node::Kind, node::Part;

namespace {

const char* name_of(uint32_t kind) {
  constexpr const char* kNames[] = {"allreduce", "allgather", "reduce_scatter", "broadcast", "barrier"};
  return kind < std::size(kNames) ? kNames[kind] : "an unknown collective";
}

void reduce_two(ReduceOp::RedOpType reduction, at::Tensor& out, const at::Tensor& left, const at::Tensor& right) {
  switch (reduction) {
    case ReduceOp::SUM: at::add_out(out, left, right); return;
    case ReduceOp::PRODUCT: at::mul_out(out, left, right); return;
    case ReduceOp::MIN: at::minimum_out(out, left, right); return;
    case ReduceOp::MAX: at::maximum_out(out, left, right); return;
    case ReduceOp::BAND: at::bitwise_and_out(out, left, right); return;
    case ReduceOp::BOR: at::bitwise_or_out(out, left, right); return;
    case ReduceOp::BXOR: at::bitwise_xor_out(out, left, right); return;
    default: TORCH_INTERNAL_ASSERT(false, "hccl: a reduction that was refused before");
  }
}

void reduce_into(std::byte* out, const std::vector<const std::byte*>& from, size_t elements, const Job& job) {
  const auto over = [&](const std::byte* data) {
    return at::from_blob(const_cast<std::byte*>(data), {static_cast<int64_t>(elements)}, at::TensorOptions(job.dtype));
  };
  at::Tensor result = over(out), left = over(from.front());
  for (size_t i = 1; i < from.size(); ++i) {
    reduce_two(job.reduction, result, left, over(from[i]));
    left = result;
  }
}

}  // namespace

// What is under way between the ranks, in the order in which this rank started it.
class NodeTransport::Channel : public std::enable_shared_from_this<Channel> {
 public:
  explicit Channel(std::unique_ptr<NodeMemory> memory) : memory_(std::move(memory)) {}

  void submit(std::shared_ptr<Job> job);
  // What is under way and what comes later ends with an error.
  void end(const char* why) noexcept;
  int size() const noexcept { return memory_->size(); }
  int rank() const noexcept { return memory_->rank(); }

 private:
  bool polled(Job& job);
  bool advance(Job& job);
  void next(Job& job, size_t elements);
  size_t most(const Job& job) const;
  void publish(Job& job, size_t elements);
  void consume(Job& job, size_t elements);
  NodeMemory::Label label_of(const Job& job) const;
  void check_labels(const Job& job) const;
  void finish_waiting(Job& job);
  void work();
  std::string why();
  template <class Run>
  std::exception_ptr failure_of(Run run);

  std::unique_ptr<NodeMemory> memory_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> waiting_;
  bool busy_ = false;    // somebody uses the memory
  bool thread_ = false;  // there is one
  std::atomic<bool> ended_{false};
  std::string why_;  // it ended
};

namespace {

// `error`: none where it has ended well.
void end_job(Job& job, std::exception_ptr error) {
  if (error)
    job.ended->setError(std::move(error));
  else
    job.ended->markCompleted();
}

class NodeWork final : public c10d::Work {
 public:
  NodeWork(int rank, c10d::OpType type, std::shared_ptr<Job> job, std::shared_ptr<NodeTransport::Channel> channel)
      : Work(rank, type), job_(std::move(job)), channel_(std::move(channel)) {}
  bool isCompleted() override { return job_->ended->completed(); }
  bool isSuccess() const override { return job_->ended->completed() && !job_->ended->hasError(); }
  std::exception_ptr exception() const override {
    return job_->ended->completed() && job_->ended->hasError() ? job_->ended->exception_ptr() : nullptr;
  }
  bool wait(std::chrono::milliseconds) override {
    job_->ended->wait();
    if (job_->ended->hasError()) std::rethrow_exception(job_->ended->exception_ptr());
    return true;
  }
  void abort() override { channel_->end("it was aborted"); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return job_->ended; }

 private:
  std::shared_ptr<Job> job_;
  std::shared_ptr<NodeTransport::Channel> channel_;
};

}  // namespace

size_t NodeTransport::Channel::most(const Job& job) const {
  return NodeMemory::kChunkBytes / c10::elementSize(job.dtype) /
         (job.kind == Kind::ReduceScatter ? static_cast<size_t>(size()) : 1);
}

NodeMemory::Label NodeTransport::Channel::label_of(const Job& job) const {
  const size_t nbytes = job.parts[job.part].elements * c10::elementSize(job.dtype);
  return {
      static_cast<uint32_t>(job.kind), static_cast<uint32_t>(job.reduction), static_cast<uint32_t>(job.dtype),
      static_cast<uint32_t>(job.root), nbytes};
}

void NodeTransport::Channel::check_labels(const Job& job) const {
  const NodeMemory::Label own = label_of(job);
  const auto told = [](const NodeMemory::Label& l) {
    const bool reduces = l.kind == static_cast<uint32_t>(Kind::AllReduce) || l.kind == static_cast<uint32_t>(Kind::ReduceScatter);
    return c10::str(
        name_of(l.kind), reduces ? c10::str(" (", transport::name_of(static_cast<ReduceOp::RedOpType>(l.reduction)), ")") : "",
        " of ", l.nbytes, " bytes as ", static_cast<at::ScalarType>(l.dtype),
        l.kind == static_cast<uint32_t>(Kind::Broadcast) ? c10::str(" from rank ", l.root) : "");
  };
  for (int other = 0; other < size(); ++other)
    TORCH_CHECK(
        memory_->label_of(other) == own, "ranks are not in the same collective: rank ", other, " is in ",
        told(memory_->label_of(other)), ", rank ", rank(), " in ", told(own),
        ". All ranks of a group must issue the same collectives in the same order, with equal shapes and dtypes.");
}

void NodeTransport::Channel::publish(Job& job, size_t elements) {
  const Part& part = job.parts[job.part];
  const size_t item = c10::elementSize(job.dtype), nbytes = elements * item;
  if (nbytes && (job.kind != Kind::Broadcast || job.root == rank())) {
    std::byte* to = memory_->slot();
    for (const std::byte* from : part.in) {
      std::memcpy(to, from + job.element * item, nbytes);
      to += nbytes;
    }
  }
  memory_->publish(label_of(job));
}

void NodeTransport::Channel::consume(Job& job, size_t elements) {
  const Part& part = job.parts[job.part];
  const size_t item = c10::elementSize(job.dtype), nbytes = elements * item;
  if (!nbytes) return;
  const auto out = [&](size_t i) { return part.out[i] + job.element * item; };
  switch (job.kind) {
    case Kind::AllReduce:
    case Kind::ReduceScatter: {
      // In the order of ranks, so that all have the same bits.
      const size_t at = job.kind == Kind::ReduceScatter ? static_cast<size_t>(rank()) * nbytes : 0;
      std::vector<const std::byte*> from;
      for (int other = 0; other < size(); ++other) from.push_back(memory_->slot_of(other) + at);
      reduce_into(out(0), from, elements, job);
      break;
    }
    case Kind::AllGather:
      for (int other = 0; other < size(); ++other)
        std::memcpy(out(static_cast<size_t>(other)), memory_->slot_of(other), nbytes);
      break;
    case Kind::Broadcast:
      std::memcpy(out(0), memory_->slot_of(job.root), nbytes);
      break;
    case Kind::Barrier:
      break;
  }
}

void NodeTransport::Channel::next(Job& job, size_t elements) {
  job.element += elements;
  if (job.element < job.parts[job.part].elements) return;
  job.element = 0;
  ++job.part;
}

// As far as it goes without waiting. Whether it has ended.
bool NodeTransport::Channel::advance(Job& job) {
  while (job.part < job.parts.size()) {
    if (!memory_->all_here()) return false;
    const size_t elements = std::min(most(job), job.parts[job.part].elements - job.element);
    if (!job.published) {
      publish(job, elements);
      // A rank that only sends need not wait for the others.
      const bool sent = job.kind == Kind::Broadcast && job.root == rank();
      if (sent)
        next(job, elements);
      else
        job.published = true;
      continue;
    }
    check_labels(job);
    consume(job, elements);
    job.published = false;
    next(job, elements);
  }
  return true;
}

// The same. It waits for other ranks for a moment and yields the core meanwhile.
bool NodeTransport::Channel::polled(Job& job) {
  const auto end = Clock::now() + kPoll;
  while (true) {
    if (advance(job)) return true;
    if (Clock::now() >= end || ended_.load()) return false;
    ::sched_yield();
  }
}

void NodeTransport::Channel::finish_waiting(Job& job) {
  while (true) {
    TORCH_CHECK(!ended_.load(), why());
    if (polled(job)) return;
    const int late = memory_->sleep();
    if (late < 0) continue;
    const auto process = memory_->process_of(late);
    TORCH_CHECK(
        !memory_->left(late), "rank ", late, " (process ", process, ") has ended, or has left the group, before it took part");
    TORCH_CHECK(
        job.limit.count() <= 0 || Clock::now() - job.begun < job.limit, "Timed out waiting ", job.limit.count(),
        " ms for rank ", late, " (process ", process, ") to take part");
  }
}

std::string NodeTransport::Channel::why() {
  std::lock_guard lock(mutex_);
  return why_;
}

// The error of a run. After it the channel is closed, because the ranks are no longer at the same point.
template <class Run>
std::exception_ptr NodeTransport::Channel::failure_of(Run run) {
  try {
    c10::InferenceMode no_autograd(true);
    run();
    return nullptr;
  } catch (const c10::Error& e) {
    end(e.what_without_backtrace());
  } catch (const std::exception& e) {
    end(e.what());
  }
  return std::make_exception_ptr(C10_BUILD_ERROR(DistBackendError, why()));
}

void NodeTransport::Channel::submit(std::shared_ptr<Job> job) {
  count(Counter::CollectivesInMemory);
  if (job->parts.empty()) job->parts.push_back({});
  bool done = false;
  std::exception_ptr error;
  std::unique_lock lock(mutex_);
  if (!ended_.load() && !busy_ && waiting_.empty() && job->nbytes() <= kSmallBytes) {
    busy_ = true;
    lock.unlock();
    error = failure_of([&] { done = polled(*job); });
    lock.lock();
    busy_ = false;
    if (!done && !error) waiting_.push_front(job);
  } else {
    waiting_.push_back(job);
  }
  if (!waiting_.empty()) {
    try {
      if (!thread_) std::thread([self = shared_from_this()] { self->work(); }).detach();
      thread_ = true;
    } catch (const std::system_error& e) {  // no thread to be had: this one alone waits
      waiting_.clear();
      lock.unlock();
      error = failure_of([&] { throw; });
      lock.lock();
    }
    changed_.notify_all();
  }
  lock.unlock();
  if (done || error) end_job(*job, std::move(error));
}

void NodeTransport::Channel::end(const char* why) noexcept {
  std::lock_guard lock(mutex_);
  if (ended_.exchange(true)) return;
  why_ = why;
  changed_.notify_all();
}

// The thread. It ends with the channel; the last who has it may be this thread.
void NodeTransport::Channel::work() {
  apply_threads(1);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !busy_ && (!waiting_.empty() || ended_.load()); });
    if (waiting_.empty()) {
      thread_ = false;
      return;
    }
    const auto job = std::move(waiting_.front());
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    auto error = failure_of([&] { finish_waiting(*job); });
    lock.lock();
    busy_ = false;
    lock.unlock();
    end_job(*job, std::move(error));
    lock.lock();
  }
}

c10::intrusive_ptr<c10d::Backend> NodeTransport::around(
    c10::intrusive_ptr<c10d::Backend> other, c10d::Store& store, bool wanted) {
  auto memory = NodeMemory::create(store, other->getRank(), other->getSize(), wanted);
  if (!memory) return other;
  return c10::make_intrusive<NodeTransport>(std::move(other), std::make_shared<Channel>(std::move(memory)));
}

NodeTransport::NodeTransport(c10::intrusive_ptr<c10d::Backend> other, std::shared_ptr<Channel> channel)
    : Backend(other->getRank(), other->getSize()), other_(std::move(other)), channel_(std::move(channel)) {}

NodeTransport::~NodeTransport() { channel_->end("the group was destroyed"); }

void NodeTransport::setGroupUid(const std::string& uid) {
  Backend::setGroupUid(uid);
  other_->setGroupUid(uid);
}

void NodeTransport::abort() {
  channel_->end("it was aborted");
  other_->abort();
}

std::chrono::milliseconds NodeTransport::limit(std::chrono::milliseconds asked) {
  return asked == c10d::kUnsetTimeout ? getBackendOptions()->timeout : asked;
}

namespace {

std::byte* bytes_of(const at::Tensor& t) { return static_cast<std::byte*>(t.data_ptr()); }

// Parts of a tensor that has one for each rank, one after another.
template <class Byte>
std::vector<Byte*> pieces(const at::Tensor& t, int ranks) {
  std::vector<Byte*> all;
  for (int i = 0; i < ranks; ++i) all.push_back(bytes_of(t) + static_cast<size_t>(i) * t.nbytes() / static_cast<size_t>(ranks));
  return all;
}

template <class Byte>
std::vector<Byte*> each(const Tensors& tensors) {
  std::vector<Byte*> all;
  for (const auto& t : tensors) all.push_back(bytes_of(t));
  return all;
}

size_t elements(const at::Tensor& t) { return static_cast<size_t>(t.numel()); }

c10::intrusive_ptr<c10d::Work> run(
    const std::shared_ptr<NodeTransport::Channel>& channel, c10d::OpType type, Job job) {
  const auto shared = std::make_shared<Job>(std::move(job));
  channel->submit(shared);
  return c10::make_intrusive<NodeWork>(channel->rank(), type, shared, channel);
}

// What is only moved is bytes: tensors of one call may differ.
Job moving(Kind kind, const Tensors& kept, std::chrono::milliseconds limit, int root = 0) {
  return {kind, ReduceOp::UNUSED, at::kByte, root, {}, kept, limit};
}

Job reducing(Kind kind, const Tensors& kept, std::chrono::milliseconds limit, const ReduceOp& reduction) {
  return {kind, reduction.op_, kept.front().scalar_type(), 0, {}, kept, limit};
}

Tensors both(const Tensors& a, const Tensors& b) {
  Tensors all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

}  // namespace

c10::intrusive_ptr<c10d::Work> NodeTransport::broadcast(Tensors& tensors, const c10d::BroadcastOptions& o) {
  Job job = moving(Kind::Broadcast, tensors, limit(o.timeout), static_cast<int>(o.rootRank));
  std::byte* data = bytes_of(tensors.front());
  job.parts = {{{data}, {data}, tensors.front().nbytes()}};
  return run(channel_, c10d::OpType::BROADCAST, std::move(job));
}

c10::intrusive_ptr<c10d::Work> NodeTransport::allreduce(Tensors& tensors, const c10d::AllreduceOptions& o) {
  Job job = reducing(Kind::AllReduce, tensors, limit(o.timeout), o.reduceOp);
  for (const auto& t : tensors) job.parts.push_back({{bytes_of(t)}, {bytes_of(t)}, elements(t)});
  return run(channel_, c10d::OpType::ALLREDUCE, std::move(job));
}

c10::intrusive_ptr<c10d::Work> NodeTransport::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& o) {
  return allreduce(tensors, o);
}

c10::intrusive_ptr<c10d::Work> NodeTransport::allgather(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& o) {
  Job job = moving(Kind::AllGather, both(inputs, transport::flat(outputs)), limit(o.timeout));
  job.parts = {{{bytes_of(inputs.front())}, each<std::byte>(outputs.front()), inputs.front().nbytes()}};
  return run(channel_, c10d::OpType::ALLGATHER, std::move(job));
}

c10::intrusive_ptr<c10d::Work> NodeTransport::_allgather_base(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& o) {
  Tensors outputs{output}, inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, o);
}

c10::intrusive_ptr<c10d::Work> NodeTransport::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& o) {
  Job job = moving(Kind::AllGather, both(inputs, outputs), limit(o.timeout));
  for (size_t i = 0; i < inputs.size(); ++i)
    job.parts.push_back({{bytes_of(inputs[i])}, pieces<std::byte>(outputs[i], channel_->size()), inputs[i].nbytes()});
  return run(channel_, c10d::OpType::_ALLGATHER_BASE, std::move(job));
}

c10::intrusive_ptr<c10d::Work> NodeTransport::reduce_scatter(
    Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& o) {
  Job job = reducing(Kind::ReduceScatter, both(outputs, transport::flat(inputs)), limit(o.timeout), o.reduceOp);
  job.parts = {{each<const std::byte>(inputs.front()), {bytes_of(outputs.front())}, elements(outputs.front())}};
  return run(channel_, c10d::OpType::REDUCE_SCATTER, std::move(job));
}

c10::intrusive_ptr<c10d::Work> NodeTransport::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& o) {
  Tensors outputs{output}, inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, o);
}

c10::intrusive_ptr<c10d::Work> NodeTransport::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& o) {
  Job job = reducing(Kind::ReduceScatter, both(outputs, inputs), limit(o.timeout), o.reduceOp);
  for (size_t i = 0; i < inputs.size(); ++i)
    job.parts.push_back(
        {pieces<const std::byte>(inputs[i], channel_->size()), {bytes_of(outputs[i])}, elements(outputs[i])});
  return run(channel_, c10d::OpType::_REDUCE_SCATTER_BASE, std::move(job));
}

c10::intrusive_ptr<c10d::Work> NodeTransport::barrier(const c10d::BarrierOptions& o) {
  return run(channel_, c10d::OpType::BARRIER, moving(Kind::Barrier, {}, limit(o.timeout)));
}

}  // namespace openhpu
