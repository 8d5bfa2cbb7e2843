#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "device/free_blocks.h"

namespace openhpu::device {

// Block descriptors, recycled, so that a pool in steady state asks nothing of malloc.
class BlockSlab {
 public:
  // Makes sure that the next `make` does not allocate.
  void prepare() {
    if (!spare_) recycle(&all_.emplace_back());
  }
  Block* make() {
    prepare();
    return std::exchange(spare_, spare_->after);
  }
  void recycle(Block* block) {
    block->after = spare_;
    spare_ = block;
  }

 private:
  std::deque<Block> all_;
  Block* spare_ = nullptr;
};

// Live blocks by address: lists of blocks with the same hash, linked by `child`. Each has a block or none, up to tens of
// thousands of live blocks.
class BlockTable {
 public:
  void insert(Block* block) {
    Block** link = link_to(block->address);
    block->child = nullptr;
    *link = block;
  }
  // Null if there is none.
  Block* find(uintptr_t address) { return *link_to(address); }
  // Removes it, too.
  Block* take(uintptr_t address) {
    Block** link = link_to(address);
    Block* block = *link;
    if (block) *link = block->child;
    return block;
  }

 private:
  // The link to the block at `address`, or the empty one where it would be.
  Block** link_to(uintptr_t address) {
    const auto hash = (static_cast<uint64_t>(address) >> 7) * 0x9E3779B97F4A7C15ull >> (64 - kBits);
    Block** link = &first_[hash];
    while (*link && (*link)->address != address) link = &(*link)->child;
    return link;
  }

  static constexpr unsigned kBits = 16;
  std::vector<Block*> first_ = std::vector<Block*>(size_t{1} << kBits);
};

}  // namespace openhpu::device
