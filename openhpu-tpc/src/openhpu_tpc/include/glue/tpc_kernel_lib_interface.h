// The newer interface between a kernel library's glue code and the graph compiler.
//
// Names and meanings are those of Gaudi's public documents; the layout is OpenHPU's own, as glue is compiled from
// source.
#pragma once

#include "glue_common.h"

namespace tpc_lib_api {

using namespace openhpu_glue;  // names of this interface, too

constexpr unsigned MAX_TENSOR_DIM = 25;
constexpr unsigned MAX_LAYOUT_DIM = 25;
constexpr int NUM_DATATYPES = 15;

using TensorQuantizationParam = QuantizationParam;

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
