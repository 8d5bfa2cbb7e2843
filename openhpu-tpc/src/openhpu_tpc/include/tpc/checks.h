// What the checked variant of a kernel tells the runner: accesses, their lines, and how much it computes. The other
// variant has none of it.
#pragma once

#include <stdint.h>

namespace tpc {

// What a kernel has done.
struct Counts {
  uint64_t vector;         // operations of vectors: intrinsics of registers and operators
  uint64_t special;        // special functions of vectors
  uint64_t loads, stores;  // of tensors, by register
  uint64_t load_bytes, store_bytes;
  uint64_t scalars;  // accesses by addresses
  uint64_t local;    // accesses of local memory
};

}  // namespace tpc

#ifdef TPC_CHECKED

#define TPC_HOOK __attribute__((visibility("hidden")))

namespace tpc {

extern thread_local Counts counts TPC_HOOK;
TPC_HOOK void at_line(const char* file, int line);
TPC_HOOK void loads(int tensor, const int* coordinates, int bytes);
// `modifies`: the store reads and writes in one.
TPC_HOOK void stores(int tensor, const int* coordinates, int bytes, bool modifies);
TPC_HOOK void loads_address(const void* address, int bytes);
TPC_HOOK void stores_address(const void* address, int bytes);
// Parts of a variable in local memory, which begins at `variable`.
TPC_HOOK void reads_local(const void* part, uint32_t bytes, const void* variable, uint32_t size, const char* name);
TPC_HOOK void writes_local(const void* part, uint32_t bytes, const void* variable, uint32_t size, const char* name);
TPC_HOOK void wrong_index(int64_t index, int64_t count, const char* name);

// Accesses of variables with __local__. The rewriter puts them around each of its uses.
template <class T, class V>
inline T& local_read(
    T& part, V& variable, const char* name, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  at_line(file, line);
  reads_local(&part, sizeof(T), &variable, sizeof(V), name);
  return part;
}
template <class T, class V>
inline T& local_write(
    T& part, V& variable, const char* name, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  at_line(file, line);
  writes_local(&part, sizeof(T), &variable, sizeof(V), name);
  return part;
}
template <class T, class V>
inline T& local_update(
    T& part, V& variable, const char* name, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  at_line(file, line);
  reads_local(&part, sizeof(T), &variable, sizeof(V), name);
  writes_local(&part, sizeof(T), &variable, sizeof(V), name);
  return part;
}
// The variable is used by its address from here on.
template <class V>
inline V& local_escape(
    V& variable, const char* name, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  at_line(file, line);
  writes_local(&variable, sizeof(V), &variable, sizeof(V), name);
  return variable;
}
// An index of an array; one outside is reported, and the first element stands for it.
template <class I>
inline I local_index(
    I index, int64_t count, const char* name, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (static_cast<int64_t>(index) >= 0 && static_cast<int64_t>(index) < count) return index;
  at_line(file, line);
  wrong_index(static_cast<int64_t>(index), count, name);
  return 0;
}

}  // namespace tpc

#define TPC_COUNT(what) static_cast<void>(++tpc::counts.what)
#define TPC_CHECK(call) static_cast<void>(call)
#else
#define TPC_COUNT(what) static_cast<void>(0)
#define TPC_CHECK(call) static_cast<void>(0)
#endif
