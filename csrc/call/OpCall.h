#pragma once

#include "call/Alias.h"
#include "call/OpKernel.h"
#include "run/ShapeCache.h"
#include "torch/HPUDevice.h"

namespace openhpu {

class Capture;
struct SmallCall;

// One call of an operator through the generic kernel: its operands, checked and described, and the ways to run it.
struct OpCall {
  // `results`: where results go, in the place of the `on_stack` arguments that lie at its end; null: nowhere.
  OpCall(OpKernel& kernel, c10::IValue* args, c10::Stack* results, size_t on_stack);
  // A call of a user's kernel that was described before, without arguments: its operands, the words of its params, and
  // where its results go.
  OpCall(
      OpKernel& kernel, c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<uint64_t> words, std::vector<at::Tensor>* made)
      : kernel_(kernel), inputs_(inputs), words_(words), made_(made) {}

  // A call of the operator's CPU kernel on aliases of the operands.
  struct OnHost {
    struct Alias {
      uint32_t operand;  // index into the call's
      at::Tensor cpu;
      const void* data;  // of its storage, before the call
      size_t nbytes;
    };
    c10::Stack stack;
    // One CPU storage per hpu storage, so that kernels see who overlaps whom.
    ska::flat_hash_map<const c10::StorageImpl*, c10::intrusive_ptr<c10::StorageImpl>> storages;
    ska::flat_hash_map<const c10::StorageImpl*, c10::Storage> origin;  // CPU storage -> hpu storage
    std::vector<Alias> aliases;
    Widening widening;                      // in which dtypes it ran
    c10::SmallVector<int64_t, 4> ordinals;  // by output: which of the kernel's allocations it is
  };

  // Looks at every operand: device, dtype, aliasing, signature. Throws PyTorch's device errors. False where operands
  // lie on the CPU that `move_operands_and_call` has to move.
  bool inspect();
  // The same for a call without arguments. False: an operand is elsewhere, or none is given.
  bool inspect_inputs();
  // Lazy mode: calls the operator again, with copies on the device in the place of such operands.
  void move_operands_and_call();
  // Queues the command without waiting, with outputs as described; leaves the results.
  void submit(std::shared_ptr<const ShapeEntry> entry);
  // Lazy mode: appends the call to the device's graph and leaves results with pending memory. Returns false, and
  // changes nothing, if no graph can hold the call.
  bool record(const std::shared_ptr<const ShapeEntry>& entry);
  // Runs on the worker (or, for a CPU fallback, on this thread after the queue has drained) and waits. Leaves the
  // results and returns what was learned about them; null when it can't be reused.
  std::shared_ptr<const ShapeEntry> run_and_wait(bool on_host);
  // The same without a run, by the operator's Prediction, from calls of other sizes. Returns null if that does not tell
  // them, or if the call is an error. Throws c10::OutOfMemoryError for results that the device can never hold.
  std::shared_ptr<const ShapeEntry> predict(const ShapeCache::Entries& siblings);
  // Lazy mode: learns the same from a run on zeros of the operands' sizes, on this thread, so that the graph need not
  // be cut. Null where that does not work.
  std::shared_ptr<const ShapeEntry> rehearse();
  // In the compile-only mode: tells what of older memory the call, which is left out, would have written.
  void note_left_out() const;
  // Calls that differ in sizes, strides and numbers only.
  uint64_t family() const noexcept;
  // The same for an operator that returns its first operand and leaves its metadata alone: known without a run.
  std::shared_ptr<const ShapeEntry> describe_fill() const;

  // Within a graph capture: before an operator is run to learn its metadata, and afterwards, when the call becomes
  // part of the capture or, if no graph can hold it (`entry` is null), an error.
  void prepare_to_learn(Capture& capture);
  void record_learned(const std::shared_ptr<const ShapeEntry>& entry, const c10::Stack& results);
  // Before the call is recorded: memory for operands that the capture did not make; and which of them are weights.
  void prepare_operands(Capture& capture);
  // In a dry run: keeps the contents of what the call writes to. Under the recorder's lock.
  void back_up_written(Capture& capture);
  c10::DeviceIndex device_index() const noexcept { return device_.index(); }
  // Whether one of its indices (tensors of a list that may have gaps) has one of these dtypes (bits).
  bool is_indexed_by(uint64_t dtypes) const;
  // Whether the sizes of its results depend on values, and the caller does not give them (`output_size=`).
  bool waits_for_sizes() const {
    constexpr uint64_t kMasks = uint64_t{1} << static_cast<int>(at::kBool) | uint64_t{1} << static_cast<int>(at::kByte);
    const auto& traits = kernel_.traits();
    if (C10_UNLIKELY(traits.masks_wait)) return (every_dtype & kMasks) && is_indexed_by(kMasks);
    return traits.always_wait && (kernel_.output_size_ < 0 || args_[kernel_.output_size_].isNone());
  }

  Signature signature;
  uint64_t dtypes = 0;       // bits of the dtypes of tensors on the device
  uint64_t every_dtype = 0;  // and of numbers and CPU operands
  int self_dtype = -1;       // dtype of the first tensor operand
  bool missing_device = false;

 private:
  struct Operand {
    const at::Tensor* tensor;  // into the arguments
    size_t arg;
    bool written;
  };
  std::shared_ptr<const ShapeEntry> predict_results(const ShapeCache::Entries& siblings);
  std::shared_ptr<const ShapeEntry> predict_by_structure(const ShapeEntry& sibling);
  bool predict_by_sizes(const ShapeEntry& sibling, ShapeEntry& entry) const;
  void describe(ShapeEntry& entry) const;
  // Null if an operand has no memory of the device.
  std::shared_ptr<const SmallCall> small_call(const std::shared_ptr<const ShapeEntry>& entry) const;
  void inspect_tensor(const at::Tensor& t, size_t arg, bool written);
  bool is_misplaced(const Operand& o) const;
  bool may_move_operands() const;
  [[noreturn]] void wrong_device(const at::Tensor& t, size_t arg) const;
  // Gives `out=` operands that arrive empty their memory and size.
  void resize_operands(const ShapeEntry& entry);
  // Hands the results over, which lie in `storages`. The arguments may be gone afterwards.
  void leave_results(const ShapeEntry& entry, const c10::SmallVectorImpl<c10::Storage>& storages);
  // Fills its stack: aliases of the operands, on storages that `storage_over` makes.
  using StorageOver = c10::intrusive_ptr<c10::StorageImpl> (*)(const c10::StorageImpl&);
  void alias_on_host(OnHost& call, StorageOver storage_over, c10::DispatchKey key = c10::DispatchKey::CPU) const;
  // The metadata of a finished call's results. With `results`, these become tensors of the device, and operands that
  // were resized follow.
  std::shared_ptr<const ShapeEntry> describe_results(OnHost& call, bool reusable, c10::Stack* results);

  OpKernel& kernel_;
  c10::Stack* results_ = nullptr;
  size_t on_stack_ = 0;
  size_t arg_count_ = 0;
  c10::IValue* args_ = nullptr;
  c10::ArrayRef<at::Tensor> inputs_;
  c10::ArrayRef<uint64_t> words_;
  std::vector<at::Tensor>* made_ = nullptr;
  c10::SmallVector<Operand, 8> operands_;
  c10::Device device_{c10::kHPU, -1};
};

// The next operator of this thread first calls return_moved_gradients (call/MovedOperands).
void return_gradients_at_next_call();

}  // namespace openhpu
