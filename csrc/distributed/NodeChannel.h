#pragma once

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>

#include "distributed/NodeMemory.h"

namespace openhpu {

// Collectives of ranks on one machine, through shared memory (see NodeMemory). A small collective ends on the thread
// that starts it, if the other ranks are as far. A thread of the group does the others, one after another, in the order
// in which this rank started them.
class NodeChannel : public std::enable_shared_from_this<NodeChannel> {
 public:
  using Tensors = std::vector<at::Tensor>;
  struct Request {
    c10d::OpType type;
    std::chrono::milliseconds limit;  // 0: none
    c10d::ReduceOp::RedOpType reduction = c10d::ReduceOp::UNUSED;
    int root = 0;
  };

  explicit NodeChannel(std::unique_ptr<NodeMemory> memory) : memory_(std::move(memory)) {}
  // None where the ranks have no memory in common; all ranks call it. `wanted`: whether this rank agrees.
  static std::shared_ptr<NodeChannel> create(c10d::Store& store, int rank, int size, bool wanted);

  static bool takes(c10d::OpType type);
  // `read`: what is sent; none where `written` is that, too. They have equally many tensors, or one side has one and
  // the other a tensor for each rank.
  c10::intrusive_ptr<c10d::Work> run(const Request& request, const Tensors& written, const Tensors& read);
  // What is under way and what comes later ends with an error.
  void end(const char* why) noexcept;

 private:
  struct Job;
  class NodeWork;
  int size() const noexcept { return memory_->size(); }
  int rank() const noexcept { return memory_->rank(); }
  void submit(std::shared_ptr<Job> job);
  bool polled(Job& job);
  bool advance(Job& job);
  void next(Job& job, size_t elements);
  size_t most(const Job& job) const;
  void publish(Job& job, size_t elements);
  void consume(Job& job, size_t elements);
  static void reduce_into(std::byte* out, const std::vector<const std::byte*>& from, size_t elements, const Job& job);
  static NodeMemory::Label label_of(const Job& job);
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

}  // namespace openhpu
