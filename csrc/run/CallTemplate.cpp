#include "run/CallTemplate.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/empty.h>

#include <bit>

namespace openhpu {
namespace {

using Kind = CallTemplate::ArgKind;

Kind kind_of(const c10::IValue& v) {
  if (v.isInt()) return Kind::Int;
  if (v.isDouble()) return Kind::Double;
  if (v.isBool()) return Kind::Bool;
  if (v.isComplexDouble()) return Kind::Complex;
  return Kind::Constant;
}

constexpr uint32_t words_of(Kind kind) {
  switch (kind) {
    case Kind::Constant:
      return 0;
    case Kind::Complex:
      return 2;
    default:
      return 1;
  }
}

// A 0-dim CPU tensor takes its element's 16 bytes at most.
constexpr uint32_t kHostOperandWords = 2;

}  // namespace

void append_number(const c10::IValue& v, std::vector<uint64_t>& out) {
  if (v.isDouble()) {
    out.push_back(std::bit_cast<uint64_t>(v.toDouble()));
  } else if (v.isInt()) {
    out.push_back(static_cast<uint64_t>(v.toInt()));
  } else if (v.isBool()) {
    out.push_back(v.toBool());
  } else if (v.isComplexDouble()) {
    const auto c = v.toComplexDouble();
    out.push_back(std::bit_cast<uint64_t>(c.real()));
    out.push_back(std::bit_cast<uint64_t>(c.imag()));
  }
}

void append_number(const at::Tensor& t, std::vector<uint64_t>& out) {
  uint64_t words[kHostOperandWords] = {0, 0};
  std::memcpy(words, t.const_data_ptr(), t.itemsize());
  out.insert(out.end(), words, words + kHostOperandWords);
}

void append_numbers(const CallTemplate& call, const c10::IValue* args, std::vector<uint64_t>& out) {
  for (size_t i = 0; i < call.args.size(); ++i) {
    const auto& arg = call.args[i];
    switch (arg.kind) {
      case Kind::Constant:
        break;
      case Kind::Tensor:
        if (C10_UNLIKELY(call.operands[arg.first].on_host)) append_number(args[i].toTensor(), out);
        break;
      case Kind::TensorList:
      case Kind::OptionalTensorList:
        if (call.numbers > 0) {
          const auto list = args[i].toListRef();
          for (size_t k = 0; k < arg.elements.size(); ++k)
            if (arg.elements[k] >= 0 && call.operands[arg.elements[k]].on_host) append_number(list[k].toTensor(), out);
        }
        break;
      case Kind::NumberList:
        for (const auto& e : args[i].toListRef()) append_number(e, out);
        break;
      default:
        append_number(args[i], out);
        break;
    }
  }
}

CallTemplate describe_call(const Operator& kernel, const c10::IValue* args) {
  static std::atomic<uint64_t> next_id{1};
  CallTemplate call;
  call.kernel = &kernel;
  call.id = next_id.fetch_add(1, std::memory_order_relaxed);
  const auto& schema = kernel.args();

  auto add_operand = [&](const at::Tensor& t, bool written) -> int32_t {
    if (!t.defined()) return -1;
    CallTemplate::Operand o;
    const auto* impl = t.unsafeGetTensorImpl();
    o.dtype = impl->dtype();
    o.sizes.assign(impl->sizes().begin(), impl->sizes().end());
    o.strides.assign(impl->strides().begin(), impl->strides().end());
    o.conj = impl->is_conj();
    o.neg = impl->is_neg();
    o.wrapped_number = impl->is_wrapped_number();
    o.written = written;
    call.any_written |= written;
    if (impl->device().type() == c10::kCPU) {
      o.on_host = true;
      o.number = call.numbers;
      call.numbers += kHostOperandWords;
      // Index tensors on the host have contents that a template can't hold.
      call.recordable &= impl->dim() == 0 && !o.conj && !o.neg && impl->itemsize() <= 16;
    }
    call.largest = std::max(call.largest, static_cast<size_t>(impl->numel()) * impl->itemsize());
    call.operands.push_back(std::move(o));
    return static_cast<int32_t>(call.operands.size() - 1);
  };

  for (size_t i = 0; i < schema.size(); ++i) {
    CallTemplate::Arg arg;
    const auto& value = args[i];
    switch (schema[i].kind) {
      case Operator::ArgKind::Tensor:
        if (value.isTensor() && value.toTensor().defined()) {
          arg.kind = Kind::Tensor;
          arg.first = static_cast<uint32_t>(add_operand(value.toTensor(), kernel.writes(i, args)));
        } else {
          arg.constant = value;
        }
        break;
      case Operator::ArgKind::TensorList:
      case Operator::ArgKind::OptionalTensorList:
        if (value.isNone()) break;
        arg.kind = schema[i].kind == Operator::ArgKind::TensorList ? Kind::TensorList : Kind::OptionalTensorList;
        for (const auto& e : value.toListRef())
          arg.elements.push_back(e.isNone() ? -1 : add_operand(e.toTensor(), kernel.writes(i, args)));
        break;
      case Operator::ArgKind::Number:
        if (kernel.traits().numbers_matter || value.isNone()) {
          arg.constant = value;
        } else if (value.isList()) {
          arg.kind = Kind::NumberList;
          arg.first = call.numbers;
          for (const auto& e : value.toListRef()) {
            arg.kinds.push_back(kind_of(e));
            call.recordable &= kind_of(e) != Kind::Constant;
            call.numbers += words_of(kind_of(e));
          }
        } else {
          arg.kind = kind_of(value);
          call.recordable &= arg.kind != Kind::Constant;
          arg.first = call.numbers;
          call.numbers += words_of(arg.kind);
        }
        break;
      case Operator::ArgKind::Device:
        arg.constant = value.isDevice() ? c10::IValue(c10::Device(c10::kCPU)) : value;
        break;
      case Operator::ArgKind::Generator:
      case Operator::ArgKind::Other:
        arg.constant = value;
        break;
    }
    call.args.push_back(std::move(arg));
  }
  return call;
}

c10::IValue number_of(Kind kind, const uint64_t* words) {
  switch (kind) {
    case Kind::Int:
      return static_cast<int64_t>(words[0]);
    case Kind::Double:
      return std::bit_cast<double>(words[0]);
    case Kind::Bool:
      return words[0] != 0;
    case Kind::Complex:
      return c10::complex<double>(std::bit_cast<double>(words[0]), std::bit_cast<double>(words[1]));
    default:
      TORCH_INTERNAL_ASSERT(false, "not a number");
  }
}

at::Tensor host_operand(const CallTemplate::Operand& operand, const uint64_t* words) {
  auto t = at::empty({}, at::TensorOptions().dtype(operand.dtype).device(c10::kCPU));
  std::memcpy(t.mutable_data_ptr(), words, t.itemsize());
  if (operand.wrapped_number) t.unsafeGetTensorImpl()->set_wrapped_number(true);
  return t;
}

c10::Scalar host_value(const CallTemplate::Operand& operand, const uint64_t* words) {
  return at::native::_local_scalar_dense_cpu(host_operand(operand, words));
}

}  // namespace openhpu
