// The C interface of the library.
#include "library.h"

#include <stdio.h>
#include <string.h>

#include <mutex>
#include <stdexcept>

#include "node.h"

namespace {

void say(char* message, size_t size, const char* text) {
  if (message != nullptr && size > 0) snprintf(message, size, "%s", text);
}

void check(const std::string& guid, const std::vector<OpenhpuTpcTensor>& tensors, const char* kind) {
  for (size_t i = 0; i < tensors.size(); i++) {
    const OpenhpuTpcTensor& tensor = tensors[i];
    const std::string which = "'" + guid + "': " + kind + " " + std::to_string(i);
    if (tensor.rank < 1 || tensor.rank > OPENHPU_TPC_DIMENSIONS)
      throw std::runtime_error(
          which + " has " + std::to_string(tensor.rank) +
          " dimensions; a kernel's tensor has 1 to 5. Reshape it before the call");
    if (tensor.strides[0] != 1 && tensor.sizes[0] > 1)
      throw std::runtime_error(
          which + " has a stride of " + std::to_string(tensor.strides[0]) +
          " in its last dimension; a kernel needs 1. Call .contiguous() before");
    for (int d = 0; d < tensor.rank; d++)
      if (tensor.sizes[d] < 0 || tensor.sizes[d] > INT32_MAX)
        throw std::runtime_error(
            which + " has a dimension of " + std::to_string(tensor.sizes[d]) +
            " elements; a kernel's has fewer than 2^31");
  }
}

void check(const tpc::Node& node) {
  const size_t tensors = node.inputs.size() + node.outputs.size() + node.instance.auxiliary.size();
  const tpc::KernelEntry& kernel = tpc::kernels[node.instance.kernel];
  const std::string which = "'" + node.guid + "' (" + kernel.source + ")";
  if (tensors > OPENHPU_TPC_TENSORS)
    throw std::runtime_error(which + ": the node has " + std::to_string(tensors) + " tensors; a kernel takes up to 16");
  if (static_cast<int>(tensors) < kernel.tensors)
    throw std::runtime_error(
        which + ": main takes " + std::to_string(kernel.tensors) + " tensors, and the node has " +
        std::to_string(tensors));
  if (static_cast<int>(node.instance.scalars.size()) < kernel.scalars)
    throw std::runtime_error(
        which + ": main takes " + std::to_string(kernel.scalars) + " numbers, and the glue gives " +
        std::to_string(node.instance.scalars.size()) + " (paramsNr)");
  for (const int64_t size : node.instance.space)
    if (size > INT32_MAX)
      throw std::runtime_error(which + ": the glue gives an index space of more than 2^31 members in a dimension");
}

}  // namespace

extern "C" {

#define OPENHPU_TPC_EXPORT __attribute__((visibility("default")))

OPENHPU_TPC_EXPORT int openhpu_tpc_abi(void) { return OPENHPU_TPC_ABI; }

OPENHPU_TPC_EXPORT const char* openhpu_tpc_refused(void) {
  static std::string why;
  static std::once_flag once;
  std::call_once(once, [] {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const auto lacks = [](const char* feature) {
      if (strcmp(feature, "avx2") == 0) return !__builtin_cpu_supports("avx2");
      if (strcmp(feature, "fma") == 0) return !__builtin_cpu_supports("fma");
      if (strcmp(feature, "avx512f") == 0) return !__builtin_cpu_supports("avx512f");
      if (strcmp(feature, "avx512bw") == 0) return !__builtin_cpu_supports("avx512bw");
      if (strcmp(feature, "avx512dq") == 0) return !__builtin_cpu_supports("avx512dq");
      if (strcmp(feature, "avx512vl") == 0) return !__builtin_cpu_supports("avx512vl");
      return true;
    };
    for (const char* const* feature = tpc::required_features; *feature != nullptr; feature++)
      if (lacks(*feature))
        why = std::string("it was built for a processor with ") + *feature +
              ", which this one has not. Build it here, or with --march x86-64-v3";
#endif
  });
  return why.empty() ? nullptr : why.c_str();
}

OPENHPU_TPC_EXPORT const char* const* openhpu_tpc_guids(int generation, char* message, size_t size) {
  static std::mutex mutex;
  static std::vector<std::string> names[4];
  static std::vector<const char*> texts[4];
  const std::lock_guard<std::mutex> lock(mutex);
  const int which = generation < 1 || generation > 3 ? 2 : generation;
  try {
    if (texts[which].empty()) {
      names[which] = tpc::guids_of_glue(which);
      for (const std::string& name : names[which]) texts[which].push_back(name.c_str());
      texts[which].push_back(nullptr);
    }
  } catch (const std::exception& error) {
    say(message, size, error.what());
    return nullptr;
  }
  return texts[which].data();
}

OPENHPU_TPC_EXPORT void* openhpu_tpc_resolve(
    const char* guid, int generation, const OpenhpuTpcTensor* inputs, int input_count, const OpenhpuTpcTensor* outputs,
    int output_count, const void* parameters, size_t parameter_bytes, char* message, size_t size) {
  try {
    auto node = std::make_unique<tpc::Node>();
    node->guid = guid;
    if (input_count + output_count > OPENHPU_TPC_TENSORS)
      throw std::runtime_error(
          "'" + node->guid + "': the node has " + std::to_string(input_count + output_count) +
          " tensors; a kernel takes up to 16");
    node->inputs.assign(inputs, inputs + input_count);
    node->outputs.assign(outputs, outputs + output_count);
    check(node->guid, node->inputs, "input");
    check(node->guid, node->outputs, "output");
    node->instance = tpc::instantiate(*node, generation, parameters, parameter_bytes);
    check(*node);
    return node.release();
  } catch (const std::exception& error) {
    say(message, size, error.what());
    return nullptr;
  }
}

OPENHPU_TPC_EXPORT int openhpu_tpc_run(
    void* node, void* const* inputs, void* const* outputs, OpenhpuTpcParallel parallel, int pieces, double seconds,
    char* message, size_t size) {
  try {
    tpc::run_node(*static_cast<const tpc::Node*>(node), inputs, outputs, parallel, pieces, seconds);
    return 0;
  } catch (const std::exception& error) {
    say(message, size, error.what());
    return 1;
  }
}

OPENHPU_TPC_EXPORT int openhpu_tpc_check(
    void* node, void* const* inputs, void* const* outputs, const uint8_t* in_place, double seconds, const char** errors,
    const char** notes, OpenhpuTpcAccount* account, char* message, size_t size) {
  static thread_local tpc::Checked last;
  try {
    last = tpc::check_node(*static_cast<const tpc::Node*>(node), inputs, outputs, in_place, seconds);
    *errors = last.errors.c_str();
    *notes = last.notes.c_str();
    *account = last.account;
    return 0;
  } catch (const std::exception& error) {
    say(message, size, error.what());
    return 1;
  }
}

OPENHPU_TPC_EXPORT void openhpu_tpc_release(void* node) { delete static_cast<tpc::Node*>(node); }
OPENHPU_TPC_EXPORT const char* openhpu_tpc_kernel(void* node) {
  return tpc::kernels[static_cast<tpc::Node*>(node)->instance.kernel].name;
}
OPENHPU_TPC_EXPORT int64_t openhpu_tpc_members(void* node) { return static_cast<tpc::Node*>(node)->members(); }
}
