#include "call/OpKernel.h"

namespace openhpu {
namespace {

using at::Scalar;
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

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
  static c10::IValue borrow(const OptionalTensor& t) { return t ? borrow(*t) : c10::IValue(); }
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

template <class Return, class... A>
void add(Signatures& known, Return (*)(A...)) {
  known[(type_of<A>() + ...) + "->" + Returned<Return>::types()] = [](const c10::OperatorHandle& op,
                                                                      c10::DispatchKey key) {
    using Kernel = DirectKernel<Return(A...)>;
    // With its C++ signature, which PyTorch compares with that of its own kernels.
    return c10::Dispatcher::singleton().registerImpl(
        op.operator_name(), key,
        c10::KernelFunction::makeFromUnboxedFunctor<false, Kernel>(std::make_unique<Kernel>(op)),
        c10::impl::CppSignature::make<Return(A...)>(), nullptr, "openhpu generic kernel");
  };
}
template <class... Signature>
void add_all(Signatures& known) {
  (add(known, static_cast<Signature*>(nullptr)), ...);
}

Signatures all_signatures() {
  using T = const Tensor&;
  using S = const Scalar&;
  using Dtype = std::optional<at::ScalarType>;
  Signatures known;
  add_all<
      Tensor(T), Tensor(T, T), Tensor(T, T, T), Tensor(T, T, S), Tensor(T, S), Tensor(T, S, S), Tensor(T, S, S, S),
      Tensor(T, T, T, S), Tensor(T, T, T, S, S), Tensor(T, T, const OptionalTensor&), Tensor(T, int64_t, bool),
      Tensor(T, T, int64_t, at::ScalarType), Tensor(T, Dtype), Tensor(T, std::string_view),
      Tensor(T, T, std::string_view), Tensor(T, const std::optional<Scalar>&, const std::optional<Scalar>&),
      Tensor(T, int64_t, T), Tensor(T, int64_t), Tensor(T, bool), Tensor(T, T, int64_t), Tensor(T, T, double),
      Tensor(T, T, bool)>(known);
  add_all<
      Tensor&(Tensor&), Tensor&(Tensor&, T), Tensor&(Tensor&, T, T), Tensor&(Tensor&, T, S), Tensor&(Tensor&, S),
      Tensor&(Tensor&, S, S), Tensor&(Tensor&, T, T, S), Tensor&(Tensor&, T, T, S, S)>(known);
  add_all<Tensor&(T, Tensor&), Tensor&(T, T, Tensor&), Tensor&(T, T, S, Tensor&), Tensor&(T, S, Tensor&)>(known);
  add_all<std::tuple<Tensor, Tensor>(T, int64_t, bool), std::tuple<Tensor, Tensor>(T)>(known);
  return known;
}

}  // namespace

std::optional<c10::RegistrationHandleRAII> register_direct_kernel(const c10::OperatorHandle& op, c10::DispatchKey key) {
  static const auto* signatures = new Signatures(all_signatures());
  const auto found = signatures->find(signature_of(op.schema()));
  return found == signatures->end() ? std::nullopt : std::optional(found->second(op, key));
}

}  // namespace openhpu
