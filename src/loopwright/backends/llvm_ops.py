"""Arithmetic on LLVM values: one function per kind of expression, tables for the operators.

Semantics are those of `ir/interpret.py`: integers wrap, `//` and `%` round down, division of an
integer by zero gives zero, min and max propagate NaN and order -0.0 before +0.0.
"""

from __future__ import annotations

from collections.abc import Callable

from loopwright.backends.llvm_text import Code, Flag, Value, intrinsic_suffix, literal, type_name
from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import BOOL, DType
from loopwright.ir.expr import COMPARISONS

__all__ = ["binary", "broadcast", "call", "cast", "compare", "select", "unary"]

_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INTEGER = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_EXTREME = {
    ("min", "f"): "minimum",
    ("max", "f"): "maximum",
    ("min", "i"): "smin",
    ("max", "i"): "smax",
    ("min", "u"): "umin",
    ("max", "u"): "umax",
    ("min", "b"): "umin",
    ("max", "b"): "umax",
}
_UNSIGNED_ORDER = {"lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}
_SIGNED_ORDER = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_INTRINSICS = {
    name: f"llvm.{name}"
    for name in ("sqrt", "exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "tanh")
} | {"floor": "llvm.floor", "ceil": "llvm.ceil", "pow": "llvm.pow"}


def broadcast(code: Code, value: Value, lanes: int) -> Value:
    """A scalar in every lane."""
    if value.lanes == lanes:
        return value
    assert value.lanes == 1

    def splat(text: str) -> str:
        vector = type_name(value.dtype, lanes)
        if not text.startswith("%"):
            element = f"{type_name(value.dtype)} {text}"
            return f"<{', '.join([element] * lanes)}>"
        first = code.emit(f"insertelement {vector} poison, {type_name(value.dtype)} {text}, i64 0")
        return code.emit(
            f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer"
        )

    return Value(splat(value.text), value.dtype, lanes, splat(value.imag) if value.imag else "")


def _same_lanes(code: Code, *values: Value) -> tuple[Value, ...]:
    lanes = max(v.lanes for v in values)
    return tuple(broadcast(code, v, lanes) for v in values)


def binary(code: Code, op: str, x: Value, y: Value) -> Value:
    """`x op y`, lane by lane."""
    x, y = _same_lanes(code, x, y)
    assert x.dtype == y.dtype, f"{op}: {x.dtype} and {y.dtype}"
    if op in COMPARISONS:
        flag = compare(code, op, x, y)
        return Value(code.emit(f"zext {flag} to {type_name(BOOL, x.lanes)}"), BOOL, x.lanes)
    if x.dtype.is_complex:
        return _complex_binary(code, op, x, y)
    if op in ("min", "max"):
        name = f"llvm.{_EXTREME[op, x.dtype.kind]}.{intrinsic_suffix(x.dtype, x.lanes)}"
        return Value(code.call(x.type, name, x, y), x.dtype, x.lanes)
    if x.dtype.is_float:
        return _float_binary(code, op, x, y)
    if x.dtype == BOOL:
        # NumPy's booleans: + is or, * is and.
        op = {"add": "or", "mul": "and"}.get(op, op)
    if op in _INTEGER:
        return Value(code.emit(f"{_INTEGER[op]} {x}, {y.text}"), x.dtype, x.lanes)
    if op in ("floordiv", "mod"):
        return _integer_division(code, op, x, y)
    raise InternalError(f"operator '{op}' is not defined for {x.dtype}")


def _float_binary(code: Code, op: str, x: Value, y: Value) -> Value:
    if op in _FLOAT:
        return Value(code.emit(f"{_FLOAT[op]} {x}, {y.text}"), x.dtype, x.lanes)
    if op == "pow":
        return call(code, "pow", (x, y))
    if op not in ("floordiv", "mod"):
        raise InternalError(f"operator '{op}' is not defined for {x.dtype}")
    # Python's rule: the remainder has the sign of the divisor, the quotient is what is left.
    zero = broadcast(code, literal(x.dtype, 0.0), x.lanes)
    rest = Value(code.emit(f"frem {x}, {y.text}"), x.dtype, x.lanes)
    nonzero = code.emit(f"fcmp une {rest}, {zero.text}")
    negative_rest = code.emit(f"fcmp olt {rest}, {zero.text}")
    negative_y = code.emit(f"fcmp olt {y}, {zero.text}")
    flag = Flag("", x.lanes).type
    differ = code.emit(f"xor {flag} {negative_rest}, {negative_y}")
    shift = code.emit(f"and {flag} {nonzero}, {differ}")
    moved = Value(code.emit(f"fadd {rest}, {y.text}"), x.dtype, x.lanes)
    suffix = intrinsic_suffix(x.dtype, x.lanes)
    signed = code.call(x.type, f"llvm.copysign.{suffix}", zero, y)
    kept = code.emit(f"select {flag} {nonzero}, {rest}, {x.type} {signed}")
    modulo = Value(code.emit(f"select {flag} {shift}, {moved}, {x.type} {kept}"), x.dtype, x.lanes)
    if op == "mod":
        return modulo
    exact = Value(code.emit(f"fsub {x}, {rest.text}"), x.dtype, x.lanes)
    quotient = Value(code.emit(f"fdiv {exact}, {y.text}"), x.dtype, x.lanes)
    one = broadcast(code, literal(x.dtype, 1.0), x.lanes)
    less = code.emit(f"fsub {quotient}, {one.text}")
    chosen = code.emit(f"select {flag} {shift}, {x.type} {less}, {quotient}")
    rounded = code.call(x.type, f"llvm.roundeven.{suffix}", Value(chosen, x.dtype, x.lanes))
    is_zero = code.emit(f"fcmp oeq {y}, {zero.text}")
    plain = code.emit(f"fdiv {x}, {y.text}")
    return Value(
        code.emit(
            f"select {Flag('', x.lanes).type} {is_zero}, {x.type} {plain}, {x.type} {rounded}"
        ),
        x.dtype,
        x.lanes,
    )


def _integer_division(code: Code, op: str, x: Value, y: Value) -> Value:
    """Floor division or its remainder; a zero divisor gives zero, never a trap."""
    zero, one = (broadcast(code, literal(x.dtype, n), x.lanes) for n in (0, 1))
    flag = Flag("", x.lanes).type
    by_zero = code.emit(f"icmp eq {y}, {zero.text}")
    signed = x.dtype.kind == "i"
    unsafe = by_zero
    if signed:
        # INT_MIN // -1 traps on x86; x // -1 = -x wraps as NumPy's does.
        minus_one = broadcast(code, literal(x.dtype, -1), x.lanes)
        by_minus_one = code.emit(f"icmp eq {y}, {minus_one.text}")
        unsafe = code.emit(f"or {flag} {by_zero}, {by_minus_one}")
    safe = Value(code.emit(f"select {flag} {unsafe}, {one}, {y}"), x.dtype, x.lanes)
    letter = "s" if signed else "u"
    quotient = code.emit(f"{letter}div {x}, {safe.text}")
    rest = code.emit(f"{letter}rem {x}, {safe.text}")
    if signed:
        mixed = code.emit(f"xor {x.type} {rest}, {safe.text}")
        negative = code.emit(f"icmp slt {x.type} {mixed}, {zero.text}")
        nonzero = code.emit(f"icmp ne {x.type} {rest}, {zero.text}")
        down = code.emit(f"and {flag} {negative}, {nonzero}")
        lower = code.emit(f"sub {x.type} {quotient}, {one.text}")
        quotient = code.emit(f"select {flag} {down}, {x.type} {lower}, {x.type} {quotient}")
        lifted = code.emit(f"add {x.type} {rest}, {safe.text}")
        rest = code.emit(f"select {flag} {down}, {x.type} {lifted}, {x.type} {rest}")
        negated = code.emit(f"sub {zero}, {x.text}")
        quotient = code.emit(
            f"select {flag} {by_minus_one}, {x.type} {negated}, {x.type} {quotient}"
        )
    result = quotient if op == "floordiv" else rest
    if op == "mod" and signed:
        result = code.emit(f"select {flag} {unsafe}, {zero}, {x.type} {result}")
    else:
        result = code.emit(f"select {flag} {by_zero}, {zero}, {x.type} {result}")
    return Value(result, x.dtype, x.lanes)


def _complex_binary(code: Code, op: str, x: Value, y: Value) -> Value:
    def part(text: str, of: Value = x) -> Value:
        return Value(text, of.dtype.real, of.lanes)

    def real(name: str, a: Value, b: Value) -> Value:
        return binary(code, name, a, b)

    xr, xi, yr, yi = part(x.text), part(x.imag), part(y.text), part(y.imag)
    match op:
        case "add" | "sub":
            re, im = real(op, xr, yr), real(op, xi, yi)
        case "mul":
            re = real("sub", real("mul", xr, yr), real("mul", xi, yi))
            im = real("add", real("mul", xr, yi), real("mul", xi, yr))
        case "div":
            norm = real("add", real("mul", yr, yr), real("mul", yi, yi))
            re = real("div", real("add", real("mul", xr, yr), real("mul", xi, yi)), norm)
            im = real("div", real("sub", real("mul", xi, yr), real("mul", xr, yi)), norm)
        case _:
            raise InternalError(f"operator '{op}' is not defined for {x.dtype}")
    return Value(re.text, x.dtype, x.lanes, im.text)


def compare(code: Code, op: str, x: Value, y: Value) -> Flag:
    """A comparison, lane by lane."""
    x, y = _same_lanes(code, x, y)
    if x.dtype.is_complex:
        predicate, join = ("oeq", "and") if op == "eq" else ("une", "or")
        re = code.emit(f"fcmp {predicate} {x}, {y.text}")
        im = code.emit(f"fcmp {predicate} {x.type} {x.imag}, {y.imag}")
        return Flag(code.emit(f"{join} {Flag(re, x.lanes)}, {im}"), x.lanes)
    if x.dtype.is_float:
        predicate = "une" if op == "ne" else f"o{op}"
        return Flag(code.emit(f"fcmp {predicate} {x}, {y.text}"), x.lanes)
    order = _SIGNED_ORDER if x.dtype.kind == "i" else _UNSIGNED_ORDER
    return Flag(code.emit(f"icmp {order.get(op, op)} {x}, {y.text}"), x.lanes)


def unary(code: Code, op: str, x: Value) -> Value:
    """`op x`, lane by lane."""
    if x.dtype.is_complex:
        return _complex_unary(code, op, x)
    if op == "neg":
        if x.dtype.is_float:
            return Value(code.emit(f"fneg {x}"), x.dtype, x.lanes)
        zero = broadcast(code, literal(x.dtype, 0), x.lanes)
        return Value(code.emit(f"sub {zero}, {x.text}"), x.dtype, x.lanes)
    if op == "not":
        ones = broadcast(code, literal(x.dtype, 1 if x.dtype == BOOL else -1), x.lanes)
        return Value(code.emit(f"xor {x}, {ones.text}"), x.dtype, x.lanes)
    assert op == "abs"
    suffix = intrinsic_suffix(x.dtype, x.lanes)
    if x.dtype.is_float:
        return Value(code.call(x.type, f"llvm.fabs.{suffix}", x), x.dtype, x.lanes)
    if x.dtype.kind != "i":
        return x
    return Value(code.call(x.type, f"llvm.abs.{suffix}", x, Flag("false")), x.dtype, x.lanes)


def _complex_unary(code: Code, op: str, x: Value) -> Value:
    re, im = Value(x.text, x.dtype.real, x.lanes), Value(x.imag, x.dtype.real, x.lanes)
    if op == "neg":
        return Value(unary(code, "neg", re).text, x.dtype, x.lanes, unary(code, "neg", im).text)
    if op == "abs":
        name = f"llvm.fma.{intrinsic_suffix(re.dtype, x.lanes)}"
        square = binary(code, "mul", re, re)
        total = Value(code.call(re.type, name, im, im, square), re.dtype, x.lanes)
        return call(code, "sqrt", (total,))
    raise InternalError(f"operator '{op}' is not defined for {x.dtype}")


def call(code: Code, function: str, args: tuple[Value, ...]) -> Value:
    """A pure function, lane by lane."""
    if function in _PARTS:
        return _PARTS[function](code, args[0])
    args = _same_lanes(code, *args)
    last = args[-1]
    if function == "fma":
        return _fma(code, *args)
    name = f"{_INTRINSICS[function]}.{intrinsic_suffix(last.dtype, last.lanes)}"
    return Value(code.call(last.type, name, *args), last.dtype, last.lanes)


def _conj(code: Code, x: Value) -> Value:
    if not x.dtype.is_complex:
        return x
    negated = unary(code, "neg", Value(x.imag, x.dtype.real, x.lanes))
    return Value(x.text, x.dtype, x.lanes, negated.text)


def _imag(code: Code, x: Value) -> Value:
    if x.dtype.is_complex:
        return Value(x.imag, x.dtype.real, x.lanes)
    return broadcast(code, literal(x.dtype, 0), x.lanes)


_PARTS: dict[str, Callable[[Code, Value], Value]] = {
    "conj": _conj,
    "real": lambda code, x: Value(x.text, x.dtype.real, x.lanes),
    "imag": _imag,
}


def _fma(code: Code, x: Value, y: Value, z: Value) -> Value:
    """x*y + z; complex products are four real ones chained on the accumulator."""
    if x.dtype.is_float:
        name = f"llvm.fma.{intrinsic_suffix(x.dtype, x.lanes)}"
        return Value(code.call(x.type, name, x, y, z), x.dtype, x.lanes)
    if not x.dtype.is_complex:
        return binary(code, "add", binary(code, "mul", x, y), z)

    def part(text: str) -> Value:
        return Value(text, x.dtype.real, x.lanes)

    minus = unary(code, "neg", part(x.imag))
    re = _fma(code, minus, part(y.imag), _fma(code, part(x.text), part(y.text), part(z.text)))
    im = _fma(
        code, part(x.imag), part(y.text), _fma(code, part(x.text), part(y.imag), part(z.imag))
    )
    return Value(re.text, x.dtype, x.lanes, im.text)


def select(code: Code, flag: Flag, x: Value, y: Value) -> Value:
    """`x` where `flag` holds, else `y`."""
    lanes = max(flag.lanes, x.lanes, y.lanes)
    x, y = broadcast(code, x, lanes), broadcast(code, y, lanes)
    text = code.emit(f"select {flag}, {x}, {y}")
    imag = code.emit(f"select {flag}, {x.type} {x.imag}, {y.type} {y.imag}") if x.imag else ""
    return Value(text, x.dtype, x.lanes, imag)


def cast(code: Code, x: Value, dtype: DType) -> Value:
    """Conversion by NumPy's `astype` rules; floats outside an integer's range saturate."""
    if x.dtype == dtype:
        return x
    if dtype.is_complex:
        real = cast(code, Value(x.text, x.dtype.real, x.lanes), dtype.real)
        imag = cast(code, Value(x.imag, x.dtype.real, x.lanes), dtype.real) if x.imag else None
        zero = broadcast(code, literal(dtype.real, 0.0), x.lanes)
        return Value(real.text, dtype, x.lanes, (imag or zero).text)
    if dtype == BOOL:
        zero = broadcast(code, literal(x.dtype, 0), x.lanes)
        return binary(code, "ne", x, zero)
    if x.dtype.is_complex:
        return cast(code, Value(x.text, x.dtype.real, x.lanes), dtype)
    target = type_name(dtype, x.lanes)
    signed = x.dtype.kind == "i"
    if x.dtype.is_float and dtype.is_float:
        word = "fpext" if dtype.bits > x.dtype.bits else "fptrunc"
    elif x.dtype.is_float:
        letter = "s" if dtype.kind == "i" else "u"
        to, of = intrinsic_suffix(dtype, x.lanes), intrinsic_suffix(x.dtype, x.lanes)
        return Value(code.call(target, f"llvm.fpto{letter}i.sat.{to}.{of}", x), dtype, x.lanes)
    elif dtype.is_float:
        word = "sitofp" if signed else "uitofp"
    elif dtype.bits == x.dtype.bits:
        return Value(x.text, dtype, x.lanes)
    elif dtype.bits < x.dtype.bits:
        word = "trunc"
    else:
        word = "sext" if signed else "zext"
    return Value(code.emit(f"{word} {x} to {target}"), dtype, x.lanes)
