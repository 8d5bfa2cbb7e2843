// Local memory by addresses: the scalars' and the vectors'. Variables with __local__ are elsewhere.
#pragma once

#include "checks.h"
#include "engine.h"
#include "scalar.h"

namespace tpc {

TPC_INLINE unsigned char* local_place(unsigned char* memory, uint32_t size, uint32_t address, uint32_t bytes) {
  if (__builtin_expect(address > size || bytes > size - address, 0))
    fail("it uses the address %d of local memory, which ends before", static_cast<int>(address));
  return memory + address;
}
template <class T>
TPC_INLINE unsigned char* scalar_place(uint32_t address, int switches) {
  if (__builtin_expect((switches & SW_MMIO) != 0, 0))
    fail("it uses the address %d of the card's registers, which are not there", static_cast<int>(address));
  return local_place(scalar_local, kScalarLocalBytes, address, sizeof(T));
}
template <class T>
TPC_INLINE T read_local(uint32_t address, int switches) {
  T value;
  const unsigned char* place = scalar_place<T>(address, switches);
  TPC_CHECK(reads_local(place, sizeof(T), scalar_local, kScalarLocalBytes, "scalar local memory"));
  __builtin_memcpy(&value, place, sizeof(T));
  return value;
}
template <class T>
TPC_INLINE void write_local(uint32_t address, T value, int switches) {
  unsigned char* place = scalar_place<T>(address, switches);
  TPC_CHECK(writes_local(place, sizeof(T), scalar_local, kScalarLocalBytes, "scalar local memory"));
  __builtin_memcpy(place, &value, sizeof(T));
}
// `half`: 0 for the whole register, 1 for its lower half, 2 for its upper one. The other half keeps the income.
template <class V>
TPC_INLINE V read_vector_local(uint32_t address, int half, V income) {
  constexpr uint32_t whole = sizeof(V);
  const uint32_t bytes = half ? whole / 2 : whole;
  const unsigned char* place = local_place(vector_local, kVectorLocalBytes, address, bytes);
  TPC_CHECK(reads_local(place, bytes, vector_local, kVectorLocalBytes, "vector local memory"));
  __builtin_memcpy(reinterpret_cast<unsigned char*>(&income) + (half == 2 ? whole / 2 : 0), place, bytes);
  return income;
}
template <class V>
TPC_INLINE void write_vector_local(uint32_t address, const V& value, int half) {
  constexpr uint32_t whole = sizeof(V);
  const uint32_t bytes = half ? whole / 2 : whole;
  unsigned char* place = local_place(vector_local, kVectorLocalBytes, address, bytes);
  TPC_CHECK(writes_local(place, bytes, vector_local, kVectorLocalBytes, "vector local memory"));
  __builtin_memcpy(place, reinterpret_cast<const unsigned char*>(&value) + (half == 2 ? whole / 2 : 0), bytes);
}

// 32 predicates of one section of a register of predicates, or of all eight.
TPC_INLINE Bool<256> flavored(int bits, int section, Bool<256> income) {
  for (int i = 0; i < 256; i++)
    if (section >= 8 || i / 32 == section) income.set(i, (bits >> (i & 31)) & 1);
  return income;
}
// Three bits for each dimension say which one it becomes.
TPC_INLINE Int5 permuted(const Int5& from, int order) {
  Int5 result;
  for (int i = 0; i < 5; i++) {
    const int source = (order >> (3 * i)) & 7;
    result.value[i] = source < 5 ? from.value[source] : 0;
  }
  return result;
}

}  // namespace tpc
