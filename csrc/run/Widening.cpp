#include "run/Operator.h"

#include <ATen/native/Resize.h>

#include "run/Tensors.h"

namespace openhpu {
namespace {

using c10::ScalarType;

// An operator's arguments in the wider dtype; remembers what stands for what.
class Converted {
 public:
  Converted(const Operator& op, const c10::Stack& stack, Widening widening) : widening_(widening) {
    const auto& arguments = op.schema().arguments();
    for (size_t i = 0; i < stack.size(); ++i) {
      const auto& value = stack[i];
      const bool written = op.writes(i, stack.data());
      if (is_dtype(arguments[i], value) && static_cast<ScalarType>(value.toInt()) == widening.from) {
        args_.emplace_back(static_cast<int64_t>(widening.to));
      } else {
        keeps_wide_ |= is_dtype(arguments[i], value) && static_cast<ScalarType>(value.toInt()) == widening.to;
        args_.push_back(map_tensors(value, [&](const at::Tensor& t) { return convert(t, written); }));
      }
    }
  }

  c10::Stack& args() noexcept { return args_; }

  // Rounds what was written, once the operator has run.
  void write_back() {
    for (auto& pair : pairs_) {
      if (!pair.written) continue;
      if (pair.given.sizes() != pair.wide.sizes()) at::native::resize_output(pair.given, pair.wide.sizes());
      pair.given.copy_(pair.wide);
    }
  }

  at::Tensor result(const at::Tensor& t) const {
    if (!t.defined()) return t;
    for (const auto& pair : pairs_)
      if (pair.wide.is_same(t)) return pair.given;
    return t.scalar_type() == widening_.to && !keeps_wide_ ? t.to(widening_.from) : t;
  }

 private:
  struct Pair {
    at::Tensor given, wide;
    bool written;
  };

  static bool is_dtype(const c10::Argument& argument, const c10::IValue& value) {
    if (!value.isInt()) return false;
    auto type = argument.real_type();
    if (type->kind() == c10::TypeKind::OptionalType) type = type->expectRef<c10::OptionalType>().getElementType();
    return type->kind() == c10::TypeKind::ScalarTypeType;
  }

  at::Tensor convert(const at::Tensor& t, bool written) {
    if (!t.defined() || t.unsafeGetTensorImpl()->is_wrapped_number()) return t;
    if (t.scalar_type() == widening_.to && t.dim() > 0) keeps_wide_ = true;
    if (t.scalar_type() != widening_.from) return t;
    // An operand given twice is one tensor for the kernel too.
    for (auto& pair : pairs_) {
      if (!pair.given.is_same(t)) continue;
      pair.written |= written;
      return pair.wide;
    }
    pairs_.push_back({t, t.to(widening_.to), written});
    return pairs_.back().wide;
  }

  const Widening widening_;
  c10::Stack args_;
  std::vector<Pair> pairs_;
  bool keeps_wide_ = false;  // results in the wider dtype are meant to be
};

}  // namespace

void call_widened(const Operator& op, c10::Stack& stack, Widening widening) {
  Converted converted(op, stack, widening);
  op.call_cpu(converted.args());
  converted.write_back();
  stack.clear();
  for (const auto& value : converted.args())
    stack.push_back(map_tensors(value, [&](const at::Tensor& t) { return converted.result(t); }));
}

}  // namespace openhpu
