#include "device/blocks.h"

#include <algorithm>
#include <bit>
#include <new>

namespace openhpu::device {
namespace {

constexpr uint64_t from_bit(size_t bit) { return ~uint64_t{0} << bit; }

Block* meld(Block* a, Block* b) {
  if (!a) return b;
  if (!b) return a;
  if (b->address < a->address) std::swap(a, b);
  b->sibling = a->child;
  if (a->child) a->child->back = b;
  b->back = a;
  a->child = b;
  return a;
}

// The two passes of a pairing heap, as loops: a recursion could be as deep as the heap is large.
Block* meld_siblings(Block* first) {
  Block* pairs = nullptr;
  while (first) {
    Block* second = first->sibling;
    Block* rest = second ? second->sibling : nullptr;
    first->sibling = first->back = nullptr;
    if (second) second->sibling = second->back = nullptr;
    Block* pair = meld(first, second);
    pair->sibling = pairs;
    pairs = pair;
    first = rest;
  }
  Block* root = nullptr;
  while (pairs) {
    Block* next = pairs->sibling;
    pairs->sibling = nullptr;
    root = meld(root, pairs);
    pairs = next;
  }
  return root;
}

}  // namespace

FreeBlocks::FreeBlocks(size_t granularity)
    : shift_(static_cast<unsigned>(std::countr_zero(granularity))),
      heads_(static_cast<Block**>(std::calloc(kBins, sizeof(Block*)))) {
  if (!heads_) throw std::bad_alloc();
}

void FreeBlocks::mark(size_t bin) {
  level0_[bin >> 6] |= uint64_t{1} << (bin & 63);
  level1_[bin >> 12] |= uint64_t{1} << ((bin >> 6) & 63);
  level2_ |= uint64_t{1} << (bin >> 12);
}

void FreeBlocks::unmark(size_t bin) {
  if (level0_[bin >> 6] &= ~(uint64_t{1} << (bin & 63))) return;
  if (level1_[bin >> 12] &= ~(uint64_t{1} << ((bin >> 6) & 63))) return;
  level2_ &= ~(uint64_t{1} << (bin >> 12));
}

size_t FreeBlocks::first_bin_from(size_t bin) const {
  size_t i = bin >> 6;
  if (uint64_t bits = level0_[i] & from_bit(bin & 63)) return (i << 6) + std::countr_zero(bits);
  if (++i == kBins / 64) return kNone;
  size_t j = i >> 6;
  uint64_t bits = level1_[j] & from_bit(i & 63);
  if (!bits) {
    if (++j == kBins / 64 / 64) return kNone;
    const uint64_t top = level2_ & from_bit(j);
    if (!top) return kNone;
    j = std::countr_zero(top);
    bits = level1_[j];
  }
  i = (j << 6) + std::countr_zero(bits);
  return (i << 6) + std::countr_zero(level0_[i]);
}

void FreeBlocks::insert(Block* block) {
  block->free = true;
  block->child = block->sibling = block->back = nullptr;
  if (!block->after) {
    last_ = block;
    return;
  }
  const size_t bin = block->bytes >> shift_;
  if (bin >= kBins) {
    large_.emplace(std::pair{block->bytes, block->address}, block);
    return;
  }
  if (!heads_[bin]) mark(bin);
  heads_[bin] = meld(heads_[bin], block);
}

void FreeBlocks::remove(Block* block) {
  block->free = false;
  if (block == last_) {
    last_ = nullptr;
    return;
  }
  const size_t bin = block->bytes >> shift_;
  if (bin >= kBins) {
    large_.erase({block->bytes, block->address});
    return;
  }
  Block* below = meld_siblings(block->child);
  if (block == heads_[bin]) {
    heads_[bin] = below;
    if (!below) unmark(bin);
    return;
  }
  (block->back->child == block ? block->back->child : block->back->sibling) = block->sibling;
  if (block->sibling) block->sibling->back = block->back;
  heads_[bin] = meld(heads_[bin], below);
}

Block* FreeBlocks::best_fit(size_t bytes) const {
  Block* found = nullptr;
  const size_t units = bytes >> shift_;
  const size_t bin = units < kBins ? first_bin_from(units) : kNone;
  if (bin != kNone) {
    found = heads_[bin];
  } else if (auto it = large_.lower_bound({bytes, 0}); it != large_.end()) {
    found = it->second;
  }
  // Its address is the highest, so that among equals the other one wins.
  if (last_ && last_->bytes >= bytes && (!found || last_->bytes < found->bytes)) found = last_;
  return found;
}

size_t FreeBlocks::largest() const {
  size_t bytes = last_ ? last_->bytes : 0;
  if (!large_.empty()) return std::max(bytes, large_.rbegin()->first.first);
  size_t bin = kBins - 1;
  while (bin > 0 && !heads_[bin]) --bin;  // for the message of an error, which need not be fast
  return std::max(bytes, bin << shift_);
}

}  // namespace openhpu::device
