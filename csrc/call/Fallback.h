#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

// The native operators of the chosen generation of Gaudi. Any other operator is a CPU fallback: it runs on the host
// after a synchronisation, is counted, and is forbidden on request.
namespace openhpu {

// Rows of the table: aten overload ("add.Tensor") and dtypes (names separated by spaces; "" for none).
void set_native_ops(const std::vector<std::pair<std::string, std::string>>& rows);
// Rows of another: an operator, as users know it ("lerp"), and the integer dtypes with which it computes on a Gaudi.
void set_integer_ops(const std::vector<std::pair<std::string, std::string>>& rows);
// PT_HPU_PLACE_ON_CPU: "" allows all, "none" forbids all, else a comma-separated list of the allowed operators.
void set_fallback_policy(const std::string& place_on_cpu);

// Bits (by c10::ScalarType) of the dtypes for which the operator is native. `version` changes with the tables.
uint64_t native_dtypes(const std::string& op);
uint64_t fallback_version() noexcept;
// Whether a Gaudi computes the operator with this integer dtype.
bool computes_in(const std::string& op, c10::ScalarType integer);

// Counts, logs (event "cpu_fallback") or refuses one fallback.
void note_fallback(const std::string& op, int scalar_type);
std::map<std::string, uint64_t> fallback_ops();

// For tensors that no alias of their memory describes (sparse, nested): what stands for an operand on the host, a
// tensor of the device for a result, and, unless null, what an operator does to an operand if it has written to its
// twin.
struct TwinsOnHost {
  at::Tensor (*make)(const at::Tensor& operand);
  at::Tensor (*adopt)(const at::Tensor& result, c10::DeviceIndex index);
  void (*take_over)(const at::Tensor& operand, const at::Tensor& twin, c10::DeviceIndex index) = nullptr;
};
// Runs the operator on the host, as a CPU fallback; its arguments lie at the end of the stack.
void run_on_host(const c10::OperatorHandle& op, c10::Stack& stack, const TwinsOnHost& layout);
// An operator with a composite kernel would not reach the fallback of a key. So the kernel is registered for each
// operator that PyTorch implements with the key `cpu`, but for those that `key` has. `what`: for PyTorch's messages.
// Returns true.
bool register_where_cpu_has(
    c10::DispatchKey cpu, c10::DispatchKey key, const c10::KernelFunction& kernel, const char* what);

}  // namespace openhpu
