// Params of the kernels of the vendor's library, as users' operators fill them. Names, members and their order are
// those of the header of the same name in SynapseAI Core, a public repository. docs/vendor-kernels.md lists the guids
// that have a kernel here. The last part has params of other guids, for operators that bring their kernel.
//
// The vendor counts dimensions from the fastest one on: `dim`, `axis` and `reductionDimension` 0 are PyTorch's last
// dimension.
#pragma once

#include <cstdint>

// A number that the kernel reads as its own dtype.
typedef union {
  float f;
  int i;
} fint_t;

typedef enum _CastF32RoundMode_t {
  CAST_ROUND_HALF_NE = 0,  // to the nearest, ties to even
  CAST_ROUND_DOWN = 1,
  CAST_ROUND_UP = 2,
  CAST_ROUND_SR = 3,  // stochastic
  CAST_ROUND_ZERO = 4,
  CAST_ROUND_DEFAULT = 5,
  CAST_ROUND_HALF_AZ = 6  // to the nearest, ties away from zero
} CastF32RoundMode_t;

typedef enum _RoundMode_t { ROUND_HALF_AWAY_FROM_ZERO = 0, ROUND_HALF_NEAREST_EVEN = 1 } RoundMode_t;

typedef enum { NLL_LOSS_MODE_MEAN = 0, NLL_LOSS_MODE_SUM, NLL_LOSS_MODE_NONE } NLLLossMode_t;

typedef enum {
  MSE_LOSS_REDUCTION_MODE_MEAN = 0,
  MSE_LOSS_REDUCTION_MODE_SUM,
  MSE_LOSS_REDUCTION_MODE_NONE
} MSELossMode_t;

// --- element by element ---
namespace ns_ReluKernel {
struct Params {
  fint_t threshold;
};
}  // namespace ns_ReluKernel

namespace ns_ClampKernel {
struct Params {
  fint_t upperBound;
  fint_t lowerBound;
};
}  // namespace ns_ClampKernel

namespace ns_HardSigmoidKernel {
struct Params {
  float alpha;
  float beta;
};
}  // namespace ns_HardSigmoidKernel

namespace ns_SeluKernel {
struct Params {
  float gamma;
  float alpha;
};
struct ParamsV2 : public Params {
  bool isInputFeaturemap;
};
}  // namespace ns_SeluKernel

namespace ns_EluKernel {
struct Params {
  float alpha;
};
struct ParamsV2 : public Params {
  bool isInputFeaturemap;
};
}  // namespace ns_EluKernel

namespace ns_LeakyReluKernel {
struct Params {
  double alpha;
};
}  // namespace ns_LeakyReluKernel

namespace ns_RsqrtKernel {
struct Params {
  bool useNonLut;
};
}  // namespace ns_RsqrtKernel

namespace ns_DivModKernel {
struct Params {
  bool isPyCompatible;
};
}  // namespace ns_DivModKernel

namespace ns_RoundKernel {
struct Params {
  RoundMode_t roundMode;
};
}  // namespace ns_RoundKernel

namespace ns_ShrinkKernel {
struct Params {
  float lambda;
  float bias;
};
}  // namespace ns_ShrinkKernel

namespace ns_LogitKernel {
struct Params {
  float epsilon;
};
}  // namespace ns_LogitKernel

namespace ns_IsInfKernel {
struct Params {
  int detect_negative;
  int detect_positive;
};
}  // namespace ns_IsInfKernel

namespace ns_CastKernel {
struct Params {
  CastF32RoundMode_t round_mode;
};
}  // namespace ns_CastKernel

// --- norms, and along a dimension ---
namespace ns_Softmax {
struct Params {
  int dim;
};
}  // namespace ns_Softmax

namespace ns_LayerNormKernel {
struct Params {
  bool epsValid;
  float eps;
};
// Bit 0 of `NormAxisBmp` is the fastest dimension.
struct ParamsNorm : Params {
  int NormAxisBmp;
  int ParamAxisBmp;
};
}  // namespace ns_LayerNormKernel

namespace ns_LpNormKernel {
struct Params {
  float p;
  float eps;
  int dim;
};
struct ParamsNorm : Params {
  bool epsMax;
};
}  // namespace ns_LpNormKernel

namespace ns_Reduction {
struct Params {
  unsigned int reductionDimension;
};
}  // namespace ns_Reduction

namespace ns_ReduceLp {
struct Params : public ns_Reduction::Params {
  unsigned int p;
};
}  // namespace ns_ReduceLp

namespace ns_CumSumKernel {
struct Params {
  int axis;
  int exclusive;
  int reverse;
};
}  // namespace ns_CumSumKernel

namespace ns_CumProdKernel {
struct Params {
  int axis;
  int exclusive;
  int reverse;
};
}  // namespace ns_CumProdKernel

// --- places of elements ---
namespace ns_TileKernel {
struct Params {
  int repeat[4];
};
struct ParamsV2 {
  int repeat[5];
};
}  // namespace ns_TileKernel

namespace ns_RepeatKernel {
struct Params {
  int repeats;
  int axis;
};
}  // namespace ns_RepeatKernel

namespace ns_GatherKernel {
struct Params {
  int axis;
};
}  // namespace ns_GatherKernel

namespace ns_GatherElementsKernel {
struct Params {
  int axis;
};
}  // namespace ns_GatherElementsKernel

namespace ns_FlipKernel {
struct Params {
  int axis;
};
}  // namespace ns_FlipKernel

namespace ns_ReverseKernel {
struct Params {
  int axis;
};
}  // namespace ns_ReverseKernel

namespace ns_OneHotKernel {
struct Params {
  int axis;
  int depth;
  float on_value;
  float off_value;
};
}  // namespace ns_OneHotKernel

namespace ns_MatrixBandPartKernel {
struct Params {
  int numLower;
  int numUpper;
};
}  // namespace ns_MatrixBandPartKernel

namespace ns_EyeLikeKernel {
struct Params {
  int k;
};
}  // namespace ns_EyeLikeKernel

// --- without operands ---
namespace ns_ConstantKernel {
struct Params {
  fint_t constant;
};
}  // namespace ns_ConstantKernel

namespace ns_RangeKernel {
struct Params {
  fint_t start;
  fint_t limit;
  fint_t delta;
};
}  // namespace ns_RangeKernel

namespace ns_RandomUniform {
struct Params {
  float low;
  float high;
  unsigned int seed;
};
}  // namespace ns_RandomUniform

namespace ns_RandomNormal {
struct Params {
  float mean;
  float stddev;
  unsigned int seed;
};
}  // namespace ns_RandomNormal

namespace ns_RandomBernoulli {
struct Params {
  unsigned int seed;
};
}  // namespace ns_RandomBernoulli

// --- losses and pooling ---
namespace ns_NLLLossKernel {
struct Params {
  NLLLossMode_t mode;
};
struct ParamsOptionalIgnoreIndex : public Params {
  int ignoreIndexValue;
};
}  // namespace ns_NLLLossKernel

namespace ns_MSELossKernel {
struct Params {
  MSELossMode_t mode;
};
}  // namespace ns_MSELossKernel

namespace ns_AdaptiveAvgPool {
struct Params {
  int outputWidth;
  int outputHeight;
};
}  // namespace ns_AdaptiveAvgPool

// --- of guids without a kernel here ---
enum EPoolingConvention { POOLING_CONVENTION_VALID = 0, POOLING_CONVENTION_FULL };

typedef enum _UpsampleType_t { UPSAMPLE_TYPE_BILINEAR = 0, UPSAMPLE_TYPE_NEAREST_NEIGHBOR } EUpsampleType_t;

typedef enum _CrossEntropyMode_t {
  CROSS_ENTROPY_MODE_SUM = 0,
  CROSS_ENTROPY_MODE_MEAN = 1,
  CROSS_ENTROPY_MODE_NO_REDUCTION = 2
} ECrossEntropyMode_t;

typedef enum _SortDirection_t { SORT_ASCENDING = 0, SORT_DESCENDING = 1 } SortDirection_t;

typedef enum _PadMode_t { PAD_MODE_CONSTANT = 0, PAD_MODE_REFLECT, PAD_MODE_EDGE, PAD_MODE_SYMMETRIC } PadMode_t;

namespace ns_BatchNormKernel {
struct Params {
  fint_t threshold;
  float momentum;
  float epsilon;
};
struct ParamsV2 : public Params {
  bool isTraining;
};
}  // namespace ns_BatchNormKernel

namespace ns_InstanceNormTrainingKernel {
struct Params {
  float momentum;
  float eps;
};
}  // namespace ns_InstanceNormTrainingKernel

namespace ns_LrnKernel {
struct Params {
  float alpha;
  float beta;
  float knorm;
  int nsize;
};
}  // namespace ns_LrnKernel

namespace ns_DropoutKernel {
struct Params {
  float ratio;
  unsigned int seed;
};
struct ParamsOptionalMaskOut : public Params {
  bool disableMaskOut;
};
}  // namespace ns_DropoutKernel

namespace ns_SpatialReduction {
struct Params {
  int pad_w_begin;
  int pad_w_end;
  int pad_h_begin;
  int pad_h_end;
  int kernel_w;
  int kernel_h;
  int stride_w;
  int stride_h;
  int dilation_w;
  int dilation_h;
  EPoolingConvention pooling_convention;
};
}  // namespace ns_SpatialReduction

namespace ns_AveragePooling {
struct Params : public ns_SpatialReduction::Params {
  int includePadding;
};
}  // namespace ns_AveragePooling

namespace ns_PadKernel {
struct Params {
  fint_t value;
  unsigned int pads[10];
};
}  // namespace ns_PadKernel

namespace ns_PadKernelEx {
struct Params : public ns_PadKernel::Params {
  PadMode_t mode;
};
}  // namespace ns_PadKernelEx

namespace ns_ScatterKernel {
struct Params {
  int axis;
};
}  // namespace ns_ScatterKernel

namespace ns_UpsampleKernel {
struct Params {
  EUpsampleType_t mode;
  int scale;
};
}  // namespace ns_UpsampleKernel

namespace ns_SmoothL1Kernel {
struct Params {
  float sigma;
};
}  // namespace ns_SmoothL1Kernel

namespace ns_SoftmaxCrossEntropy {
struct Params {
  ECrossEntropyMode_t mode;
  int batchSize;
};
}  // namespace ns_SoftmaxCrossEntropy

namespace ns_BinaryCrossEntropy {
struct Params {
  bool isWeightsUsed;
  ECrossEntropyMode_t mode;
};
}  // namespace ns_BinaryCrossEntropy

namespace ns_TopK {
struct Params {
  unsigned int kSize;
  unsigned int axis;
  unsigned int chunkSize;
};
}  // namespace ns_TopK

namespace ns_BitonicSort {
struct Params {
  int chunkSize;
  int axis;
  SortDirection_t dir;
  bool isInputSqueezed;
};
}  // namespace ns_BitonicSort

namespace ns_OptimizerSGD {
struct Params {
  float wd;
  float mom;
  float damp;
  bool nesterov;
};
}  // namespace ns_OptimizerSGD

namespace ns_OptimizerAdagrad {
struct Params {
  float wd;
  float lrd;
  float eps;
};
}  // namespace ns_OptimizerAdagrad
