#pragma once

#include "device/device.h"
#include "run/ShapeCache.h"
#include "torch/HPUAllocator.h"

namespace openhpu {

// How an operator made a small value. A host that reads the value can then compute it itself, while the device is busy
// with commands that were queued before the operator: `bool(torch.isnan(loss))` after a backward pass needs the loss
// only. The device runs the operator all the same.
struct SmallCall {
  struct Operand {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    const HPUMemory* memory;  // of that storage, at the call; may be gone
    uint64_t version;
    int64_t offset;                         // in elements
    std::shared_ptr<const SmallCall> made;  // null: by an operator that is not small
  };
  std::shared_ptr<const ShapeEntry> entry;
  std::vector<uint64_t> numbers;
  c10::SmallVector<Operand, 2> operands;  // those on the device
  uint32_t calls = 1;                     // this one and those of `made`
};

// Of the calls that lead to a value. Earlier values must be in memory.
constexpr uint32_t kMostSmallCalls = 8;

// Whether a call has one small result, with the same bits on every thread and in every recipe.
bool is_small_call(const ShapeEntry& entry);

// The value of a tensor in host memory, computed on this thread once the operands are there. Undefined where that is
// not possible, or where the value itself is there already. Call it after `flush`. Throws if a signal ends the wait.
at::Tensor compute_small(device::Device& d, const at::Tensor& wanted);

}  // namespace openhpu
