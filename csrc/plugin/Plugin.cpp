// The library that users' operators are linked with. It holds nothing: the core (call/UserOperator, run/UserKernel)
// connects itself to it. The same source makes both libraries.
#include "plugin/Connection.h"

namespace openhpu {
namespace {

const Connection* connection = nullptr;

const Connection& core() {
  TORCH_CHECK(
      connection,
      "OpenHPU's core is not loaded, so that no user operator can be registered or called: import "
      "habana_frameworks.torch before the library with the operators");
  return *connection;
}

}  // namespace

extern "C" OPENHPU_EXPORT void openhpu_connect(const Connection* to) { connection = to; }
extern "C" void openhpu_set_library_runner(const LibraryRunner* runner) { core().set_runner(runner); }

void register_custom_kernel(const char* guid, CustomKernel kernel) { core().add_kernel(guid, kernel); }

CustomKernelRegistration::CustomKernelRegistration(const char* guid, CustomKernel kernel) noexcept {
  if (!connection) return;
  try {
    connection->add_kernel(guid, kernel);
  } catch (const std::exception& error) {
    connection->note_kernel(guid, error.what());
  }
}

}  // namespace openhpu

namespace habana::custom_op::detail {

void add(Registration registration, const char* torch) noexcept {
  if (openhpu::connection) openhpu::connection->add_operator(std::move(registration), torch);
}
const void* find(const std::string& schema, bool legacy) { return openhpu::core().find_operator(schema, legacy); }
std::vector<at::Tensor> execute(const void* op, const std::vector<c10::IValue>& inputs) {
  return openhpu::core().execute(op, inputs);
}

}  // namespace habana::custom_op::detail
