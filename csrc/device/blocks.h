#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace openhpu::device {

// A piece of the pool's range, live or free. Descriptors lie outside the range. `before` and `after` are the
// neighbours by address; `child`, `sibling` and `back` belong to FreeBlocks, `child` of a live one to BlockTable.
struct Block {
  uintptr_t address = 0;
  size_t bytes = 0;
  Block* before = nullptr;
  Block* after = nullptr;
  Block* child = nullptr;
  Block* sibling = nullptr;
  Block* back = nullptr;
  bool free = false;
};

// The free blocks of a pool, ordered by size, then address.
//
// Sizes below 32 MiB have a bin each, found through a three-level bitmap; a bin is a pairing heap by address,
// because a plain list would lose the lowest address and a search tree would cost more than the rest of an
// allocation. Larger blocks lie in a tree. The block that ends the range is kept apart: it is split and coalesced
// far more often than any other, and would otherwise move from place to place each time.
class FreeBlocks {
 public:
  explicit FreeBlocks(size_t granularity);

  // A block must keep its size and its place at the end of the range while it is in here.
  void insert(Block* block);
  void remove(Block* block);

  // The smallest block of at least `bytes`, the lowest address among equals; null if there is none.
  Block* best_fit(size_t bytes) const;
  size_t largest() const;

 private:
  static constexpr size_t kBins = size_t{1} << 18;
  static constexpr size_t kNone = kBins;

  size_t first_bin_from(size_t bin) const;
  void mark(size_t bin);
  void unmark(size_t bin);

  struct Freer {
    void operator()(void* p) const { std::free(p); }
  };
  unsigned shift_;
  std::unique_ptr<Block*[], Freer> heads_;  // from calloc: pages of bins never used stay unbacked
  uint64_t level0_[kBins / 64] = {};
  uint64_t level1_[kBins / 64 / 64] = {};
  uint64_t level2_ = 0;
  std::map<std::pair<size_t, uintptr_t>, Block*> large_;
  Block* last_ = nullptr;
};

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

// Live blocks by address: lists of blocks with the same hash, linked by `child`. Each has a block or none, up to tens
// of thousands of live blocks.
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
