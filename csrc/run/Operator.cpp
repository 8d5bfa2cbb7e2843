#include "run/Operator.h"

#include "run/UserKernel.h"

namespace openhpu {
namespace {

Operator::ArgKind kind_of(const c10::Argument& argument) {
  using Kind = Operator::ArgKind;
  auto type = argument.real_type();
  if (type->kind() == c10::TypeKind::OptionalType) type = type->expectRef<c10::OptionalType>().getElementType();
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return Kind::Tensor;
    case c10::TypeKind::NumberType:
    case c10::TypeKind::FloatType:
      return Kind::Number;
    case c10::TypeKind::DeviceObjType:
      return Kind::Device;
    case c10::TypeKind::GeneratorType:
      return Kind::Generator;
    case c10::TypeKind::ListType: {
      auto element = type->expectRef<c10::ListType>().getElementType();
      if (element->kind() == c10::TypeKind::TensorType) return Kind::TensorList;
      if (element->kind() == c10::TypeKind::NumberType) return Kind::Number;
      if (element->kind() == c10::TypeKind::OptionalType &&
          element->expectRef<c10::OptionalType>().getElementType()->kind() == c10::TypeKind::TensorType)
        return Kind::OptionalTensorList;
      return Kind::Other;
    }
    default:
      return Kind::Other;
  }
}

// Whose CPU kernel runs: that of this library's operator of the same name and arguments, if there is one.
c10::OperatorHandle whose_kernel(const c10::OperatorHandle& op) {
  const auto& name = op.operator_name();
  const auto own =
      c10::Dispatcher::singleton().findSchema({"openhpu" + name.name.substr(name.name.find("::")), name.overload_name});
  return own && own->schema().arguments() == op.schema().arguments() ? *own : op;
}

OwnCall own_call_of(const std::string& name) {
  if (const auto product = product_call_of(name)) return product;
  if (name == UserCall::kName) return &call_user_kernel;
  return name.substr(0, name.find('.')) == "aten::sum" ? &sum_in_blocks : indexed_call_of(name);
}

}  // namespace

Operator::Operator(const c10::OperatorHandle& op, const OpTraits& traits)
    : handle_(whose_kernel(op)),
      name_(c10::toString(op.operator_name())),
      traits_(traits),
      own_call_(own_call_of(name_)) {
  if (traits_.seeded) name_.replace(0, name_.find("::"), "aten");
  for (const auto& argument : op.schema().arguments()) {
    const bool written = (argument.alias_info() && argument.alias_info()->isWrite()) ||
                         (traits_.undeclared_writes.arguments >> args_.size() & 1);
    any_written_ |= written;
    args_.push_back({kind_of(argument), written});
  }
}

bool Operator::writes(size_t arg, const c10::IValue* args) const {
  const auto& undeclared = traits_.undeclared_writes;
  const bool conditional = undeclared.when >= 0 && (undeclared.arguments >> arg & 1);
  return args_[arg].written && !(conditional && !args[undeclared.when].toBool());
}

}  // namespace openhpu
