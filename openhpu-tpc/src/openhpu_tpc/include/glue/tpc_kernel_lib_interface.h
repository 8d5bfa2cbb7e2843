// The newer interface between a kernel library's glue code and the graph compiler.
//
// Names and meanings are those of Gaudi's public documents; the layout is OpenHPU's own, as glue is compiled from
// source.
#pragma once

#include <cstdint>

namespace tpc_lib_api {

constexpr unsigned MAX_NODE_NAME = 128;
constexpr unsigned MAX_TENSOR_DIM = 25;
constexpr unsigned MAX_TENSOR_NR = 32;
constexpr unsigned MAX_INDEX_SPACE_DIM_SIZE = 5;
constexpr unsigned MAX_SCALAR_PARAMS = 64;
constexpr unsigned MAX_LAYOUT_DIM = 25;

#ifndef _IN_
#define _IN_
#define _OUT_
#define _INOUT_
#endif

enum GlueCodeReturn {
  GLUE_SUCCESS = 0,
  GLUE_NODE_NOT_FOUND = 1,
  GLUE_INSUFFICIENT_ISA_BUFFER = 2,
  GLUE_INSUFFICIENT_ELF_BUFFER = 2,
  GLUE_INCOMPATIBLE_INPUT_COUNT = 3,
  GLUE_INCOMPATIBLE_INPUT_SIZE = 4,
  GLUE_INCOMPATIBLE_OUTPUT_COUNT = 5,
  GLUE_INCOMPATIBLE_OUTPUT_SIZE = 6,
  GLUE_INCOMPATIBLE_DATA_TYPE = 7,
  GLUE_UNSUPPORTED_LAYER_CONFIGURATION = 8,
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
  NUM_DATATYPES = 15,
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

struct UniqueHash {
  uint64_t Value;
  uint32_t sharedLayerId;
  uint32_t kernelIndex;
};

struct GuidInfo {
  char name[MAX_NODE_NAME];
  UniqueHash nameHash;
  uint32_t supportsDynamicShapes;
  uint32_t kernelProperties;
};

struct TensorQuantizationParam {
  union {
    int8_t zeroPoint;
    int8_t fp8bias;
  };
  double scale;
};

struct TensorGeometry {
  uint32_t dims;
  uint64_t maxSizes[MAX_TENSOR_DIM];
  uint64_t minSizes[MAX_TENSOR_DIM];
  TensorDataType dataType;
};

struct Tensor {
  TensorGeometry geometry;
  TensorQuantizationParam quantizationParam;
  const void* pData;
  uint64_t abstractTensorId;
};

struct UserParams {
  void* nodeParams;
  uint32_t nodeParamsSize;
};

struct HabanaKernelParams {
  uint32_t apiVersion;
  GuidInfo guid;
  UserParams nodeParams;
  Tensor inputTensors[MAX_TENSOR_NR];
  uint32_t inputTensorNr;
  Tensor outputTensors[MAX_TENSOR_NR];
  uint32_t outputTensorNr;
  DeviceId deviceId;
  uint32_t maxAvailableTpc;
  uint32_t useDeterministic;
  uint64_t uniqueNodeId;
  uint32_t debugFlags;
  uint16_t validateTensorsInHw;
};

struct DimIndexSpaceMapping {
  uint32_t indexSpaceDim;
  float a;
  float start_b;
  float end_b;
  bool allRequired;
};

struct TensorAccessPattern {
  bool allRequired;
  bool memsetBeforeExecution;
  bool inputReusable;
  bool noTpcAccess;
  bool fullyAccessedOnce;
  DimIndexSpaceMapping mapping[MAX_TENSOR_DIM];
};

union PadValue {
  int32_t i32;
  uint32_t u32;
  float f32;
  uint64_t u64;
};

struct AuxTensor {
  TensorGeometry geometry;
  uint64_t bufferSize;
  void* pData;
  uint32_t isDynamic;
  bool noInit;
};

struct DeviceKernel {
  void* kernelElf;
  uint32_t elfSize;
  uint32_t paramsNr;
  uint32_t scalarParams[MAX_SCALAR_PARAMS];
};

struct KernelInstantiationInfo {
  uint32_t specialFunctionsUsed;
};

struct HabanaKernelInstantiation {
  uint32_t indexSpaceRank;
  uint64_t indexSpaceGeometry[MAX_INDEX_SPACE_DIM_SIZE];
  TensorAccessPattern inputTensorAccessPattern[MAX_TENSOR_NR];
  TensorAccessPattern outputTensorAccessPattern[MAX_TENSOR_NR];
  PadValue inputPadValues[MAX_TENSOR_NR];
  AuxTensor auxiliaryTensors[MAX_TENSOR_NR];
  uint32_t auxiliaryTensorNr;
  uint32_t auxiliaryTensorCount;
  DeviceKernel kernel;
  uint32_t preferredSplitDim;
  uint32_t specialFunctionsUsed;
  KernelInstantiationInfo kernelInfo;
};

struct TensorShapeInfo {
  TensorGeometry geometry;
  uint32_t* hostAddress;
};

struct ShapeInferenceParams {
  uint32_t apiVersion;
  GuidInfo guid;
  GuidInfo* pGuid;
  UserParams nodeParams;
  TensorShapeInfo** inputTensors;
  uint32_t inputTensorsNr;
  uint32_t outputTensorsNr;
  uint32_t maxAvailableTpc;
  uint64_t uniqueNodeId;
};
using TensorShapeInferenceParams = ShapeInferenceParams;

struct ShapeInferenceOutput {
  TensorShapeInfo** outputTensors;
  uint32_t* invalidMask;
  uint32_t invalidMaskSize;
};

struct TensorDataLayout {
  char layout[MAX_LAYOUT_DIM];
};

struct NodeDataLayouts {
  TensorDataLayout inputs[MAX_TENSOR_NR];
  TensorDataLayout outputs[MAX_TENSOR_NR];
  TensorDataLayout shapeTensors[MAX_TENSOR_NR];
};

struct TensorOperation {
  uint32_t opType;
  uint64_t maxNewShape[MAX_TENSOR_DIM];
  uint64_t minNewShape[MAX_TENSOR_DIM];
  uint32_t permutation[MAX_TENSOR_DIM];
  uint32_t dims;
};

struct TensorManipulationSuggestion {
  TensorOperation* inputTensors;
  TensorOperation* outputTensors;
};

extern "C" {
GlueCodeReturn GetKernelGuids(DeviceId deviceId, uint32_t* kernelCount, GuidInfo* guids);
GlueCodeReturn InstantiateTpcKernel(HabanaKernelParams* params, HabanaKernelInstantiation* instance);
GlueCodeReturn GetShapeInference(DeviceId deviceId, const ShapeInferenceParams* params, ShapeInferenceOutput* output);
GlueCodeReturn GetSupportedDataLayout(const HabanaKernelParams* params, NodeDataLayouts* layouts, uint32_t* count);
GlueCodeReturn GetSuggestedManipulation(const HabanaKernelParams* params, TensorManipulationSuggestion* suggestion);
uint64_t GetLibVersion();
}

}  // namespace tpc_lib_api
