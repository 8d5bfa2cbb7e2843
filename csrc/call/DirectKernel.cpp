#include "call/OpKernel.h"

namespace openhpu {
namespace {

using at::Scalar;
using at::Tensor;

// A call's arguments as IValues. Tensors are borrowed: nobody counts these references, so none may be left to be
// released.
template <size_t N>
class Arguments {
 public:
  template <class... A>
  explicit Arguments(const A&... arguments) : values_{borrow(arguments)...} {}
  ~Arguments() {
    for (auto& value : values_)
      if (value.isTensor()) std::move(value).toTensor().unsafeReleaseTensorImpl();
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  c10::IValue* data() noexcept { return values_.data(); }

 private:
  static c10::IValue borrow(const Tensor& t) { return c10::MaybeOwnedTraits<Tensor>::createBorrow(t); }
  template <class T>
  static c10::IValue borrow(const T& value) {
    return c10::IValue(value);
  }

  std::array<c10::IValue, N> values_;
};

// The argument that an in-place or out= operator returns.
template <class First, class... Rest>
Tensor& written(First&& first, Rest&&... rest) {
  if constexpr (std::is_same_v<First, Tensor&>)
    return first;
  else
    return written(std::forward<Rest>(rest)...);
}

template <class Signature>
class DirectKernel;

template <class Return, class... A>
class DirectKernel<Return(A...)> final : public c10::OperatorKernel {
 public:
  explicit DirectKernel(const c10::OperatorHandle& op) : kernel_(op) {}

  Return operator()(A... arguments) {
    Arguments<sizeof...(A)> values(arguments...);
    if constexpr (std::is_same_v<Return, Tensor&>) {
      kernel_.call(values.data(), nullptr);
      return written<A...>(std::forward<A>(arguments)...);
    } else {
      c10::Stack results;
      kernel_.call(values.data(), &results);
      return unpack(results, static_cast<Return*>(nullptr));
    }
  }

 private:
  static Tensor unpack(c10::Stack& results, Tensor*) { return std::move(results[0]).toTensor(); }
  template <class... T>
  static std::tuple<T...> unpack(c10::Stack& results, std::tuple<T...>*) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<T...>(std::move(results[I]).toTensor()...);
    }(std::index_sequence_for<T...>());
  }

  OpKernel kernel_;
};

// Signatures as text, from C++ types and from schemas. An argument that is written is marked.
template <class T>
std::string type_of() {
  return c10::getTypePtrCopy<std::decay_t<T>>()->str() + (std::is_same_v<T, Tensor&> ? "!," : ",");
}

std::string type_of(const c10::Argument& argument) {
  return argument.real_type()->str() + (argument.alias_info() && argument.alias_info()->isWrite() ? "!," : ",");
}

std::string signature_of(const c10::FunctionSchema& schema) {
  std::string text;
  for (const auto& argument : schema.arguments()) text += type_of(argument);
  text += "->";
  for (const auto& result : schema.returns()) text += type_of(result);
  return text;
}

using Register = c10::RegistrationHandleRAII (*)(const c10::OperatorHandle&, c10::DispatchKey);
using Signatures = std::unordered_map<std::string, Register>;

template <class Return>
struct Returned {
  static std::string types() { return type_of<Return>(); }
};
template <class... T>
struct Returned<std::tuple<T...>> {
  static std::string types() { return (type_of<T>() + ...); }
};

template <class Signature>
struct Text;
template <class Return, class... A>
struct Text<Return(A...)> {
  static std::string of() { return (type_of<A>() + ...) + "->" + Returned<Return>::types(); }
};

template <class Signature>
c10::RegistrationHandleRAII register_kernel(const c10::OperatorHandle& op, c10::DispatchKey key) {
  using Kernel = DirectKernel<Signature>;
  // With its C++ signature, which PyTorch compares with that of its own kernels.
  return c10::Dispatcher::singleton().registerImpl(
      op.operator_name(), key, c10::KernelFunction::makeFromUnboxedFunctor<false, Kernel>(std::make_unique<Kernel>(op)),
      c10::impl::CppSignature::make<Signature>(), nullptr, "openhpu generic kernel");
}

template <class Signature>
void add(Signatures& known) {
  known[Text<Signature>::of()] = &register_kernel<Signature>;
}

// Each with an operator that has it.
Signatures all_signatures() {
  using T = const Tensor&;
  using S = const Scalar&;
  using OptionalScalar = const std::optional<Scalar>&;
  using Dtype = at::ScalarType;
  Signatures known;
  add<Tensor(T)>(known);                                     // relu
  add<Tensor(T, T)>(known);                                  // mm
  add<Tensor(T, T, T)>(known);                               // where.self
  add<Tensor(T, T, S)>(known);                               // add.Tensor
  add<Tensor(T, S)>(known);                                  // pow.Tensor_Scalar
  add<Tensor(T, S, S)>(known);                               // threshold
  add<Tensor(T, S, S, S)>(known);                            // elu
  add<Tensor(T, T, T, S)>(known);                            // addcmul
  add<Tensor(T, T, T, S, S)>(known);                         // addmm
  add<Tensor(T, int64_t, bool)>(known);                      // _softmax
  add<Tensor(T, T, int64_t, Dtype)>(known);                  // _softmax_backward_data
  add<Tensor(T, std::optional<Dtype>)>(known);               // prod
  add<Tensor(T, std::string_view)>(known);                   // gelu
  add<Tensor(T, T, std::string_view)>(known);                // gelu_backward
  add<Tensor(T, OptionalScalar, OptionalScalar)>(known);     // clamp
  add<Tensor(T, int64_t, T)>(known);                         // index_select
  add<Tensor(T, int64_t)>(known);                            // glu
  add<Tensor(T, bool)>(known);                               // cholesky
  add<Tensor(T, T, int64_t)>(known);                         // mse_loss
  add<Tensor(T, T, double)>(known);                          // native_dropout_backward
  add<Tensor(T, T, bool)>(known);                            // _cholesky_solve_helper
  add<Tensor&(Tensor&)>(known);                              // relu_
  add<Tensor&(Tensor&, T)>(known);                           // lt_.Tensor
  add<Tensor&(Tensor&, T, T)>(known);                        // lerp_.Tensor
  add<Tensor&(Tensor&, T, S)>(known);                        // add_.Tensor
  add<Tensor&(Tensor&, S)>(known);                           // fill_.Scalar
  add<Tensor&(Tensor&, S, S)>(known);                        // threshold_
  add<Tensor&(Tensor&, T, T, S)>(known);                     // addcmul_
  add<Tensor&(Tensor&, T, T, S, S)>(known);                  // addmm_
  add<Tensor&(T, Tensor&)>(known);                           // neg.out
  add<Tensor&(T, T, Tensor&)>(known);                        // mul.out
  add<Tensor&(T, T, S, Tensor&)>(known);                     // add.out
  add<Tensor&(T, S, Tensor&)>(known);                        // clamp_max.out
  add<std::tuple<Tensor, Tensor>(T, int64_t, bool)>(known);  // max.dim
  add<std::tuple<Tensor, Tensor>(T)>(known);                 // log_sigmoid_forward
  return known;
}

}  // namespace

std::optional<c10::RegistrationHandleRAII> register_direct_kernel(const c10::OperatorHandle& op, c10::DispatchKey key) {
  static const auto* signatures = new Signatures(all_signatures());
  const auto found = signatures->find(signature_of(op.schema()));
  return found == signatures->end() ? std::nullopt : std::optional(found->second(op, key));
}

}  // namespace openhpu
