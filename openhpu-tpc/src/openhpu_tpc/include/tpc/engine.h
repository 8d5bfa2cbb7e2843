// What a kernel sees of the machine: its tensors and its part of the index space. The runner fills it for each thread.
#pragma once

#include <setjmp.h>
#include <stdint.h>

namespace tpc {

constexpr int kMaxTensors = 16;
constexpr int kMaxDimensions = 5;

struct Tensor {
  char* data;
  int64_t stride_bytes[kMaxDimensions];
  uint32_t size[kMaxDimensions];    // 1 beyond the rank
  uint32_t stride[kMaxDimensions];  // in elements
  int rank;
  int element_bytes;
  uint32_t padding;  // the bits of one element, repeated to 32 bits
};

struct Engine {
  Tensor tensor[kMaxTensors];
  int tensors;
  int offset[kMaxDimensions];
  int size[kMaxDimensions];
  alignas(64) unsigned char outside[256];  // where gen_addr points for an element outside a tensor
  sigjmp_buf leave;
  volatile int running;
  char message[256];
  void* address;        // where it was interrupted
  int* lines;           // that members of this node have printed
  uint32_t random[64];  // the states of the random numbers of vectors
  uint32_t scalar_random;
  const char* table;  // of look-ups; null if the kernel has set none
  uint32_t table_bytes;
  void* checks;  // of the runner; null in the variant without checks
};

// Of this thread while a kernel runs on it.
extern thread_local Engine* engine __attribute__((visibility("hidden")));

// Memory of the thread that kernels use by numbers.
constexpr uint32_t kScalarLocalBytes = 1024;
constexpr uint32_t kVectorLocalBytes = 80 * 1024;
extern thread_local unsigned char scalar_local[kScalarLocalBytes] __attribute__((visibility("hidden")));
extern thread_local unsigned char vector_local[kVectorLocalBytes] __attribute__((visibility("hidden")));

constexpr int kMostLines = 10000;
// Prints a line of a kernel, as long as its node has not printed too many.
__attribute__((visibility("hidden"))) void print_line(const char* text);

// Ends the kernel with an error.
[[noreturn]] __attribute__((visibility("hidden"))) void fail(const char* format, int number);

}  // namespace tpc
