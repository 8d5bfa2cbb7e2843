#pragma once

#include <climits>

#include "device/device.h"
#include "run/KernelMemory.h"
#include "run/ShapeCache.h"

namespace openhpu {

// Where an operand lies when its call runs.
struct OperandMemory {
  void* data = nullptr;  // of its storage
  size_t nbytes = 0;
  int64_t offset = 0;    // in elements
  uint64_t storage = 0;  // the same number for operands that share a storage
};

// The memory for a storage that the call makes.
struct OutputMemory {
  void* data = nullptr;
  size_t nbytes = 0;
  // Takes the storage that the kernel allocated; null: its contents belong at `data`.
  c10::intrusive_ptr<c10::StorageImpl>* allocated = nullptr;
};

// Zeros in the memory of outputs that a failed kernel should have filled.
void clear_outputs(const PlannedOutput* outputs, size_t count) noexcept;

// Runs calls: PyTorch's CPU kernels on CPU tensors over their operands' memory. One for each device.
//
// The tensors are kept and pointed at the operands of the next call, so that a steady state allocates nothing. The host
// only writes addresses into commands. An object whose references both threads count would travel between the caches of
// two cores at each call.
class CallRunner {
 public:
  explicit CallRunner(device::Device& device) : device_(device) {}
  // The runner of a device, for the thread that runs its commands.
  static CallRunner& of(device::Device& device);

  // `operands`: the call's operands that are not on the host. `outputs`: the storages of the entry.
  void run(
      const ShapeEntry& entry, const OperandMemory* operands, const uint64_t* numbers, const OutputMemory* outputs);
  // The same for a call that its entry does not describe. The call runs on tensors over its operands, and `args` is
  // used up.
  void run(const ShapeEntry& entry, c10::Stack& args, const OutputMemory* outputs);

  // From now on kernels use at most so many threads.
  void limit_threads(int most) noexcept { most_threads_ = most; }
  static constexpr int kUnlimited = INT_MAX;

 private:
  // A CPU storage over the memory of one of this call's operands.
  struct Memory {
    c10::intrusive_ptr<c10::StorageImpl> over;
    uint64_t of = 0;
    uint32_t aliases = 0;  // of aliases_ that lie in it
  };
  static constexpr size_t kNone = SIZE_MAX;
  struct Alias {
    c10::intrusive_ptr<c10::TensorImpl> tensor;
    size_t memory = kNone;  // which of memories_
  };
  size_t memory_over(const OperandMemory& operand);  // its place in memories_
  at::Tensor alias(const CallTemplate::Operand& operand, const OperandMemory& memory);
  // Calls a user's kernel on the memory itself, without tensors over it. False if the call needs them.
  bool run_user(
      const ShapeEntry& entry, const OperandMemory* operands, const uint64_t* numbers, const OutputMemory* outputs);
  void fill_stack(const CallTemplate& call, const OperandMemory* operands, const uint64_t* numbers);
  // Calls the kernel on `stack` and puts the results into place. `fill` sets the arguments. If `fill` or the kernel
  // fails, the outputs are zeros.
  template <class Fill>
  void run_planned(const ShapeEntry& entry, const OutputMemory* outputs, Fill&& fill);
  // Compares the kernel's results with the metadata that the host returned. Throws if sizes or dtypes differ. Returns
  // false if only strides or offset differ.
  bool lies_as_told(const ShapeEntry& entry, const c10::Stack& results, const OutputMemory* outputs) const;
  void keep_outputs(const ShapeEntry& entry, const c10::Stack& results, const OutputMemory* outputs);
  // Whether this is where an output of the running call belongs.
  bool is_planned(const void* data) const;
  c10::intrusive_ptr<c10::StorageImpl> copy_of(const c10::Storage& storage);
  // The same, with copies of the results in the layout that the host returned.
  void lay_out_outputs(const ShapeEntry& entry, const c10::Stack& results, const OutputMemory* outputs);

  device::Device& device_;
  c10::Stack stack_;
  c10::SmallVector<at::Tensor, 8> tensors_;
  // This call's operands, to be told from new tensors; by then the kernel may have let go of them.
  c10::SmallVector<const c10::TensorImpl*, 8> given_;
  c10::SmallVector<PlannedOutput, 4> planned_;
  std::vector<Alias> aliases_;
  std::vector<Memory> memories_;
  size_t used_ = 0;  // of aliases_
  size_t used_memories_ = 0;
  int most_threads_ = kUnlimited;
  bool many_ = false;                              // operands
  ska::flat_hash_map<uint64_t, size_t> place_of_;  // in memories_, by storage, if they are many
};

}  // namespace openhpu
