// What both interfaces between a kernel library's glue code and the graph compiler have: return codes, types, devices,
// limits.
//
// Names and meanings are those of Gaudi's public documents; the layout is OpenHPU's own, as glue is compiled from
// source.
#pragma once

#include <cstddef>
#include <cstdint>

#ifndef _IN_
#define _IN_
#define _OUT_
#define _INOUT_
#endif

namespace openhpu_glue {

constexpr unsigned MAX_NODE_NAME = 128;
constexpr unsigned MAX_TENSOR_NR = 32;
constexpr unsigned MAX_INDEX_SPACE_DIM_SIZE = 5;
constexpr unsigned MAX_SCALAR_PARAMS = 64;

enum GlueCodeReturn {
  GLUE_SUCCESS = 0,
  GLUE_NODE_NOT_FOUND = 1,
  GLUE_INSUFICIENT_ISA_BUFFER = 2,
  GLUE_INSUFFICIENT_ISA_BUFFER = 2,
  GLUE_INSUFICIENT_ELF_BUFFER = 2,
  GLUE_INSUFFICIENT_ELF_BUFFER = 2,
  GLUE_INCOMPATIBLE_INPUT_COUNT = 3,
  GLUE_INCOMPATIBLE_INPUT_SIZE = 4,
  GLUE_INCOMPATIBLE_OUTPUT_COUNT = 5,
  GLUE_INCOMPATIBLE_OUTPUT_SIZE = 6,
  GLUE_INCOMPATIBLE_DATA_TYPE = 7,
  GLUE_UNSUPPORTED_LAYER_CONFIGURATION = 8,
  GLUE_INSUFICIENT_AUX_BUFFER_SIZE = 9,
  GLUE_INSUFFICIENT_AUX_BUFFER_SIZE = 9,
  GLUE_UNSUPPORTED_QUANT_PARAMS = 10,
  GLUE_UNSUPPORTED_BROADCAST_MODE = 11,
  GLUE_KERNEL_INVALID_SCALAR_ARGUMENT = 12,
  GLUE_MISSING_PRIVATE_STRUCTURE = 13,
  GLUE_UNSUPPORTED_5D_TENSORS = 14,
  GLUE_UNSUPPORTED_DYNAMIC_SHAPE = 15,
  GLUE_UNABLE_TO_GET_SHAPE_INFERENCE = 16,
  GLUE_NO_PERFORMANCE_LIBRARY = 17,
  GLUE_UNSUPPORTED_API_VERSION = 18,
  GLUE_FAILED = 500,
};

enum TensorDataType {
  DATA_I4 = 1 << 0,
  DATA_U4 = 1 << 1,
  DATA_I8 = 1 << 2,
  DATA_U8 = 1 << 3,
  DATA_F8_152 = 1 << 4,
  DATA_F8_143 = 1 << 5,
  DATA_I16 = 1 << 6,
  DATA_U16 = 1 << 7,
  DATA_BF16 = 1 << 8,
  DATA_F16 = 1 << 9,
  DATA_I32 = 1 << 10,
  DATA_U32 = 1 << 11,
  DATA_F32 = 1 << 12,
  DATA_I64 = 1 << 13,
  DATA_U64 = 1 << 14,
  MAX_DATATYPE_VALUE = DATA_U64,
};

enum DeviceId {
  DEVICE_ID_GOYA = 0,
  DEVICE_ID_GRECO = 1,
  DEVICE_ID_GAUDI = 2,
  DEVICE_ID_GAUDI2 = 3,
  DEVICE_ID_GAUDI3 = 4,
  DEVICE_ID_MAX = 5,
};

// How numbers of 8 bits stand for others.
struct QuantizationParam {
  union {
    int8_t zeroPoint;
    int8_t fp8bias;
  };
  double scale;
};

}  // namespace openhpu_glue
