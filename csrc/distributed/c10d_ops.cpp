// What torch.distributed's functions call for hpu tensors: PyTorch's kernels for PrivateUse1, with a group whose
// backend for that device is the caller's for hpu. PyTorch has kernels for no other device of others.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

namespace openhpu {
namespace {

using c10d::ProcessGroup;
using Group = c10::intrusive_ptr<ProcessGroup>;

c10::intrusive_ptr<c10d::Backend> backend(const Group& group) { return group->getBackend(c10::DeviceType::HPU); }

void hand_over(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() != "process_group") continue;
    c10::IValue& argument = torch::jit::peek(*stack, i, arguments.size());
    const auto group = argument.toCustomClass<ProcessGroup>();
    auto other = c10::make_intrusive<ProcessGroup>(group->getRank(), group->getSize());
    if (const auto bound = group->getBoundDeviceId()) other->setBoundDeviceId(bound);  // which it tells its backend
    other->setBackend(c10::DeviceType::PrivateUse1, ProcessGroup::BackendType::CUSTOM, backend(group));
    argument = std::move(other);
  }
  op.callBoxedForDispatchKey(c10::DispatchKey::PrivateUse1, *stack);
}

// PyTorch has it for the CPU only.
void monitored_barrier(
    at::Tensor, const Group& group, const std::vector<int64_t>& device_ids, int64_t timeout, bool wait_all_ranks) {
  c10d::BarrierOptions options;
  options.device_ids = device_ids;
  options.timeout = std::chrono::milliseconds(timeout);
  backend(group)->monitoredBarrier(options, wait_all_ranks);
}

}  // namespace

TORCH_LIBRARY_IMPL(c10d, HPU, m) {
  for (const char* name :
       {"broadcast_", "allreduce_", "allreduce_coalesced_", "reduce_", "allgather_", "_allgather_base_",
        "allgather_coalesced_", "allgather_into_tensor_coalesced_", "reduce_scatter_", "_reduce_scatter_base_",
        "reduce_scatter_tensor_coalesced_", "gather_", "scatter_", "alltoall_", "alltoall_base_", "barrier", "send",
        "recv_", "recv_any_source_"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&hand_over>());
  m.impl("monitored_barrier_", monitored_barrier);
}

}  // namespace openhpu
