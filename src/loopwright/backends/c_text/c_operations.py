"""Operations that C lacks: helper functions, macros and builtins that compute them.

In a file of its own a helper is an inline function. Between the user's lines no function can be
defined, so there it is a macro of the same lines, defined where the region begins and undefined
where it ends. The arguments of a macro become variables first, so each is evaluated once; names
that begin with `lw_` are ours, so that nested uses do not meet the user's variables. Mathematical
functions are the compiler's builtins: no header is needed for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from loopwright.backends.c_text.c_syntax import ATOM, UNARY, CText, c_type, constant, wrap_type
from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import DTYPES, FLOAT32, FLOAT64, DType
from loopwright.ir.intervals import limits
from loopwright.lazy_dataclass import dataclass

__all__ = ["Helper", "helper", "math_call"]


@dataclass(frozen=True, slots=True)
class Helper:
    """A function `name(lw_a, lw_b, ...)` of C: statements, then its value."""

    name: str
    result: str  # type of the value; "" for a plain macro over any type
    params: tuple[str, ...]  # types of the arguments
    lines: tuple[str, ...]
    value: str
    arm: str = ""  # what computes the same in one instruction where __aarch64__ is defined
    alone: str = ""  # the value where `needs` does not hold
    needs: str = "_OPENMP"  # a macro that must be defined, or a condition of the preprocessor
    note: str = ""  # what stands above it

    def function(self, head: str = "static inline") -> str:
        """The helper as a definition of a file, which begins with `head`."""
        if not self.result:
            return self.macro()
        params = ", ".join(f"{t} {n}" for t, n in zip(self.params, _NAMES, strict=False))
        body = "".join(f"    {line}\n" for line in (*self.lines, f"return {self.value};"))
        if self.arm:
            call = f"{self.arm}({', '.join(_NAMES[: len(self.params)])})"
            body = f"#ifdef __aarch64__\n    return {call};\n#else\n{body}#endif\n"
        if self.alone:
            body = f"{self._condition}{body}#else\n    return {self.alone};\n#endif\n"
        space = "" if self.result.endswith("*") else " "
        return f"{self._comment}{head} {self.result}{space}{self.name}({params})\n{{\n{body}}}\n"

    def macro(self) -> str:
        """The helper as a macro."""
        names = _NAMES[: len(self.params)]
        head = f"#define {self.name}({', '.join(n.removeprefix('lw_') for n in names)})"
        if not self.result:
            whole = f"{head} {self.value}\n"
            return self._with_alternative(head, whole) if self.alone else whole
        pairs = zip(self.params, names, strict=True)
        bound = [f"const {t} {n} = ({n.removeprefix('lw_')});" for t, n in pairs]
        parts = [" ".join(bound), *self.lines, f"({self.result})({self.value});"]
        body = " \\\n    ".join(parts)
        whole = f"{head} __extension__({{ \\\n    {body} }})\n"
        if self.alone:
            return self._with_alternative(head, whole)
        if not self.arm:
            return whole
        short = f"#define {self.name} {self.arm}\n"
        return f"#ifdef __aarch64__\n{short}#else\n{whole}#endif\n"

    def _with_alternative(self, head: str, whole: str) -> str:
        plain = re.sub(r"\blw_([abc])\b", r"\1", self.alone)
        return f"{self._comment}{self._condition}{whole}#else\n{head} {plain}\n#endif\n"

    @property
    def _condition(self) -> str:
        return f"#{'ifdef' if self.needs.isidentifier() else 'if'} {self.needs}\n"

    @property
    def _comment(self) -> str:
        return f"/* {self.note} */\n" if self.note else ""


_NAMES = ("lw_a", "lw_b", "lw_c")


def helper(what: str, dtype: DType, source: DType | None = None) -> Helper:
    """The helper of an operation on a type; `source` is the type that a conversion starts from."""
    if what == "to":
        assert source is not None
        return _saturated(source, dtype)
    if dtype.is_stored_only:
        return _WIDENED if what == "widened" else _NARROWED
    if what == "choose":
        return _choose(dtype)
    if what == "admit":  # on every machine (c_choices)
        return replace(_choose(dtype), name=f"lw_admit_{dtype}", alone="")
    if what in _PLAIN:
        count, value = _PLAIN[what]
        return Helper(f"lw_{what}", "", ("",) * count, (), value)
    kind = "c" if dtype.is_complex else "f" if dtype.is_float else "i"
    make = _MAKERS.get((what, kind))
    if make is None:
        raise InternalError(f"'{what}' of {dtype} has no C")
    count, write = make
    lines, value = write(dtype)
    element = c_type(dtype)
    arm = _ON_ARM.get(what, "") and f"{_ON_ARM[what]}{'f' if dtype.bits == 32 else ''}"
    return Helper(f"lw_{what}_{dtype}", element, (element,) * count, lines, value, arm)


# bfloat16 is the upper half of a float32; to it the nearest is taken, ties to even.
_BITS = "union { float lw_f; unsigned lw_u; } lw_x;"
_WIDENED = Helper(
    "lw_widened_bfloat16",
    "float",
    ("unsigned short",),
    (_BITS, "lw_x.lw_u = (unsigned)lw_a << 16;"),
    "lw_x.lw_f",
)
_NARROWED = Helper(
    "lw_narrowed_bfloat16",
    "unsigned short",
    ("float",),
    (
        _BITS,
        "lw_x.lw_f = lw_a;",
        "const unsigned lw_up = 0x7fffu + (lw_x.lw_u >> 16 & 1u);",
        "const unsigned lw_r = lw_a != lw_a ? lw_x.lw_u | 0x400000u : lw_x.lw_u + lw_up;",
    ),
    "(unsigned short)(lw_r >> 16)",
)


def _choose(dtype: DType) -> Helper:
    """One of two numbers by a condition, as bits under a mask."""
    element, bits = c_type(dtype), c_type(DTYPES[f"int{dtype.bits}"])
    mask = f"const {bits} lw_m = -({bits})lw_a;"
    lines: tuple[str, ...] = (mask,)
    if dtype.is_float:
        lines = (
            mask,
            f"union {{ {element} lw_f; {bits} lw_i; }} lw_x, lw_y;",
            "lw_x.lw_f = lw_b, lw_y.lw_f = lw_c;",
            "lw_x.lw_i = (lw_x.lw_i & lw_m) | (lw_y.lw_i & ~lw_m);",
        )
        value = "lw_x.lw_f"
    else:
        value = f"(({bits})lw_b & lw_m) | (({bits})lw_c & ~lw_m)"
    alone = "((lw_a) ? (lw_b) : (lw_c))"
    name, params = f"lw_choose_{dtype}", ("int", element, element)
    return Helper(name, element, params, lines, value, alone=alone, needs="__aarch64__")


# -- over any type: for bounds and subscripts, whose operands are short -------------------------

_PLAIN = {
    "min": (2, "((a) < (b) ? (a) : (b))"),
    "max": (2, "((a) > (b) ? (a) : (b))"),
    # Rounded down, for a divisor greater than zero.
    "floord": (2, "((a) / (b) - ((a) % (b) < 0))"),
    "modulo": (2, "((a) % (b) + ((a) % (b) < 0 ? (b) : 0))"),
}

_Lines = tuple[tuple[str, ...], str]


def _floordiv(dtype: DType) -> _Lines:
    """Floor division; a divisor of zero gives zero, the least number by -1 is itself."""
    if dtype.kind == "u":
        return (), "lw_b == 0 ? 0 : lw_a / lw_b"
    negated = f"({c_type(dtype)})(0 - ({wrap_type(dtype)})lw_a)"
    safe = "const int lw_safe = lw_b != 0 && lw_b != -1;"
    divisor = f"const {c_type(dtype)} lw_d = lw_safe ? lw_b : 1;"
    down = "lw_a / lw_d - (lw_a % lw_d != 0 && (lw_a < 0) != (lw_d < 0))"
    return (safe, divisor), f"lw_safe ? {down} : lw_b ? {negated} : 0"


def _mod(dtype: DType) -> _Lines:
    if dtype.kind == "u":
        return (), "lw_b == 0 ? 0 : lw_a % lw_b"
    rest = f"const {c_type(dtype)} lw_r = lw_b == 0 || lw_b == -1 ? 0 : lw_a % lw_b;"
    return (rest,), "lw_r != 0 && (lw_r < 0) != (lw_b < 0) ? lw_r + lw_b : lw_r"


def _quotient(dtype: DType) -> _Lines:
    """C's own division, defined for all operands."""
    negated = f"({c_type(dtype)})(0 - ({wrap_type(dtype)})lw_a)"
    safe = "const int lw_safe = lw_b != 0 && lw_b != -1;"
    return (safe,), f"lw_safe ? lw_a / (lw_safe ? lw_b : 1) : lw_b ? {negated} : 0"


def _remainder(dtype: DType) -> _Lines:
    return (), "lw_b == 0 || lw_b == -1 ? 0 : lw_a % lw_b"


def _absolute(dtype: DType) -> _Lines:
    wide = wrap_type(dtype)
    return (), f"({c_type(dtype)})(lw_a < 0 ? 0 - ({wide})lw_a : ({wide})lw_a)"


def _power(dtype: DType) -> _Lines:
    """Modulo 2^bits; to a negative power 1/x^n rounded towards zero, and 0 for x = 0."""
    wide = wrap_type(dtype)
    lines = (
        f"{wide} lw_base = ({wide})lw_a, lw_left = ({wide})lw_b, lw_total = 1;",
        "for (; lw_left != 0; lw_left >>= 1, lw_base *= lw_base)",
        "    lw_total *= lw_left & 1 ? lw_base : 1;",
    )
    whole = f"({c_type(dtype)})lw_total"
    if dtype.kind == "u":
        return lines, whole
    return lines, f"lw_b < 0 && lw_a != 1 && lw_a != -1 ? 0 : {whole}"


def _saturating_sum(dtype: DType) -> _Lines:
    """A saturating sum."""
    low, high = (constant(limit, dtype) for limit in limits(dtype))
    total = f"({c_type(dtype)})(lw_a + lw_b)"
    if dtype.kind == "u":
        return (), f"lw_a > {high} - lw_b ? {high} : {total}"
    above, below = f"lw_b > 0 && lw_a > {high} - lw_b", f"lw_b < 0 && lw_a < {low} - lw_b"
    return (), f"{above} ? {high} : {below} ? {low} : {total}"


def _absorbing_sum(dtype: DType, end: int) -> _Lines:
    """A saturating sum in which the end `end` of the type absorbs."""
    lines, finite = _saturating_sum(dtype)
    if dtype.kind == "u":
        return lines, finite
    absorbs = constant(end, dtype)
    return lines, f"lw_a == {absorbs} || lw_b == {absorbs} ? {absorbs} : {finite}"


def _add_top(dtype: DType) -> _Lines:
    return _absorbing_sum(dtype, limits(dtype)[1])


def _add_bottom(dtype: DType) -> _Lines:
    return _absorbing_sum(dtype, limits(dtype)[0])


def _saturating_product(dtype: DType) -> _Lines:
    """A saturating product, by the magnitudes of its factors."""
    low, high = limits(dtype)
    wide = wrap_type(dtype)
    top = constant(high, dtype)
    if dtype.kind == "u":
        product = f"({c_type(dtype)})(({wide})lw_a * lw_b)"
        return (), f"lw_b != 0 && lw_a > {top} / lw_b ? {top} : {product}"
    sizes = ", ".join(
        f"lw_{n} = lw_{side} < 0 ? 0 - ({wide})lw_{side} : ({wide})lw_{side}"
        for n, side in zip("xy", "ab", strict=True)
    )
    lines = (
        "const int lw_minus = (lw_a < 0) != (lw_b < 0);",
        f"const {wide} {sizes};",
        f"const {wide} lw_most = ({wide}){top} + lw_minus;",
    )
    end = f"lw_minus ? {constant(low, dtype)} : {top}"
    product = f"({c_type(dtype)})(lw_minus ? 0 - lw_x * lw_y : lw_x * lw_y)"
    return lines, f"lw_y != 0 && lw_x > lw_most / lw_y ? ({end}) : {product}"


def _shift_left(dtype: DType) -> _Lines:
    """In an unsigned type: C leaves open what signed numbers are beyond their range."""
    wide = wrap_type(dtype)
    return (), f"({c_type(dtype)})(({wide})lw_a << (lw_b & {dtype.bits - 1}))"


def _shift_right(dtype: DType) -> _Lines:
    return (), f"({c_type(dtype)})(lw_a >> (lw_b & {dtype.bits - 1}))"


def _extreme(dtype: DType, sign: str, if_zero: str) -> _Lines:
    order = f"lw_b {sign} lw_a || lw_b != lw_b ? lw_b : lw_a"
    return (), f"lw_a == lw_b ? (__builtin_signbit(lw_a) ? {if_zero}) : ({order})"


def _float_min(dtype: DType) -> _Lines:
    return _extreme(dtype, "<", "lw_a : lw_b")


def _float_max(dtype: DType) -> _Lines:
    return _extreme(dtype, ">", "lw_b : lw_a")


def _number(dtype: DType, sign: str, join: str) -> _Lines:
    """The extreme that is no NaN. Of equal numbers the bits are joined: zeros may differ in one.

    Compilers take these selections into vectors; a sum of zeros in their place gcc does not.
    """
    bits = "int" if dtype.bits == 32 else "long long"
    given = f"union {{ {c_type(dtype)} lw_f; {bits} lw_i; }} lw_x = {{lw_a}}, lw_y = {{lw_b}};"
    order = f"(lw_a {sign} lw_b) | (lw_b != lw_b) ? lw_a : lw_b"
    return (given, f"lw_x.lw_i {join}= lw_y.lw_i;"), f"lw_a == lw_b ? lw_x.lw_f : {order}"


def _least_number(dtype: DType) -> _Lines:
    return _number(dtype, "<", "|")


def _most_number(dtype: DType) -> _Lines:
    return _number(dtype, ">", "&")


def _int_min(dtype: DType) -> _Lines:
    return (), "lw_b < lw_a ? lw_b : lw_a"


def _int_max(dtype: DType) -> _Lines:
    return (), "lw_b > lw_a ? lw_b : lw_a"


def _float_rest(real: str, suffix: str) -> tuple[str, ...]:
    return (
        f"const {real} lw_r = __builtin_fmod{suffix}(lw_x, lw_y);",
        "const int lw_down = lw_r != 0 && (lw_r < 0) != (lw_y < 0);",
    )


def _widened(dtype: DType) -> tuple[str, str, str]:
    """The type to divide in, the suffix of its functions, the line that converts to it.

    Halves are divided as floats: one rounding at the end, not one per step.
    """
    wide = FLOAT64 if dtype.bits == 64 else FLOAT32
    real = c_type(wide)
    return real, "" if wide is FLOAT64 else "f", f"const {real} lw_x = lw_a, lw_y = lw_b;"


def _float_mod(dtype: DType) -> _Lines:
    """NumPy's remainder: it has the sign of the divisor, also where it is zero."""
    real, suffix, given = _widened(dtype)
    exact = f"(lw_r != 0 ? lw_r : __builtin_copysign{suffix}(0, lw_y))"
    value = f"lw_down ? lw_r + lw_y : {exact}"
    return (given, *_float_rest(real, suffix)), f"({c_type(dtype)})({value})"


def _float_floordiv(dtype: DType) -> _Lines:
    """The floor division of NumPy, step by step."""
    real, suffix, given = _widened(dtype)
    lines = (
        given,
        *_float_rest(real, suffix),
        f"const {real} lw_q = (lw_x - lw_r) / lw_y - (lw_down ? 1 : 0);",
        f"const {real} lw_f = __builtin_floor{suffix}(lw_q);",
        f"const {real} lw_w = lw_q - lw_f > ({real})0.5 ? lw_f + 1 : lw_f;",
        f"const {real} lw_z = __builtin_copysign{suffix}(0, lw_x / lw_y);",
    )
    value = "lw_y == 0 ? lw_x / lw_y : lw_q == 0 ? lw_z : lw_w"
    return lines, f"({c_type(dtype)})({value})"


def _complex_mul(dtype: DType) -> _Lines:
    """Four real products; C's own multiplication also recovers infinities (Annex G)."""
    real = c_type(dtype.real)
    lines = (
        f"const {real} lw_ar = __real__ lw_a, lw_ai = __imag__ lw_a;",
        f"const {real} lw_br = __real__ lw_b, lw_bi = __imag__ lw_b;",
    )
    parts = "lw_ar * lw_br - lw_ai * lw_bi, lw_ar * lw_bi + lw_ai * lw_br"
    return lines, f"__builtin_complex({parts})"


def _complex_div(dtype: DType) -> _Lines:
    """Smith's division, as NumPy's: the squares of the parts may overflow, their ratio does not."""
    real, suffix = c_type(dtype.real), "" if dtype.real.bits == 64 else "f"
    lines = (
        f"const {real} lw_ar = __real__ lw_a, lw_ai = __imag__ lw_a;",
        f"const {real} lw_br = __real__ lw_b, lw_bi = __imag__ lw_b;",
        f"const {real} lw_sr = __builtin_fabs{suffix}(lw_br);",
        f"const int lw_swap = !(lw_sr >= __builtin_fabs{suffix}(lw_bi));",
        f"const {real} lw_l = lw_swap ? lw_bi : lw_br, lw_s = lw_swap ? lw_br : lw_bi;",
        f"const {real} lw_p = lw_swap ? lw_ai : lw_ar, lw_q = lw_swap ? lw_ar : lw_ai;",
        f"const {real} lw_t = lw_s / lw_l;",
        f"const {real} lw_m = 1 / (lw_l + lw_s * lw_t);",
        f"const {real} lw_re = (lw_p + lw_q * lw_t) * lw_m;",
        f"const {real} lw_v = lw_p * lw_t;",
        # A negated difference would have another zero.
        f"const {real} lw_im = (lw_swap ? lw_v - lw_q : lw_q - lw_v) * lw_m;",
    )
    usual = "__builtin_complex(lw_re, lw_im)"
    nothing = "__builtin_complex(lw_ar / lw_sr, lw_ai / lw_sr)"
    return lines, f"lw_l == 0 ? {nothing} : {usual}"


def _complex_pow(dtype: DType) -> _Lines:
    one = constant(1.0, dtype)
    wide = c_type(DTYPES["complex128"])
    return (), f"lw_b == 0 ? {one} : ({c_type(dtype)})__builtin_cpow(({wide})lw_a, ({wide})lw_b)"


# fminnm and fmaxnm: elsewhere compilers call a function of the library.
_ON_ARM = {"least_number": "__builtin_fmin", "most_number": "__builtin_fmax"}
_MAKERS: dict[tuple[str, str], tuple[int, Callable[[DType], _Lines]]] = {
    ("floordiv", "i"): (2, _floordiv),
    ("mod", "i"): (2, _mod),
    ("quotient", "i"): (2, _quotient),
    ("remainder", "i"): (2, _remainder),
    ("least", "i"): (2, _int_min),
    ("most", "i"): (2, _int_max),
    ("abs", "i"): (1, _absolute),
    ("pow", "i"): (2, _power),
    ("shl", "i"): (2, _shift_left),
    ("shr", "i"): (2, _shift_right),
    ("add_sat", "i"): (2, _saturating_sum),
    ("add_top", "i"): (2, _add_top),
    ("add_bottom", "i"): (2, _add_bottom),
    ("mul_sat", "i"): (2, _saturating_product),
    ("least", "f"): (2, _float_min),
    ("most", "f"): (2, _float_max),
    ("least_number", "f"): (2, _least_number),
    ("most_number", "f"): (2, _most_number),
    ("floordiv", "f"): (2, _float_floordiv),
    ("mod", "f"): (2, _float_mod),
    ("mul", "c"): (2, _complex_mul),
    ("div", "c"): (2, _complex_div),
    ("pow", "c"): (2, _complex_pow),
}


def _saturated(source: DType, dtype: DType) -> Helper:
    """A saturating conversion of a float to an integer, towards zero; NaN gives zero."""
    low, high = limits(dtype)
    wide = FLOAT64 if source.bits == 64 else FLOAT32
    # 2^(bits - 1) and 2^bits are floats, the numbers before them need not be.
    top = constant(float(high + 1), wide)
    bottom = constant(float(low), wide)
    first, last = constant(low, dtype), constant(high, dtype)
    lines = (f"const {c_type(wide)} lw_x = lw_a;",)
    inside = f"lw_x >= {top} ? {last} : lw_x <= {bottom} ? {first} : ({c_type(dtype)})lw_x"
    name = f"lw_{source}_to_{dtype}"
    return Helper(name, c_type(dtype), (c_type(source),), lines, f"lw_x != lw_x ? 0 : {inside}")


# -- mathematical functions -----------------------------------------------------------------------

_LOG2_E, _LOG10_E, _LN_2 = 1.4426950408889634, 0.4342944819032518, 0.6931471805599453
# Function -> the C function of complex numbers, a factor of its argument, a factor of its result.
_COMPLEX: dict[str, tuple[str, float, float]] = {
    "exp2": ("cexp", _LN_2, 1.0),
    "log2": ("clog", 1.0, _LOG2_E),
    "log10": ("clog", 1.0, _LOG10_E),
}


def math_call(function: str, dtype: DType, source: DType, *args: CText) -> CText:
    """A call that gives a value of `dtype` from floating or complex arguments of type `source`."""
    if source.is_complex:
        return _complex(function, dtype, source, args[0])
    match function:
        case "conj" | "real":
            return args[0]
        case "imag":
            return constant(0.0, dtype)
    name = f"__builtin_{'fabs' if function == 'abs' else function}"
    if source.bits == 64:
        return CText(f"{name}({', '.join(map(str, args))})", ATOM)
    if source.bits == 32:
        return CText(f"{name}f({', '.join(map(str, args))})", ATOM)
    wide = ", ".join(f"(float){arg.within(UNARY)}" for arg in args)
    return CText(f"({c_type(dtype)}){name}f({wide})", UNARY)


def _complex(function: str, dtype: DType, source: DType, x: CText) -> CText:
    suffix = "" if source.real.bits == 64 else "f"
    match function:
        case "real" | "imag":
            return CText(f"__{function}__ {x.within(UNARY)}", UNARY)
        case "conj":
            return CText(f"__builtin_conj{suffix}({x})", ATOM)
        case "abs":
            return CText(f"__builtin_cabs{suffix}({x})", ATOM)
    name, before, after = _COMPLEX.get(function, (f"c{function}", 1.0, 1.0))
    wide = DTYPES["complex128"]
    argument = x.text if source == wide else f"({c_type(wide)}){x.within(UNARY)}"
    if before != 1.0:
        argument = f"{constant(before, FLOAT64)} * ({argument})"
    text = f"__builtin_{name}({argument})"
    if after != 1.0:
        text = f"({constant(after, FLOAT64)} * {text})"
    return CText(text, ATOM) if dtype == wide else CText(f"({c_type(dtype)}){text}", UNARY)
