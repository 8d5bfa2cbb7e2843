// The C interface of a kernel library, for what loads it by GC_KERNEL_PATH.
//
// openhpu_tpc_abi() is checked first. Every message is text of the caller's buffer; a function that fails has written
// one.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OPENHPU_TPC_ABI 3
#define OPENHPU_TPC_DIMENSIONS 5
#define OPENHPU_TPC_TENSORS 16

enum OpenhpuTpcType {
  OPENHPU_TPC_F32 = 0,
  OPENHPU_TPC_BF16 = 1,
  OPENHPU_TPC_F16 = 2,
  OPENHPU_TPC_F8_143 = 3,
  OPENHPU_TPC_F8_152 = 4,
  OPENHPU_TPC_I32 = 5,
  OPENHPU_TPC_U32 = 6,
  OPENHPU_TPC_I16 = 7,
  OPENHPU_TPC_U16 = 8,
  OPENHPU_TPC_I8 = 9,
  OPENHPU_TPC_U8 = 10,
};

// A tensor, its fastest dimension first. strides are in elements; that of dimension 0 is 1.
struct OpenhpuTpcTensor {
  int32_t type;
  int32_t rank;
  int64_t sizes[OPENHPU_TPC_DIMENSIONS];
  int64_t strides[OPENHPU_TPC_DIMENSIONS];
};

// Calls body(argument, begin, end) for parts of 0 to count, on as many threads as it likes.
typedef void (*OpenhpuTpcBody)(void* argument, int64_t begin, int64_t end);
typedef void (*OpenhpuTpcParallel)(int64_t count, OpenhpuTpcBody body, void* argument);

// OPENHPU_TPC_ABI of the library.
int openhpu_tpc_abi(void);
// Why this machine can't run the library: null if it can.
const char* openhpu_tpc_refused(void);
// The guids, null at the end. `generation` is 1, 2 or 3. Null and a message if the glue fails.
const char* const* openhpu_tpc_guids(int generation, char* message, size_t size);
// A node with its kernel and geometry. Null and a message if the glue refuses it.
void* openhpu_tpc_resolve(
    const char* guid, int generation, const struct OpenhpuTpcTensor* inputs, int input_count,
    const struct OpenhpuTpcTensor* outputs, int output_count, const void* parameters, size_t parameter_bytes,
    char* message, size_t size);
// Runs a node on data of the tensors that it was resolved for. 0, or 1 and a message. `parallel` may be null. A member
// that takes longer than `seconds` is interrupted; 0 means no limit. `pieces`: into how many parts the index space is
// cut.
int openhpu_tpc_run(
    void* node, void* const* inputs, void* const* outputs, OpenhpuTpcParallel parallel, int pieces, double seconds,
    char* message, size_t size);
// What a kernel has done in all of its members.
struct OpenhpuTpcAccount {
  int64_t members;
  int64_t vector;         // operations of vectors
  int64_t special;        // special functions of vectors
  int64_t loads, stores;  // of tensors, by register
  int64_t load_bytes, store_bytes;
  int64_t scalars;      // accesses by addresses
  int64_t local;        // accesses of local memory
  int64_t local_bytes;  // of variables in local memory
};
// Runs a node member by member, with checks. 0, or 1 and a message if the kernel was ended or the library has no
// checks. `errors` and `notes` are text, a finding a line, which is valid until this thread checks again. `in_place` is
// 1 for each output with contents that the kernel may read; null: none has. Operands may share memory.
int openhpu_tpc_check(
    void* node, void* const* inputs, void* const* outputs, const uint8_t* in_place, double seconds, const char** errors,
    const char** notes, struct OpenhpuTpcAccount* account, char* message, size_t size);
void openhpu_tpc_release(void* node);
// For reports: the name of the kernel's source, and the number of members of the node's index space.
const char* openhpu_tpc_kernel(void* node);
int64_t openhpu_tpc_members(void* node);

#ifdef __cplusplus
}
#endif
