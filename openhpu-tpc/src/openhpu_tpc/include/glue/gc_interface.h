// The older interface between a kernel library's glue code and the graph compiler.
//
// Names and meanings are those of Gaudi's public documents; the layout is OpenHPU's own, as glue is compiled from
// source.
#pragma once

#include "glue_common.h"

namespace gcapi {

using namespace openhpu_glue;  // names of this interface, too

constexpr unsigned MAX_TENSOR_DIM = 5;
constexpr int NUM_DATATYPES = 13;

typedef GlueCodeReturn GlueCodeReturn_t;
typedef TensorDataType TensorDataType_t;
typedef DeviceId DeviceId_t;
typedef QuantizationParam QuantizationParam_t;

typedef struct _TensorGeometry_t {
  unsigned dims;
  unsigned sizes[MAX_TENSOR_DIM];
} TensorGeometry_t;

typedef struct _Tensor_t {
  TensorGeometry_t geometry;
  TensorDataType_t dataType;
  QuantizationParam_t quantizationParam;
  const void* pData;
} Tensor_t;

typedef struct _HabanaKernelParams_t {
  int apiVersion;
  char nodeName[MAX_NODE_NAME];
  void* NodeParams;
  unsigned NodeParamsSize;
  Tensor_t inputTensors[MAX_TENSOR_NR];
  unsigned inputTensorNr;
  Tensor_t outputTensors[MAX_TENSOR_NR];
  unsigned outputTensorNr;
  DeviceId_t deviceId;
  unsigned debugFlags;
  unsigned maxAvailableTpc;
  unsigned useDeterministic;
  uint64_t uniqueNodeId;
} HabanaKernelParams_t;

typedef struct _DimTransform_t {
  unsigned dim;
  float start_a;
  float start_b;
  float end_a;
  float end_b;
} DimTransform_t;

typedef struct _TensorAccessPattern_t {
  bool allRequired;
  bool sparseAccess;
  DimTransform_t dim[MAX_TENSOR_DIM];
} TensorAccessPattern_t;

typedef struct _IndexSpaceGeometry_t {
  unsigned dims;
  unsigned sizes[MAX_INDEX_SPACE_DIM_SIZE];
} IndexSpaceGeometry_t;

typedef union _PadValue_t {
  int32_t i32;
  uint32_t u32;
  float f32;
} PadValue_t;

typedef struct _AuxTensor_t {
  TensorGeometry_t geometry;
  TensorDataType_t dataType;
  unsigned bufferSize;
  void* pData;
} AuxTensor_t;

typedef struct _DeviceKernel_t {
  unsigned paramsNr;
  unsigned scalarParams[MAX_SCALAR_PARAMS];
} DeviceKernel_t;

typedef struct _HabanaKernelInstantiation_t {
  IndexSpaceGeometry_t indexSpaceGeometry;
  TensorAccessPattern_t inputTensorAccessPattern[MAX_TENSOR_NR];
  TensorAccessPattern_t outputTensorAccessPattern[MAX_TENSOR_NR];
  PadValue_t inputPadValues[MAX_TENSOR_NR];
  AuxTensor_t auxiliaryTensors[MAX_TENSOR_NR];
  unsigned auxiliaryTensorCount;
  DeviceKernel_t kernel;
  void* kernelElf;
  unsigned elfSize;
  void* kernelBinary;
  unsigned binarySize;
  unsigned preferredSplitDim;
  struct {
    unsigned specialFunctionsUsed;
  } flags;
  unsigned specialFunctionsUsed;
} HabanaKernelInstantiation_t;

typedef struct _ShapeInferenceParams_t {
  int apiVersion;
  char nodeName[MAX_NODE_NAME];
  void* NodeParams;
  Tensor_t* inputTensors;
  unsigned inputTensorNr;
  unsigned outputTensorNr;
} ShapeInferenceParams_t;

typedef struct _ShapeInferenceOutput_t {
  Tensor_t* outputTensors;
  unsigned* invalidMask;
} ShapeInferenceOutput_t;

extern "C" {
GlueCodeReturn_t GetKernelNames(char** names, unsigned* kernelCount, DeviceId_t deviceId);
GlueCodeReturn_t HabanaKernel(HabanaKernelParams_t* params, HabanaKernelInstantiation_t* instance);
}

}  // namespace gcapi
