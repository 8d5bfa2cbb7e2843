#include "distributed/Agreement.h"

#include <ATen/Functions.h>

#include "observe/site.h"
#include "recipes/GraphCache.h"

namespace openhpu {
namespace {

constexpr uint64_t kEvery = 8;  // collectives

// Whether none of the ranks gets its result before all of them take part. Others, as a broadcast, would make a rank
// wait that need not.
bool waits_for_all(c10d::OpType type) {
  using c10d::OpType;
  return type == OpType::ALLGATHER_COALESCED || (NodeChannel::takes(type) && type != OpType::BROADCAST);
}

}  // namespace

Agreement::Agreement(transport::TransportPtr transport) : transport_(std::move(transport)) {}

Agreement::~Agreement() {
  if (in_use_) GraphCache::instance().add_group_of_ranks(-1);
}

void Agreement::before(c10d::OpType type, device::Device& d, const std::string& group) {
  auto& cache = GraphCache::instance();
  if (!in_use_) cache.add_group_of_ranks(1);
  in_use_ = true;
  if (!waits_for_all(type) || ++collectives_ % kEvery != 0) return;
  // Where it has failed, the group's next collective says so.
  if (told_ && told_->wait_for(transport_->gloo->getBackendOptions()->timeout) && !told_->error())
    cache.agree(static_cast<uint64_t>(answered_.item<int64_t>()));
  answered_ = at::full({1}, static_cast<int64_t>(cache.answered()), at::kLong);
  auto start = [t = transport_, answered = answered_](const auto&, const auto&) {
    return t->allreduce({answered}, c10d::ReduceOp::MIN, c10d::kUnsetTimeout);
  };
  told_ = std::make_shared<Collective>(
      Collective::What{"hccl::agree_on_recipes", group, c10d::OpType::ALLREDUCE, &d, current_site(), sizeof(int64_t)},
      Collective::Procedure{std::move(start), nullptr});
  told_->issue({}, {});
}

void Agreement::abort() {
  if (told_) told_->abort();
}

}  // namespace openhpu
