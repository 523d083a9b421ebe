"""Properties of NumPy that compilers of it get wrong, as small functions.

A trap is the body of a function, its arguments, and what NumPy gives: the text of what is returned
and, behind `->`, of the arguments that are worth a look afterwards; or the error that is raised.
`A` is `np.array`, `r(n)` is `np.arange(n)`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from frontends.kernels import define

__all__ = ["TRAPS", "Trap"]

# From 2.5 on NumPy refuses a Python integer that does not fit.
_WRAPPED = "[44]" if np.lib.NumpyVersion(np.__version__) < "2.5.0" else "OverflowError"
NAMES = {"A": np.array, "r": np.arange, "np": np, "nan": np.nan, "inf": np.inf}


@dataclass(frozen=True)
class Trap:
    """A function that has to do as NumPy does."""

    number: int  # of the family
    body: str  # an expression that is returned, or lines separated by "; "
    given: tuple[str, ...]  # the arguments a, b, c, as text
    right: str  # what NumPy gives, as text

    @property
    def name(self) -> str:
        return f"{self.number}: {self.body} of {', '.join(self.given)}"

    @property
    def text(self) -> str:
        """The function, in Python."""
        body = self.body.split("; ")
        if is_expression(self.body):
            body = [f"return {self.body}"]
        names = ", ".join("abc"[: len(self.given)])
        return "\n".join([f"def f({names}):", *(f"    {line}" for line in body), ""])

    @property
    def function(self) -> Callable[..., Any]:
        return define(self.text)

    def arguments(self) -> tuple[Any, ...]:
        """New arguments, the same ones each time."""
        return tuple(eval(text, dict(NAMES)) for text in self.given)


def is_expression(text: str) -> bool:
    """Whether a text is an expression of Python."""
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


def _family(number: int, *cases: str) -> list[Trap]:
    """Traps from lines `body | argument | ... | result`."""
    made = []
    for case in cases:
        body, *given, right = (part.strip() for part in case.split(" | "))
        made.append(Trap(number, body, tuple(given), right))
    return made


TRAPS: tuple[Trap, ...] = tuple(
    trap
    for family in (
        _family(
            1,
            "a[3:-1:-1] | r(5) | []",
            "a[3:0:-1] | r(5) | [3 2 1]",
        ),
        _family(
            2,
            "a[10:2:-3] | r(5) | [4]",
            "a[4:100:3] | r(5) | [4]",
            "a[-10:3] | r(5) | [0 1 2]",
        ),
        _family(
            3,
            "a[:-5:-1] | A([1, 2, 3]) | [3 2 1]",
            "a[-5::-1] | A([1, 2, 3]) | []",
            "a[:-b] | r(5) | 0 | []",
        ),
        _family(
            4,
            "a[b] | r(5) | 7 | IndexError",
            "a[7:9] | r(5) | []",
            "a[::b] | r(5) | 0 | ValueError",
        ),
        _family(
            5,
            "a.sum() | A([-0.0, -0.0]) | 0.0",
            "a.cumsum() | A([-0.0, -0.0]) | [-0. -0.]",
            "np.add.reduce(a, initial=None) | A([-0.0]) | -0.0",
        ),
        _family(
            6,
            "a.max(axis=1) | A([[nan, 1.0], [1.0, nan], [-inf, 2.0]]) | [nan nan 2.]",
            "np.fmax(a, b) | A([nan, 1.0]) | A([2.0, nan]) | [2. 1.]",
        ),
        _family(7, "0 - a | A([0.0]) | [0.]", "-a | A([0.0]) | [-0.]"),
        _family(
            8,
            "a // b | A([-7, 7]) | A([2, -2]) | [-4 -4]",
            "a % b | A([-7, 7]) | A([2, -2]) | [ 1 -1]",
            "np.fmod(a, b) | A([-7, 7]) | A([2, -2]) | [-1 1]",
        ),
        _family(9, "a // b | A([1]) | A([0]) | [0]", "a % b | A([1]) | A([0]) | [0]"),
        _family(
            10,
            "a // np.int8(-1) | A([-128], np.int8) | [-128]",
            "np.abs(a) | A([-128], np.int8) | [-128]",
            "abs(a) | A([-128], np.int8) | [-128]",
        ),
        _family(
            11,
            "a % np.inf | A([-1.0]) | [inf]",
            "a // 0.1 | A([7.0]) | [69.]",
            "np.floor(a / 0.1) | A([7.0]) | [70.]",
        ),
        _family(
            12,
            "a + 100 | A([200], np.uint8) | [44]",
            "a + 300 | A([200], np.uint8) | OverflowError",
            "a + b | A([200], np.uint8) | -1 | OverflowError",
        ),
        _family(
            13,
            "a < 300 | A([200], np.uint8) | [ True]",
            "a >= -1 | A([250], np.uint8) | [ True]",
        ),
        _family(
            14,
            f"np.where(a, b, 300) | A([False]) | A([1], np.uint8) | {_WRAPPED}",
            "np.maximum(a, -1) | A([1], np.uint8) | OverflowError",
        ),
        _family(15, "a + np.int64(300) | A([200], np.uint8) | [500]"),
        _family(
            16,
            "a * 2 | np.float32(3) | 6.0",
            "a * b | np.float32(3) | np.int64(2) | 6.0",
            "a * b | A([1], np.float32) | A(1.5) | [1.5]",
        ),
        _family(
            17,
            "a + b | A([1], np.int64) | A([2], np.uint64) | [3.]",
            "a + b | A([1], np.int8) | A([255], np.uint8) | [256]",
            "a + b | A([1], np.int32) | A([0.5], np.float32) | [1.5]",
            "a + b | A([1], np.int16) | A([0.5], np.float32) | [1.5]",
        ),
        _family(18, "a > b | A([2**64 - 1], np.uint64) | A([-1]) | [ True]"),
        _family(
            19,
            "a + 1e300 | A([1], np.float32) | [inf]",
            "a == 0.1 | np.float32(0.1) | True",
            "a == 0.1 | A([0.1], np.float32) | [ True]",
        ),
        _family(
            20,
            "np.sqrt(a) | A([4], np.int8) | [2.]",
            "np.sqrt(a) | A([4], np.int16) | [2.]",
            "np.sqrt(a) | A([4], np.int32) | [2.]",
            "a / 2 | A([1], np.int8) | [0.5]",
        ),
        _family(
            21,
            "np.round(a) | A([0.5, 1.5, 2.5, -0.5]) | [ 0. 2. 2. -0.]",
            "np.round(a, 2) | A([2.675]) | [2.68]",
            "round(a, 2) | 2.675 | 2.67",
        ),
        _family(
            22,
            "np.sign(a) | A([nan, -0.0]) | [nan 0.]",
            "np.sign(a) | A([3 + 4j]) | [0.6+0.8j]",
        ),
        _family(23, "a.astype(np.uint8) | A([300, -1]) | [ 44 255]"),
        _family(
            24,
            "np.max(a) | A([1, nan, 2]) | nan",
            "np.fmax.reduce(a) | A([1, nan, 2]) | 2.0",
            "min(a, b) | nan | 1.0 | nan",
            "min(a, b) | 1.0 | nan | 1.0",
        ),
        _family(
            25,
            "np.argmax(a) | A([1, nan, 3, nan]) | 1",
            "np.argmax(a) | A([3, 1, 3]) | 0",
            "a.argmin(axis=0) | A([[2, 1], [2, 0], [1, 0]]) | [2 1]",
        ),
        _family(
            26,
            "np.sum(a) | A([]) | 0.0",
            "np.max(a) | A([]) | ValueError",
            "np.mean(a) | A([]) | nan",
        ),
        _family(
            27,
            "a.max(axis=0) | np.zeros((3, 0)) | []",
            "a.max(axis=0) | np.zeros((0, 3)) | ValueError",
            "a.sum(axis=0) | np.zeros((0, 3)) | [0. 0. 0.]",
        ),
        _family(
            28,
            "a @ b | np.zeros((2, 0)) | np.zeros((0, 3)) | [[0. 0. 0.] [0. 0. 0.]]",
            "np.all(a) | A([]) | True",
        ),
        _family(
            29,
            "np.mean(a) | A([1, 2]) | 1.5",
            "np.sum(a) | A([1, 2], np.int32) | 3",
            "np.sum(a) | A([1, 2], np.uint8) | 3",
            "np.sum(a) | A([True, True]) | 2",
            "np.sum(a) | A([1, 2], np.float16) | 3.0",
        ),
        _family(
            30,
            "a.cumsum() | A([200, 100], np.uint8) | [200 300]",
            "a @ b | A([1, 2], np.uint8) | A([200, 200], np.uint8) | 88",
            "sum(a) | A([200, 100], np.uint8) | 44",
        ),
        _family(
            31,
            "a.sum() - 7 | A([1, 2, 3], np.uint8) | 18446744073709551615",
            "np.diff(a) | A([1, 0], np.uint8) | [255]",
        ),
        _family(
            32,
            "a.sum() | np.full(10**6, 0.1, np.float32) | 100000.01",
            "a.cumsum()[-1] | np.full(10**6, 0.1, np.float32) | 100958.34",
            "a.sum(axis=0) | np.full((10**6, 2), 0.1, np.float32) | [100958.34 100958.34]",
        ),
        _family(
            33,
            "a - b | A([True]) | A([False]) | TypeError",
            "-a | A([True]) | TypeError",
            "a + True | A([True]) | [ True]",
            "a // b | A([True]) | A([True]) | [1]",
            "~a | A([True]) | [False]",
        ),
        _family(
            34,
            "1 < a < 3 | A([1, 2]) | ValueError",
            "not a | A([0.0]) | True",
            "a & b == 2 | A([3]) | A([2]) | [ True]",
        ),
        _family(
            35,
            "b = a[::2]; c = b[::-1]; c[0] = 9 | r(6) | None -> [0 1 2 3 9 5]",
        ),
        _family(
            36,
            "a.reshape(2, 3).reshape(6)[0] = 9; return a | r(6) | [9 1 2 3 4 5]",
            "a.reshape(2, 3).T.reshape(6)[0] = 9; return a | r(6) | [0 1 2 3 4 5]",
        ),
        _family(
            37,
            "np.diagonal(a)[0] = 1; return a | np.zeros((2, 2)) | ValueError",
            "np.broadcast_to(a, (2, 3))[0] = 1; return a | np.zeros(3) | ValueError",
        ),
        _family(
            38,
            "b = a; b += 1 | r(3) | None -> [1 2 3]",
            "b = a; b = b + 1; return b | r(3) | [1 2 3] -> [0 1 2]",
            "b = a; b += 1; return a | np.float64(1) | 1.0",
        ),
        _family(
            39,
            "a += 1.5; return a | r(3) | TypeError",
            "a /= 2; return a | r(3) | TypeError",
            "a[:] = 1.9 | r(3) | None -> [1 1 1]",
            "a += b; return a | r(3) | r(3).astype(np.uint64) | TypeError",
            "a += b; return a | r(3).astype(np.int32) | r(3) | [0 2 4]",
        ),
        _family(
            40,
            "a[0] = 300 | np.zeros(3, np.uint8) | OverflowError",
            "a[:] = b | np.zeros(3, np.uint8) | A([300, -1, 5]) | None -> [ 44 255 5]",
        ),
        _family(
            41,
            "a[0] = np.nan | np.zeros(2, int) | ValueError",
            "a[0] = b | np.zeros(3) | A([5.0]) | ValueError",
        ),
        _family(
            42,
            "a[b] += 1 | np.zeros(3, int) | A([0, 0, 1]) | None -> [1 1 0]",
            "np.add.at(a, b, 1) | np.zeros(3, int) | A([0, 0, 1]) | None -> [2 1 0]",
            "a[b] = c | np.zeros(3, int) | A([0, 0]) | A([1, 2]) | None -> [2 0 0]",
        ),
        _family(
            43,
            "a[b] = 7 | np.zeros(3, int) | A([0, 5]) | IndexError -> [0 0 0]",
            "for i in b:;     a[i] = 1 | np.zeros(3, int) | A([0, 5]) | IndexError -> [1 0 0]",
        ),
        _family(
            44,
            "a[a > 0] = b | A([1.0, -1.0, 2.0]) | A([1.0, 2.0, 3.0]) | ValueError",
            "a[a > 0] = b | A([-1.0]) | A([]) | None -> [-1.]",
        ),
        _family(
            45,
            "a[0, :, [1, 2]].shape | np.zeros((2, 3, 4)) | (2, 3)",
            "a[:, 0, [1, 2]].shape | np.zeros((2, 3, 4)) | (2, 2)",
        ),
        _family(
            46,
            "a[[0, 1], [1, 2]] | r(6).reshape(2, 3) | [1 5]",
            "a[b] | r(3) | A([]) | IndexError",
        ),
        _family(
            47,
            "a[1:] = a[:-1] | r(5) | None -> [0 0 1 2 3]",
            "a[1:] += a[:-1] | r(5) | None -> [0 1 3 5 7]",
            "a[:] = a[::-1] | r(5) | None -> [4 3 2 1 0]",
        ),
        _family(
            48,
            "a /= a[1]; return a | r(4.0) + 2 | [0.66666667 1. 1.33333333 1.66666667]",
            "a += a.T; return a | r(4).reshape(2, 2) | [[0 3] [3 6]]",
            "a[2:][a[:-2] > 0] = 3 | r(4) | None -> [0 1 2 3]",
        ),
        _family(
            49,
            "a[0], a[1] = a[1], a[0]; return a | A([[1, 2], [3, 4]]) | [[3 4] [3 4]]",
            "a[0], a[1] = a[1], a[0]; return a | A([1, 2]) | [2 1]",
        ),
        _family(
            50,
            "a + b | np.zeros(3) | np.ones((1, 1, 3)) | [[[1. 1. 1.]]]",
            "a[:] = b | np.zeros(3) | np.ones((1, 1, 3)) | None -> [1. 1. 1.]",
            "a + b | np.zeros(3) | np.ones(4) | ValueError",
        ),
        _family(
            51,
            "np.add(a, 1, out=b) | np.zeros(3) | np.zeros((2, 3)) | [[1. 1. 1.] [1. 1. 1.]]",
            "np.add(a, 1, out=b) | np.zeros((2, 3)) | np.zeros(3) | ValueError",
        ),
        _family(
            52,
            "a[1:1] = b | np.zeros(3) | A([1.0]) | None -> [0. 0. 0.]",
            "a[1:1] = b | np.zeros(3) | A([1.0, 2.0]) | ValueError",
            "a + b | np.zeros(1) | np.zeros(0) | []",
        ),
        _family(
            53,
            "np.where(a, b, 1.5) | A([True]) | A([1], np.int8) | [1.]",
            "np.where(a, b, 0) | A([True]) | A([1], np.float32) | [1.]",
        ),
        _family(
            54,
            "a**-1 | A([2]) | ValueError",
            "a**-1 | 2 | 0.5",
            "a**-1 | A([2.0]) | [0.5]",
            "a**-1 | A([0.0]) | [inf]",
        ),
        _family(
            55,
            "a**(1 / 3) | A([-8.0]) | [nan]",
            "a**8 | A([2], np.int8) | [0]",
            "a**0 | A([nan]) | [1.]",
            "a**b | A([2], np.int64) | A([2], np.uint64) | [4.]",
        ),
        _family(
            56,
            "a + b | A(1.0) | A(2.0) | 3.0",
            "a += 1; return a | A(1.0) | 2.0",
        ),
        _family(
            57,
            "float(a) | A([3.0]) | TypeError",
            "len(a) | A(3) | TypeError",
            "a[b] | r(4) | A(2) | 2",
            "a[b] | r(4) | A([2]) | [2]",
        ),
        _family(
            58,
            "a / b | np.float64(1) | np.float64(0) | inf",
            "a // b | np.int64(1) | np.int64(0) | 0",
        ),
        _family(
            59,
            "a + b | np.int64(2**63 - 1) | np.int64(1) | -9223372036854775808",
            "a + 1 | A([2**63 - 1]) | [-9223372036854775808]",
        ),
        _family(
            60,
            "a << 64 | A([1]) | [0]",
            "a >> 65 | A([-5]) | [-1]",
            "5 << a | np.int8(7) | -128",
        ),
        _family(
            61,
            "np.arange(1, a, 0.1) | 1.3 | [1. 1.1 1.2 1.3]",
            "np.linspace(0, 1, a, dtype=int) | 3 | [0 0 1]",
            "np.full(a, 1) | 3 | [1 1 1]",
            "np.zeros(a) | 3 | [0. 0. 0.]",
        ),
        _family(
            62,
            "a / b | A([1 + 0j]) | A([0 + 0j]) | [inf+nanj]",
            "a.real[0] = 9; return a | A([1 + 2j]) | [9.+2.j]",
            "np.angle(a) | A([complex(-1, -0.0)]) | [-3.14159265]",
        ),
        _family(
            63,
            "np.tril(a) | np.full((2, 2), nan) | [[nan 0.] [nan nan]]",
            "np.count_nonzero(a) | A([-0.0, nan]) | 1",
        ),
        _family(
            64,
            "i = 7; for i in range(a):;     pass; return i | 0 | 7",
            "n = 0; for i in range(a):;     i = 5;     n += i; return n | 3 | 15",
        ),
    )
    for trap in family
)
