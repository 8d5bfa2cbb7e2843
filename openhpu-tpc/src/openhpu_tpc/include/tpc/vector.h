// Vectors of 2,048 bits, predicates for their lanes, pairs and quads of vectors, and coordinates.
#pragma once

#include "checks.h"
#include "small.h"
#include <initializer_list>

namespace tpc {

// A vector is kept in parts, each as wide as a register of this machine.
#if defined(__AVX512F__)
constexpr int kPartBytes = 64;
#elif defined(__AVX2__)
constexpr int kPartBytes = 32;
#else
constexpr int kPartBytes = 16;
#endif
constexpr int kVectorBytes = 256;
constexpr int kParts = kVectorBytes / kPartBytes;

template <class T>
struct Storage {
  using type = T;
};
template <class F>
struct Storage<Small<F>> {
  using type = typename Small<F>::storage;
};

template <int kBytes>
struct SignedOf;
template <>
struct SignedOf<1> {
  using type = signed char;
};
template <>
struct SignedOf<2> {
  using type = short;
};
template <>
struct SignedOf<4> {
  using type = int;
};
template <class T>
using SignedLane = typename SignedOf<sizeof(T)>::type;
template <class T>
using UnsignedLane = typename Unsigned<8 * sizeof(T)>::type;

template <class T>
using Part __attribute__((vector_size(kPartBytes))) = typename Storage<T>::type;

template <class T>
struct PartOf {
  typedef typename Storage<T>::type type __attribute__((vector_size(kPartBytes)));
};

// One bit for each of N lanes; in a register of 256 bits, the first of each lane's bits.
template <int N>
struct Bool {
  static constexpr int size = N;
  static constexpr int words = N / 64;
  uint64_t word[words];

  Bool() = default;
  template <Arithmetic U>
  TPC_INLINE Bool(U value) {
    for (int i = 0; i < words; i++) word[i] = value ? ~0ull : 0ull;
  }
  template <int M>
    requires(M != N)
  TPC_INLINE Bool(const Bool<M>& other) {
    for (int i = 0; i < words; i++) word[i] = 0;
    for (int i = 0; i < N; i++) set(i, other.get(M > N ? i * (M / N) : i / (N / M)));
  }
  TPC_INLINE bool get(int i) const { return (word[i >> 6] >> (i & 63)) & 1; }
  TPC_INLINE void set(int i, bool value) {
    word[i >> 6] = (word[i >> 6] & ~(1ull << (i & 63))) | (static_cast<uint64_t>(value) << (i & 63));
  }
  TPC_INLINE bool operator[](int i) const { return get(i); }
  template <class F>
  static TPC_INLINE Bool combine(const Bool& a, const Bool& b, F f) {
    Bool result;
    for (int i = 0; i < words; i++) result.word[i] = f(a.word[i], b.word[i]);
    return result;
  }
  friend TPC_INLINE Bool operator&(const Bool& a, const Bool& b) {
    return combine(a, b, [](uint64_t x, uint64_t y) { return x & y; });
  }
  friend TPC_INLINE Bool operator|(const Bool& a, const Bool& b) {
    return combine(a, b, [](uint64_t x, uint64_t y) { return x | y; });
  }
  friend TPC_INLINE Bool operator^(const Bool& a, const Bool& b) {
    return combine(a, b, [](uint64_t x, uint64_t y) { return x ^ y; });
  }
  friend TPC_INLINE Bool operator&&(const Bool& a, const Bool& b) { return a & b; }
  friend TPC_INLINE Bool operator||(const Bool& a, const Bool& b) { return a | b; }
  friend TPC_INLINE Bool operator==(const Bool& a, const Bool& b) { return ~(a ^ b); }
  friend TPC_INLINE Bool operator!=(const Bool& a, const Bool& b) { return a ^ b; }
  TPC_INLINE Bool operator~() const {
    return combine(*this, *this, [](uint64_t x, uint64_t) { return ~x; });
  }
  TPC_INLINE Bool operator!() const { return ~*this; }
  TPC_INLINE Bool& operator&=(const Bool& other) { return *this = *this & other; }
  TPC_INLINE Bool& operator|=(const Bool& other) { return *this = *this | other; }
  TPC_INLINE Bool& operator^=(const Bool& other) { return *this = *this ^ other; }
};

// From bits to lanes that are all ones or zero, and back.
template <class S>
TPC_INLINE typename PartOf<S>::type part_mask(uint64_t bits) {
  typename PartOf<S>::type mask;
#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__)
  if constexpr (sizeof(S) == 4)
    return (typename PartOf<S>::type)__builtin_ia32_cvtmask2d512(static_cast<unsigned short>(bits));
  else if constexpr (sizeof(S) == 2)
    return (typename PartOf<S>::type)__builtin_ia32_cvtmask2w512(static_cast<unsigned int>(bits));
  else
    return (typename PartOf<S>::type)__builtin_ia32_cvtmask2b512(bits);
#else
  for (int i = 0; i < kPartBytes / static_cast<int>(sizeof(S)); i++)
    mask[i] = static_cast<S>(-static_cast<int>((bits >> i) & 1));
  return mask;
#endif
}

template <class P>
TPC_INLINE uint64_t part_bits(const P& mask) {
  constexpr int width = sizeof(mask[0]);
#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__)
  if constexpr (width == 4)
    return static_cast<unsigned short>(__builtin_ia32_cvtd2mask512((typename PartOf<int>::type)mask));
  else if constexpr (width == 2)
    return static_cast<unsigned int>(__builtin_ia32_cvtw2mask512((typename PartOf<short>::type)mask));
  else
    return __builtin_ia32_cvtb2mask512((char __attribute__((vector_size(64))))mask);
#else
  uint64_t bits = 0;
  for (int i = 0; i < kPartBytes / width; i++) bits |= static_cast<uint64_t>(mask[i] != 0) << i;
  return bits;
#endif
}

template <class T, int N>
struct Vec {
  using element = T;
  using part_type = typename PartOf<T>::type;
  using boolean = Bool<N>;
  static constexpr int size = N;
  static constexpr int lanes_of_part = N / kParts;
  static constexpr bool is_small = IsSmall<T>::value;
  static constexpr bool is_real = is_small || __is_same(T, float);
  part_type part[kParts];

  Vec() = default;
  template <Scalar U>
  TPC_INLINE Vec(U value) {
    const T lane = static_cast<T>(value);
    typename Storage<T>::type bits;
    __builtin_memcpy(&bits, &lane, sizeof(bits));
    for (int p = 0; p < kParts; p++) part[p] = bits - part_type{};
  }
  TPC_INLINE Vec(std::initializer_list<T> values) {
    for (int p = 0; p < kParts; p++) part[p] = part_type{};
    int lane = 0;
    for (const T value : values)
      if (lane < N) (*this)[lane++] = value;
  }
  // A cast between vectors keeps the bits.
  template <class U, int M>
    requires(!__is_same(U, T))
  TPC_INLINE explicit Vec(const Vec<U, M>& other) {
    for (int p = 0; p < kParts; p++) part[p] = (part_type)other.part[p];
  }

  TPC_INLINE T& operator[](int i) { return reinterpret_cast<T*>(this)[i]; }
  TPC_INLINE const T& operator[](int i) const { return reinterpret_cast<const T*>(this)[i]; }

  template <class F>
  static TPC_INLINE Vec by_parts(const Vec& a, const Vec& b, F f) {
    TPC_COUNT(vector);
    Vec result;
    for (int p = 0; p < kParts; p++) result.part[p] = f(a.part[p], b.part[p]);
    return result;
  }
  template <class F>
  static TPC_INLINE Vec by_lanes(const Vec& a, const Vec& b, F f) {
    TPC_COUNT(vector);
    Vec result;
    T* r = reinterpret_cast<T*>(&result);
    const T* x = reinterpret_cast<const T*>(&a);
    const T* y = reinterpret_cast<const T*>(&b);
    for (int i = 0; i < N; i++) r[i] = f(x[i], y[i]);
    return result;
  }
  template <class F>
  static TPC_INLINE boolean compare(const Vec& a, const Vec& b, F f) {
    TPC_COUNT(vector);
    boolean result;
    for (int w = 0; w < boolean::words; w++) result.word[w] = 0;
    if constexpr (is_small) {
      using mask_type = SignedLane<T>;
      mask_type mask[N];
      const T* x = reinterpret_cast<const T*>(&a);
      const T* y = reinterpret_cast<const T*>(&b);
      for (int i = 0; i < N; i++) mask[i] = f(float(x[i]), float(y[i])) ? -1 : 0;
      for (int p = 0; p < kParts; p++) {
        typename PartOf<mask_type>::type bits;
        __builtin_memcpy(&bits, mask + p * lanes_of_part, sizeof(bits));
        put(result, p, part_bits(bits));
      }
    } else {
      for (int p = 0; p < kParts; p++) put(result, p, part_bits(f(a.part[p], b.part[p])));
    }
    return result;
  }
  static TPC_INLINE void put(boolean& result, int p, uint64_t bits) {
    const int first = p * lanes_of_part;
    result.word[first >> 6] |= bits << (first & 63);
  }
  TPC_INLINE Vec& operator++() { return *this = *this + Vec(1); }
  TPC_INLINE Vec& operator--() { return *this = *this - Vec(1); }
  TPC_INLINE Vec operator++(int) {
    const Vec before = *this;
    *this = *this + Vec(1);
    return before;
  }
  TPC_INLINE Vec operator--(int) {
    const Vec before = *this;
    *this = *this - Vec(1);
    return before;
  }
  TPC_INLINE Vec operator+() const { return *this; }
  TPC_INLINE Vec operator-() const {
    if constexpr (is_small) {
      Vec result;
      for (int p = 0; p < kParts; p++)
        result.part[p] = part[p] ^ static_cast<typename Storage<T>::type>(T::format::sign);
      return result;
    } else {
      return by_parts(*this, *this, [](part_type x, part_type) { return -x; });
    }
  }
  TPC_INLINE Vec operator~() const {
    static_assert(!is_real, "~ is for integers");
    return by_parts(*this, *this, [](part_type x, part_type) { return ~x; });
  }
  TPC_INLINE boolean operator!() const { return *this == Vec(0); }
};

#define TPC_ARITHMETIC(op)  \
  template <class T, int N> \
  TPC_INLINE Vec<T, N> arithmetic_##op(const Vec<T, N>& a, const Vec<T, N>& b)

// An operand may be a scalar, which every lane then has.
#define TPC_VECTOR_OPERATOR(op, body)                                         \
  template <class T, int N>                                                   \
  TPC_INLINE Vec<T, N> operator op(const Vec<T, N>& a, const Vec<T, N>& b) {  \
    body                                                                      \
  }                                                                           \
  template <class T, int N, Scalar U>                                         \
  TPC_INLINE Vec<T, N> operator op(const Vec<T, N>& a, U b) {                 \
    return a op Vec<T, N>(b);                                                 \
  }                                                                           \
  template <class T, int N, Scalar U>                                         \
  TPC_INLINE Vec<T, N> operator op(U a, const Vec<T, N>& b) {                 \
    return Vec<T, N>(a) op b;                                                 \
  }                                                                           \
  template <class T, int N>                                                   \
  TPC_INLINE Vec<T, N>& operator op## = (Vec<T, N> & a, const Vec<T, N>& b) { \
    return a = a op b;                                                        \
  }                                                                           \
  template <class T, int N, Scalar U>                                         \
  TPC_INLINE Vec<T, N>& operator op## = (Vec<T, N> & a, U b) {                \
    return a = a op Vec<T, N>(b);                                             \
  }
#define TPC_BY_PARTS_OR_LANES(op)                                               \
  using V = Vec<T, N>;                                                          \
  if constexpr (V::is_small)                                                    \
    return V::by_lanes(a, b, [](T x, T y) { return T(float(x) op float(y)); }); \
  else                                                                          \
    return V::by_parts(a, b, [](auto x, auto y) { return x op y; });
#define TPC_BY_PARTS_OF_INTEGERS(op)                  \
  using V = Vec<T, N>;                                \
  static_assert(!V::is_real, #op " is for integers"); \
  return V::by_parts(a, b, [](auto x, auto y) { return x op y; });
// What a division by zero gives is not defined in C; here it is 0, so that no signal ends the process.
#define TPC_DIVISION(op)                                                       \
  using V = Vec<T, N>;                                                         \
  if constexpr (V::is_real)                                                    \
    return V::by_lanes(a, b, [](T x, T y) { return T(float(x) / float(y)); }); \
  else                                                                         \
    return V::by_lanes(a, b, [](T x, T y) {                                    \
      const bool defined = y != 0 && !(y == T(-1) && T(-1) < T(0));            \
      const T minus = T(1) op T(1) ? T(0 - x) : T(0);                          \
      return y == 0 ? T(0) : (defined ? T(x op y) : minus);                    \
    });

TPC_VECTOR_OPERATOR(+, TPC_BY_PARTS_OR_LANES(+))
TPC_VECTOR_OPERATOR(-, TPC_BY_PARTS_OR_LANES(-))
TPC_VECTOR_OPERATOR(*, TPC_BY_PARTS_OR_LANES(*))
TPC_VECTOR_OPERATOR(/, TPC_DIVISION(/))
TPC_VECTOR_OPERATOR(%, TPC_DIVISION(%))
TPC_VECTOR_OPERATOR(&, TPC_BY_PARTS_OF_INTEGERS(&))
TPC_VECTOR_OPERATOR(|, TPC_BY_PARTS_OF_INTEGERS(|))
TPC_VECTOR_OPERATOR(^, TPC_BY_PARTS_OF_INTEGERS(^))
TPC_VECTOR_OPERATOR(<<, TPC_BY_PARTS_OF_INTEGERS(<<))
TPC_VECTOR_OPERATOR(>>, TPC_BY_PARTS_OF_INTEGERS(>>))

#define TPC_VECTOR_COMPARISON(op)                                           \
  template <class T, int N>                                                 \
  TPC_INLINE Bool<N> operator op(const Vec<T, N>& a, const Vec<T, N>& b) {  \
    return Vec<T, N>::compare(a, b, [](auto x, auto y) { return x op y; }); \
  }                                                                         \
  template <class T, int N, Scalar U>                                       \
  TPC_INLINE Bool<N> operator op(const Vec<T, N>& a, U b) {                 \
    return a op Vec<T, N>(b);                                               \
  }                                                                         \
  template <class T, int N, Scalar U>                                       \
  TPC_INLINE Bool<N> operator op(U a, const Vec<T, N>& b) {                 \
    return Vec<T, N>(a) op b;                                               \
  }
TPC_VECTOR_COMPARISON(==)
TPC_VECTOR_COMPARISON(!=)
TPC_VECTOR_COMPARISON(<)
TPC_VECTOR_COMPARISON(<=)
TPC_VECTOR_COMPARISON(>)
TPC_VECTOR_COMPARISON(>=)

#undef TPC_ARITHMETIC
#undef TPC_VECTOR_OPERATOR
#undef TPC_BY_PARTS_OR_LANES
#undef TPC_BY_PARTS_OF_INTEGERS
#undef TPC_DIVISION
#undef TPC_VECTOR_COMPARISON

// Two and four vectors. A cast between them keeps the bits.
template <class A, class B>
struct Pair {
  A v1;
  B v2;
  template <class C, class D>
  TPC_INLINE explicit operator Pair<C, D>() const {
    return {C(v1), D(v2)};
  }
};
template <class A>
struct Quad {
  A v1, v2, v3, v4;
  template <class C>
  TPC_INLINE explicit operator Quad<C>() const {
    return {C(v1), C(v2), C(v3), C(v4)};
  }
};

// Coordinates of a tensor or of the index space, the fastest dimension first.
struct Int5 {
  int value[5];

  Int5() = default;
  template <Arithmetic U>
  TPC_INLINE Int5(U all) : value{int(all), int(all), int(all), int(all), int(all)} {}
  TPC_INLINE Int5(std::initializer_list<int> values) : value{0, 0, 0, 0, 0} {
    int dimension = 0;
    for (const int each : values)
      if (dimension < 5) value[dimension++] = each;
  }
  TPC_INLINE int& operator[](int i) { return value[i]; }
  TPC_INLINE const int& operator[](int i) const { return value[i]; }
  template <class F>
  static TPC_INLINE Int5 combine(const Int5& a, const Int5& b, F f) {
    Int5 result;
    for (int i = 0; i < 5; i++) result.value[i] = f(a.value[i], b.value[i]);
    return result;
  }
#define TPC_INT5_OPERATOR(op)                                        \
  friend TPC_INLINE Int5 operator op(const Int5& a, const Int5& b) { \
    return combine(a, b, [](int x, int y) { return x op y; });       \
  }                                                                  \
  TPC_INLINE Int5& operator op## = (const Int5& b) { return *this = *this op b; }
  TPC_INT5_OPERATOR(+)
  TPC_INT5_OPERATOR(-)
  TPC_INT5_OPERATOR(*)
  TPC_INT5_OPERATOR(&)
  TPC_INT5_OPERATOR(|)
  TPC_INT5_OPERATOR(^)
  TPC_INT5_OPERATOR(<<)
  TPC_INT5_OPERATOR(>>)
#undef TPC_INT5_OPERATOR
  TPC_INLINE Int5 operator-() const { return Int5(0) - *this; }
};

// Chooses lanes: where the predicate holds the first, elsewhere the second.
template <class T, int N>
TPC_INLINE Vec<T, N> blend(const Bool<N>& which, const Vec<T, N>& yes, const Vec<T, N>& no) {
  using V = Vec<T, N>;
  using S = SignedLane<T>;
  V result;
  for (int p = 0; p < kParts; p++) {
    const int first = p * V::lanes_of_part;
    const auto mask = part_mask<S>(which.word[first >> 6] >> (first & 63));
    result.part[p] = mask ? yes.part[p] : no.part[p];
  }
  return result;
}
template <int N>
TPC_INLINE Bool<N> blend(const Bool<N>& which, const Bool<N>& yes, const Bool<N>& no) {
  return (which & yes) | (~which & no);
}

// `?:` for conditions of every type. The type of the result is C's; of a vector and a scalar, it is the vector's.
template <class T>
struct IsVector {
  static constexpr bool value = false;
};
template <class T, int N>
struct IsVector<Vec<T, N>> {
  static constexpr bool value = true;
};
template <int N>
struct IsVector<Bool<N>> {
  static constexpr bool value = true;
};
template <class C>
struct IsCondition {
  static constexpr bool value = false;
};
template <int N>
struct IsCondition<Bool<N>> {
  static constexpr bool value = true;
};

template <class A, class B>
struct Common {
  static auto type_of() {
    if constexpr (__is_same(A, B))
      return (A (*)()) nullptr;
    else if constexpr (IsVector<A>::value)
      return (A (*)()) nullptr;
    else if constexpr (IsVector<B>::value)
      return (B (*)()) nullptr;
    else if constexpr (IsSmall<A>::value)
      return (decltype(A{} + B{}) (*)()) nullptr;
    else if constexpr (IsSmall<B>::value)
      return (decltype(A{} + B{}) (*)()) nullptr;
    else
      return (decltype(true ? A{} : B{}) (*)()) nullptr;
  }
};

template <class T>
struct Plain {
  using type = T;
};
template <class T>
struct Plain<T&> {
  using type = T;
};
template <class T>
struct Plain<const T> {
  using type = T;
};
template <class T>
struct Plain<const T&> {
  using type = T;
};

// Two scalars, of which a predicate chooses for each lane. What it is assigned to says the type.
template <int N, class U>
struct Choice {
  Bool<N> which;
  U yes, no;
  template <class T>
  TPC_INLINE operator Vec<T, N>() const {
    return blend(which, Vec<T, N>(yes), Vec<T, N>(no));
  }
};
template <int N, class R>
TPC_INLINE auto chosen_of(const Bool<N>& which, const R& yes, const R& no) {
  if constexpr (Scalar<R>)
    return Choice<N, R>{which, yes, no};
  else
    return blend(which, yes, no);
}

template <class T>
struct IsPointer {
  static constexpr bool value = false;
};
template <class T>
struct IsPointer<T*> {
  static constexpr bool value = true;
};
template <class R, class V>
TPC_INLINE R branch(const V& value) {
  if constexpr (IsPointer<R>::value && !IsPointer<V>::value)
    return nullptr;
  else
    return static_cast<R>(value);
}

template <class C, class F, class G>
TPC_INLINE auto select(const C& condition, F yes, G no) {
  using A = typename Plain<decltype(yes())>::type;
  using B = typename Plain<decltype(no())>::type;
  if constexpr (IsCondition<C>::value) {
    using R = decltype(Common<A, B>::type_of()());
    return chosen_of(condition, static_cast<R>(yes()), static_cast<R>(no()));
  } else if constexpr (__is_same(A, void) || __is_same(B, void)) {
    if (condition)
      yes();
    else
      no();
  } else {
    using R = decltype(Common<A, B>::type_of()());
    return condition ? branch<R>(yes()) : branch<R>(no());
  }
}

// An initialiser with designators: it sets what it names, and the rest is zero.
template <class F>
struct Designated {
  F set;
  template <class T>
  TPC_INLINE operator T() const {
    T result{};
    set(result);
    return result;
  }
};
template <class F>
TPC_INLINE Designated<F> designated(F set) {
  return {set};
}

}  // namespace tpc

#include "names.h"
