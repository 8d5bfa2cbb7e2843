// Autocast on hpu: a boxed kernel casts an operator's floating-point operands by the operator's policy. Which operator
// has which policy is data, given by the Python side (openhpu/interface/autocast_lists.py).
#include "call/Autocast.h"

#include <ATen/autocast_mode.h>

#include "run/Tensors.h"

namespace openhpu {
namespace {

using at::Tensor;
constexpr auto kAutocastKey = c10::DispatchKey::AutocastHPU;

TORCH_LIBRARY_IMPL(_, AutocastHPU, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

// Norms keep their statistics and affine parameters: only the first argument is cast.
bool only_first(const std::string& base) {
  return base == "batch_norm" || base == "layer_norm" || base == "group_norm" || base == "instance_norm";
}

class AutocastKernel final : public c10::OperatorKernel {
 public:
  AutocastKernel(CastPolicy policy, bool first_only) : policy_(policy), first_only_(first_only) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, c10::Stack* stack) {
    c10::impl::ExcludeDispatchKeyGuard no_autocast(kAutocastKey);
    const size_t n = op.schema().arguments().size();
    auto* args = stack->data() + stack->size() - n;
    at::ScalarType to = at::kFloat;
    bool cast = true;
    if (policy_ == CastPolicy::LowerPrecision) {
      to = at::autocast::get_autocast_dtype(c10::kHPU);
    } else if (policy_ == CastPolicy::Promote) {
      cast = widest(args, n, to);
    } else {
      // An explicit dtype argument is the user's choice.
      for (size_t i = 0; i < n; ++i)
        if (op.schema().arguments()[i].name() == "dtype" && !args[i].isNone()) cast = false;
    }
    for (size_t i = 0; cast && i < (first_only_ ? 1 : n); ++i)
      args[i] = map_tensors(args[i], [&](const Tensor& t) { return at::autocast::cached_cast(to, t, c10::kHPU); });
    op.callBoxed(stack);
  }

 private:
  static bool widest(c10::IValue* args, size_t n, at::ScalarType& to) {
    std::optional<at::ScalarType> type;
    auto look = [&](const Tensor& t) {
      if (at::autocast::is_eligible(t, c10::kHPU))
        type = type ? c10::promoteTypes(*type, t.scalar_type()) : t.scalar_type();
    };
    for (size_t i = 0; i < n; ++i) for_each_tensor(args[i], look);
    if (type) to = *type;
    return type.has_value();
  }

  CastPolicy policy_;
  bool first_only_;
};

}  // namespace

std::vector<std::string> register_autocast(std::vector<std::string> names, CastPolicy policy) {
  auto& dispatcher = c10::Dispatcher::singleton();
  static auto* handles = new std::vector<c10::RegistrationHandleRAII>();
  static auto* done = new std::set<std::string>();
  const std::set<std::string> wanted(names.begin(), names.end());
  std::set<std::string> found;
  for (const auto& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const std::string base = name.name.substr(6);
    if (!wanted.count(base)) continue;
    auto op = dispatcher.findSchema(name);
    if (!op) continue;
    found.insert(base);
    // Results written into the caller's tensor keep its dtype: no casting for out= overloads.
    if (op->schema().is_mutable() || op->hasKernelForDispatchKey(kAutocastKey)) continue;
    if (!done->insert(c10::toString(name)).second) continue;
    handles->push_back(dispatcher.registerImpl(
        name, kAutocastKey,
        c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<AutocastKernel>(policy, only_first(base))),
        std::nullopt, nullptr, "openhpu autocast"));
  }
  std::erase_if(names, [&](const auto& name) { return found.contains(name); });
  return names;
}

}  // namespace openhpu
