// Tensors, global memory and the index space.
#pragma once

#include "checks.h"
#include "engine.h"
#include "scalar.h"

// Of each translation unit its own, because a kernel is compiled twice.
#define TPC_OUTLINE static __attribute__((noinline, unused))

namespace tpc {

TPC_INLINE Tensor& tensor_of(int number) {
  Engine& here = *engine;
  if (__builtin_expect(static_cast<unsigned>(number) >= static_cast<unsigned>(here.tensors), 0))
    fail("it uses tensor %d, which the node does not have", number);
  return here.tensor[number];
}

// The start of the row of dimension 0 that the coordinates name; null outside the tensor.
TPC_INLINE char* row_of(const Tensor& tensor, const Int5& at) {
  char* row = tensor.data;
  for (int d = 1; d < kMaxDimensions; d++) {
    const bool inside = d >= tensor.rank || static_cast<uint32_t>(at.value[d]) < tensor.size[d];
    if (!inside) return nullptr;
    row += d < tensor.rank ? at.value[d] * tensor.stride_bytes[d] : 0;
  }
  return row;
}

// The bytes of a register from `first` on that lie in the tensor.
struct Bytes {
  int begin, end;
};
TPC_INLINE Bytes bytes_inside(const Tensor& tensor, int at, int begin, int end) {
  const int64_t before = -static_cast<int64_t>(at) * tensor.element_bytes;
  const int64_t after = before + static_cast<int64_t>(tensor.size[0]) * tensor.element_bytes;
  const int64_t length = end - begin;
  const int64_t from = before < 0 ? 0 : (before > length ? length : before);
  const int64_t to = after < from ? from : (after > length ? length : after);
  return {begin + static_cast<int>(from), begin + static_cast<int>(to)};
}

// Lanes `first` to `last` of the register from the coordinates on; the others keep the income.
template <class V>
TPC_OUTLINE V load_some(const Tensor& tensor, Int5 at, int first, int last, const V& income) {
  constexpr int width = sizeof(typename V::element);
  V result = income;
  auto* target = reinterpret_cast<unsigned char*>(&result);
  const int begin = first * width;
  const int end = (last + 1) * width;
  const char* row = row_of(tensor, at);
  const Bytes inside = row ? bytes_inside(tensor, at.value[0], begin, end) : Bytes{begin, begin};
  const int tail = row ? inside.end : begin;
  for (int byte = begin; byte < (row ? inside.begin : begin); byte++)
    target[byte] = static_cast<unsigned char>(tensor.padding >> (8 * (byte & 3)));
  if (inside.end > inside.begin)
    __builtin_memcpy(
        target + inside.begin, row + static_cast<int64_t>(at.value[0]) * tensor.element_bytes + (inside.begin - begin),
        static_cast<unsigned>(inside.end - inside.begin));
  for (int byte = tail; byte < end; byte++)
    target[byte] = static_cast<unsigned char>(tensor.padding >> (8 * (byte & 3)));
  return result;
}
template <class V>
TPC_INLINE bool is_whole(const Tensor& tensor, const Int5& at, const char* row) {
  const int64_t bytes = (static_cast<int64_t>(tensor.size[0]) - at.value[0]) * tensor.element_bytes;
  return row != nullptr && at.value[0] >= 0 && bytes >= static_cast<int64_t>(sizeof(V));
}

// Elements of one width, each in the low part of a wider lane. Signed types extend their sign.
template <class V, class Narrow, class Wide>
TPC_INLINE V load_unpacked(const Tensor& tensor, const Int5& at) {
  constexpr int n = kVectorBytes / sizeof(Wide);
  using Source = Vec<Narrow, kVectorBytes / sizeof(Narrow)>;
  const Source source = load_some<Source>(tensor, at, 0, n - 1, Source(0));
  Vec<Wide, n> wide;
  for (int i = 0; i < n; i++) wide[i] = static_cast<Wide>(source[i]);
  return bits_of<V>(wide);
}
template <class V>
TPC_OUTLINE V load_unpacked(const Tensor& tensor, Int5 at, int switches) {
  using E = typename V::element;
  constexpr bool is_signed = !is_real<E> && E(-1) < E(0);
  switch (switches & SW_UNPACKING_MASK) {
    case SW_UNPCK_16_TO_32:
      if constexpr (is_signed) return load_unpacked<V, short, int>(tensor, at);
      return load_unpacked<V, unsigned short, unsigned int>(tensor, at);
    case SW_UNPCK_8_TO_16:
      if constexpr (is_signed) return load_unpacked<V, signed char, short>(tensor, at);
      return load_unpacked<V, unsigned char, unsigned short>(tensor, at);
    case SW_UNPCK_8_TO_32:
      if constexpr (is_signed) return load_unpacked<V, signed char, int>(tensor, at);
      return load_unpacked<V, unsigned char, unsigned int>(tensor, at);
    default:
      fail("unpacking 4 to 8 bits is not there yet (switches %d)", switches);
  }
}

// The bytes of a register's elements in memory, where they are narrower than its lanes.
TPC_INLINE int loaded_bytes(int switches, int whole) {
  if (!(switches & SW_UNPACK)) return whole;
  return (switches & SW_UNPACKING_MASK) == SW_UNPCK_8_TO_32 ? whole / 4 : whole / 2;
}
TPC_INLINE int stored_bytes(int switches, int whole) {
  if (!(switches & SW_PACK)) return whole;
  return (switches & SW_PACKING_MASK) == SW_PCK_32_TO_8 ? whole / 4 : whole / 2;
}

template <class V>
TPC_INLINE V load(const Int5& at, int number, int switches) {
  const Tensor& tensor = tensor_of(number);
  TPC_CHECK(loads(number, at.value, loaded_bytes(switches, sizeof(V))));
  if (switches & SW_UNPACK) return load_unpacked<V>(tensor, at, switches);
  const char* row = row_of(tensor, at);
  if (__builtin_expect(is_whole<V>(tensor, at, row), 1)) {
    V result;
    __builtin_memcpy(&result, row + static_cast<int64_t>(at.value[0]) * tensor.element_bytes, sizeof(V));
    return result;
  }
  return load_some<V>(tensor, at, 0, V::size - 1, V{});
}
template <class V>
TPC_INLINE V load_partial(const Int5& at, int number, int size, int offset, const V& income) {
  const int first = offset & (V::size - 1);
  const int end = first + (size & (V::size - 1));
  const int last = end >= V::size ? V::size - 1 : end;
  TPC_CHECK(loads(number, at.value, (last - first + 1) * static_cast<int>(sizeof(typename V::element))));
  return load_some<V>(tensor_of(number), at, first, last, income);
}

template <class V>
TPC_OUTLINE void store_some(const Tensor& tensor, Int5 at, int first, int last, const V& value) {
  constexpr int width = sizeof(typename V::element);
  const auto* source = reinterpret_cast<const unsigned char*>(&value);
  char* row = row_of(tensor, at);
  if (!row) return;
  const Bytes inside = bytes_inside(tensor, at.value[0], first * width, (last + 1) * width);
  if (inside.end > inside.begin)
    __builtin_memcpy(
        row + static_cast<int64_t>(at.value[0]) * tensor.element_bytes + (inside.begin - first * width),
        source + inside.begin, static_cast<unsigned>(inside.end - inside.begin));
}
// The low part of each wider lane, side by side.
template <class Narrow, class Wide, class V>
TPC_INLINE void store_packed(const Tensor& tensor, const Int5& at, const V& value) {
  constexpr int n = kVectorBytes / sizeof(Wide);
  Vec<Wide, n> wide;
  __builtin_memcpy(&wide, &value, sizeof(wide));
  using Target = Vec<Narrow, kVectorBytes / sizeof(Narrow)>;
  Target narrow(0);
  for (int i = 0; i < n; i++) narrow[i] = static_cast<Narrow>(wide[i]);
  store_some(tensor, at, 0, n - 1, narrow);
}
template <class V>
TPC_OUTLINE void store_packed(const Tensor& tensor, Int5 at, const V& value, int switches) {
  switch (switches & SW_PACKING_MASK) {
    case SW_PCK_32_TO_16:
      return store_packed<unsigned short, unsigned int>(tensor, at, value);
    case SW_PCK_16_TO_8:
      return store_packed<unsigned char, unsigned short>(tensor, at, value);
    case SW_PCK_32_TO_8:
      return store_packed<unsigned char, unsigned int>(tensor, at, value);
    default:
      fail("packing 8 to 4 bits is not there yet (switches %d)", switches);
  }
}
template <class V>
TPC_INLINE void store(const Int5& at, int number, const V& value, int switches) {
  const Tensor& tensor = tensor_of(number);
  TPC_CHECK(stores(number, at.value, stored_bytes(switches, sizeof(V)), false));
  if (switches & SW_PACK) return store_packed(tensor, at, value, switches);
  char* row = row_of(tensor, at);
  if (__builtin_expect(is_whole<V>(tensor, at, row), 1))
    __builtin_memcpy(row + static_cast<int64_t>(at.value[0]) * tensor.element_bytes, &value, sizeof(V));
  else
    store_some(tensor, at, 0, V::size - 1, value);
}
template <class V>
TPC_INLINE void store_partial(const Int5& at, int number, const V& value, int size, int offset) {
  const int first = offset & (V::size - 1);
  const int end = first + (size & (V::size - 1));
  const int last = end >= V::size ? V::size - 1 : end;
  TPC_CHECK(stores(number, at.value, (last - first + 1) * static_cast<int>(sizeof(typename V::element)), false));
  store_some(tensor_of(number), at, first, last, value);
}

// Read, modified and written as one, also beside other members.
template <class T>
TPC_INLINE T modified(T old, T value, int operation) {
  switch (operation & RMW_OP_MASK) {
    case RMW_OP_SUB:
      return sub<T>(old, value, SW_SAT);
    case RMW_OP_MIN:
      return smaller_of(old, value);
    case RMW_OP_MAX:
      return larger_of(old, value);
    case RMW_OP_MAX_0_ADD:
      return larger_of(T(0), add<T>(old, value, SW_SAT));
    default:
      return add<T>(old, value, SW_SAT);
  }
}
template <class T>
TPC_INLINE void modify(char* place, T value, int operation) {
  using Bits = UnsignedLane<T>;
  auto* target = reinterpret_cast<Bits*>(place);
  Bits old = __atomic_load_n(target, __ATOMIC_RELAXED);
  for (;;) {
    const Bits changed = raw(modified(unraw<T>(old), value, operation));
    if (__atomic_compare_exchange_n(target, &old, changed, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
  }
}
template <class V>
TPC_OUTLINE void store_modified(Int5 at, int number, const V& value, int operation, int first, int last) {
  const Tensor& tensor = tensor_of(number);
  const int end = last < V::size ? last + 1 : V::size;
  TPC_CHECK(stores(number, at.value, (end - first) * static_cast<int>(sizeof(typename V::element)), true));
  char* row = row_of(tensor, at);
  if (!row) return;
  for (int i = first; i < end; i++) {
    const int64_t x = static_cast<int64_t>(at.value[0]) + (i - first);
    if (x >= 0 && x < tensor.size[0]) modify(row + x * tensor.element_bytes, value[i], operation);
  }
}

TPC_INLINE void* address_of(const Int5& at, int number) {
  const Tensor& tensor = tensor_of(number);
  char* row = row_of(tensor, at);
  const bool inside = row != nullptr && static_cast<uint32_t>(at.value[0]) < tensor.size[0];
  if (inside) return row + static_cast<int64_t>(at.value[0]) * tensor.element_bytes;
  for (int i = 0; i < 256; i += 4) __builtin_memcpy(engine->outside + i, &tensor.padding, 4);
  return engine->outside;
}
template <class T>
TPC_INLINE T read(const void* address) {
  T value;
  TPC_CHECK(loads_address(address, sizeof(T)));
  __builtin_memcpy(&value, address, sizeof(value));
  return value;
}
template <class T>
TPC_INLINE void write(void* address, T value) {
  TPC_CHECK(stores_address(address, sizeof(T)));
  const char* place = static_cast<const char*>(address);
  const char* outside = reinterpret_cast<const char*>(engine->outside);
  if (place >= outside && place < outside + 256) return;
  __builtin_memcpy(address, &value, sizeof(value));
}
// Moves the pointer on by as many elements as the switches say.
template <class P>
TPC_INLINE void advance(P** address, int switches, int width) {
  const int chosen = switches & SW_INC_MASK;
  const int count = chosen ? 1 << (chosen - SW_INC_1) : 1;
  *address = reinterpret_cast<P*>(reinterpret_cast<char*>(*address) + width * count);
}

// The tensor whose elements look-ups take.
TPC_INLINE void set_table(int number) {
  const Tensor& tensor = tensor_of(number);
  uint32_t elements = 1;
  for (int d = 0; d < tensor.rank; d++) elements *= tensor.size[d];
  engine->table = tensor.data;
  engine->table_bytes = elements * static_cast<uint32_t>(tensor.element_bytes);
}
// Entry a of the table for each lane: one element, or two side by side, of which the second goes to v2.
template <class R, class V>
TPC_OUTLINE R looked_up(const V& index, int function, int switches) {
  using E = typename Registers<R>::element;
  constexpr int count = Registers<R>::count;
  constexpr uint32_t bytes = count * sizeof(E);
  if (!(switches & SW_LUT_PTR) || engine->table == nullptr)
    fail("it looks up function %d in a Gaudi's own tables, whose contents are not public", function);
  R result;
  E* lanes = reinterpret_cast<E*>(&result);
  for (int i = 0; i < V::size; i++) {
    const auto entry = static_cast<uint32_t>(index[i]);
    if (entry >= engine->table_bytes / bytes) fail("it looks up entry %d, which its table does not have", index[i]);
    for (int c = 0; c < count; c++)
      __builtin_memcpy(lanes + c * V::size + i, engine->table + entry * bytes + c * sizeof(E), sizeof(E));
  }
  return result;
}

TPC_INLINE uint32_t repeated(uint32_t bits, int bytes) {
  return bytes == 4 ? bits : (bytes == 2 ? (bits & 0xffffu) * 0x10001u : (bits & 0xffu) * 0x1010101u);
}
template <class T>
TPC_INLINE T padding_value(int number) {
  const uint32_t word = tensor_of(number).padding;
  T value;
  __builtin_memcpy(&value, &word, sizeof(value));
  return value;
}
template <class T>
TPC_INLINE void set_padding(int number, T value) {
  tensor_of(number).padding = repeated(raw(value), sizeof(T));
}
TPC_INLINE uint32_t size_of(int number, uint32_t dimension) {
  return dimension < kMaxDimensions ? tensor_of(number).size[dimension] : 1;
}
TPC_INLINE uint32_t stride_of(int number, uint32_t dimension) {
  return dimension < kMaxDimensions ? tensor_of(number).stride[dimension] : 0;
}
// A tensor never becomes larger than it is in memory.
TPC_INLINE void set_size(int number, uint32_t dimension, uint32_t size) {
  Tensor& tensor = tensor_of(number);
  if (dimension < kMaxDimensions && size <= tensor.size[dimension]) tensor.size[dimension] = size;
}

TPC_INLINE Int5 space_offset() {
  Int5 result;
  for (int d = 0; d < 5; d++) result.value[d] = engine->offset[d];
  return result;
}
TPC_INLINE Int5 space_size() {
  Int5 result;
  for (int d = 0; d < 5; d++) result.value[d] = engine->size[d];
  return result;
}

}  // namespace tpc

namespace tpc {

// A number among the parameters of main: 32 bits, of which a shorter type has the lower ones.
template <class T>
TPC_INLINE T scalar(uint32_t word) {
  if constexpr (__is_same(T, bool)) {
    return word != 0;
  } else {
    static_assert(sizeof(T) <= 4, "a parameter of main has up to 32 bits");
    T value;
    __builtin_memcpy(&value, &word, sizeof(value));
    return value;
  }
}

}  // namespace tpc
