// Registers the generic kernel for all operators.
#include "call/OpKernel.h"

namespace openhpu {
namespace {

constexpr auto kKey = c10::DispatchKey::HPU;

// Operators that are registered after this library (torchvision's, a user's): looked up once, then as all others.
void late_operator(const c10::OperatorHandle& op, c10::DispatchKeySet ks, c10::Stack* stack) {
  static std::mutex mutex;
  static auto* kernels = new std::unordered_map<std::string, std::unique_ptr<OpKernel>>();
  OpKernel* kernel = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto& slot = (*kernels)[c10::toString(op.operator_name())];
    if (!slot) {
      TORCH_CHECK_NOT_IMPLEMENTED(
          op.hasKernelForDispatchKey(c10::DispatchKey::CPU), "Could not run '", op.operator_name(),
          "' on hpu: it has neither an HPU kernel nor a CPU kernel to run on device memory. Register one with "
          "torch.library.impl(..., \"HPU\") or (..., \"CPU\").");
      slot = std::make_unique<OpKernel>(op);
    }
    kernel = slot.get();
  }
  (*kernel)(op, ks, stack);
}

bool runs_on_aliases(const std::string& ns) {
  // Other namespaces either have kernels of their own for hpu (c10d) or hold CPU-specific packed weights.
  return ns == "aten" || ns == "openhpu" || ns == "torchvision" || ns == "mkldnn" || ns == "quantized_decomposed";
}

TORCH_LIBRARY_IMPL(_, HPU, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&late_operator>()); }

}  // namespace

void register_op_kernels() {
  auto& dispatcher = c10::Dispatcher::singleton();
  static auto* handles = new std::vector<c10::RegistrationHandleRAII>();
  for (const auto& name : dispatcher.getAllOpNames()) {
    auto op = dispatcher.findSchema(name);
    if (!op || !runs_on_aliases(std::string(op->schema().getNamespace().value_or("")))) continue;
    if (op->hasKernelForDispatchKey(kKey)) continue;
    const std::string text = c10::toString(name);
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::CPU) && !is_single_operator(text)) continue;
    if (auto direct = register_direct_kernel(*op, kKey)) {
      handles->push_back(std::move(*direct));
      continue;
    }
    handles->push_back(dispatcher.registerImpl(
        name, kKey, c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<OpKernel>(*op)), std::nullopt, nullptr,
        "openhpu generic kernel"));
  }
}

}  // namespace openhpu
