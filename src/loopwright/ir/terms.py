"""Value numbers: equal numbers mean computed values that are equal for all inputs.

A value number is an element of the field of p = 2^61 - 1 numbers. Contents on entry and results of
operators without laws are hashed. Operators with laws that keep every bit get value numbers that
obey these laws:

- where sums may be reassociated (integers always, floats if declared) + - * and / compute in the
  field. Two polynomials that differ agree at a random point with a probability of degree / p
  (Schwartz 1980), so reordered and refactored sums have one value number, others different ones;
- elsewhere x - y is x + (-y), + and * commute, signs leave products and quotients, x * 1 = x;
- min, max, and, or are associative, commutative and idempotent for every type: a hash of the set of
  their operands, constants among them combined, without the identity. `xor` is so but for pairs,
  which cancel. `x if x < y else y` is min(x, y) where sums may be reassociated.

Conversions between integers to as many bits or fewer keep sums and products modulo 2^bits: they
change no value number. A fused multiply-add has that of the product and the sum it stands for.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from hashlib import blake2b
from typing import TypeAlias

import numpy as np

from loopwright.ir.dtypes import DType, dtype_of
from loopwright.ir.expr import SATURATING

__all__ = ["Terms", "ValueNumber"]

ValueNumber: TypeAlias = int

_PRIME = 2**61 - 1
# Modulo the prime they are small numbers, from which they must be told apart.
_EXTREMES = frozenset({-(2**63), 2**63 - 1, 2**64 - 1})
_SETS = frozenset({"min", "max", "and", "or"})
_BITWISE = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
# What the operators of numbers are on booleans.
_ON_BOOLEANS = {"add": "or", "max": "or", "mul": "and", "min": "and"}
_MIRRORED = {"gt": "lt", "ge": "le"}
_SYMMETRIC = frozenset({"eq", "ne"}) | SATURATING


class Terms:
    """Makes value numbers, and records what each was first made from."""

    def __init__(self, *, reassociate: bool) -> None:
        self.reassociate = reassociate  # whether floating sums and products may be reordered
        self.made: dict[
            ValueNumber, tuple[str, tuple[ValueNumber, ...]]
        ] = {}  # number -> operator, operands
        self.entries: dict[ValueNumber, tuple[str, int]] = {}  # contents on entry: array, place
        self._hashes: dict[tuple[object, ...], ValueNumber] = {}
        self._members: dict[
            ValueNumber, tuple[str, frozenset[ValueNumber]]
        ] = {}  # of sets of operands
        self._identities: dict[tuple[str, str], ValueNumber] = {}  # by operator and type
        self._numbers: dict[
            ValueNumber, float
        ] = {}  # constants, but for those too large to tell apart

    # -- what is not computed ----------------------------------------------------------------

    def initial(self, array: str, place: int) -> ValueNumber:
        """The contents of an element on entry."""
        number = self._hash("contents on entry", "initial", array, place)
        self.entries.setdefault(number, (array, place))
        return number

    def undefined(self) -> ValueNumber:
        """Whatever stands where nothing was written."""
        return self._hash("an undefined value", "undefined")

    def constant(self, value: np.generic) -> ValueNumber:
        number = self._constant(value)
        dtype = dtype_of(value.dtype)
        if not dtype.is_complex and (not dtype.is_integer or abs(int(value)) < _PRIME // 2):
            self._numbers[number] = value.item()
        return number

    def _constant(self, value: np.generic) -> ValueNumber:
        dtype = dtype_of(value.dtype)
        text = str(value)
        if dtype.is_integer and int(value) in _EXTREMES:
            return self._hash(text, "constant", text)
        if dtype.is_integer:
            return self._note(int(value) % _PRIME, text)
        number = complex(value) if dtype.kind in "fc" else None
        if number is None or not (math.isfinite(number.real) and math.isfinite(number.imag)):
            return self._hash(text, "constant", dtype.name, text)
        if dtype.is_complex:
            unit = self._hash("i", "imaginary unit")
            return self._note((_rational(number.real) + unit * _rational(number.imag)), text)
        if number.real == 0 and not self._is_ring(dtype):
            zero = self._hash("0.0", "zero")
            return self._note(-zero, text) if np.signbit(value) else zero
        return self._note(_rational(number.real), text)

    # -- operators ---------------------------------------------------------------------------

    def unary(self, op: str, dtype: DType, x: ValueNumber) -> ValueNumber:
        if op == "neg" and dtype.kind != "b":
            return self._note(-x, op, x)
        if op == "not" and dtype.is_integer:
            return self._note(-x - 1, op, x)
        return self._hash(op, op, dtype.name, x, parts=(x,))

    def binary(self, op: str, dtype: DType, x: ValueNumber, y: ValueNumber) -> ValueNumber:
        """`x op y` for operands of `dtype`."""
        if dtype.kind == "b":
            op = _ON_BOOLEANS.get(op, op)
        if op in _SETS or op == "xor":
            return self._set(op, dtype, x, y)
        if op in _MIRRORED:
            op, x, y = _MIRRORED[op], y, x
        if op in _SYMMETRIC and x > y:
            x, y = y, x
        rule = (_IN_FIELD if self._is_ring(dtype) else _EXACT).get(op)
        if rule is None or (op == "div" and y == 0):
            return self._hash(op, op, dtype.name, x, y, parts=(x, y))
        return rule(self, dtype, x, y)

    def call(self, function: str, dtype: DType, *args: ValueNumber) -> ValueNumber:
        """A function of arguments whose last one has `dtype`."""
        if function == "fma":
            x, y, z = args
            return self.binary("add", dtype, self.binary("mul", dtype, x, y), z)
        if function == "pow":
            return self.binary("pow", dtype, *args)
        return self._hash(function, function, dtype.name, *args, parts=args)

    def cast(self, source: DType, target: DType, x: ValueNumber) -> ValueNumber:
        is_modular = source.is_integer and target.is_integer and target.bits <= source.bits
        if source == target or is_modular:
            return x
        return self._hash(target.name, "cast", source.name, target.name, x, parts=(x,))

    def select(
        self, dtype: DType, cond: ValueNumber, x: ValueNumber, y: ValueNumber
    ) -> ValueNumber:
        """`x if cond else y` of `dtype`; x if x < y is a minimum, of floats if declared."""
        if x == y:
            return x
        what, operands = self.made.get(cond, ("", ()))
        if what in ("lt", "le") and self._is_ring(dtype) and operands in ((x, y), (y, x)):
            return self._set("min" if operands == (x, y) else "max", dtype, x, y)
        return self._hash("select", "select", cond, x, y, parts=(cond, x, y))

    # -- how value numbers are made ------------------------------------------------------------

    def _is_ring(self, dtype: DType) -> bool:
        return dtype.is_integer or (self.reassociate and dtype.kind in "fc")

    def _hash(self, what: str, *key: object, parts: tuple[ValueNumber, ...] = ()) -> ValueNumber:
        number = self._hashes.get(key)
        if number is None:
            digest = blake2b(repr(key).encode(), digest_size=8).digest()
            number = self._hashes[key] = int.from_bytes(digest, "little") % _PRIME
            self.made.setdefault(number, (what, parts))
        return number

    def _note(self, number: int, what: str, *parts: ValueNumber) -> ValueNumber:
        number = number % _PRIME
        self.made.setdefault(number, (what, parts))
        return number

    def _set(self, op: str, dtype: DType, x: ValueNumber, y: ValueNumber) -> ValueNumber:
        key = f"{op} {dtype.name}"
        left, right = self._members_of(key, x), self._members_of(key, y)
        members = left ^ right if op == "xor" else left | right
        identity = self._identity(op, dtype)
        members = self._folded(op, dtype, members) - {identity}
        if not members:
            return identity
        if len(members) == 1:
            return next(iter(members))
        number = self._hash(op, key, *sorted(members), parts=(x, y))
        self._members[number] = key, members
        return number

    def _folded(
        self, op: str, dtype: DType, members: frozenset[ValueNumber]
    ) -> frozenset[ValueNumber]:
        """Operands with one constant in place of several: runs may combine them as numbers."""
        known = {number: self._numbers[number] for number in members if number in self._numbers}
        if len(known) < 2 or any(value != value for value in known.values()):
            return members
        if op in _BITWISE and dtype.kind not in "fc":
            number = reduce(_BITWISE[op], map(int, known.values()))
            return (members - known.keys()) | {self.constant(dtype.numpy.type(number))}
        # Zeros of both signs stay both: which of them is less is left open.
        best = min(known.values()) if op == "min" else max(known.values())
        return (members - known.keys()) | {
            number for number, value in known.items() if value == best
        }

    def _identity(self, op: str, dtype: DType) -> ValueNumber:
        """The operand that changes nothing: what gathering in parts begins with."""
        key = op, dtype.name
        if key not in self._identities:
            self._identities[key] = self.constant(dtype.numpy.type(_neutral(op, dtype)))
        return self._identities[key]

    def _members_of(self, key: str, x: ValueNumber) -> frozenset[ValueNumber]:
        found = self._members.get(x)
        return found[1] if found is not None and found[0] == key else frozenset((x,))


def _neutral(op: str, dtype: DType) -> float:
    """The identity of an operator in _SETS, or of xor."""
    if dtype.kind == "b":
        return op in ("and", "min")
    if dtype.kind in "fc":
        return math.inf if op == "min" else -math.inf
    limits = np.iinfo(dtype.name)
    whole = {"min": limits.max, "max": limits.min, "and": -1 if limits.min else limits.max}
    return whole.get(op, 0)


def _rational(number: float) -> int:
    """A finite float in the field: floats are fractions."""
    above, below = number.as_integer_ratio()
    return above * pow(below, -1, _PRIME) % _PRIME


def _unsigned(x: ValueNumber) -> tuple[int, ValueNumber]:
    """The sign and the rest of a number; the rest is the same for x and -x."""
    return (1, x) if x <= _PRIME - x else (-1, _PRIME - x)


def _exact_sum(terms: Terms, dtype: DType, x: ValueNumber, y: ValueNumber) -> ValueNumber:
    pair = (x, y) if x <= y else (y, x)
    return terms._hash("add", "add", dtype.name, *pair, parts=(x, y))


def _exact_product(terms: Terms, dtype: DType, x: ValueNumber, y: ValueNumber) -> ValueNumber:
    if 1 in (x, y):
        return y if x == 1 else x
    (s, a), (t, b) = _unsigned(x), _unsigned(y)
    pair = (a, b) if a <= b else (b, a)
    number = terms._hash("mul", "mul", dtype.name, *pair, parts=(x, y))
    return number if s == t else terms._note(-number, "mul", x, y)


def _exact_quotient(terms: Terms, dtype: DType, x: ValueNumber, y: ValueNumber) -> ValueNumber:
    if y == 1:
        return x
    (s, a), (t, b) = _unsigned(x), _unsigned(y)
    number = terms._hash("div", "div", dtype.name, a, b, parts=(x, y))
    return number if s == t else terms._note(-number, "div", x, y)


_Rule: TypeAlias = Callable[[Terms, DType, ValueNumber, ValueNumber], ValueNumber]
_IN_FIELD: dict[str, _Rule] = {
    "add": lambda terms, dtype, x, y: terms._note(x + y, "add", x, y),
    "sub": lambda terms, dtype, x, y: terms._note(x - y, "sub", x, y),
    "mul": lambda terms, dtype, x, y: terms._note(x * y, "mul", x, y),
    "div": lambda terms, dtype, x, y: terms._note(x * pow(y, -1, _PRIME), "div", x, y),
}
_EXACT: dict[str, _Rule] = {
    "add": _exact_sum,
    "sub": lambda terms, dtype, x, y: _exact_sum(terms, dtype, x, terms._note(-y, "neg", y)),
    "mul": _exact_product,
    "div": _exact_quotient,
}
