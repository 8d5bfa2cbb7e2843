"""Sizes that a recipe leaves open: integers with a formula in the symbols of the graph.

The planning of a graph compares integers: which stride is larger, does one divide the other. A `Size` answers as the
integer of the recorded graph. If other values of the symbols could change an answer, it notes the answer as a guard.
The recipe holds where all guards hold. Symbols are 2 or more.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from openhpu.compiler.errors import CannotCompile

SMALLEST = 2

# Coefficients of products of symbols; () is the constant.
_Polynomial = dict[tuple[str, ...], int]


class Guard(NamedTuple):
    """`low < high`, both as `Size.text` writes them."""

    low: str
    high: str


class Symbols:
    """The symbols of one graph with the values they had in it, and the guards found so far."""

    def __init__(self, hints: Mapping[str, int]) -> None:
        self.hints = dict(hints)
        self.guards: dict[Guard, None] = {}

    def size(self, value: int | str) -> int:
        """An integer, or the Size that "64*n0*n1+1" means."""
        if isinstance(value, int):
            return value
        polynomial: _Polynomial = {}
        for sign, term in re.findall(r"([+-]?)([^+-]+)", value):
            factors = term.split("*")
            names = tuple(sorted(f for f in factors if not f.isdigit()))
            number = math.prod(int(f) for f in factors if f.isdigit())
            polynomial[names] = polynomial.get(names, 0) + (-number if sign == "-" else number)
        return self.make(polynomial)

    def make(self, polynomial: _Polynomial) -> int:
        """An integer of that value; a plain one if no symbol is in it."""
        kept = {names: factor for names, factor in polynomial.items() if factor}
        hint = sum(factor * math.prod(self.hints[n] for n in names) for names, factor in kept.items())
        if not any(kept):
            return hint
        size = Size(hint)
        size.symbols = self
        size.polynomial = kept
        return size

    def note_less(self, low: _Polynomial, high: _Polynomial) -> None:
        """Note that the recipe relies on `low < high`. Raises CannotCompile if no guard can say that."""
        # What both have in common says nothing; a guard's sides have one product of symbols each.
        sides = _sum(high, low, -1)
        positive = {names: factor for names, factor in sides.items() if factor > 0}
        negative = {names: -factor for names, factor in sides.items() if factor < 0}
        if not any(negative) and sum(factor * SMALLEST ** len(names) for names, factor in sides.items()) > 0:
            return  # whatever the symbols are
        if max(len([n for n in side if n]) for side in (positive, negative)) > 1:
            raise CannotCompile(f"relies on {_text(low)} < {_text(high)}, which no guard can check")
        self.guards[Guard(_text(negative), _text(positive))] = None


def _sum(one: _Polynomial, other: _Polynomial, factor: int = 1) -> _Polynomial:
    out = dict(one)
    for names, value in other.items():
        out[names] = out.get(names, 0) + factor * value
    return {names: value for names, value in out.items() if value}


def _text(polynomial: _Polynomial) -> str:
    out = ""
    for names, factor in sorted(polynomial.items(), key=lambda item: -len(item[0])):
        number = [str(abs(factor))] if abs(factor) != 1 or not names else []
        if factor < 0:
            out += "-"
        elif out:
            out += "+"
        out += "*".join([*number, *names])
    return out or "0"


def polynomial_of(value: int) -> _Polynomial:
    """Any integer as a polynomial in the symbols."""
    if isinstance(value, Size):
        return value.polynomial
    return {(): int(value)} if value else {}


class Size(int):
    """An integer with a formula. Arithmetic keeps the formula; comparisons are answered, and guarded (see above)."""

    symbols: Symbols
    polynomial: _Polynomial

    @property
    def text(self) -> str:
        """The formula."""
        return _text(self.polynomial)

    @property
    def monomial(self) -> tuple[int, tuple[str, ...]] | None:
        """Factor and symbols of a product; None of a sum."""
        if len(self.polynomial) != 1:
            return None
        ((names, factor),) = self.polynomial.items()
        return factor, names

    @property
    def is_symbol(self) -> bool:
        """Whether it is one symbol, neither a multiple nor a sum."""
        factor, names = self.monomial or (0, ())
        return factor == 1 and len(names) == 1

    def __repr__(self) -> str:  # programs' texts are made of these
        return self.text

    def __hash__(self) -> int:
        return hash(frozenset(self.polynomial.items()))

    def __reduce__(self) -> Any:
        return int, (int(self),)

    def __add__(self, other: int) -> int:
        return self.symbols.make(_sum(self.polynomial, polynomial_of(other)))

    __radd__ = __add__

    def __neg__(self) -> int:
        return self.symbols.make({names: -factor for names, factor in self.polynomial.items()})

    def __sub__(self, other: int) -> int:
        return self.symbols.make(_sum(self.polynomial, polynomial_of(other), -1))

    def __rsub__(self, other: int) -> int:
        return self.symbols.make(_sum(polynomial_of(other), self.polynomial, -1))

    def __mul__(self, other: int) -> int:
        if not isinstance(other, int):
            return NotImplemented
        product: _Polynomial = {}
        for names, factor in self.polynomial.items():
            for more, number in polynomial_of(other).items():
                key = tuple(sorted(names + more))
                product[key] = product.get(key, 0) + factor * number
        return self.symbols.make(product)

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> int:
        return _divide(self.symbols, self.polynomial, polynomial_of(other))[0]

    def __rfloordiv__(self, other: int) -> int:
        return _divide(self.symbols, polynomial_of(other), self.polynomial)[0]

    def __mod__(self, other: int) -> int:
        return _divide(self.symbols, self.polynomial, polynomial_of(other))[1]

    def __rmod__(self, other: int) -> int:
        return _divide(self.symbols, polynomial_of(other), self.polynomial)[1]

    def __bool__(self) -> bool:
        return self != 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int):
            return NotImplemented
        if self.polynomial == polynomial_of(other):
            return True
        # If two sizes are equal by chance, the code for unequal ones is right too; 0 and 1 are special.
        if not isinstance(other, Size) and other in (0, 1) and self.polynomial:
            if int(self) <= other:
                raise CannotCompile(f"{self.text} is {other}")
            self.symbols.note_less(polynomial_of(other), self.polynomial)
        return False

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def _less(self, low: int, high: int) -> bool:
        """`low < high`, where one of them is this."""
        a, b = polynomial_of(low), polynomial_of(high)
        if int(low) < int(high):
            self.symbols.note_less(a, b)
            return True
        self.symbols.note_less(b, _sum(a, {(): 1}))
        return False

    def __lt__(self, other: int) -> bool:
        return self._less(self, other)

    def __gt__(self, other: int) -> bool:
        return self._less(other, self)

    def __le__(self, other: int) -> bool:
        return not self._less(other, self)

    def __ge__(self, other: int) -> bool:
        return not self._less(self, other)


def _divide(symbols: Symbols, number: _Polynomial, divisor: _Polynomial) -> tuple[int, int]:
    """Quotient and remainder, for all values of the symbols. Raises CannotCompile where they depend on the values."""
    if len(divisor) == 1:
        ((names, factor),) = divisor.items()
        quotient: _Polynomial = {}
        rest: _Polynomial = {}
        for own, value in number.items():
            left = list(own)
            if value % factor == 0 and all(own.count(n) >= names.count(n) for n in names):
                for n in names:
                    left.remove(n)
                quotient[tuple(left)] = value // factor
            else:
                rest[own] = value
        remainder = symbols.make(rest)
        if 0 <= int(remainder) < int(symbols.make(divisor)):
            if rest:
                symbols.note_less(rest, divisor)
            return symbols.make(quotient), remainder
    raise CannotCompile(f"divides {_text(number)} by {_text(divisor)}")
