// The switches of intrinsics, with the values of the public header, since kernels also give them as numbers. A switch
// means something to its own intrinsics only, and so values repeat.
#pragma once

// Types of elements, as switches of addresses and of stores that read and write.
#define TPC_ELEMENT_TYPES(each)                                                                            \
  each(INT8, 0) each(INT16, 1) each(INT32, 2) each(UINT8, 3) each(UINT16, 4) each(UINT32, 5) each(BF16, 6) \
      each(FP32, 7) each(FP16, 8) each(FP8_152, 9) each(FP8_143, 10) each(INT64, 11)
#define TPC_ELEMENT_TYPE(name, value) SW_DT_##name = value, RMW_DT_##name = value,

enum : int {
  // Arithmetic.
  SW_SAT = 1 << 0,
  SW_NO_SAT = 1 << 0,  // of abs
  SW_NEG = 1 << 1,
  SW_NO_NEG = 0,
  SW_NEG_ZP = 1 << 6,
  SW_MASK_EQ_ZERO = 1 << 0,
  SW_SUP_NAN = 1 << 2,
  SW_ANDN = 1 << 1,
  SW_LOWER32 = 0,
  SW_UPPER32 = 1 << 2,
  SW_RHU = 1 << 1,
  SW_X2 = 1 << 4,
  // Rounding, of conversions and of nearbyint.
  SW_ROUND_MASK = 7 << 16,
  SW_RHNE = 0 << 16,
  SW_RZ = 1 << 16,
  SW_RU = 2 << 16,
  SW_RD = 3 << 16,
  SW_SR = 4 << 16,
  SW_CSR = 5 << 16,
  SW_RHAZ = 6 << 16,
  SW_SR_RNE = 7 << 16,
  SW_CLIP_FP = 1 << 20,
  SW_LINEAR = 1 << 24,
  SW_LANE_0 = 0,
  SW_LANE_1 = 1,
  SW_LANE_2 = 2,
  SW_LANE_3 = 3,
  // Bits.
  SW_COUNT_ZEROS = 0,
  SW_COUNT_ONES = 1 << 0,
  SW_FIND_ZERO = 0,
  SW_FIND_ONE = 1 << 0,
  SW_LSB = 0,
  SW_MSB = 1 << 1,
  SW_BIASED = 1 << 0,
  // Numbers that are put together.
  SW_ADD_BIAS = 1 << 8,
  SW_FORCE_SIGN0 = 1 << 9,
  SW_FORCE_SIGN1 = 1 << 10,
  SW_EXP_IS_NUM = 1 << 11,
  SW_SIGN_LSB = 1 << 12,
  // Loads and stores of tensors.
  SW_UNPACK = 1 << 4,
  SW_UNPCK_16_TO_32 = 0 << 1,
  SW_UNPCK_8_TO_16 = 1 << 1,
  SW_UNPCK_8_TO_32 = 2 << 1,
  SW_UNPCK_4_TO_8 = 3 << 1,
  SW_UNPACKING_MASK = 3 << 1,
  SW_PACK = 1 << 2,
  SW_PCK_32_TO_16 = 0 << 4,
  SW_PCK_16_TO_8 = 1 << 4,
  SW_PCK_32_TO_8 = 2 << 4,
  SW_PCK_8_TO_4 = 3 << 4,
  SW_PACKING_MASK = 3 << 4,
  // Stores that read and write.
  RMW_OP_ADD = 0 << 4,
  RMW_OP_SUB = 1 << 4,
  RMW_OP_MIN = 2 << 4,
  RMW_OP_MAX = 3 << 4,
  RMW_OP_MAX_0_ADD = 4 << 4,
  RMW_OP_MASK = 7 << 4,
  RMW_TNSR_DT = 1 << 7,
  RMW_SET = 1 << 8,
  TPC_ELEMENT_TYPES(TPC_ELEMENT_TYPE) SW_DT_OVERRIDE = 1 << 4,
  SW_PAD = 1 << 6,
  // By how many elements an address moves on.
  SW_INC_1 = 1,
  SW_INC_2 = 2,
  SW_INC_4 = 3,
  SW_INC_8 = 4,
  SW_INC_MASK = 7,
  // Local memory.
  SW_SLM = 0,
  SW_MMIO = 1 << 0,
  // Lanes that move: groups are 32 bytes of a register, dual groups 64.
  SW_WR_LOWER_GROUP = 1 << 12,
  SW_WR_UPPER_GROUP = 1 << 13,
  SW_WR_LOWER_GROUP0 = 1 << 16,
  SW_WR_UPPER_GROUP0 = 1 << 17,
  SW_WR_LOWER_GROUP1 = 1 << 18,
  SW_WR_UPPER_GROUP1 = 1 << 19,
  SW_WR_LOWER_GROUP2 = 1 << 20,
  SW_WR_UPPER_GROUP2 = 1 << 21,
  SW_WR_LOWER_GROUP3 = 1 << 22,
  SW_WR_UPPER_GROUP3 = 1 << 23,
  SW_GROUP0_EN = 1 << 0,
  SW_GROUP1_EN = 1 << 1,
  SW_DUAL_GROUP0_EN = 1 << 2,
  SW_DUAL_GROUP1_EN = 1 << 3,
  SW_DUAL_GROUP2_EN = 1 << 4,
  SW_DUAL_GROUP3_EN = 1 << 5,
  SW_GROUP_0 = 0,
  SW_GROUP_1 = 1 << 8,
  SW_STRIDE_2 = 0,
  SW_STRIDE_4 = 1 << 9,
  SW_GROUP_HALF_0 = 0,
  SW_GROUP_HALF_1 = 1 << 10,
  SW_UNPACK_LANE_0 = 0 << 11,
  SW_UNPACK_LANE_1 = 1 << 11,
  SW_UNPACK_LANE_2 = 2 << 11,
  SW_UNPACK_LANE_3 = 3 << 11,
  SW_PACK21 = 0,
  SW_PACK41 = 1 << 2,
  // Look-ups in the kernel's own table.
  SW_LUT_PTR = 1 << 3,
  SW_BV32 = 0,
  // What calc_fp_special computes.
  SW_RECIP = 0,
  SW_RSQRT = 1,
  SW_SQRT = 2,
  SW_LOG = 3,
  SW_EXP = 4,
  SW_TANH = 5,
  SW_DIV = 6,
  SW_POW = 7,
  SW_SPECIAL_FUNC_MASK = 7,
  // Divisions.
  SW_DIV_MODE_DIV = 0,
  SW_DIV_MODE_MOD = 1 << 0,
  SW_DIV_MODE_BOTH = 1 << 1,
  // Random numbers.
  SW_READ_ONLY = 1 << 0,
  // Caches and events: accepted, without effect.
  SW_L0CS = 1 << 5,
  SW_L0CD = 1 << 5,
  SW_PD = 1 << 15,
  SW_EV_HINT = 1 << 6,
  SW_L2 = 1 << 3,
  SW_SB = 1 << 0,
  SW_D = 1 << 1,
  SW_LU = 1 << 2,
  SW_RST_LU = 1 << 3,
  SW_RST_D_PREF = 1 << 4,
  SW_INV_LOG = 1 << 6,
  SW_NO_INV = 1 << 0,
  SW_INC = 0,
  SW_DEC = 1 << 8,
  SW_SPU = 0,
  SW_VPU = 2 << 8,
};

// The groups of four dual groups that mov_dual_group_all writes: for each 0 to 3, bit 0 for the lower group.
#define MkWrA(g0, g1, g2, g3) (((g0) | ((g1) << 2) | ((g2) << 4) | ((g3) << 6)) * SW_WR_LOWER_GROUP0)
#define MkWr(lower, upper) (((lower) ? SW_WR_LOWER_GROUP : 0) | ((upper) ? SW_WR_UPPER_GROUP : 0))
// A store that reads and writes, from the number of a type, the number of an operation, and two bits.
#define MkRMW(type, operation, set, of_tensor) ((type) | ((operation) << 4) | ((set) << 8) | ((of_tensor) << 7))
