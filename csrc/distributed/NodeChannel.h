#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <memory>
#include <string>
#include <vector>

namespace openhpu {

// The transport of a group whose ranks are on one machine. Collectives go through shared memory (see NodeMemory), all
// other operations through another transport. A small collective ends on the thread that starts it, if the other ranks
// are as far. A thread of the group does the others, one after another.
class NodeTransport final : public c10d::Backend {
 public:
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;

  // `other` itself where the ranks have no memory in common; all ranks call it. `wanted`: whether this rank agrees.
  static c10::intrusive_ptr<c10d::Backend> around(c10::intrusive_ptr<c10d::Backend> other, c10d::Store& store, bool wanted);

  class Channel;
  NodeTransport(c10::intrusive_ptr<c10d::Backend> other, std::shared_ptr<Channel> channel);
  ~NodeTransport() override;

  const std::string getBackendName() const override { return other_->getBackendName(); }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return other_->getBackendOptions(); }
  void setTimeout(std::chrono::milliseconds timeout) override { other_->setTimeout(timeout); }
  void setGroupUid(const std::string& uid) override;
  c10::intrusive_ptr<Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override {
    return other_->split(store, ranks, options);
  }
  void abort() override;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr allgather(
      std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(
      Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter(
      Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(
      Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

  WorkPtr allgather_coalesced(
      std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    return other_->allgather_coalesced(outputs, inputs, options);
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override { return other_->reduce(tensors, options); }
  WorkPtr gather(
      std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    return other_->gather(outputs, inputs, options);
  }
  WorkPtr scatter(
      Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override {
    return other_->scatter(outputs, inputs, options);
  }
  WorkPtr alltoall_base(
      at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits, std::vector<int64_t>& input_splits,
      const c10d::AllToAllOptions& options) override {
    return other_->alltoall_base(output, input, output_splits, input_splits, options);
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override {
    return other_->alltoall(outputs, inputs, options);
  }
  WorkPtr send(Tensors& tensors, int to, int tag) override { return other_->send(tensors, to, tag); }
  WorkPtr recv(Tensors& tensors, int from, int tag) override { return other_->recv(tensors, from, tag); }
  WorkPtr recvAnysource(Tensors& tensors, int tag) override { return other_->recvAnysource(tensors, tag); }
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override {
    other_->monitoredBarrier(options, wait_all_ranks);
  }

 private:
  std::chrono::milliseconds limit(std::chrono::milliseconds asked);

  c10::intrusive_ptr<c10d::Backend> other_;
  std::shared_ptr<Channel> channel_;
};

}  // namespace openhpu
