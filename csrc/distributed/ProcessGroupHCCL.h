#pragma once

#include "distributed/Agreement.h"
#include "distributed/Collective.h"
#include "distributed/transport.h"

namespace openhpu {

// The backend `hccl` of torch.distributed: collectives on hpu tensors, in the order of their device's queue. Another
// backend, Gloo's, communicates: it is given CPU tensors over the device's memory.
//
// It adds to that backend: ReduceOp.AVG, bools in reductions (SUM is "or", PRODUCT "and"), and every dtype in
// collectives that only move data.
class ProcessGroupHCCL final : public c10d::Backend {
 public:
  struct Options final : c10d::Backend::Options {
    explicit Options(std::chrono::milliseconds timeout) : c10d::Backend::Options("hccl", timeout) {}
  };
  // `store`: the group's. `node`: whether this rank exchanges data through memory with the others, if all are on one
  // machine.
  ProcessGroupHCCL(c10::intrusive_ptr<c10d::Backend> transport, c10d::Store& store, bool node);

  const std::string getBackendName() const override { return "hccl"; }
  bool supportsCoalescing() const override { return true; }
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override;
  void setTimeout(std::chrono::milliseconds timeout) override;
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override {
    std::lock_guard lock(mutex_);
    return sequence_;
  }
  void setGroupUid(const std::string& uid) override;
  c10::intrusive_ptr<Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override;
  // Waits for what was issued.
  void shutdown() override;
  void abort() override;
  c10d::ErrorType getError() override;

  using Tensors = std::vector<at::Tensor>;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(
      std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(
      Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(
      Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(
      Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(
      at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits, std::vector<int64_t>& input_splits,
      const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

 private:
  struct Row;
  template <class Asked, class Start>
  WorkPtr issue(const Row& row, Asked options, Start by_gloo);
  WorkPtr issue(const Row& row, Collective::Procedure procedure);
  template <class Start>
  WorkPtr message(const Row& row, Start by_gloo);
  void issue_profiled(Collective& collective, const Row& row);
  device::Device& device_of_barrier(const std::vector<int64_t>& ids);
  // Before a collective is issued: collectives of a group begin in the order in which they are issued, also where a
  // script uses several devices.
  void follow(device::Device& d);
  std::string described() const;
  // The first of the group's ranks in the world, and the step to the next. A profiler takes only these two numbers. The
  // step is 0 if the ranks are not evenly spaced.
  std::pair<int, int> ranks_in_world() const;
  std::vector<std::shared_ptr<Collective>> take_issued();

  transport::TransportPtr transport_;
  const bool node_;
  std::unique_ptr<Agreement> agreement_;  // of several ranks
  std::mutex mutex_;                      // of what follows: autograd may issue from a thread of its own
  uint64_t sequence_ = 0;
  device::Device* last_ = nullptr;  // whose queue has the last collective
  bool coalescing_ = false;
  std::vector<std::shared_ptr<Collective>> coalesced_;
  Tensors coalesced_outputs_;
  UnderWay issued_;
};

}  // namespace openhpu
