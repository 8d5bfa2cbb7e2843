#include "run/ShapeCache.h"

namespace openhpu {

std::shared_ptr<const ShapeEntry> ShapeCache::find(const Signature& signature, uint64_t hash) {
  std::lock_guard<SpinLock> lock(lock_);
  auto it = slots_.find(hash);
  if (it == slots_.end() || c10::ArrayRef<uint64_t>(it->second.words) != signature.words()) return nullptr;
  if (C10_UNLIKELY(!it->second.found)) it->second.found = true;
  return it->second.entry;
}

size_t ShapeCache::next_victim() noexcept {
  // So many are looked at: the lock is for moments.
  constexpr size_t kMostSteps = 64;
  size_t unused = order_.size();
  for (size_t step = 0; step < kMostSteps; ++step) {
    const size_t place = hand_;
    hand_ = (hand_ + 1) % order_.size();
    auto& slot = order_[place]->second;
    if (std::exchange(slot.found, false)) continue;
    if (slot.entry.use_count() == 1) return place;
    unused = place;  // but some graph holds it, and may recur
  }
  return unused < order_.size() ? unused : hand_;
}

void ShapeCache::insert(const Signature& signature, uint64_t hash, std::shared_ptr<const ShapeEntry> entry) {
  Slots::node_type removed;  // goes after the lock has gone
  std::lock_guard<SpinLock> lock(lock_);
  auto known = slots_.find(hash);
  if (known == slots_.end()) {
    if (order_.size() == order_.capacity()) order_.reserve(std::max<size_t>(2 * order_.size(), 16));
    known = slots_.try_emplace(hash).first;
    if (order_.size() < kMaxEntries) {
      order_.push_back(&*known);
    } else {
      auto& place = order_[next_victim()];
      removed = slots_.extract(place->first);
      place = &*known;
    }
  }
  auto& slot = known->second;
  slot.words.assign(signature.words().begin(), signature.words().end());
  slot.entry.swap(entry);
}

ShapeCache::Entries ShapeCache::siblings(uint64_t family) {
  std::lock_guard<SpinLock> lock(lock_);
  const auto it = families_.find(family);
  return it == families_.end() ? Entries() : it->second;
}

void ShapeCache::add_family(uint64_t family, std::shared_ptr<const ShapeEntry> entry) {
  Families::node_type removed;  // goes after the lock has gone
  std::lock_guard<SpinLock> lock(lock_);
  if (families_.size() >= kMostFamilies && !families_.contains(family))
    removed = families_.extract(families_.begin());  // it is learned again
  auto& siblings = families_[family];
  if (siblings.size() < kMostSiblings) siblings.push_back(std::move(entry));
}

}  // namespace openhpu
