#include "distributed/NodeChannel.h"

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
#include <sched.h>

#include <cstring>
#include <system_error>

#include "distributed/transport.h"
#include "observe/events.h"
#include "run/KernelThreads.h"

namespace openhpu {

// Not in the anonymous namespace, because the struct Job, which is not in it either, uses these types.
namespace node {

enum class Kind : uint32_t { AllReduce, AllGather, ReduceScatter, Broadcast, Barrier };
// One tensor's, or one list's with a tensor for each rank.
struct Part {
  std::vector<std::byte*> in;   // one, or for each rank what it gets
  std::vector<std::byte*> out;  // one, or for each rank what comes from it
  size_t elements;              // of each
};

}  // namespace node

namespace {

using node::Kind, node::Part;
using Clock = std::chrono::steady_clock;
using Tensors = std::vector<at::Tensor>;
using c10d::ReduceOp;

// A collective of at most kSmallBytes runs on the thread that starts it, if the other ranks arrive within kPoll.
constexpr size_t kSmallBytes = size_t{1} << 18;
constexpr std::chrono::microseconds kPoll{200};

std::optional<Kind> kind_of(c10d::OpType type) {
  using c10d::OpType;
  switch (type) {
    case OpType::ALLREDUCE:
    case OpType::ALLREDUCE_COALESCED:
      return Kind::AllReduce;
    case OpType::ALLGATHER:
    case OpType::_ALLGATHER_BASE:
      return Kind::AllGather;
    case OpType::REDUCE_SCATTER:
    case OpType::_REDUCE_SCATTER_BASE:
    case OpType::REDUCE_SCATTER_TENSOR_COALESCED:
      return Kind::ReduceScatter;
    case OpType::BROADCAST:
      return Kind::Broadcast;
    case OpType::BARRIER:
      return Kind::Barrier;
    default:
      return std::nullopt;
  }
}

const char* name_of(uint32_t kind) {
  constexpr const char* kNames[] = {"allreduce", "allgather", "reduce_scatter", "broadcast", "barrier"};
  return kind < std::size(kNames) ? kNames[kind] : "an unknown collective";
}

void reduce_two(ReduceOp::RedOpType reduction, at::Tensor& out, const at::Tensor& left, const at::Tensor& right) {
  switch (reduction) {
    case ReduceOp::SUM:
      at::add_out(out, left, right);
      return;
    case ReduceOp::PRODUCT:
      at::mul_out(out, left, right);
      return;
    case ReduceOp::MIN:
      at::minimum_out(out, left, right);
      return;
    case ReduceOp::MAX:
      at::maximum_out(out, left, right);
      return;
    case ReduceOp::BAND:
      at::bitwise_and_out(out, left, right);
      return;
    case ReduceOp::BOR:
      at::bitwise_or_out(out, left, right);
      return;
    case ReduceOp::BXOR:
      at::bitwise_xor_out(out, left, right);
      return;
    default:
      TORCH_INTERNAL_ASSERT(false, "hccl: a reduction that was refused before");
  }
}

}  // namespace

struct NodeChannel::Job {
  Request request;
  Kind kind;
  at::ScalarType dtype;
  std::vector<Part> parts;
  std::vector<Tensors> kept;
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
  // `error`: none where it has ended well.
  void end(std::exception_ptr error) {
    if (error)
      ended->setError(std::move(error));
    else
      ended->markCompleted();
  }
};

class NodeChannel::NodeWork final : public c10d::Work {
 public:
  NodeWork(int rank, c10d::OpType type, std::shared_ptr<Job> job, std::shared_ptr<NodeChannel> channel)
      : Work(rank, type), job_(std::move(job)), channel_(std::move(channel)) {}
  bool wait(std::chrono::milliseconds) override {
    job_->ended->wait();
    if (job_->ended->hasError()) std::rethrow_exception(job_->ended->exception_ptr());
    return true;
  }
  void abort() override { channel_->end("it was aborted"); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return job_->ended; }

 private:
  std::shared_ptr<Job> job_;
  std::shared_ptr<NodeChannel> channel_;
};

void NodeChannel::reduce_into(
    std::byte* out, const std::vector<const std::byte*>& from, size_t elements, const Job& job) {
  const auto over = [&](const std::byte* data) {
    return at::from_blob(const_cast<std::byte*>(data), {static_cast<int64_t>(elements)}, at::TensorOptions(job.dtype));
  };
  at::Tensor result = over(out), left = over(from.front());
  for (size_t i = 1; i < from.size(); ++i) {
    reduce_two(job.request.reduction, result, left, over(from[i]));
    left = result;
  }
}

size_t NodeChannel::most(const Job& job) const {
  return NodeMemory::kChunkBytes / c10::elementSize(job.dtype) /
         (job.kind == Kind::ReduceScatter ? static_cast<size_t>(size()) : 1);
}

NodeMemory::Label NodeChannel::label_of(const Job& job) {
  const size_t nbytes = job.parts[job.part].elements * c10::elementSize(job.dtype);
  return {
      static_cast<uint32_t>(job.kind), static_cast<uint32_t>(job.request.reduction), static_cast<uint32_t>(job.dtype),
      static_cast<uint32_t>(job.request.root), nbytes};
}

void NodeChannel::check_labels(const Job& job) const {
  const NodeMemory::Label own = label_of(job);
  const auto told = [](const NodeMemory::Label& l) {
    const bool reduces =
        l.kind == static_cast<uint32_t>(Kind::AllReduce) || l.kind == static_cast<uint32_t>(Kind::ReduceScatter);
    return c10::str(
        name_of(l.kind),
        reduces ? c10::str(" (", transport::name_of(static_cast<ReduceOp::RedOpType>(l.reduction)), ")") : "", " of ",
        l.nbytes, " bytes as ", static_cast<at::ScalarType>(l.dtype),
        l.kind == static_cast<uint32_t>(Kind::Broadcast) ? c10::str(" from rank ", l.root) : "");
  };
  for (int other = 0; other < size(); ++other)
    TORCH_CHECK(
        memory_->label_of(other) == own, "ranks are not in the same collective: rank ", other, " is in ",
        told(memory_->label_of(other)), ", rank ", rank(), " in ", told(own),
        ". All ranks of a group must issue the same collectives in the same order, with equal shapes and dtypes.");
}

void NodeChannel::publish(Job& job, size_t elements) {
  const Part& part = job.parts[job.part];
  const size_t item = c10::elementSize(job.dtype), nbytes = elements * item;
  if (nbytes && (job.kind != Kind::Broadcast || job.request.root == rank())) {
    std::byte* to = memory_->slot();
    for (const std::byte* from : part.in) {
      std::memcpy(to, from + job.element * item, nbytes);
      to += nbytes;
    }
  }
  memory_->publish(label_of(job));
}

void NodeChannel::consume(Job& job, size_t elements) {
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
      std::memcpy(out(0), memory_->slot_of(job.request.root), nbytes);
      break;
    case Kind::Barrier:
      break;
  }
}

void NodeChannel::next(Job& job, size_t elements) {
  job.element += elements;
  if (job.element < job.parts[job.part].elements) return;
  job.element = 0;
  ++job.part;
}

// As far as it goes without waiting. Whether it has ended.
bool NodeChannel::advance(Job& job) {
  while (job.part < job.parts.size()) {
    if (!memory_->all_here()) return false;
    const size_t elements = std::min(most(job), job.parts[job.part].elements - job.element);
    if (!job.published) {
      publish(job, elements);
      // A rank that only sends need not wait for the others.
      const bool sent = job.kind == Kind::Broadcast && job.request.root == rank();
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
bool NodeChannel::polled(Job& job) {
  const auto end = Clock::now() + kPoll;
  while (true) {
    if (advance(job)) return true;
    if (Clock::now() >= end || ended_.load()) return false;
    ::sched_yield();
  }
}

void NodeChannel::finish_waiting(Job& job) {
  const auto limit = job.request.limit;
  while (true) {
    TORCH_CHECK(!ended_.load(), why());
    if (polled(job)) return;
    const int late = memory_->sleep();
    if (late < 0) continue;
    const auto process = memory_->process_of(late);
    TORCH_CHECK(
        !memory_->left(late), "rank ", late, " (process ", process,
        ") has ended, or has left the group, before it took part");
    TORCH_CHECK(
        limit.count() <= 0 || Clock::now() - job.begun < limit, "Timed out waiting ", limit.count(), " ms for rank ",
        late, " (process ", process, ") to take part");
  }
}

std::string NodeChannel::why() {
  std::lock_guard lock(mutex_);
  return why_;
}

// The error of a run. After it the channel is closed, because the ranks are no longer at the same point.
template <class Run>
std::exception_ptr NodeChannel::failure_of(Run run) {
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

void NodeChannel::submit(std::shared_ptr<Job> job) {
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
  if (done || error) job->end(std::move(error));
}

void NodeChannel::end(const char* why) noexcept {
  std::lock_guard lock(mutex_);
  if (ended_.exchange(true)) return;
  why_ = why;
  changed_.notify_all();
}

// The thread. It ends with the channel; the last who has it may be this thread.
void NodeChannel::work() {
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
    job->end(std::move(error));
    lock.lock();
  }
}

std::shared_ptr<NodeChannel> NodeChannel::create(c10d::Store& store, int rank, int size, bool wanted) {
  auto memory = NodeMemory::create(store, rank, size, wanted);
  return memory ? std::make_shared<NodeChannel>(std::move(memory)) : nullptr;
}

bool NodeChannel::takes(c10d::OpType type) { return kind_of(type).has_value(); }

c10::intrusive_ptr<c10d::Work> NodeChannel::run(const Request& request, const Tensors& written, const Tensors& read) {
  const Kind kind = kind_of(request.type).value();
  const bool scatters = kind == Kind::ReduceScatter, reduces = scatters || kind == Kind::AllReduce;
  // What is only moved is bytes: tensors of one call may differ.
  const auto dtype = reduces ? written.front().scalar_type() : at::kByte;
  const auto job = std::make_shared<Job>(Job{request, kind, dtype, {}, {written, read}});
  // The parts of each tensor, one behind another.
  const auto parts_of = [](const Tensors& tensors, size_t parts) {
    std::vector<std::byte*> all;
    for (const auto& t : tensors)
      for (size_t i = 0; i < parts; ++i) all.push_back(static_cast<std::byte*>(t.data_ptr()) + i * t.nbytes() / parts);
    return all;
  };
  const auto add = [&](const Tensors& in, size_t in_parts, const Tensors& out, size_t out_parts) {
    const size_t nbytes = std::min(in.front().nbytes() / in_parts, out.front().nbytes() / out_parts);
    job->parts.push_back({parts_of(in, in_parts), parts_of(out, out_parts), nbytes / c10::elementSize(dtype)});
  };
  const Tensors& sent = read.empty() ? written : read;
  const auto ranks = static_cast<size_t>(size());
  if (sent.size() != written.size()) {
    add(sent, 1, written, 1);
  } else {
    for (size_t i = 0; i < sent.size(); ++i)
      add({sent[i]}, scatters ? ranks : 1, {written[i]}, kind == Kind::AllGather ? ranks : 1);
  }
  submit(job);
  return c10::make_intrusive<NodeWork>(rank(), request.type, job, shared_from_this());
}

}  // namespace openhpu
