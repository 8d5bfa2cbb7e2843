#include "distributed/ProcessGroupHCCL.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "call/Alias.h"
#include "device/event.h"
#include "distributed/InterruptibleStore.h"
#include "distributed/NodeTransport.h"
#include "distributed/captured.h"
#include "distributed/cut.h"
#include "distributed/transport.h"
#include "observe/site.h"
#include "record/Capture.h"
#include "record/Lazy.h"
#include "torch/HPUAllocator.h"
#include "torch/HPUDevice.h"

namespace openhpu {

using namespace transport;

// One call of a collective: it checks the arguments, makes the transport's tensors over the device's memory, and
// submits the commands.
class ProcessGroupHCCL::Call {
 public:
  Call(ProcessGroupHCCL& group, const char* op, OpType type, const Tensors& tensors)
      : group_(group), op_(op), type_(type), device_(check(op, tensors)), tensors_(tensors) {}
  Call(ProcessGroupHCCL& group, const char* op, OpType type, device::Device& device)
      : group_(group), op_(op), type_(type), device_(device) {}

  // How many rows of the tensors are for each rank, where that differs.
  struct Splits {
    std::vector<int64_t> input, output;
  };

  // `written`: which of the tensors, by position. Captured, it becomes an operator of the graph.
  WorkPtr issue(
      Collective::Procedure procedure, size_t written_from, size_t written_to, size_t nbytes,
      const Splits& splits = {}) const {
    Tensors outputs(
        tensors_.begin() + static_cast<std::ptrdiff_t>(written_from),
        tensors_.begin() + static_cast<std::ptrdiff_t>(written_to));
    std::vector<std::shared_ptr<Collective>> parts;
    if (auto* capture = current_capture(device_); C10_UNLIKELY(capture != nullptr)) {
      if (tensors_.empty() || !lazy_collectives())
        refuse_in_capture(
            std::string("hccl::") + op_,
            "collective nonSFG is not supported during hpu graph capturing. Leave it out of the graph, or, but for a "
            "barrier, set PT_HPU_ENABLE_LAZY_COLLECTIVES=1.");
      if (!lazy_collectives_asked()) note_kindness("lazy-collectives", std::string("hccl::") + op_);
      capture_collective(
          *capture, std::string("hccl::") + op_, group_.described(), std::move(procedure), tensors_, written_from, written_to);
    } else {
      cut_for_collective(device_);
      group_.follow(device_);
      if (group_.agreement_ && lazy_mode() && !group_.coalescing_) group_.agreement_->before(type_, device_, group_.described());
      for (const auto& t : outputs) note_write(*t.storage().unsafeGetStorageImpl());
      Tensors aliases;
      for (const auto& t : tensors_) aliases.push_back(cpu_alias(t));
      parts.push_back(std::make_shared<Collective>(
          Collective::What{std::string("hccl::") + op_, group_.described(), type_, &device_, current_site(), nbytes},
          std::move(procedure), std::move(aliases)));
      if (C10_UNLIKELY(at::hasCallbacks()))
        issue_profiled(*parts.front(), outputs, written_from, written_to, splits);
      else
        parts.front()->issue(tensors_);
    }
    std::lock_guard lock(group_.mutex_);
    ++group_.sequence_;
    std::erase_if(group_.issued_, [](const auto& other) {
      auto c = other.lock();
      return !c || c->done();
    });
    group_.issued_.insert(group_.issued_.end(), parts.begin(), parts.end());
    if (group_.coalescing_) {
      group_.coalesced_.insert(group_.coalesced_.end(), parts.begin(), parts.end());
      group_.coalesced_outputs_.insert(group_.coalesced_outputs_.end(), outputs.begin(), outputs.end());
    }
    std::optional<WorkHCCL::Profiled> profiled;
    if (C10_UNLIKELY(at::hasCallbacks())) profiled = {title_of(type_), read_only(outputs, written_from, written_to)};
    return c10::make_intrusive<WorkHCCL>(
        group_.getRank(), std::move(parts), std::move(outputs), group_.sequence_, std::move(profiled));
  }

 private:
  static device::Device& check(const char* op, const Tensors& tensors) {
    TORCH_CHECK_VALUE(!tensors.empty(), "hccl ", op, ": expected at least one tensor");
    for (const auto& t : tensors) {
      TORCH_CHECK_VALUE(
          t.device().type() == c10::kHPU && t.device() == tensors.front().device(), "hccl ", op,
          ": expected dense tensors on one hpu device, got one on ", t.device(), " and one on ", tensors.front().device(),
          ". For tensors of the CPU, too, call init_process_group('cpu:gloo,hpu:hccl').");
      TORCH_CHECK_VALUE(
          t.layout() == c10::kStrided, "hccl ", op, ": expected dense tensors, got layout ", t.layout(),
          ". Call to_dense() first.");
      TORCH_CHECK_VALUE(
          t.is_contiguous() || t.is_contiguous(at::MemoryFormat::ChannelsLast) ||
              t.is_contiguous(at::MemoryFormat::ChannelsLast3d),
          "hccl ", op, ": Tensors must be contiguous, got sizes ", t.sizes(), " and strides ", t.strides(),
          ". Call contiguous() first.");
      TORCH_CHECK_VALUE(!t.is_conj() && !t.is_neg(), "hccl ", op, ": call resolve_conj() or resolve_neg() first.");
    }
    return device_of(tensors.front().device());
  }

  // What is sent: the tensors that are not written, or those that are all there is.
  Tensors read_only(const Tensors& outputs, size_t written_from, size_t written_to) const {
    Tensors inputs;
    for (size_t i = 0; i < tensors_.size(); ++i)
      if (i < written_from || i >= written_to) inputs.push_back(tensors_[i]);
    return inputs.empty() ? outputs : inputs;
  }

  // With the arguments that readers of traces know of collectives.
  void issue_profiled(
      Collective& collective, const Tensors& outputs, size_t written_from, size_t written_to,
      const Splits& splits) const {
    Tensors inputs = read_only(outputs, written_from, written_to);
    const auto elements = [](const Tensors& tensors) {
      int64_t sum = 0;
      for (const auto& t : tensors) sum += t.numel();
      return sum;
    };
    const auto [first_rank, stride] = group_.ranks_in_world();
    uint64_t sequence = 0;
    {
      std::lock_guard lock(group_.mutex_);
      sequence = group_.sequence_;
    }
    RECORD_PARAM_COMMS_DATA(
        std::make_tuple(static_cast<int64_t>(sequence), c10d::isP2POp(type_)),
        std::make_tuple(group_.getGroupUid(), group_.getGroupDesc()), inputs, outputs, group_.getRank(), std::string(op_),
        elements(inputs), elements(outputs), tensors_.empty() ? at::kByte : tensors_.front().scalar_type(),
        splits.input, splits.output, first_rank, stride, group_.getSize());
    collective.issue(tensors_);
  }

  ProcessGroupHCCL& group_;
  const char* op_;
  const OpType type_;
  device::Device& device_;
  const Tensors tensors_;
};

ProcessGroupHCCL::ProcessGroupHCCL(c10::intrusive_ptr<c10d::Backend> transport, c10d::Store& store, bool node)
    : Backend(transport->getRank(), transport->getSize()),
      transport_(NodeTransport::around(std::move(transport), store, node)),
      node_(node) {
  init();
  if (getSize() > 1) agreement_ = std::make_unique<Agreement>(transport_);
}

std::string ProcessGroupHCCL::described() const {
  const auto& name = getGroupDesc().empty() || getGroupDesc() == "undefined" ? getGroupUid() : getGroupDesc();
  return c10::str("rank ", getRank(), " of ", getSize(), " (group ", name.empty() ? "default" : name, ")");
}

std::pair<int, int> ProcessGroupHCCL::ranks_in_world() const {
  const auto& ranks = transport_->getBackendOptions()->global_ranks_in_group;
  if (ranks.empty()) return {0, 0};
  const auto rank = [&](size_t i) { return static_cast<int>(ranks[i]); };
  const int stride = ranks.size() > 1 ? rank(1) - rank(0) : 1;
  for (size_t i = 2; i < ranks.size(); ++i)
    if (rank(i) - rank(i - 1) != stride) return {rank(0), 0};
  return {rank(0), std::max(stride, 0)};
}

c10::intrusive_ptr<c10d::Backend::Options> ProcessGroupHCCL::getBackendOptions() {
  return c10::make_intrusive<Options>(transport_->getBackendOptions()->timeout);
}

void ProcessGroupHCCL::setTimeout(std::chrono::milliseconds timeout) { transport_->setTimeout(timeout); }

void ProcessGroupHCCL::setGroupUid(const std::string& uid) {
  Backend::setGroupUid(uid);
  transport_->setGroupUid(uid);
}

void ProcessGroupHCCL::startCoalescing() {
  std::lock_guard lock(mutex_);
  TORCH_CHECK(!coalescing_, "hccl: _start_coalescing was called again before _end_coalescing");
  coalescing_ = true;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::endCoalescing() {
  std::lock_guard lock(mutex_);
  TORCH_CHECK(coalescing_, "hccl: _end_coalescing was called without _start_coalescing");
  coalescing_ = false;
  return c10::make_intrusive<WorkHCCL>(
      getRank(), std::exchange(coalesced_, {}), std::exchange(coalesced_outputs_, {}), sequence_);
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupHCCL::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<c10d::Backend::Options>&) {
  const auto heard = c10::make_intrusive<InterruptibleStore>(store);
  auto part = transport_->split(heard, ranks, transport_->getBackendOptions());
  if (!part) return nullptr;
  const auto own = c10::make_intrusive<c10d::PrefixStore>(part->getBackendOptions()->group_name, heard);
  return c10::make_intrusive<ProcessGroupHCCL>(std::move(part), *own, node_);
}

std::vector<std::shared_ptr<Collective>> ProcessGroupHCCL::take_issued() {
  std::vector<std::shared_ptr<Collective>> out;
  std::lock_guard lock(mutex_);
  for (const auto& other : std::exchange(issued_, {}))
    if (auto collective = other.lock(); collective && !collective->done()) out.push_back(std::move(collective));
  return out;
}

void ProcessGroupHCCL::shutdown() {
  for (const auto& collective : take_issued()) {
    auto& queue = collective->what().device->queue();
    queue.wait(collective->await_in_order(), device::OnInterrupt::Throw);
  }
  forget_captured_collectives();
}

void ProcessGroupHCCL::abort() {
  for (const auto& collective : take_issued()) collective->abort();
  if (agreement_) agreement_->abort();
  transport_->abort();
  forget_captured_collectives();
}

c10d::ErrorType ProcessGroupHCCL::getError() {
  std::lock_guard lock(mutex_);
  for (const auto& other : issued_)
    if (auto collective = other.lock(); collective && collective->error()) return c10d::ErrorType::COMM_ERROR;
  return c10d::ErrorType::SUCCESS;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  only("broadcast", tensors);
  Call call(*this, "broadcast", OpType::BROADCAST, tensors);
  const auto o = asynchronous(options);
  return call.issue(
      {[t = transport_, o](Tensors& all) {
         auto in = some(all, moved, 0, 1);
         return t->broadcast(in, o);
       },
       nullptr},
      0, 1, bytes_of(tensors));
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const Reduction reduction(options.reduceOp, only("allreduce", tensors).scalar_type());
  Call call(*this, "allreduce", OpType::ALLREDUCE, tensors);
  const auto o = reduction.asking(options);
  const size_t n = tensors.size();
  return call.issue(
      {[t = transport_, o, n](Tensors& all) {
         auto in = some(all, reduced, 0, n);
         return t->allreduce(in, o);
       },
       reduction.division(0, n, getSize())},
      0, n, bytes_of(tensors));
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  TORCH_CHECK_VALUE(!tensors.empty(), "hccl allreduce_coalesced: expected at least one tensor");
  const Reduction reduction(options.reduceOp, tensors.front().scalar_type());
  for (const auto& t : tensors)
    TORCH_CHECK_VALUE(
        t.scalar_type() == tensors.front().scalar_type(), "hccl allreduce_coalesced: tensors must have one dtype, got ",
        tensors.front().scalar_type(), " and ", t.scalar_type());
  Call call(*this, "allreduce_coalesced", OpType::ALLREDUCE_COALESCED, tensors);
  const auto o = reduction.asking(options);
  const size_t n = tensors.size();
  return call.issue(
      {[t = transport_, o, n](Tensors& all) {
         auto in = some(all, reduced, 0, n);
         return t->allreduce_coalesced(in, o);
       },
       reduction.division(0, n, getSize())},
      0, n, bytes_of(tensors));
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const Reduction reduction(options.reduceOp, only("reduce", tensors).scalar_type());
  Call call(*this, "reduce", OpType::REDUCE, tensors);
  const auto o = reduction.asking(options);
  return call.issue(
      {[t = transport_, o](Tensors& all) {
         auto in = some(all, reduced, 0, 1);
         return t->reduce(in, o);
       },
       options.rootRank == getRank() ? reduction.division(0, 1, getSize()) : nullptr},
      0, 1, bytes_of(tensors));
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::allgather(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const auto& into = only("allgather", outputs);
  const auto& from = only("allgather", inputs);
  check_parts("allgather", "output", into, getSize(), from, getRank());
  Tensors tensors = into;
  tensors.push_back(from);
  Call call(*this, "allgather", OpType::ALLGATHER, tensors);
  if (!equally_long(into))  // which all ranks see
    return call.issue(
        exchange(
            transport_, options.timeout, [n = into.size()](const Tensors& all) { return some(all, flat_moved, 0, n); },
            [n = into.size()](const Tensors& all) { return Tensors(n, flat_moved(all[n])); }),
        0, into.size(), bytes_of(into));
  const auto o = asynchronous(options);
  return call.issue(
      {[t = transport_, o, n = into.size()](Tensors& all) {
         std::vector<Tensors> to{some(all, moved, 0, n)};
         auto in = some(all, moved, n, n + 1);
         return t->allgather(to, in, o);
       },
       nullptr},
      0, into.size(), bytes_of(into));
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::_allgather_base(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(
      output.scalar_type() == input.scalar_type() && output.numel() == input.numel() * getSize(),
      "hccl _allgather_base: output tensor size must be equal to world_size (", getSize(), ") times input tensor size, of "
      "the same dtype: got output ", output.sizes(), " ", output.scalar_type(), " and input ", input.sizes(), " ",
      input.scalar_type());
  Call call(*this, "_allgather_base", OpType::_ALLGATHER_BASE, {output, input});
  const auto o = asynchronous(options);
  return call.issue(
      {[t = transport_, o](Tensors& all) {
         auto to = flat_moved(all[0]), in = flat_moved(all[1]);
         return t->_allgather_base(to, in, o);
       },
       nullptr},
      0, 1, output.nbytes());
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::allgather_coalesced(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(
      static_cast<int>(outputs.size()) == getSize(), "hccl allgather_coalesced: expected a list of outputs for each of ",
      getSize(), " ranks, got ", outputs.size());
  auto tensors = flat(outputs);
  const size_t nbytes = bytes_of(tensors);
  const Tensors into = tensors;
  tensors.insert(tensors.end(), inputs.begin(), inputs.end());
  Call call(*this, "allgather_coalesced", OpType::ALLGATHER_COALESCED, tensors);
  const auto o = asynchronous(options);
  std::vector<size_t> ends;
  for (const auto& list : outputs) ends.push_back((ends.empty() ? 0 : ends.back()) + list.size());
  return call.issue(
      {[t = transport_, o, ends](Tensors& all) {
         std::vector<Tensors> to;
         for (size_t end : ends) to.push_back(some(all, moved, to.empty() ? 0 : ends[to.size() - 1], end));
         auto in = some(all, moved, ends.back(), all.size());
         return t->allgather_coalesced(to, in, o);
       },
       nullptr},
      0, into.size(), nbytes);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(
      outputs.size() == inputs.size(), "hccl allgather_into_tensor_coalesced: got ", outputs.size(), " outputs and ",
      inputs.size(), " inputs");
  Tensors tensors = outputs;
  tensors.insert(tensors.end(), inputs.begin(), inputs.end());
  Call call(*this, "allgather_into_tensor_coalesced", OpType::_ALLGATHER_BASE, tensors);
  const auto o = asynchronous(options);
  const size_t n = outputs.size();
  for (size_t i = 0; i < n; ++i)
    TORCH_CHECK_VALUE(
        outputs[i].scalar_type() == inputs[i].scalar_type() && outputs[i].numel() == inputs[i].numel() * getSize(),
        "hccl allgather_into_tensor_coalesced: output ", i, " must be ", getSize(), " times input ", i, ", got ",
        outputs[i].sizes(), " and ", inputs[i].sizes());
  return call.issue(
      {[t = transport_, o, n](Tensors& all) {
         auto to = some(all, flat_moved, 0, n), in = some(all, flat_moved, n, 2 * n);
         return t->allgather_into_tensor_coalesced(to, in, o);
       },
       nullptr},
      0, n, bytes_of(outputs));
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::gather(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  const auto& from = only("gather", inputs);
  const bool root = options.rootRank == getRank();
  TORCH_CHECK_VALUE(
      outputs.size() == (root ? 1 : 0), "hccl gather: expected ", root ? "one list of outputs on the root" : "no outputs",
      ", got ", outputs.size());
  Tensors into, tensors = inputs;
  if (root) {
    into = outputs.front();
    check_parts("gather", "output", into, getSize(), from);
    tensors.insert(tensors.end(), into.begin(), into.end());
  }
  Call call(*this, "gather", OpType::GATHER, tensors);
  const auto o = asynchronous(options);
  return call.issue(
      {[t = transport_, o, root](Tensors& all) {
         auto in = some(all, moved, 0, 1);
         std::vector<Tensors> to;
         if (root) to.push_back(some(all, moved, 1, all.size()));
         return t->gather(to, in, o);
       },
       nullptr},
      1, tensors.size(), std::max(bytes_of(into), bytes_of(inputs)));
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::scatter(
    Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) {
  const auto& into = only("scatter", outputs);
  const bool root = options.rootRank == getRank();
  TORCH_CHECK_VALUE(
      inputs.size() == (root ? 1 : 0), "hccl scatter: expected ", root ? "one list of inputs on the root" : "no inputs",
      ", got ", inputs.size());
  Tensors from, tensors = outputs;
  if (root) {
    from = inputs.front();
    check_parts("scatter", "input", from, getSize(), into);
    tensors.insert(tensors.end(), from.begin(), from.end());
  }
  Call call(*this, "scatter", OpType::SCATTER, tensors);
  const auto o = asynchronous(options);
  return call.issue(
      {[t = transport_, o, root](Tensors& all) {
         auto to = some(all, moved, 0, 1);
         std::vector<Tensors> in;
         if (root) in.push_back(some(all, moved, 1, all.size()));
         return t->scatter(to, in, o);
       },
       nullptr},
      0, 1, std::max(bytes_of(outputs), bytes_of(from)));
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::reduce_scatter(
    Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& options) {
  const auto& into = only("reduce_scatter", outputs);
  const auto& from = only("reduce_scatter", inputs);
  check_parts("reduce_scatter", "input", from, getSize(), into, getRank());
  const Reduction reduction(options.reduceOp, into.scalar_type());
  Tensors tensors = from;
  tensors.push_back(into);
  Call call(*this, "reduce_scatter", OpType::REDUCE_SCATTER, tensors);
  const auto o = reduction.asking(options);
  const size_t n = from.size();
  if (!equally_long(from)) {  // which all ranks see: everything is reduced, and each takes its part
    const auto sums = std::make_shared<at::Tensor>();
    int64_t begin = 0;
    for (int i = 0; i < getRank(); ++i) begin += from[static_cast<size_t>(i)].numel();
    const auto divide = reduction.division(n, n + 1, getSize());
    auto whole = reduction.asking(c10d::AllreduceOptions());
    whole.timeout = options.timeout;
    return call.issue(
        {[t = transport_, o = whole, n, sums](Tensors& all) {
           *sums = at::cat(some(all, flat_reduced, 0, n));
           Tensors in{*sums};
           return t->allreduce(in, o);
         },
         [n, begin, sums, divide](Tensors& all) {
           const auto own = flat_reduced(all[n]);
           own.copy_(sums->narrow(0, begin, own.numel()));
           if (divide) divide(all);
         }},
        n, n + 1, bytes_of(from));
  }
  return call.issue(
      {[t = transport_, o, n](Tensors& all) {
         auto to = some(all, reduced, n, n + 1);
         std::vector<Tensors> in{some(all, reduced, 0, n)};
         return t->reduce_scatter(to, in, o);
       },
       reduction.division(n, n + 1, getSize())},
      n, n + 1, bytes_of(from));
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(
      output.scalar_type() == input.scalar_type() && input.numel() == output.numel() * getSize(),
      "hccl _reduce_scatter_base: input tensor must be the same size as output size times world size (", getSize(),
      "), of the same dtype: got input ", input.sizes(), " ", input.scalar_type(), " and output ", output.sizes(), " ",
      output.scalar_type());
  const Reduction reduction(options.reduceOp, input.scalar_type());
  Call call(*this, "_reduce_scatter_base", OpType::_REDUCE_SCATTER_BASE, {output, input});
  const auto o = reduction.asking(options);
  return call.issue(
      {[t = transport_, o](Tensors& all) {
         auto to = flat_reduced(all[0]), in = flat_reduced(all[1]);
         return t->_reduce_scatter_base(to, in, o);
       },
       reduction.division(0, 1, getSize())},
      0, 1, input.nbytes());
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(
      outputs.size() == inputs.size() && !inputs.empty(), "hccl reduce_scatter_tensor_coalesced: got ", outputs.size(),
      " outputs and ", inputs.size(), " inputs");
  const Reduction reduction(options.reduceOp, inputs.front().scalar_type());
  Tensors tensors = outputs;
  tensors.insert(tensors.end(), inputs.begin(), inputs.end());
  Call call(*this, "reduce_scatter_tensor_coalesced", OpType::REDUCE_SCATTER_TENSOR_COALESCED, tensors);
  const auto o = reduction.asking(options);
  const size_t n = outputs.size();
  for (size_t i = 0; i < n; ++i)
    TORCH_CHECK_VALUE(
        outputs[i].scalar_type() == inputs[i].scalar_type() && inputs[i].numel() == outputs[i].numel() * getSize() &&
            inputs[i].scalar_type() == inputs.front().scalar_type(),
        "hccl reduce_scatter_tensor_coalesced: input ", i, " must be ", getSize(), " times output ", i,
        ", all of one dtype, got ", inputs[i].sizes(), " ", inputs[i].scalar_type(), " and ", outputs[i].sizes(), " ",
        outputs[i].scalar_type());
  return call.issue(
      {[t = transport_, o, n](Tensors& all) {
         auto to = some(all, flat_reduced, 0, n), in = some(all, flat_reduced, n, 2 * n);
         return t->reduce_scatter_tensor_coalesced(to, in, o);
       },
       reduction.division(0, n, getSize())},
      0, n, bytes_of(inputs));
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::alltoall_base(
    at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits, std::vector<int64_t>& input_splits,
    const c10d::AllToAllOptions& options) {
  TORCH_CHECK_VALUE(
      output.scalar_type() == input.scalar_type(), "hccl alltoall_base: tensors must have one dtype, got ",
      output.scalar_type(), " and ", input.scalar_type());
  const auto check = [&](const char* what, const at::Tensor& t, const std::vector<int64_t>& splits) {
    const int64_t rows = t.dim() ? t.size(0) : 1;
    const auto sum = std::accumulate(splits.begin(), splits.end(), int64_t{0});
    TORCH_CHECK_VALUE(
        !splits.empty() || rows % getSize() == 0, "hccl alltoall_base: the ", what, "'s first dimension, ", rows,
        ", does not divide equally across the group's ", getSize(), " ranks; give split sizes");
    TORCH_CHECK_VALUE(
        splits.empty() || (static_cast<int>(splits.size()) == getSize() && sum == rows),
        "hccl alltoall_base: split sizes must be one for each of ", getSize(), " ranks and add up to the ", what,
        "'s first dimension, ", rows, "; got ", c10::IntArrayRef(splits));
  };
  check("output", output, output_splits);
  check("input", input, input_splits);
  Call call(*this, "alltoall_base", OpType::ALLTOALL_BASE, {output, input});
  const auto o = asynchronous(options);
  return call.issue(
      {[t = transport_, o, output_splits, input_splits](Tensors& all) {
         auto to = moved(all[0]), in = moved(all[1]);
         auto to_splits = output_splits, in_splits = input_splits;  // which the transport takes for itself
         return t->alltoall_base(to, in, to_splits, in_splits, o);
       },
       nullptr},
      0, 1, std::max(output.nbytes(), input.nbytes()), {input_splits, output_splits});
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::alltoall(
    Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  TORCH_CHECK_VALUE(
      static_cast<int>(outputs.size()) == getSize() && static_cast<int>(inputs.size()) == getSize(),
      "hccl alltoall: expected an input and an output for each of ", getSize(), " ranks, got ", inputs.size(), " and ",
      outputs.size());
  Tensors tensors = outputs;
  tensors.insert(tensors.end(), inputs.begin(), inputs.end());
  for (const auto& t : tensors)
    TORCH_CHECK_VALUE(
        t.scalar_type() == tensors.front().scalar_type(), "hccl alltoall: tensors must have one dtype, got ",
        tensors.front().scalar_type(), " and ", t.scalar_type());
  Call call(*this, "alltoall", OpType::ALLTOALL, tensors);
  const size_t n = outputs.size();
  // That all are equally long on this rank says nothing about the others.
  return call.issue(
      exchange(
          transport_, options.timeout, [n](const Tensors& all) { return some(all, flat_moved, 0, n); },
          [n](const Tensors& all) { return some(all, flat_moved, n, 2 * n); }),
      0, n, std::max(bytes_of(outputs), bytes_of(inputs)));
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::send(Tensors& tensors, int to, int tag) {
  only("send", tensors);
  Call call(*this, "send", OpType::SEND, tensors);
  return call.issue(
      {[t = transport_, to, tag](Tensors& all) {
         auto in = some(all, moved, 0, 1);
         return t->send(in, to, tag);
       },
       nullptr},
      0, 0, bytes_of(tensors));
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::recv(Tensors& tensors, int from, int tag) {
  only("recv", tensors);
  Call call(*this, "recv", OpType::RECV, tensors);
  return call.issue(
      {[t = transport_, from, tag](Tensors& all) {
         auto in = some(all, moved, 0, 1);
         return t->recv(in, from, tag);
       },
       nullptr},
      0, 1, bytes_of(tensors));
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::recvAnysource(Tensors& tensors, int tag) {
  only("recvAnysource", tensors);
  Call call(*this, "recvAnysource", OpType::RECVANYSOURCE, tensors);
  return call.issue(
      {[t = transport_, tag](Tensors& all) {
         auto in = some(all, moved, 0, 1);
         return t->recvAnysource(in, tag);
       },
       nullptr},
      0, 1, bytes_of(tensors));
}

void ProcessGroupHCCL::follow(device::Device& d) {
  device::Device* before = nullptr;
  {
    std::lock_guard lock(mutex_);
    before = std::exchange(last_, &d);
  }
  if (!before || before == &d) return;
  device::Event point(/*timing=*/false);
  point.record(before->stream(0));
  point.block(d.stream(0));
}

device::Device& ProcessGroupHCCL::device_of_barrier(const std::vector<int64_t>& ids) {
  if (!ids.empty()) return device_of(static_cast<c10::DeviceIndex>(ids.front()));
  if (const auto bound = getBoundDeviceId(); bound && bound->type() == c10::kHPU) return device_of(*bound);
  {
    std::lock_guard lock(mutex_);
    if (last_) return *last_;
  }
  return device_of(-1);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupHCCL::barrier(const c10d::BarrierOptions& options) {
  Call call(*this, "barrier", OpType::BARRIER, device_of_barrier(options.device_ids));
  auto o = asynchronous(options);
  o.device_ids.clear();
  return call.issue({[t = transport_, o](Tensors&) { return t->barrier(o); }, nullptr}, 0, 0, 0);
}

void ProcessGroupHCCL::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  auto& d = device_of_barrier(options.device_ids);
  cut_for_collective(d);
  follow(d);
  const uint64_t place = d.queue().submit(
      "hccl::monitored_barrier",
      [t = transport_, options, wait_all_ranks] { t->monitoredBarrier(options, wait_all_ranks); }, current_site());
  d.queue().wait(place, device::OnInterrupt::Throw);
  raise_pending_error(d);
}

}  // namespace openhpu
