#include "torch/BesideCuda.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <torch/headeronly/version.h>

// Other hooks registered under CUDA's name would come too late: `import torch` has made the hooks of the build for CUDA
// and keeps them. PyTorch offers no way to exchange them, so the object gets another table of virtual functions: a copy
// of its own with one entry changed. The C++ ABI (Itanium's) says how such tables lie: two words, then the functions in
// the order of their declarations; an object's first word points at the first function; a pointer to a virtual member
// function is 1 + the offset of its entry. Where a PyTorch or a compiler differs, a check below finds it.

namespace openhpu {
namespace {

using Hooks = at::CUDAHooksInterface;
using Entry = const void*;
constexpr size_t kHeader = 2;  // words before the first function: the offset to the object's top, its type_info

std::atomic<bool> accelerator{false};
const Entry* original = nullptr;  // the table that CUDA's hooks had

struct NotBuilt final : Hooks {
  bool isBuilt() const override { return false; }
  virtual void end() const {}  // behind the functions of the interface, to which PyTorch's class adds none
};

template <class Function>
size_t entry_of(Function function) {
  size_t words[2];
  static_assert(sizeof(function) == sizeof(words));
  std::memcpy(words, &function, sizeof(words));
#if defined(__aarch64__)
  words[0] += std::exchange(words[1], 0);  // Arm's ABI keeps the 1 beside the offset
#endif
  TORCH_CHECK(words[0] % sizeof(Entry) == 1 && words[1] == 0, "pointers to virtual functions are not as expected");
  return words[0] / sizeof(Entry);
}

const Entry** table_of(const Hooks& hooks) {
  static_assert(sizeof(Hooks) == sizeof(Entry), "CUDA's hooks hold data beside their table");
  return reinterpret_cast<const Entry**>(const_cast<Hooks*>(&hooks));
}

void set_table(const Entry* table) { __atomic_store_n(table_of(at::detail::getCUDAHooks()), table, __ATOMIC_RELEASE); }

void answer_not_built() {
  static const NotBuilt no;
  const size_t entry = entry_of(&NotBuilt::isBuilt), count = entry_of(&NotBuilt::end);
  original = *table_of(at::detail::getCUDAHooks());
  TORCH_CHECK(entry < count && original[-2] == nullptr, "CUDA's hooks are not an object of one class");
  // Never freed: PyTorch's object outlives every object of ours.
  auto* table = new std::vector<Entry>(original - kHeader, original + count);
  (*table)[kHeader + entry] = (*table_of(no))[entry];
  set_table(table->data() + kHeader);
}

}  // namespace

bool is_accelerator() { return accelerator; }

void become_accelerator() {
  if (accelerator) return;
  try {
    if (at::detail::getCUDAHooks().isBuilt()) answer_not_built();
    TORCH_CHECK(!at::detail::getCUDAHooks().isBuilt(), "CUDA's hooks still say that they are built");
    accelerator = true;
    const auto found = at::getAccelerator(false);
    TORCH_CHECK(found == c10::kHPU, "its accelerator is ", found ? c10::DeviceTypeName(*found, true) : "none");
  } catch (const c10::Error& error) {
    leave_accelerator();
    TORCH_CHECK(
        false, "hpu cannot be the accelerator of this PyTorch (", error.what_without_backtrace(),
        "). The core was built with PyTorch ", TORCH_VERSION,
        ": install that release, or PyTorch's build for the CPU.");
  }
}

void leave_accelerator() {
  accelerator = false;
  if (original) set_table(original);
  original = nullptr;
}

}  // namespace openhpu
