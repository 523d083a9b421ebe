"""Complex numbers in dialects of C that have none: pairs `.x`, `.y` of real numbers.

CUDA C++ and OpenCL C have types of two floats or doubles, `float2` and `double2`; every operation
is a function of a few lines. Products are four real ones, as in all our code: C's own would also
recover infinities (Annex G). A multiply-add chains them on the addend, as LLVM's does.
"""

from __future__ import annotations

from typing import Protocol

from loopwright.backends.c_text.c_operations import Helper, helper
from loopwright.backends.c_text.c_syntax import ATOM, CText, c_type, constant
from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import BOOL, DType
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Unary
from loopwright.ir.visit import children

__all__ = ["is_on_pairs", "pair_text", "pairs_differ"]

_LINES: dict[str, tuple[int, tuple[str, ...]]] = {
    "add": (2, ("lw_r.x = lw_a.x + lw_b.x;", "lw_r.y = lw_a.y + lw_b.y;")),
    "sub": (2, ("lw_r.x = lw_a.x - lw_b.x;", "lw_r.y = lw_a.y - lw_b.y;")),
    "mul": (
        2,
        (
            "lw_r.x = lw_a.x * lw_b.x - lw_a.y * lw_b.y;",
            "lw_r.y = lw_a.x * lw_b.y + lw_a.y * lw_b.x;",
        ),
    ),
    "fma": (
        3,
        (
            "lw_r.x = lw_a.x * lw_b.x + lw_c.x;",
            "lw_r.x = lw_r.x - lw_a.y * lw_b.y;",
            "lw_r.y = lw_a.x * lw_b.y + lw_c.y;",
            "lw_r.y = lw_r.y + lw_a.y * lw_b.x;",
        ),
    ),
    "neg": (1, ("lw_r.x = -lw_a.x;", "lw_r.y = -lw_a.y;")),
    "conj": (1, ("lw_r.x = lw_a.x;", "lw_r.y = -lw_a.y;")),
}


class _Writer(Protocol):
    """The printer of expressions, as far as it is needed here."""

    helpers: dict[str, Helper]

    def value(self, expr: Expr) -> CText: ...


def is_on_pairs(expr: Expr) -> bool:
    """Whether an expression computes complex numbers, or with some."""
    match expr:
        case Const() | Unary() | Binary() | Cast() | Call():
            return expr.dtype.is_complex or any(x.dtype.is_complex for x in children(expr))
    return False


def pair_text(expr: Expr, write: _Writer) -> CText:
    """An expression on complex numbers; of a comparison C's 0 or 1."""
    match expr:
        case Const(value=value, dtype=dtype):
            parts = (constant(part, dtype.real) for part in (value.real, value.imag))
            return _call(_made(dtype), write, *parts)
        case Cast(x=x, dtype=dtype):
            return _cast(x, dtype, write)
        case Call(function="real" | "imag" as part, args=(x,)):
            return _part(write.value(x), part)
        case Unary(op="abs", x=x):
            given = write.value(x)
            name = "hypot" if x.dtype.real.bits == 64 else "hypotf"
            both = f"{_part(given, 'real')}, {_part(given, 'imag')}"
            return CText(f"__builtin_{name}({both})", ATOM)
        case Binary(op="eq" | "ne" as op, x=x, y=y):
            return pairs_differ(x.dtype, write.value(x), write.value(y), write, op)
        case Binary(op="div", x=x, y=y):
            return _call(_quotient(x.dtype), write, write.value(x), write.value(y))
        case Unary(op=op, x=x):
            return _plain(op, expr.dtype, write, x)
        case Binary(op=op, x=x, y=y):
            return _plain(op, expr.dtype, write, x, y)
        case Call(function=function, args=args):
            return _plain(function, expr.dtype, write, *args)
    raise AssertionError(f"not on complex numbers: {expr}")


def pairs_differ(dtype: DType, x: CText, y: CText, write: _Writer, op: str = "ne") -> CText:
    """Whether two complex numbers differ, or are equal."""
    sign, joint = ("!=", "||") if op == "ne" else ("==", "&&")
    test = f"lw_a.x {sign} lw_b.x {joint} lw_a.y {sign} lw_b.y"
    pair = c_type(dtype)
    return _call(Helper(f"lw_{op}_{dtype}", "int", (pair, pair), (), test), write, x, y)


def _plain(what: str, dtype: DType, write: _Writer, *args: Expr) -> CText:
    found = _LINES.get(what)
    if found is None:
        raise UsageError(
            f"'{what}' of complex numbers is not there for GPUs",
            hint="sums, products, quotients, absolute values and parts; or target='host'",
        )
    _, lines = found
    pair = c_type(dtype)
    made = Helper(
        f"lw_{what}_{dtype}", pair, (pair,) * len(args), (f"{pair} lw_r;", *lines), "lw_r"
    )
    return _call(made, write, *map(write.value, args))


def _cast(x: Expr, dtype: DType, write: _Writer) -> CText:
    source = x.dtype
    if not dtype.is_complex:
        given = write.value(x)
        if dtype == BOOL:
            zero = _call(_made(source), write, *(constant(0.0, source.real),) * 2)
            return pairs_differ(source, given, zero, write)
        return _real_cast(_part(given, "real"), source.real, dtype, write)
    if not source.is_complex:
        real = write.value(x if source == dtype.real else Cast(x, dtype.real))
        return _call(_made(dtype), write, real, constant(0.0, dtype.real))
    to, start = c_type(dtype), c_type(source)
    real_type = c_type(dtype.real)
    lines = (f"{to} lw_r;", f"lw_r.x = ({real_type})lw_a.x;", f"lw_r.y = ({real_type})lw_a.y;")
    return _call(
        Helper(f"lw_{source}_to_{dtype}", to, (start,), lines, "lw_r"), write, write.value(x)
    )


def _real_cast(found: CText, source: DType, dtype: DType, write: _Writer) -> CText:
    """A real number of `source` as another type."""
    if source == dtype:
        return found
    if dtype.is_integer:
        return _call(helper("to", dtype, source), write, found)
    return CText(f"({c_type(dtype)}){found.within(ATOM)}", ATOM - 1)


def _made(dtype: DType) -> Helper:
    """The function that makes a pair of two real numbers."""
    pair, real = c_type(dtype), c_type(dtype.real)
    lines = (f"{pair} lw_r;", "lw_r.x = lw_a;", "lw_r.y = lw_b;")
    return Helper(f"lw_pair_{dtype}", pair, (real, real), lines, "lw_r")


def _quotient(dtype: DType) -> Helper:
    """Smith's division, as on processors (c_operations)."""
    usual = helper("div", dtype)
    lines = [
        line.replace("__real__ lw_a", "lw_a.x")
        .replace("__imag__ lw_a", "lw_a.y")
        .replace("__real__ lw_b", "lw_b.x")
        .replace("__imag__ lw_b", "lw_b.y")
        for line in usual.lines
    ]
    lines += [
        f"{usual.result} lw_r;",
        "lw_r.x = lw_l == 0 ? lw_ar / lw_sr : lw_re;",
        "lw_r.y = lw_l == 0 ? lw_ai / lw_sr : lw_im;",
    ]
    return Helper(usual.name, usual.result, usual.params, tuple(lines), "lw_r")


def _part(pair: CText, part: str) -> CText:
    return CText(f"{pair.within(ATOM)}.{'x' if part == 'real' else 'y'}", ATOM)


def _call(made: Helper, write: _Writer, *args: CText) -> CText:
    write.helpers[made.name] = made
    return CText(f"{made.name}({', '.join(map(str, args))})", ATOM)
