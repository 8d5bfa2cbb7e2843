#pragma once

#include <thread>

#include "run/CallTemplate.h"
#include "run/Signature.h"
#include "run/Tensors.h"

namespace openhpu {

// One output tensor of an operator, as it was seen when the operator ran with a given signature.
struct OutputSpec {
  enum class Kind : uint8_t { Fresh, Argument, Undefined };
  Kind kind = Kind::Fresh;
  uint32_t index = 0;  // Fresh: which storage; Argument: which tensor operand (in order of appearance)
  caffe2::TypeMeta dtype;
  c10::SmallVector<int64_t, 6> sizes;
  c10::SmallVector<int64_t, 6> strides;
  int64_t offset = 0;
};

// Memory that an operator's outputs lie in.
struct StorageSpec {
  size_t nbytes = 0;
  uint32_t ordinal = 0;  // which of the kernel's allocations it is (KernelScope)
};

// An `out=` operand that arrives empty and is given its size by the operator.
struct ResizeSpec {
  uint32_t operand = 0;
  size_t nbytes = 0;
  c10::SmallVector<int64_t, 6> sizes;
  c10::SmallVector<int64_t, 6> strides;
};

// The metadata that the host needs of an operator's results to submit it without waiting.
struct ShapeEntry {
  std::vector<OutputSpec> outputs;
  std::vector<StorageSpec> storages;
  std::vector<ResizeSpec> resizes;
  std::vector<int32_t> returns;  // per return value: -1 a tensor, n >= 0 a list of n tensors
  std::unique_ptr<CallTemplate> call;

  // Visits the tensors of a call's results that lie in its storages: `visit(spec, tensor)`.
  template <class Visit>
  void for_each_fresh(const c10::Stack& results, Visit&& visit) const {
    size_t i = 0;
    for_each_tensor(results, [&](const at::Tensor& t) {
      const auto& spec = outputs[i++];
      if (spec.kind == OutputSpec::Kind::Fresh) visit(spec, t);
    });
  }
};

// The reference count is in a separate block: hosts change it at each call, and the worker reads the entry.
inline std::shared_ptr<ShapeEntry> new_entry() { return std::shared_ptr<ShapeEntry>(new ShapeEntry()); }

// For sections of tens of nanoseconds that two threads rarely enter at once.
class SpinLock {
 public:
  void lock() noexcept {
    while (flag_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  void unlock() noexcept { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_;
};

// Entries by signature, for one operator. Thread-safe. When it is full, a new entry replaces one that was not used for
// long. Entries in use stay, because recorded graphs are known by them.
class ShapeCache {
 public:
  static constexpr size_t kMaxEntries = 8192;

  // The pointer stays valid: entries are shared with their users.
  std::shared_ptr<const ShapeEntry> find(const Signature& signature, uint64_t hash);
  void insert(const Signature& signature, uint64_t hash, std::shared_ptr<const ShapeEntry> entry);

  // The entries of calls with operands of the same dtypes and numbers of dimensions (OpCall::family).
  using Entries = std::vector<std::shared_ptr<const ShapeEntry>>;
  Entries siblings(uint64_t family);
  void add_family(uint64_t family, std::shared_ptr<const ShapeEntry> entry);

 private:
  struct Slot {
    c10::SmallVector<uint64_t, 32> words;
    std::shared_ptr<const ShapeEntry> entry;
    bool found = false;  // since the hand came by
  };
  using Slots = std::unordered_map<uint64_t, Slot>;
  size_t next_victim() noexcept;

  SpinLock lock_;
  Slots slots_;
  std::vector<Slots::value_type*> order_;  // as on a clock, where `hand_` looks for an entry that nobody uses
  size_t hand_ = 0;
  static constexpr size_t kMostSiblings = 32;
  static constexpr size_t kMostFamilies = 1024;
  using Families = std::unordered_map<uint64_t, Entries>;
  Families families_;
};

}  // namespace openhpu
