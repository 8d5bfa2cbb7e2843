#include "distributed/Agreement.h"

#include <ATen/Functions.h>

#include <chrono>

#include "distributed/transport.h"
#include "observe/site.h"
#include "recipes/GraphCache.h"

namespace openhpu {
namespace {

constexpr uint64_t kEvery = 8;  // collectives

// Whether none of the ranks gets its result before all of them take part. Others, as a broadcast, would make a rank wait
// that need not.
bool waits_for_all(c10d::OpType type) {
  using c10d::OpType;
  switch (type) {
    case OpType::ALLREDUCE:
    case OpType::ALLREDUCE_COALESCED:
    case OpType::ALLGATHER:
    case OpType::_ALLGATHER_BASE:
    case OpType::ALLGATHER_COALESCED:
    case OpType::REDUCE_SCATTER:
    case OpType::_REDUCE_SCATTER_BASE:
    case OpType::BARRIER:
      return true;
    default:
      return false;
  }
}

}  // namespace

Agreement::Agreement(c10::intrusive_ptr<c10d::Backend> transport) : transport_(std::move(transport)) {}

Agreement::~Agreement() {
  if (in_use_) GraphCache::instance().add_group_of_ranks(-1);
}

void Agreement::before(c10d::OpType type, device::Device& d, const std::string& group) {
  auto& cache = GraphCache::instance();
  if (!in_use_) cache.add_group_of_ranks(1);
  in_use_ = true;
  if (!waits_for_all(type) || ++collectives_ % kEvery != 0) return;
  // Where it has failed, the group's next collective says so.
  if (told_ && told_->wait_for(transport_->getBackendOptions()->timeout) && !told_->error())
    cache.agree(static_cast<uint64_t>(answered_.item<int64_t>()));
  answered_ = at::full({1}, static_cast<int64_t>(cache.answered()), at::kLong);
  c10d::AllreduceOptions least;
  least.reduceOp = c10d::ReduceOp::MIN;
  const auto options = transport::asynchronous(least);
  auto start = [t = transport_, answered = answered_, options](Collective::Tensors&) {
    Collective::Tensors all{answered};
    return t->allreduce(all, options);
  };
  told_ = std::make_shared<Collective>(
      Collective::What{"hccl::agree_on_recipes", group, c10d::OpType::ALLREDUCE, &d, current_site(), sizeof(int64_t)},
      Collective::Procedure{std::move(start), nullptr}, Collective::Tensors{});
  told_->issue({});
}

void Agreement::abort() {
  if (told_) told_->abort();
}

}  // namespace openhpu
