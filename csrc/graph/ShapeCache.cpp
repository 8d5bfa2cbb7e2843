#include "graph/ShapeCache.h"

#include <mutex>

namespace openhpu {

std::shared_ptr<const ShapeEntry> ShapeCache::find(const Signature& signature, uint64_t hash) {
  std::lock_guard<SpinLock> lock(lock_);
  auto it = slots_.find(hash);
  if (it == slots_.end() || c10::ArrayRef<uint64_t>(it->second.words) != signature.words()) return nullptr;
  return it->second.entry;
}

void ShapeCache::insert(const Signature& signature, uint64_t hash, std::shared_ptr<const ShapeEntry> entry) {
  std::lock_guard<SpinLock> lock(lock_);
  // A program with ever-changing shapes: start over rather than grow for ever.
  if (slots_.size() >= kMaxEntries) slots_.clear();
  auto& slot = slots_[hash];
  slot.words.assign(signature.words().begin(), signature.words().end());
  slot.entry = std::move(entry);
}

bool ShapeCache::knows_family(uint64_t family) {
  std::lock_guard<SpinLock> lock(lock_);
  return families_.contains(family);
}

std::vector<std::shared_ptr<const ShapeEntry>> ShapeCache::siblings(uint64_t family) {
  std::lock_guard<SpinLock> lock(lock_);
  const auto it = families_.find(family);
  return it == families_.end() ? std::vector<std::shared_ptr<const ShapeEntry>>() : it->second;
}

void ShapeCache::add_family(uint64_t family, std::shared_ptr<const ShapeEntry> entry) {
  std::lock_guard<SpinLock> lock(lock_);
  auto& siblings = families_[family];
  if (siblings.size() < kMostSiblings) siblings.push_back(std::move(entry));
}

}  // namespace openhpu
