// The older interface between a kernel library's glue code and the graph compiler.
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

namespace gcapi {

constexpr unsigned MAX_NODE_NAME = 128;
constexpr unsigned MAX_TENSOR_DIM = 5;
constexpr unsigned MAX_TENSOR_NR = 32;
constexpr unsigned MAX_INDEX_SPACE_DIM_SIZE = 5;
constexpr unsigned MAX_SCALAR_PARAMS = 64;

typedef enum _GlueCodeReturn_t {
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
  GLUE_FAILED = 500,
} GlueCodeReturn_t;

typedef enum _TensorDataType_t {
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
  NUM_DATATYPES = 13,
} TensorDataType_t;
typedef TensorDataType_t TensorDataType;

typedef enum _DeviceId_t {
  DEVICE_ID_GOYA = 0,
  DEVICE_ID_GRECO = 1,
  DEVICE_ID_GAUDI = 2,
  DEVICE_ID_GAUDI2 = 3,
  DEVICE_ID_GAUDI3 = 4,
  DEVICE_ID_MAX = 5,
} DeviceId_t;

typedef struct _QuantizationParam_t {
  union {
    int8_t zeroPoint;
    int8_t fp8bias;
  };
  double scale;
} QuantizationParam_t;

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
