#pragma once

#include "run/Operator.h"

namespace openhpu {

struct UserOp;

// The part of a call that its signature determines. A recorded call holds only the rest: the storages of its operands,
// their offsets, and the values of numbers that count by type.
struct CallTemplate {
  // A tensor operand, in order of appearance. `on_host`: a 0-dim CPU tensor, whose value is one of the numbers.
  struct Operand {
    caffe2::TypeMeta dtype;
    c10::SmallVector<int64_t, 5> sizes;
    c10::SmallVector<int64_t, 5> strides;
    bool conj = false, neg = false, wrapped_number = false, on_host = false, written = false;
    uint32_t number = 0;  // on_host: which number
  };
  enum class ArgKind : uint8_t {
    Constant,
    Tensor,
    TensorList,
    OptionalTensorList,
    Int,
    Double,
    Bool,
    Complex,
    NumberList
  };
  struct Arg {
    ArgKind kind = ArgKind::Constant;
    uint32_t first = 0;                     // Tensor: its operand; numbers: the first number
    c10::IValue constant;                   // Constant
    c10::SmallVector<int32_t, 1> elements;  // lists of tensors: operand or -1 (undefined)
    c10::SmallVector<ArgKind, 1> kinds;     // NumberList: of each element
  };

  const Operator* kernel = nullptr;
  uint64_t id = 0;  // of this template, never used again in this process
  std::vector<Arg> args;
  std::vector<Operand> operands;
  uint32_t numbers = 0;  // 64-bit words of numbers that a call brings along
  size_t largest = 0;    // bytes of the largest operand or output, for the thread policy
  bool any_written = false;
  bool recordable = true;  // false: an argument was met that the template can't express
  // Of a user's kernel that takes the memory of the operands as it is (run/UserKernel); null: another call.
  UserOp* user = nullptr;
  size_t user_params = 0;  // bytes, at the begin of the numbers
  Widening widening;       // the dtypes in which it is computed
};

// Where a call's numbers come from: an argument of a call, or a 0-dim CPU operand.
void append_number(const c10::IValue& value, std::vector<uint64_t>& out);
void append_number(const at::Tensor& zero_dim, std::vector<uint64_t>& out);
// The numbers of a call in the order of its template.
void append_numbers(const CallTemplate& call, const c10::IValue* args, std::vector<uint64_t>& out);

// Describes a call from its arguments. `written`: by schema argument.
CallTemplate describe_call(const Operator& kernel, const c10::IValue* args);

// A number of the given kind out of its words.
c10::IValue number_of(CallTemplate::ArgKind kind, const uint64_t* words);
// A 0-dim CPU tensor for an operand that is on the host.
at::Tensor host_operand(const CallTemplate::Operand& operand, const uint64_t* words);
// Its value, without the dispatcher: `item` fails under a dispatch mode, which gets a wrapped number as a Python
// number.
c10::Scalar host_value(const CallTemplate::Operand& operand, const uint64_t* words);

}  // namespace openhpu
