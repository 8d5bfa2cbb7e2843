#include "distributed/ProcessGroupHCCL.h"

#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

#include <numeric>

#include "device/event.h"
#include "observe/site.h"
#include "record/Capture.h"
#include "record/Lazy.h"
#include "torch/HPUAllocator.h"
#include "torch/HPUDevice.h"

namespace openhpu {

using namespace transport;

namespace {

device::Device& device_for(const char* op, const Tensors& tensors) {
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

// As the transport takes it, for one expression: none where this rank is not the root.
std::vector<Tensors>& list_of(const Tensors& tensors, std::vector<Tensors>&& lists = {}) {
  if (!tensors.empty()) lists.push_back(tensors);
  return lists;
}

void check_one_dtype(const char* op, const Tensors& tensors) {
  for (const auto& t : tensors)
    TORCH_CHECK_VALUE(
        t.scalar_type() == tensors.front().scalar_type(), "hccl ", op, ": tensors must have one dtype, got ",
        tensors.front().scalar_type(), " and ", t.scalar_type());
}

}  // namespace

// One call of a collective, as a row: its arguments are checked by then. All but the transport's part follows from it.
struct ProcessGroupHCCL::Row {
  const char* op;
  const char* title;  // what a profile calls it, as other backends' collectives
  OpType type;
  Prepare prepare;
  Tensors written, read;
  // How many rows of the tensors are for each rank, where that differs.
  std::vector<int64_t> output_splits = {}, input_splits = {};
  device::Device* device = nullptr;  // of a call without tensors

  // What is sent.
  const Tensors& sent() const { return read.empty() ? written : read; }
};

// `by_gloo(gloo, written, read, options)`: for what the ranks' memory does not take.
template <class Asked, class Start>
WorkPtr ProcessGroupHCCL::issue(const Row& row, Asked options, Start by_gloo) {
  Collective::Procedure procedure;
  NodeChannel::Request request{row.type, options.timeout};
  options.asyncOp = true;
  if constexpr (requires { options.rootRank; }) request.root = static_cast<int>(options.rootRank);
  if constexpr (requires { options.reduceOp; }) {
    const Reduction reduction(options.reduceOp, row.written.front().scalar_type());
    options.reduceOp = request.reduction = reduction.asked;
    if (row.type != OpType::REDUCE || request.root == getRank()) procedure.after = reduction.division(getSize());
  }
  procedure.start = [t = transport_, prepare = row.prepare, request, options, by_gloo](
                        const Tensors& written, const Tensors& read) {
    auto out = all_as(prepare, written), in = all_as(prepare, read);
    return t->run(request, out, in, [&](c10d::Backend& gloo) { return by_gloo(gloo, out, in, options); });
  };
  return issue(row, std::move(procedure));
}

// Captured, it becomes an operator of the graph.
WorkPtr ProcessGroupHCCL::issue(const Row& row, Collective::Procedure procedure) {
  auto& d = row.device ? *row.device : device_for(row.op, flat({row.written, row.read}));
  const std::string name = std::string("hccl::") + row.op;
  std::vector<std::shared_ptr<Collective>> parts;
  if (auto* capture = current_capture(d); C10_UNLIKELY(capture != nullptr)) {
    if (row.sent().empty() || !lazy_collectives())
      refuse_in_capture(
          name,
          "collective nonSFG is not supported during hpu graph capturing. Leave it out of the graph, or, but for a "
          "barrier, set PT_HPU_ENABLE_LAZY_COLLECTIVES=1.");
    note(Difference::LazyCollectives, name);
    capture_collective(*capture, name, described(), std::move(procedure), row.written, row.read);
  } else {
    cut_for_collective(d);
    follow(d);
    if (agreement_ && lazy_mode() && !coalescing_) agreement_->before(row.type, d, described());
    for (const auto& t : row.written) note_write(*t.storage().unsafeGetStorageImpl());
    const size_t nbytes = std::max(bytes_of(row.written), bytes_of(row.read));
    parts.push_back(
        std::make_shared<Collective>(
            Collective::What{name, described(), row.type, &d, current_site(), nbytes}, std::move(procedure)));
    if (C10_UNLIKELY(at::hasCallbacks()))
      issue_profiled(*parts.front(), row);
    else
      parts.front()->issue(row.written, row.read);
  }
  std::lock_guard lock(mutex_);
  ++sequence_;
  for (const auto& part : parts) issued_.add(part);
  if (coalescing_) {
    coalesced_.insert(coalesced_.end(), parts.begin(), parts.end());
    coalesced_outputs_.insert(coalesced_outputs_.end(), row.written.begin(), row.written.end());
  }
  std::optional<WorkHCCL::Profiled> profiled;
  if (C10_UNLIKELY(at::hasCallbacks())) profiled = {row.title, row.sent()};
  return c10::make_intrusive<WorkHCCL>(getRank(), std::move(parts), row.written, sequence_, std::move(profiled));
}

// With the arguments that readers of traces know of collectives.
void ProcessGroupHCCL::issue_profiled(Collective& collective, const Row& row) {
  const auto [first_rank, stride] = ranks_in_world();
  RECORD_PARAM_COMMS_DATA(
      std::make_tuple(static_cast<int64_t>(getSequenceNumberForGroup()), c10d::isP2POp(row.type)),
      std::make_tuple(getGroupUid(), getGroupDesc()), row.sent(), row.written, getRank(), std::string(row.op),
      elements(row.sent()), elements(row.written), row.sent().empty() ? at::kByte : row.sent().front().scalar_type(),
      row.input_splits, row.output_splits, first_rank, stride, getSize());
  collective.issue(row.written, row.read);
}

ProcessGroupHCCL::ProcessGroupHCCL(c10::intrusive_ptr<c10d::Backend> transport, c10d::Store& store, bool node)
    : Backend(transport->getRank(), transport->getSize()),
      transport_(
          std::make_shared<Transport>(std::move(transport), NodeChannel::create(store, getRank(), getSize(), node))),
      node_(node) {
  init();
  if (getSize() > 1) agreement_ = std::make_unique<Agreement>(transport_);
}

std::string ProcessGroupHCCL::described() const {
  const auto& name = getGroupDesc().empty() || getGroupDesc() == "undefined" ? getGroupUid() : getGroupDesc();
  // Without a stream, which c10::str uses: each collective asks.
  return "rank " + std::to_string(getRank()) + " of " + std::to_string(getSize()) + " (group " +
         (name.empty() ? "default" : name) + ")";
}

std::pair<int, int> ProcessGroupHCCL::ranks_in_world() const {
  const auto& ranks = transport_->gloo->getBackendOptions()->global_ranks_in_group;
  if (ranks.empty()) return {0, 0};
  const auto rank = [&](size_t i) { return static_cast<int>(ranks[i]); };
  const int stride = ranks.size() > 1 ? rank(1) - rank(0) : 1;
  for (size_t i = 2; i < ranks.size(); ++i)
    if (rank(i) - rank(i - 1) != stride) return {rank(0), 0};
  return {rank(0), std::max(stride, 0)};
}

c10::intrusive_ptr<c10d::Backend::Options> ProcessGroupHCCL::getBackendOptions() {
  return c10::make_intrusive<Options>(transport_->gloo->getBackendOptions()->timeout);
}

void ProcessGroupHCCL::setTimeout(std::chrono::milliseconds timeout) { transport_->gloo->setTimeout(timeout); }

void ProcessGroupHCCL::setGroupUid(const std::string& uid) {
  Backend::setGroupUid(uid);
  transport_->gloo->setGroupUid(uid);
}

void ProcessGroupHCCL::startCoalescing() {
  std::lock_guard lock(mutex_);
  TORCH_CHECK(!coalescing_, "hccl: _start_coalescing was called again before _end_coalescing");
  coalescing_ = true;
}

WorkPtr ProcessGroupHCCL::endCoalescing() {
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
  auto part = transport_->gloo->split(heard, ranks, transport_->gloo->getBackendOptions());
  if (!part) return nullptr;
  const auto own = c10::make_intrusive<c10d::PrefixStore>(part->getBackendOptions()->group_name, heard);
  return c10::make_intrusive<ProcessGroupHCCL>(std::move(part), *own, node_);
}

std::vector<std::shared_ptr<Collective>> ProcessGroupHCCL::take_issued() {
  std::lock_guard lock(mutex_);
  auto issued = std::exchange(issued_, {}).all();
  std::erase_if(issued, [](const auto& collective) { return collective->done(); });
  return issued;
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
  if (transport_->node) transport_->node->end("it was aborted");
  transport_->gloo->abort();
  forget_captured_collectives();
}

c10d::ErrorType ProcessGroupHCCL::getError() {
  std::lock_guard lock(mutex_);
  const bool failed =
      std::ranges::any_of(issued_.all(), [](const auto& collective) { return collective->error() != nullptr; });
  return failed ? c10d::ErrorType::COMM_ERROR : c10d::ErrorType::SUCCESS;
}

WorkPtr ProcessGroupHCCL::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  only("broadcast", tensors);
  return issue(
      {"broadcast", "hccl:broadcast", OpType::BROADCAST, moved, tensors, {}}, options,
      [](auto& gloo, Tensors& all, Tensors&, const auto& o) { return gloo.broadcast(all, o); });
}

WorkPtr ProcessGroupHCCL::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  only("allreduce", tensors);
  return issue(
      {"allreduce", "hccl:all_reduce", OpType::ALLREDUCE, reduced, tensors, {}}, options,
      [](auto& gloo, Tensors& all, Tensors&, const auto& o) { return gloo.allreduce(all, o); });
}

WorkPtr ProcessGroupHCCL::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  TORCH_CHECK_VALUE(!tensors.empty(), "hccl allreduce_coalesced: expected at least one tensor");
  check_one_dtype("allreduce_coalesced", tensors);
  return issue(
      {"allreduce_coalesced", "hccl:all_reduce", OpType::ALLREDUCE_COALESCED, reduced, tensors, {}}, options,
      [](auto& gloo, Tensors& all, Tensors&, const auto& o) { return gloo.allreduce_coalesced(all, o); });
}

WorkPtr ProcessGroupHCCL::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  only("reduce", tensors);
  return issue(
      {"reduce", "hccl:reduce", OpType::REDUCE, reduced, tensors, {}}, options,
      [](auto& gloo, Tensors& all, Tensors&, const auto& o) { return gloo.reduce(all, o); });
}

WorkPtr ProcessGroupHCCL::allgather(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const auto& into = only("allgather", outputs);
  check_parts("allgather", "output", into, getSize(), only("allgather", inputs), getRank());
  const Row row{"allgather", "hccl:all_gather", OpType::ALLGATHER, moved, into, inputs};
  if (!equally_long(into)) return issue(row, exchange(transport_, options.timeout));  // which all ranks see
  return issue(row, options, [](auto& gloo, Tensors& out, Tensors& in, const auto& o) {
    return gloo.allgather(list_of(out), in, o);
  });
}

WorkPtr ProcessGroupHCCL::_allgather_base(
    at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(
      output.scalar_type() == input.scalar_type() && output.numel() == input.numel() * getSize(),
      "hccl _allgather_base: output tensor size must be equal to world_size (", getSize(),
      ") times input tensor size, of "
      "the same dtype: got output ",
      output.sizes(), " ", output.scalar_type(), " and input ", input.sizes(), " ", input.scalar_type());
  return issue(
      {"_allgather_base", "hccl:_all_gather_base", OpType::_ALLGATHER_BASE, flat_moved, {output}, {input}}, options,
      [](auto& gloo, Tensors& out, Tensors& in, const auto& o) { return gloo._allgather_base(out[0], in[0], o); });
}

WorkPtr ProcessGroupHCCL::allgather_coalesced(
    std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(
      static_cast<int>(outputs.size()) == getSize(),
      "hccl allgather_coalesced: expected a list of outputs for each of ", getSize(), " ranks, got ", outputs.size());
  std::vector<size_t> lengths;
  for (const auto& list : outputs) lengths.push_back(list.size());
  return issue(
      {"allgather_coalesced", "hccl:all_gather", OpType::ALLGATHER_COALESCED, moved, flat(outputs), inputs}, options,
      [lengths](auto& gloo, Tensors& out, Tensors& in, const auto& o) {
        std::vector<Tensors> lists;
        auto next = out.begin();
        for (const size_t n : lengths) {
          lists.emplace_back(next, next + static_cast<std::ptrdiff_t>(n));
          next += static_cast<std::ptrdiff_t>(n);
        }
        return gloo.allgather_coalesced(lists, in, o);
      });
}

WorkPtr ProcessGroupHCCL::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(
      outputs.size() == inputs.size(), "hccl allgather_into_tensor_coalesced: got ", outputs.size(), " outputs and ",
      inputs.size(), " inputs");
  for (size_t i = 0; i < outputs.size(); ++i)
    TORCH_CHECK_VALUE(
        outputs[i].scalar_type() == inputs[i].scalar_type() && outputs[i].numel() == inputs[i].numel() * getSize(),
        "hccl allgather_into_tensor_coalesced: output ", i, " must be ", getSize(), " times input ", i, ", got ",
        outputs[i].sizes(), " and ", inputs[i].sizes());
  return issue(
      {"allgather_into_tensor_coalesced", "hccl:_all_gather_base", OpType::_ALLGATHER_BASE, flat_moved, outputs,
       inputs},
      options, [](auto& gloo, Tensors& out, Tensors& in, const auto& o) {
        return gloo.allgather_into_tensor_coalesced(out, in, o);
      });
}

WorkPtr ProcessGroupHCCL::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  const auto& from = only("gather", inputs);
  const bool root = options.rootRank == getRank();
  TORCH_CHECK_VALUE(
      outputs.size() == (root ? 1 : 0), "hccl gather: expected ",
      root ? "one list of outputs on the root" : "no outputs", ", got ", outputs.size());
  if (root) check_parts("gather", "output", outputs.front(), getSize(), from);
  return issue(
      {"gather", "hccl:gather", OpType::GATHER, moved, flat(outputs), inputs}, options,
      [](auto& gloo, Tensors& out, Tensors& in, const auto& o) { return gloo.gather(list_of(out), in, o); });
}

WorkPtr ProcessGroupHCCL::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) {
  const auto& into = only("scatter", outputs);
  const bool root = options.rootRank == getRank();
  TORCH_CHECK_VALUE(
      inputs.size() == (root ? 1 : 0), "hccl scatter: expected ", root ? "one list of inputs on the root" : "no inputs",
      ", got ", inputs.size());
  if (root) check_parts("scatter", "input", inputs.front(), getSize(), into);
  return issue(
      {"scatter", "hccl:scatter", OpType::SCATTER, moved, outputs, flat(inputs)}, options,
      [](auto& gloo, Tensors& out, Tensors& in, const auto& o) { return gloo.scatter(out, list_of(in), o); });
}

WorkPtr ProcessGroupHCCL::reduce_scatter(
    Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& options) {
  const auto& into = only("reduce_scatter", outputs);
  const auto& from = only("reduce_scatter", inputs);
  check_parts("reduce_scatter", "input", from, getSize(), into, getRank());
  const Row row{"reduce_scatter", "hccl:reduce_scatter", OpType::REDUCE_SCATTER, reduced, outputs, from};
  if (!equally_long(from)) {  // which all ranks see: everything is reduced, and each takes its part
    const Reduction reduction(options.reduceOp, into.scalar_type());
    const auto sums = std::make_shared<at::Tensor>();
    const int64_t begin = elements({from.begin(), from.begin() + getRank()});
    return issue(
        row,
        Collective::Procedure{
            [t = transport_, asked = reduction.asked, limit = options.timeout, sums](const auto&, const Tensors& read) {
              *sums = at::cat(all_as(flat_reduced, read));
              return t->allreduce({*sums}, asked, limit);
            },
            [begin, sums, divide = reduction.division(getSize())](const Tensors& written) {
              const auto own = flat_reduced(written.front());
              own.copy_(sums->narrow(0, begin, own.numel()));
              if (divide) divide(written);
            }});
  }
  return issue(row, options, [](auto& gloo, Tensors& out, Tensors& in, const auto& o) {
    return gloo.reduce_scatter(out, list_of(in), o);
  });
}

WorkPtr ProcessGroupHCCL::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(
      output.scalar_type() == input.scalar_type() && input.numel() == output.numel() * getSize(),
      "hccl _reduce_scatter_base: input tensor must be the same size as output size times world size (", getSize(),
      "), of the same dtype: got input ", input.sizes(), " ", input.scalar_type(), " and output ", output.sizes(), " ",
      output.scalar_type());
  return issue(
      {"_reduce_scatter_base",
       "hccl:_reduce_scatter_base",
       OpType::_REDUCE_SCATTER_BASE,
       flat_reduced,
       {output},
       {input}},
      options,
      [](auto& gloo, Tensors& out, Tensors& in, const auto& o) { return gloo._reduce_scatter_base(out[0], in[0], o); });
}

WorkPtr ProcessGroupHCCL::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(
      outputs.size() == inputs.size() && !inputs.empty(), "hccl reduce_scatter_tensor_coalesced: got ", outputs.size(),
      " outputs and ", inputs.size(), " inputs");
  for (size_t i = 0; i < outputs.size(); ++i)
    TORCH_CHECK_VALUE(
        outputs[i].scalar_type() == inputs[i].scalar_type() && inputs[i].numel() == outputs[i].numel() * getSize() &&
            inputs[i].scalar_type() == inputs.front().scalar_type(),
        "hccl reduce_scatter_tensor_coalesced: input ", i, " must be ", getSize(), " times output ", i,
        ", all of one dtype, got ", inputs[i].sizes(), " ", inputs[i].scalar_type(), " and ", outputs[i].sizes(), " ",
        outputs[i].scalar_type());
  return issue(
      {"reduce_scatter_tensor_coalesced", "hccl:reduce_scatter", OpType::REDUCE_SCATTER_TENSOR_COALESCED, flat_reduced,
       outputs, inputs},
      options, [](auto& gloo, Tensors& out, Tensors& in, const auto& o) {
        return gloo.reduce_scatter_tensor_coalesced(out, in, o);
      });
}

WorkPtr ProcessGroupHCCL::alltoall_base(
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
  return issue(
      {"alltoall_base",
       "hccl:all_to_all",
       OpType::ALLTOALL_BASE,
       moved,
       {output},
       {input},
       output_splits,
       input_splits},
      options,
      [to_splits = output_splits, in_splits = input_splits](auto& gloo, Tensors& out, Tensors& in, const auto& o) {
        auto to = to_splits, from = in_splits;  // which Gloo takes for itself
        return gloo.alltoall_base(out[0], in[0], to, from, o);
      });
}

WorkPtr ProcessGroupHCCL::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  TORCH_CHECK_VALUE(
      static_cast<int>(outputs.size()) == getSize() && static_cast<int>(inputs.size()) == getSize(),
      "hccl alltoall: expected an input and an output for each of ", getSize(), " ranks, got ", inputs.size(), " and ",
      outputs.size());
  check_one_dtype("alltoall", flat({outputs, inputs}));
  // That all are equally long on this rank says nothing about the others.
  return issue(
      {"alltoall", "hccl:all_to_all", OpType::ALLTOALL, flat_moved, outputs, inputs},
      exchange(transport_, options.timeout));
}

// One end of a message, of one tensor.
template <class Start>
WorkPtr ProcessGroupHCCL::message(const Row& row, Start by_gloo) {
  only(row.op, row.sent());
  return issue(
      row, Collective::Procedure{
               [t = transport_, by_gloo](const Tensors& written, const Tensors& read) {
                 auto all = all_as(moved, written.empty() ? read : written);
                 return by_gloo(*t->gloo, all);
               },
               nullptr});
}

WorkPtr ProcessGroupHCCL::send(Tensors& tensors, int to, int tag) {
  return message({"send", "hccl:send", OpType::SEND, moved, {}, tensors}, [to, tag](auto& gloo, Tensors& all) {
    return gloo.send(all, to, tag);
  });
}

WorkPtr ProcessGroupHCCL::recv(Tensors& tensors, int from, int tag) {
  return message({"recv", "hccl:recv", OpType::RECV, moved, tensors, {}}, [from, tag](auto& gloo, Tensors& all) {
    return gloo.recv(all, from, tag);
  });
}

WorkPtr ProcessGroupHCCL::recvAnysource(Tensors& tensors, int tag) {
  return message(
      {"recvAnysource", "hccl:recv", OpType::RECVANYSOURCE, moved, tensors, {}},
      [tag](auto& gloo, Tensors& all) { return gloo.recvAnysource(all, tag); });
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

WorkPtr ProcessGroupHCCL::barrier(const c10d::BarrierOptions& options) {
  auto own = options;
  own.device_ids.clear();
  return issue(
      {"barrier", "hccl:barrier", OpType::BARRIER, moved, {}, {}, {}, {}, &device_of_barrier(options.device_ids)}, own,
      [](auto& gloo, Tensors&, Tensors&, const auto& o) { return gloo.barrier(o); });
}

void ProcessGroupHCCL::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  auto& d = device_of_barrier(options.device_ids);
  cut_for_collective(d);
  follow(d);
  const uint64_t place = d.queue().submit(
      "hccl::monitored_barrier",
      [t = transport_, options, wait_all_ranks] { t->gloo->monitoredBarrier(options, wait_all_ranks); },
      current_site());
  d.queue().wait(place, device::OnInterrupt::Throw);
  raise_pending_error(d);
}

}  // namespace openhpu
