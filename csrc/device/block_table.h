#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/free_blocks.h"

namespace openhpu::device {

// Block descriptors, handed out from slabs and recycled, so that a pool in steady state asks nothing of malloc.
class BlockSlab {
 public:
  // Makes sure that the next `make` does not allocate.
  void prepare() {
    if (spare_) return;
    auto slab = std::make_unique<Block[]>(kBlocksPerSlab);
    for (size_t i = 0; i < kBlocksPerSlab; ++i) recycle(&slab[i]);
    slabs_.push_back(std::move(slab));
  }
  Block* make() {
    prepare();
    Block* block = spare_;
    spare_ = block->after;
    return block;
  }
  void recycle(Block* block) {
    block->after = spare_;
    spare_ = block;
  }

 private:
  static constexpr size_t kBlocksPerSlab = 256;
  std::vector<std::unique_ptr<Block[]>> slabs_;
  Block* spare_ = nullptr;
};

// Live blocks by address: open addressing with linear probing, at most half full. Removal shifts later entries
// back instead of leaving tombstones, so that the table never needs cleaning.
class BlockTable {
 public:
  BlockTable() : slots_(1024) {}

  // Makes sure that the next `insert` does not allocate.
  void prepare() {
    if (2 * (count_ + 1) > slots_.size()) grow();
  }
  void insert(Block* block) {
    prepare();
    place(block);
    ++count_;
  }
  Block* find(uintptr_t address) const {
    for (size_t i = home(address);; i = next(i)) {
      if (!slots_[i] || slots_[i]->address == address) return slots_[i];
    }
  }
  // Removes and returns the block at `address`; null if there is none.
  Block* take(uintptr_t address) {
    size_t hole = home(address);
    while (slots_[hole] && slots_[hole]->address != address) hole = next(hole);
    Block* block = slots_[hole];
    if (!block) return nullptr;
    for (size_t i = next(hole); slots_[i]; i = next(i)) {
      // An entry may move back only if its home does not lie behind the hole.
      const size_t distance = (i - home(slots_[i]->address)) & (slots_.size() - 1);
      if (distance >= ((i - hole) & (slots_.size() - 1))) {
        slots_[hole] = slots_[i];
        hole = i;
      }
    }
    slots_[hole] = nullptr;
    --count_;
    return block;
  }

 private:
  size_t home(uintptr_t address) const {
    return static_cast<size_t>((static_cast<uint64_t>(address) >> 7) * 0x9E3779B97F4A7C15ull >> shift_);
  }
  size_t next(size_t i) const { return (i + 1) & (slots_.size() - 1); }
  void place(Block* block) {
    size_t i = home(block->address);
    while (slots_[i]) i = next(i);
    slots_[i] = block;
  }
  void grow() {
    std::vector<Block*> old(2 * slots_.size());
    old.swap(slots_);
    shift_ -= 1;
    for (Block* block : old) {
      if (block) place(block);
    }
  }

  std::vector<Block*> slots_;
  unsigned shift_ = 64 - 10;
  size_t count_ = 0;
};

}  // namespace openhpu::device
