"""Functions of real numbers as lines of C: the operations that machine code has, and its bits.

Plain C without intrinsics: bits of numbers are read through unions, which compilers take for what
they are, and fused products are the compiler's builtin. Where the target has none (neither
__FP_FAST_FMA nor the like is defined), the functions are the library's.

Numbers far from zero, whose sine and cosine are the library's, are a branch that no compiler makes
vectors of: functions of near numbers have none (`c_far_numbers`).
"""

from __future__ import annotations

from loopwright.backends.c_text.c_operations import Helper
from loopwright.backends.c_text.c_syntax import c_type, constant
from loopwright.backends.elementary.elementary_arithmetic import INTEGERS, Arithmetic
from loopwright.backends.elementary.elementary_functions import FUNCTIONS
from loopwright.backends.elementary.elementary_trigonometry import FAR
from loopwright.ir.dtypes import DTYPES, DType

__all__ = ["elementary_helpers", "far_helper", "has_far_numbers", "own_functions"]

_FUSED = "defined(__FP_FAST_FMA) || defined(__FMA__) || defined(__ARM_FEATURE_FMA)"
_COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=="}
_ON_BITS = {"add": "+", "sub": "-", "shl": "<<", "lshr": ">>", "and": "&", "xor": "^"}


def has_far_numbers(function: str) -> bool:
    """Whether a function of ours has numbers that are the library's."""
    return FUNCTIONS[function].far is not None


def own_functions(text: str) -> list[str]:
    """The functions that a text computes by lines of its own, in words."""
    return [
        f"{function} of {dtype}"
        for function in FUNCTIONS
        for dtype in INTEGERS
        if f"lw_{function}_{dtype}(" in text
    ]


def elementary_helpers(function: str, dtype: DType, *, is_near: bool) -> tuple[Helper, ...]:
    """The helper of a function, behind those that it calls.

    `is_near`: that of numbers which are not far from zero.
    """
    lines, found = _Lines(dtype), FUNCTIONS[function]
    element, library = c_type(dtype), lines.builtin(function)
    value = found.make(lines, "lw_a")
    name = f"lw_{function}_{dtype}"
    near = Helper(
        name if found.far is None else f"lw_{function}_near_{dtype}",
        element,
        (element,),
        tuple(lines.written),
        value,
        alone=f"{library}(lw_a)",
        needs=_FUSED,
        note=f"{function} of {dtype}, within {found.ulps} units of the last place",
    )
    if found.far is None or is_near:
        return (near,)
    far = far_helper(dtype)
    # Its argument has a name of its own: those of helpers inside begin anew.
    given = (f"const {element} lw_x = lw_a;",)
    value = f"{far.name}(lw_x) ? {library}(lw_x) : {near.name}(lw_x)"
    return near, far, Helper(name, element, (element,), given, value)


def far_helper(dtype: DType) -> Helper:
    """The helper that tells whether a number is far from zero."""
    lines = _Lines(dtype)
    value = f"{lines.builtin('fabs')}(lw_a) >= {lines.number(FAR[dtype])}"
    return Helper(f"lw_is_far_{dtype}", lines.bits, (c_type(dtype),), (), value)


class _Lines(Arithmetic[str, str]):
    """Operations as lines of C, each of which names what it computes."""

    def __init__(self, dtype: DType) -> None:
        super().__init__(dtype)
        self.written: list[str] = []
        self.type = c_type(dtype)
        self.bits = c_type(DTYPES[f"uint{dtype.bits}"])
        self._either = f"union {{ {self.type} lw_f; {self.bits} lw_u; }}"

    def builtin(self, function: str) -> str:
        """The compiler's name of a function of the library."""
        return f"__builtin_{function}{'f' if self.dtype.bits == 32 else ''}"

    def number(self, value: float) -> str:
        return constant(value, self.dtype).text

    def integer(self, value: int) -> str:
        suffix = "ul" if self.dtype.bits == 64 else "u"
        return f"{value % (1 << self.dtype.bits)}{suffix}"

    def add(self, x: str, y: str) -> str:
        return self._number(f"{x} + {y}")

    def sub(self, x: str, y: str) -> str:
        return self._number(f"{x} - {y}")

    def mul(self, x: str, y: str) -> str:
        return self._number(f"{x} * {y}")

    def rounded_product(self, x: str, y: str) -> str:
        # Compilers that fuse products with sums leave this alone, and -0.0 changes no number.
        return self.fma(x, y, self.number(-0.0))

    def div(self, x: str, y: str) -> str:
        return self._number(f"{x} / {y}")

    def negative(self, x: str) -> str:
        return self._number(f"-{x}")

    def absolute(self, x: str) -> str:
        return self._number(f"{self.builtin('fabs')}({x})")

    def with_sign(self, x: str, sign: str) -> str:
        return self._number(f"{self.builtin('copysign')}({x}, {sign})")

    def fma(self, x: str, y: str, z: str) -> str:
        return self._number(f"{self.builtin('fma')}({x}, {y}, {z})")

    def select(self, cond: str, x: str, y: str) -> str:
        """By masks: of `cond ? x : y` compilers make branches, around what x and y are made of."""
        mask = self._integer(f"-({self.bits})({cond})")
        first, second = self.bits_of(x), self.bits_of(y)
        return self.of_bits(self._integer(f"(({first} ^ {second}) & {mask}) ^ {second}"))

    def compare(self, op: str, x: str, y: str) -> str:
        return f"{x} {_COMPARED[op]} {y}"

    def bits_of(self, x: str) -> str:
        return self._integer(f"(({self._either}){{.lw_f = {x}}}).lw_u")

    def of_bits(self, x: str) -> str:
        return self._number(f"(({self._either}){{.lw_u = {x}}}).lw_f")

    def on_bits(self, instruction: str, x: str, y: str) -> str:
        return self._integer(f"{x} {_ON_BITS[instruction]} {y}")

    def _number(self, text: str) -> str:
        return self._named(self.type, text)

    def _integer(self, text: str) -> str:
        return self._named(self.bits, text)

    def _named(self, kind: str, text: str) -> str:
        name = f"lw_{len(self.written)}"
        self.written.append(f"const {kind} {name} = {text};")
        return name
