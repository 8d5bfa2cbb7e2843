#pragma once

#include <ATen/core/Tensor.h>

#include "openhpu/kernel_library.h"

// Kernels of user operators: where one for a guid comes from, and one call of it on host tensors.
namespace openhpu {

class Operator;
struct OperandMemory;
struct OutputMemory;
struct ShapeEntry;

// The kernel that serves the calls of a guid.
struct UserKernel {
  std::string guid;
  std::string source;               // for reports: "C++ function", "Python function", a library's path
  CustomKernel function = nullptr;  // or
  LibraryKernel library{};
  bool holds_python = false;  // it takes Python's lock

  void operator()(const KernelCall& call) const {
    if (function)
      function(call);
    else
      library.run(library.context, call);
  }
};

// A user operator as its calls know it. It is never destroyed.
struct UserOp {
  std::string key;     // of this operator among all, in recorded graphs, recipes, traces and reports
  std::string schema;  // "custom_op::custom_relu"
  std::string guid;
  std::atomic<const UserKernel*> kernel{nullptr};  // once it is found
};

// Throws std::invalid_argument if a function is registered for the guid already.
void add_user_kernel(const char* guid, CustomKernel kernel);
// Keeps the reason for which a kernel could not be registered. Operators that want the guid raise it.
void note_user_kernel(const char* guid, const char* error) noexcept;
// A kernel that Python registered: `run` and `context` as in LibraryKernel. Throws like add_user_kernel.
void add_python_kernel(const char* guid, LibraryKernel kernel);
// The libraries of GC_KERNEL_PATH. They are loaded when a guid is looked up.
void set_kernel_libraries(std::vector<std::string> paths);
void set_library_runner(const LibraryRunner* runner);

// Makes the operator known to recipes, which find it by its key.
void add_user_op(UserOp& op);
// Null: there is none.
UserOp* user_op_of(const std::string& key);

// The kernel of the operator. Throws c10::Error, which names the places that were searched, if there is none.
const UserKernel& kernel_of(UserOp& op);

// A call of `openhpu::user_kernel`, the operator that recorded graphs and recipes have in the place of each user
// operator:
//   user_kernel(str op, Tensor?[] inputs, Tensor(a!)[] written, int[] sizes, int[] layout, Scalar[] words) -> Tensor[]
// `op`: its key. `written`: operands that results are. `layout`: bytes of the params, then for each result its dtype,
// its number of dimensions, and which of `written` it is (-1: a new tensor). `sizes`: of all results. `words`: the
// params as integers of 64 bits.
struct UserCall {
  static constexpr size_t kArgs = 6;
  static constexpr size_t kInputs = 1;
  static constexpr const char* kName = "openhpu::user_kernel";
  struct Result {
    at::ScalarType dtype;
    c10::IntArrayRef sizes;
    int64_t written;  // which of the written operands; -1: none
  };
  std::vector<at::Tensor> inputs, written;  // an undefined tensor: an optional one that was not given
  std::vector<int64_t> sizes;               // of all results
  std::vector<Result> results;
  std::vector<uint64_t> words;
  size_t params_size = 0;

  // `args`: of the operator, kArgs of them.
  explicit UserCall(const c10::IValue* args);
  UserCall() = default;
};

// Whether it is `openhpu::user_kernel`, under the name of a user's operator.
bool is_user_kernel(const Operator& op);
// What Operator calls for it: runs the kernel on a stack of aliases.
void call_user_kernel(const Operator& op, c10::Stack& stack);
// Runs the kernel on contiguous host tensors. `outputs` have their sizes. Throws c10::Error for what it throws.
void run_user_kernel(
    UserOp& op, c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<at::Tensor> outputs, const void* params,
    size_t params_size, int device);
// The same for a call whose template has a `user`: on the operands' memory itself.
void run_user_kernel(
    const ShapeEntry& entry, const OperandMemory* operands, const uint64_t* numbers, const OutputMemory* outputs,
    int device);
// Asks the kernel whether it takes such a call, and throws c10::Error if it does not.
void check_user_kernel(UserOp& op, const UserCall& call, int device);

// What a recipe calls through a function pointer (compiler/inductor/user_kernels).
void run_user_kernel_of_recipe(
    const char* key, void** op, c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<at::Tensor> outputs,
    const int64_t* words, size_t params_size);

// Whether a call of a kernel is checked for what it writes (OPENHPU_CHECK_KERNELS).
inline std::atomic<bool> g_check_kernels{false};

}  // namespace openhpu
