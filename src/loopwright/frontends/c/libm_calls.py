"""Calls of functions of <math.h> and of abs: pure, computed in the type that their name tells."""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.frontends.affine_check import why_not_affine
from loopwright.frontends.c.arithmetic_types import (
    DOUBLE,
    FLOAT,
    INT,
    LONG_LONG,
    CType,
    CValue,
    Prove,
    constant,
    convert,
    data,
)
from loopwright.frontends.constant_folding import rounded_constant, zero
from loopwright.frontends.refusal import Refusal
from loopwright.ir.expr import (
    FUNCTIONS,
    REAL_ONLY,
    REAL_PAIRS,
    Binary,
    Call,
    Const,
    Expr,
    Select,
    Unary,
)

__all__ = ["ACCEPTED", "call", "is_known", "takes_arguments"]

# C's name -> the name in the IR; the suffix f means float.
_PLAIN = {
    **{
        name: name
        for name in (
            "sqrt", "exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "tanh", *REAL_ONLY,
            *REAL_PAIRS, "floor", "ceil", "pow", "fma",
        )
    },
    "nearbyint": "rint",  # they differ in a flag that nobody reads
}  # fmt: skip
_OTHER = {"fabs": 1, "fmin": 2, "fmax": 2, "fdim": 2}
_ABSOLUTE = ("abs", "labs", "llabs")
_CONSTANTS = {
    "inf": float("inf"), "inff": float("inf"), "huge_val": float("inf"), "huge_valf": float("inf"),
    "nan": float("nan"), "nanf": float("nan"),
}  # fmt: skip
_BUILTIN = "__builtin_"
ACCEPTED = (
    f"{' '.join((*_PLAIN, *_OTHER))}, each also with f at the end, abs and labs;"
    " define others in this file or a header"
)


def is_known(name: str) -> bool:
    """Whether calls of `name` are accepted."""
    if name.startswith(_BUILTIN) and name.removeprefix(_BUILTIN) in _CONSTANTS:
        return True
    plain = name.removeprefix(_BUILTIN)
    base = plain.removesuffix("f")
    return plain in _ABSOLUTE or any(n in _PLAIN or n in _OTHER for n in (plain, base))


def takes_arguments(name: str) -> bool:
    """Whether a known function has arguments that matter; __builtin_nan("") has none."""
    return name.removeprefix(_BUILTIN) not in _CONSTANTS


def call(name: str, args: Sequence[CValue], long: CType, prove: Prove) -> CValue:
    """The value of a call of a known function; `long` is the C type long."""
    plain = name.removeprefix(_BUILTIN)
    if plain in _CONSTANTS:
        ctype = FLOAT if plain.endswith("f") and plain != "inf" else DOUBLE
        return CValue(rounded_constant(_CONSTANTS[plain], ctype.dtype), ctype)
    if plain in _ABSOLUTE:
        _check_count(name, args, 1)
        return _absolute(convert(args[0], {"abs": INT, "labs": long}.get(plain, LONG_LONG), prove))
    is_double = plain in _PLAIN or plain in _OTHER
    base = plain if is_double else plain.removesuffix("f")
    ctype = DOUBLE if is_double else FLOAT
    count = FUNCTIONS[_PLAIN[base]] if base in _PLAIN else _OTHER[base]
    _check_count(name, args, count)
    exprs = tuple(data(convert(arg, ctype, prove)) for arg in args)
    if base in _PLAIN:
        return CValue(Call(_PLAIN[base], exprs), ctype)
    return CValue(_other(base, exprs), ctype)


def _check_count(name: str, args: Sequence[CValue], count: int) -> None:
    if len(args) != count:
        plural = "s" if count != 1 else ""
        raise Refusal("LW137", f"'{name}' takes {count} argument{plural}", found=f"{len(args)}")


def _absolute(x: CValue) -> CValue:
    if x.is_index and why_not_affine(x.expr) is None:
        if isinstance(x.expr, Const):
            assert isinstance(x.expr.value, int)
            return constant(abs(x.expr.value), x.ctype)
        return CValue(x.expr.max(Unary("neg", x.expr)), x.ctype, is_index=True)
    return CValue(Unary("abs", data(x)), x.ctype)


def _other(name: str, args: tuple[Expr, ...]) -> Expr:
    """A function that C and the IR call differently: fmin and fmax ignore a NaN."""
    match name, args:
        case "fabs", (x,):
            return Unary("abs", x)
        case "fdim", (x, y):  # of a NaN the difference, a NaN
            return Select(Binary("le", x, y), zero(x.dtype), Binary("sub", x, y))
        case _, (x, y):
            order = "lt" if name == "fmin" else "gt"
            for number, other in ((x, y), (y, x)):
                if isinstance(number, Const):
                    return Select(Binary(order, other, number), other, number)
            # Of two zeros C leaves open which one it is: the one that machines' instructions take.
            return Call("min_number" if name == "fmin" else "max_number", (x, y))
    raise AssertionError(name)
