// Random numbers: a register of 64 generators of 32 bits each, and one for scalars. The sequence is not a Gaudi's.
#pragma once

#include "engine.h"
#include "vector.h"

namespace tpc {

// Marsaglia's xorshift with the triple (13, 17, 5), whose period is 2^32 - 1.
TPC_INLINE uint32_t next_random(uint32_t state) {
  state ^= state << 13;
  state ^= state >> 17;
  return state ^ (state << 5);
}
template <class V>
TPC_INLINE V random_numbers(int switches) {
  V result;
  __builtin_memcpy(&result, engine->random, sizeof(V));
  if (!(switches & SW_READ_ONLY))
    for (uint32_t& state : engine->random) state = next_random(state);
  return result;
}
// A generator whose state is zero would stay there.
TPC_INLINE void set_random_numbers(const char256& seeds) {
  __builtin_memcpy(engine->random, &seeds, sizeof(engine->random));
  for (uint32_t& state : engine->random) state = state ? state : 1;
}
TPC_INLINE uint32_t random_number(int switches) {
  const uint32_t result = engine->scalar_random;
  if (!(switches & SW_READ_ONLY)) engine->scalar_random = next_random(result);
  return result;
}
TPC_INLINE void set_random_number(uint32_t seed) { engine->scalar_random = seed ? seed : 1; }

}  // namespace tpc

// By the names of their registers.
#define LFSR (tpc::random_numbers<char256>(0))
#define LFSR_NO_CHANGE (tpc::random_numbers<char256>(SW_READ_ONLY))
#define S_LFSR (tpc::random_number(0))
#define S_LFSR_NO_CHANGE (tpc::random_number(SW_READ_ONLY))
