#include "call/Fallback.h"
#include "call/OpKernel.h"
#include "run/Tensors.h"

namespace openhpu {
namespace {

using c10::ScalarType;
using Dtypes = std::vector<ScalarType>;

// Operators' calls by the dtypes of their operands, as far as these are widened.
std::mutex known_mutex;
auto& known_widenings = *new std::map<std::pair<const Operator*, Dtypes>, Widening>();
std::atomic<bool> any_known{false};

bool is_reduced_float(ScalarType t) {
  return t == ScalarType::BFloat16 || t == ScalarType::Half || t == ScalarType::Float8_e5m2 ||
         t == ScalarType::Float8_e4m3fn;
}

c10::ArrayRef<ScalarType> wider_than(ScalarType t) {
  static constexpr std::array kFloats{ScalarType::Float, ScalarType::Double};
  // The next ones first: results that are int64 anyway, indices, are not to be taken for widened ones.
  static constexpr std::array kBools{ScalarType::Byte, ScalarType::Double};
  static constexpr std::array kShorts{ScalarType::Int, ScalarType::Double};
  static constexpr std::array kInts{ScalarType::Long, ScalarType::Double};
  static constexpr std::array kDouble{ScalarType::Double};
  if (is_reduced_float(t)) return kFloats;
  switch (t) {
    case ScalarType::Bool:
      return kBools;
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Short:
      return kShorts;
    case ScalarType::Int:
      return kInts;
    case ScalarType::Long:
      return kDouble;
    default:
      return {};
  }
}

// Those of operands, which are the call's identity here, in order. Numbers in tensors' clothes take others' dtype.
Dtypes dtypes_of(const c10::Stack& stack) {
  Dtypes found;
  for_each_tensor(stack, [&](const at::Tensor& t) {
    if (t.defined() && !t.unsafeGetTensorImpl()->is_wrapped_number()) found.push_back(t.scalar_type());
  });
  return found;
}

bool names_dtype(std::string_view message, ScalarType t) {
  const std::string name = c10::toString(t);
  for (size_t at = message.find(name); at != std::string_view::npos; at = message.find(name, at + 1)) {
    const auto is_letter = [&](size_t i) {
      return i < message.size() && (std::isalnum(message[i]) || message[i] == '_');
    };
    if (!(at > 0 && is_letter(at - 1)) && !is_letter(at + name.size())) return true;
  }
  return false;
}

// _add_relu's kernel ends so for a dtype that it lacks: a defect of its own, which refuses nothing.
constexpr const char* kUnforeseen = "Unsupported datatype for add_relu";

// Whether an error says that the operator has no kernel for a dtype, in one of PyTorch's ways to say so.
bool refuses_dtype(std::string_view message) {
  for (const char* text :
       {"not implemented for", "Expected a long tensor for index", "does not support bool input",
        "Expected a floating point or complex tensor as input",
        "input dtype should be either floating point or complex",
        "Integer division with addcdiv is no longer supported", kUnforeseen})
    if (message.find(text) != std::string_view::npos) return true;
  return false;
}

// Products of small floats into a wider `out=`, which a Gaudi has and PyTorch's other devices refuse.
bool is_wide_product(const std::string& op, std::string_view message) {
  if (message.find("Expected out tensor to have dtype") == std::string_view::npos) return false;
  return message.find("but got float instead") != std::string_view::npos &&
         (op == "aten::mm.out" || op == "aten::bmm.out" || op == "aten::addmm.out" || op == "aten::baddbmm.out");
}

// Dtypes of the operands that the error may mean, those that it names first.
Dtypes suspects(std::string_view message, const Dtypes& dtypes) {
  Dtypes named, others;
  for (auto t : dtypes) {
    if (wider_than(t).empty()) continue;
    auto& found = names_dtype(message, t) ? named : others;
    if (std::find(found.begin(), found.end(), t) == found.end()) found.push_back(t);
  }
  return named.empty() ? others : named;
}

}  // namespace

Widening learn_cpu(const Operator& op, c10::Stack& stack) {
  // A call that throws leaves its arguments half taken.
  const c10::Stack given = stack;
  if (any_known.load(std::memory_order_acquire)) {
    std::unique_lock lock(known_mutex);
    if (const auto it = known_widenings.find({&op, dtypes_of(given)}); it != known_widenings.end()) {
      const Widening widening = it->second;
      lock.unlock();
      op.call_cpu(stack, widening);
      return widening;
    }
  }
  std::exception_ptr error;
  Dtypes candidates, dtypes;
  bool unforeseen = false;
  try {
    op.call_cpu(stack);
    return {};
  } catch (const c10::Error& e) {
    const std::string message = e.what_without_backtrace();
    if (!refuses_dtype(message) && !is_wide_product(op.name(), message)) throw;
    unforeseen = message.find(kUnforeseen) != std::string::npos;
    dtypes = dtypes_of(given);
    candidates = suspects(message, dtypes);
    error = std::current_exception();
  }
  for (auto from : candidates) {
    // What PyTorch refuses for integers is an error of the script's, unless Gaudi's table says otherwise.
    if (!is_reduced_float(from) && !unforeseen && !computes_in(op.name(), from)) continue;
    for (auto to : wider_than(from)) {
      stack = given;
      try {
        op.call_cpu(stack, {from, to});
      } catch (const c10::Error&) {
        continue;
      }
      std::lock_guard lock(known_mutex);
      known_widenings[{&op, dtypes}] = {from, to};
      any_known.store(true, std::memory_order_release);
      return {from, to};
    }
  }
  stack = given;
  std::rethrow_exception(error);
}

}  // namespace openhpu
