#pragma once

#include "distributed/Collective.h"
#include "distributed/transport.h"

namespace openhpu {

// The ranks of a group take over recipes at the same step (lazy mode). A recipe rounds differently from the run node by
// node, and replicas must stay equal. With every eighth collective each rank tells the others up to which of its
// requests the compiler has answered. With the next eighth collective all ranks use the recipes that every rank has. No
// rank waits for a compiler.
class Agreement {
 public:
  // `transport`: the group's, which is used in the order of the device's queue.
  explicit Agreement(transport::TransportPtr transport);
  ~Agreement();
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;

  // Before a collective of this kind is issued in lazy mode; `group` is for messages.
  void before(c10d::OpType type, device::Device& d, const std::string& group);
  // Ends the exchange that is under way.
  void abort();

 private:
  transport::TransportPtr transport_;
  bool in_use_ = false;
  uint64_t collectives_ = 0;
  at::Tensor answered_;  // int64: by all ranks, once `told_` has ended
  std::shared_ptr<Collective> told_;
};

}  // namespace openhpu
