// A scalar definition applied to every lane, and what predicates and incomes do to the result.
#pragma once

#include "vector.h"

namespace tpc {

template <class X>
struct Registers;
template <class T, int N>
struct Registers<Vec<T, N>> {
  using element = T;
  static constexpr int count = 1;
  static constexpr int lanes = N;
};
template <class T, int N, class B>
struct Registers<Pair<Vec<T, N>, B>> {
  using element = T;
  static constexpr int count = 2;
  static constexpr int lanes = 2 * N;
};
template <class T, int N>
struct Registers<Quad<Vec<T, N>>> {
  using element = T;
  static constexpr int count = 4;
  static constexpr int lanes = 4 * N;
};

// Lane i = j * kStep + p of n registers, to which lanes are dealt out in turn: even lanes in v1, odd ones in v2.
template <int kStep, class X>
TPC_INLINE auto& lane(const X& x, int p, int j) {
  using R = Registers<X>;
  using E = typename R::element;
  constexpr int n = R::count;
  constexpr int in_register = R::lanes / n;
  E* lanes = reinterpret_cast<E*>(const_cast<X*>(&x)) + (p % n) * in_register;
  return lanes[j * (kStep / n) + p / n];
}

constexpr int larger(int a, int b) { return a > b ? a : b; }
template <class... X>
constexpr int most_registers() {
  int most = 1;
  ((most = larger(most, Registers<X>::count)), ...);
  return most;
}

// R(i) = f(a(i) ...). Of an argument with more lanes than R, the lane at the same place of the register is taken.
template <class R, class F, class... A>
TPC_INLINE R lanes(F f, const A&... a) {
  R result;
  constexpr int step = most_registers<R, A...>();
  constexpr int n = Registers<R>::lanes;
  for (int p = 0; p < step; p++)
    for (int j = 0; j < n / step; j++) {
      lane<step>(result, p, j) = f(lane<(step * (Registers<A>::lanes / n))>(a, p * (Registers<A>::lanes / n), j)...);
    }
  return result;
}

// The same by parts of a register, for operations of the machine.
template <class R, class F, class... A>
TPC_INLINE R parts(F f, const A&... a) {
  R result;
  for (int p = 0; p < kParts; p++) result.part[p] = (typename R::part_type)f(a.part[p]...);
  return result;
}

// Two results for a lane.
template <class A, class B>
struct Both {
  A first;
  B second;
};
template <class R, class F, class... X>
TPC_INLINE R zipped(F f, const X&... x) {
  R result;
  using A = typename Registers<decltype(result.v1)>::element;
  using B = typename Registers<decltype(result.v2)>::element;
  A* first = reinterpret_cast<A*>(&result.v1);
  B* second = reinterpret_cast<B*>(&result.v2);
  for (int i = 0; i < Registers<decltype(result.v1)>::lanes; i++) {
    const Both<A, B> both = f(lane<1>(x, 0, i)...);
    first[i] = both.first;
    second[i] = both.second;
  }
  return result;
}

template <int N, class F, class A, class B>
TPC_INLINE Bool<N> compared(F f, const A& a, const B& b) {
  using S = SignedLane<typename A::element>;
  S mask[N];
  for (int i = 0; i < N; i++) mask[i] = f(lane<1>(a, 0, i), lane<1>(b, 0, i)) ? -1 : 0;
  Bool<N> result;
  for (int w = 0; w < Bool<N>::words; w++) result.word[w] = 0;
  constexpr int lanes_of_part = N / kParts;
  for (int p = 0; p < kParts; p++) {
    typename PartOf<S>::type part;
    __builtin_memcpy(&part, mask + p * lanes_of_part, sizeof(part));
    result.word[(p * lanes_of_part) >> 6] |= part_bits(part) << ((p * lanes_of_part) & 63);
  }
  return result;
}

// The result where the predicate differs from the polarity, elsewhere the income.
template <class R>
TPC_INLINE R merged(const R& result, const R& income, bool predicate, bool polarity) {
  return predicate != polarity ? result : income;
}
template <int N>
TPC_INLINE Bool<N> chosen(const Bool<N>& predicate, bool polarity) {
  return polarity ? ~predicate : predicate;
}
template <class T, int N>
TPC_INLINE Vec<T, N> merged(const Vec<T, N>& result, const Vec<T, N>& income, const Bool<N>& predicate, bool polarity) {
  return blend(chosen(predicate, polarity), result, income);
}
template <int N>
TPC_INLINE Bool<N> merged(const Bool<N>& result, const Bool<N>& income, const Bool<N>& predicate, bool polarity) {
  return blend(chosen(predicate, polarity), result, income);
}
// Two results for a lane share its predicate.
template <class A, int N, class B>
TPC_INLINE Pair<Vec<A, N>, B> merged(
    const Pair<Vec<A, N>, B>& result, const Pair<Vec<A, N>, B>& income, const Bool<N>& predicate, bool polarity) {
  const Bool<N> which = chosen(predicate, polarity);
  return {blend(which, result.v1, income.v1), blend(which, result.v2, income.v2)};
}
// Lanes that are dealt out to several registers have a predicate each.
template <class A, int N, class B, int M>
  requires(M == 2 * N)
TPC_INLINE Pair<Vec<A, N>, B> merged(
    const Pair<Vec<A, N>, B>& result, const Pair<Vec<A, N>, B>& income, const Bool<M>& predicate, bool polarity) {
  Bool<N> even, odd;
  for (int i = 0; i < N; i++) {
    even.set(i, predicate.get(2 * i) != polarity);
    odd.set(i, predicate.get(2 * i + 1) != polarity);
  }
  return {blend(even, result.v1, income.v1), blend(odd, result.v2, income.v2)};
}
template <class A, int N>
TPC_INLINE Quad<Vec<A, N>> merged(
    const Quad<Vec<A, N>>& result, const Quad<Vec<A, N>>& income, const Bool<4 * N>& predicate, bool polarity) {
  Bool<N> of[4];
  for (int i = 0; i < 4 * N; i++) of[i & 3].set(i >> 2, predicate.get(i) != polarity);
  return {
      blend(of[0], result.v1, income.v1), blend(of[1], result.v2, income.v2), blend(of[2], result.v3, income.v3),
      blend(of[3], result.v4, income.v4)};
}
// A predicate for every element that a lane of wider elements was made from.
template <class T, int N, int M>
  requires(M != N)
TPC_INLINE Vec<T, N> merged(const Vec<T, N>& result, const Vec<T, N>& income, const Bool<M>& predicate, bool polarity) {
  return blend(Bool<N>(chosen(predicate, polarity)), result, income);
}

}  // namespace tpc
