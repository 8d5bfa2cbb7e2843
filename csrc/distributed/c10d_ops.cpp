// What torch.distributed's functions call for hpu tensors: each hands its arguments to the group's backend of this device.
// PyTorch has these kernels for its own devices only; the signatures are those of its own (Ops.cpp).
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

namespace openhpu {
namespace {

using c10d::ProcessGroup;
using c10d::ReduceOp;
using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<Tensors>;
using Group = c10::intrusive_ptr<ProcessGroup>;
using Op = c10::intrusive_ptr<ReduceOp>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

c10d::Backend& backend(const Group& group) { return *group->getBackend(c10::DeviceType::HPU); }
std::chrono::milliseconds ms(int64_t timeout) { return std::chrono::milliseconds(timeout); }
// The operators take them by reference to what they may change.
Lists& lists(const Lists& l) { return const_cast<Lists&>(l); }

std::tuple<Tensors, WorkPtr> broadcast(
    at::TensorList tensors, const Group& group, int64_t root, int64_t root_tensor, bool async_op, int64_t timeout) {
  auto all = tensors.vec();
  auto work = backend(group).broadcast(all, {root, root_tensor, ms(timeout), async_op});
  return {std::move(all), work};
}

std::tuple<Tensors, WorkPtr> allreduce(
    at::TensorList tensors, const Group& group, const Op& op, const std::optional<at::Tensor>&, bool async_op,
    int64_t timeout) {
  auto all = tensors.vec();
  auto work = backend(group).allreduce(all, {*op, ms(timeout), async_op});
  return {std::move(all), work};
}

WorkPtr allreduce_coalesced(at::TensorList tensors, const Group& group, const Op& op, bool async_op, int64_t timeout) {
  auto all = tensors.vec();
  c10d::AllreduceCoalescedOptions options;
  options.reduceOp = *op;
  options.timeout = ms(timeout);
  options.asyncOp = async_op;
  return backend(group).allreduce_coalesced(all, options);
}

WorkPtr reduce(
    at::TensorList tensors, const Group& group, const Op& op, int64_t root, int64_t root_tensor, bool async_op,
    int64_t timeout) {
  auto all = tensors.vec();
  return backend(group).reduce(all, {*op, root, root_tensor, ms(timeout), async_op});
}

std::tuple<Lists, WorkPtr> allgather(
    const Lists& outputs, at::TensorList inputs, const Group& group, bool async_op, int64_t timeout) {
  auto in = inputs.vec();
  auto work = backend(group).allgather(lists(outputs), in, {ms(timeout), async_op});
  return {outputs, work};
}

std::tuple<at::Tensor, WorkPtr> allgather_base(
    at::Tensor& output, at::Tensor& input, const Group& group, bool async_op, int64_t timeout) {
  auto work = backend(group)._allgather_base(output, input, {ms(timeout), async_op});
  return {output, work};
}

WorkPtr allgather_coalesced(const Lists& outputs, const at::TensorList& inputs, const Group& group, bool async_op) {
  auto in = inputs.vec();
  c10d::AllgatherOptions options;
  options.asyncOp = async_op;
  return backend(group).allgather_coalesced(lists(outputs), in, options);
}

WorkPtr allgather_into_tensor_coalesced(
    at::TensorList outputs, at::TensorList inputs, const Group& group, bool async_op) {
  auto to = outputs.vec(), in = inputs.vec();
  c10d::AllgatherOptions options;
  options.asyncOp = async_op;
  return backend(group).allgather_into_tensor_coalesced(to, in, options);
}

std::tuple<Tensors, WorkPtr> reduce_scatter(
    const at::TensorList& outputs, const Lists& inputs, const Group& group, const Op& op, bool async_op,
    int64_t timeout) {
  auto to = outputs.vec();
  auto work = backend(group).reduce_scatter(to, lists(inputs), {*op, ms(timeout), async_op});
  return {std::move(to), work};
}

std::tuple<at::Tensor, WorkPtr> reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const Group& group, const Op& op, bool async_op, int64_t timeout) {
  auto work = backend(group)._reduce_scatter_base(output, input, {*op, ms(timeout), async_op});
  return {output, work};
}

WorkPtr reduce_scatter_tensor_coalesced(
    at::TensorList outputs, at::TensorList inputs, const Group& group, const Op& op, bool async_op, int64_t timeout) {
  auto to = outputs.vec(), in = inputs.vec();
  return backend(group).reduce_scatter_tensor_coalesced(to, in, {*op, ms(timeout), async_op});
}

WorkPtr gather(
    const Lists& outputs, const at::TensorList& inputs, const Group& group, int64_t root, bool async_op,
    int64_t timeout) {
  auto in = inputs.vec();
  return backend(group).gather(lists(outputs), in, {root, ms(timeout), async_op});
}

std::tuple<Tensors, WorkPtr> scatter(
    const at::TensorList& outputs, const Lists& inputs, const Group& group, int64_t root, bool async_op,
    int64_t timeout) {
  auto to = outputs.vec();
  auto work = backend(group).scatter(to, lists(inputs), {root, ms(timeout), async_op});
  return {std::move(to), work};
}

std::tuple<Tensors, WorkPtr> alltoall(
    const at::TensorList& outputs, const at::TensorList& inputs, const Group& group, bool async_op, int64_t timeout) {
  auto to = outputs.vec(), in = inputs.vec();
  auto work = backend(group).alltoall(to, in, {ms(timeout), async_op});
  return {std::move(to), work};
}

WorkPtr alltoall_base(
    at::Tensor& output, at::Tensor& input, const Group& group, std::vector<int64_t> output_splits,
    std::vector<int64_t> input_splits, bool async_op, int64_t timeout) {
  return backend(group).alltoall_base(output, input, output_splits, input_splits, {ms(timeout), async_op});
}

WorkPtr barrier(
    at::Tensor, const Group& group, const std::vector<int64_t>& device_ids, bool async_op, int64_t timeout) {
  c10d::BarrierOptions options;
  options.device_ids = device_ids;
  options.timeout = ms(timeout);
  options.asyncOp = async_op;
  return backend(group).barrier(options);
}

void monitored_barrier(
    at::Tensor, const Group& group, const std::vector<int64_t>& device_ids, int64_t timeout, bool wait_all_ranks) {
  c10d::BarrierOptions options;
  options.device_ids = device_ids;
  options.timeout = ms(timeout);
  backend(group).monitoredBarrier(options, wait_all_ranks);
}

WorkPtr send(at::TensorList tensors, const Group& group, int64_t to, int64_t tag) {
  auto all = tensors.vec();
  return backend(group).send(all, static_cast<int>(to), static_cast<int>(tag));
}

WorkPtr recv(at::TensorList tensors, const Group& group, int64_t from, int64_t tag) {
  auto all = tensors.vec();
  return backend(group).recv(all, static_cast<int>(from), static_cast<int>(tag));
}

WorkPtr recv_any_source(at::TensorList tensors, const Group& group, int64_t tag) {
  auto all = tensors.vec();
  return backend(group).recvAnysource(all, static_cast<int>(tag));
}

}  // namespace

TORCH_LIBRARY_IMPL(c10d, HPU, m) {
  m.impl("broadcast_", broadcast);
  m.impl("allreduce_", allreduce);
  m.impl("allreduce_coalesced_", allreduce_coalesced);
  m.impl("reduce_", reduce);
  m.impl("allgather_", allgather);
  m.impl("_allgather_base_", allgather_base);
  m.impl("allgather_coalesced_", allgather_coalesced);
  m.impl("allgather_into_tensor_coalesced_", allgather_into_tensor_coalesced);
  m.impl("reduce_scatter_", reduce_scatter);
  m.impl("_reduce_scatter_base_", reduce_scatter_base);
  m.impl("reduce_scatter_tensor_coalesced_", reduce_scatter_tensor_coalesced);
  m.impl("gather_", gather);
  m.impl("scatter_", scatter);
  m.impl("alltoall_", alltoall);
  m.impl("alltoall_base_", alltoall_base);
  m.impl("barrier", barrier);
  m.impl("monitored_barrier_", monitored_barrier);
  m.impl("send", send);
  m.impl("recv_", recv);
  m.impl("recv_any_source_", recv_any_source);
}

}  // namespace openhpu
