// The glue code of the kernels: it tells the graph compiler, and here the runner, how large the index space of a node
// is, which part of each tensor a member reads and writes, and which program it is.
#include <cstring>

#include "tpc_kernel_lib_interface.h"

using namespace tpc_lib_api;

#define PROGRAM(name) extern "C" unsigned char _binary_##name##_o_start, _binary_##name##_o_end
PROGRAM(silu_f32);
PROGRAM(silu_grad_f32);
PROGRAM(matmul_f32);
PROGRAM(softmax_f32);
PROGRAM(rmsnorm_f32);
PROGRAM(rmsnorm_grad_f32);

namespace {

constexpr uint64_t kLanes = 64;
constexpr uint64_t kRows = 4;                // of a product's member
constexpr uint64_t kMostSoftmax = 64 * 256;  // elements of a row that fit local memory

uint64_t parts(uint64_t size, uint64_t of) { return (size + of - 1) / of; }

struct Kernel {
  const char* guid;
  unsigned inputs, outputs, scalars;
  enum { kElementwise, kProduct, kRows } space;
  const unsigned char *start, *end;
};
const Kernel kKernels[] = {
    {"silu_fwd_f32", 1, 1, 0, Kernel::kElementwise, &_binary_silu_f32_o_start, &_binary_silu_f32_o_end},
    {"silu_bwd_f32", 2, 1, 0, Kernel::kElementwise, &_binary_silu_grad_f32_o_start, &_binary_silu_grad_f32_o_end},
    {"product_f32", 2, 1, 0, Kernel::kProduct, &_binary_matmul_f32_o_start, &_binary_matmul_f32_o_end},
    {"row_softmax_f32", 1, 1, 0, Kernel::kRows, &_binary_softmax_f32_o_start, &_binary_softmax_f32_o_end},
    {"rmsnorm_fwd_f32", 2, 2, 1, Kernel::kRows, &_binary_rmsnorm_f32_o_start, &_binary_rmsnorm_f32_o_end},
    {"rmsnorm_bwd_f32", 4, 2, 0, Kernel::kRows, &_binary_rmsnorm_grad_f32_o_start, &_binary_rmsnorm_grad_f32_o_end},
};

// A member reads or writes `step` elements of dimension `dimension` for each step of the index space.
void follows(TensorAccessPattern& pattern, unsigned dimension, unsigned space, float step) {
  pattern.mapping[dimension].indexSpaceDim = space;
  pattern.mapping[dimension].a = step;
  pattern.mapping[dimension].start_b = 0;
  pattern.mapping[dimension].end_b = step - 1;
}

}  // namespace

extern "C" GlueCodeReturn GetKernelGuids(DeviceId, uint32_t* count, GuidInfo* guids) {
  constexpr uint32_t all = sizeof(kKernels) / sizeof(kKernels[0]);
  if (guids != nullptr)
    for (uint32_t i = 0; i < all && i < *count; i++)
      strncpy(guids[i].name, kKernels[i].guid, sizeof(guids[i].name) - 1);
  *count = all;
  return GLUE_SUCCESS;
}

extern "C" GlueCodeReturn InstantiateTpcKernel(HabanaKernelParams* in, HabanaKernelInstantiation* out) {
  const Kernel* kernel = nullptr;
  for (const Kernel& each : kKernels)
    if (strcmp(each.guid, in->guid.name) == 0) kernel = &each;
  if (kernel == nullptr) return GLUE_NODE_NOT_FOUND;
  if (in->inputTensorNr != kernel->inputs) return GLUE_INCOMPATIBLE_INPUT_COUNT;
  if (in->outputTensorNr != kernel->outputs) return GLUE_INCOMPATIBLE_OUTPUT_COUNT;
  for (uint32_t i = 0; i < in->inputTensorNr; i++)
    if (in->inputTensors[i].geometry.dataType != DATA_F32) return GLUE_INCOMPATIBLE_DATA_TYPE;

  const uint64_t* sizes = in->outputTensors[0].geometry.maxSizes;
  const bool rows_only = kernel->space == Kernel::kRows;
  const uint64_t rows_of_member = kernel->space == Kernel::kProduct ? kRows : 1;
  if (strcmp(kernel->guid, "row_softmax_f32") == 0 && sizes[0] > kMostSoftmax) return GLUE_INCOMPATIBLE_INPUT_SIZE;
  if (kernel->space == Kernel::kProduct &&
      in->inputTensors[0].geometry.maxSizes[0] != in->inputTensors[1].geometry.maxSizes[1])
    return GLUE_INCOMPATIBLE_INPUT_SIZE;
  out->indexSpaceRank = rows_only ? 1 : 2;
  out->indexSpaceGeometry[0] = rows_only ? sizes[1] : parts(sizes[0], kLanes);
  out->indexSpaceGeometry[1] = parts(sizes[1], rows_of_member);
  for (uint32_t i = 0; i < kernel->outputs; i++) {
    const uint64_t width = in->outputTensors[i].geometry.maxSizes[0];
    if (rows_only)
      out->outputTensorAccessPattern[i].mapping[0].end_b = static_cast<float>(width - 1);
    else
      follows(out->outputTensorAccessPattern[i], 0, 0, kLanes);
    follows(out->outputTensorAccessPattern[i], 1, rows_only ? 0 : 1, static_cast<float>(rows_of_member));
  }
  for (uint32_t i = 0; i < kernel->inputs; i++) out->inputTensorAccessPattern[i].allRequired = true;
  // The rows add their parts of the weight's gradient, and so it begins at zero.
  if (strcmp(kernel->guid, "rmsnorm_bwd_f32") == 0) {
    out->outputTensorAccessPattern[1].memsetBeforeExecution = true;
    out->outputTensorAccessPattern[1].allRequired = true;
  }

  out->kernel.paramsNr = kernel->scalars;
  if (kernel->scalars > 0) {
    if (in->nodeParams.nodeParamsSize < 4 * kernel->scalars) return GLUE_MISSING_PRIVATE_STRUCTURE;
    memcpy(out->kernel.scalarParams, in->nodeParams.nodeParams, 4 * kernel->scalars);
  }
  const auto bytes = static_cast<uint32_t>(kernel->end - kernel->start);
  const uint32_t room = out->kernel.elfSize;
  out->kernel.elfSize = bytes;
  if (room < bytes) return GLUE_INSUFFICIENT_ELF_BUFFER;
  memcpy(out->kernel.kernelElf, kernel->start, bytes);
  return GLUE_SUCCESS;
}
