"""Mathematical functions in C, by the compiler's own names: no header is needed for them."""

from __future__ import annotations

from loopwright.backends.c_types import ATOM, UNARY, Code, c_type, constant
from loopwright.ir.dtypes import DTYPES, FLOAT64, DType

__all__ = ["call_text"]

_LOG2_E, _LOG10_E, _LN_2 = 1.4426950408889634, 0.4342944819032518, 0.6931471805599453
# Function -> the C function of complex numbers, a factor of its argument, a factor of its result.
_COMPLEX: dict[str, tuple[str, float, float]] = {
    "exp2": ("cexp", _LN_2, 1.0),
    "log2": ("clog", 1.0, _LOG2_E),
    "log10": ("clog", 1.0, _LOG10_E),
}


def call_text(function: str, dtype: DType, source: DType, *args: Code) -> Code:
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
        return Code(f"{name}({', '.join(map(str, args))})", ATOM)
    if source.bits == 32:
        return Code(f"{name}f({', '.join(map(str, args))})", ATOM)
    wide = ", ".join(f"(float){arg.within(UNARY)}" for arg in args)
    return Code(f"({c_type(dtype)}){name}f({wide})", UNARY)


def _complex(function: str, dtype: DType, source: DType, x: Code) -> Code:
    suffix = "" if source.real.bits == 64 else "f"
    match function:
        case "real" | "imag":
            return Code(f"__{function}__ {x.within(UNARY)}", UNARY)
        case "conj":
            return Code(f"__builtin_conj{suffix}({x})", ATOM)
        case "abs":
            return Code(f"__builtin_cabs{suffix}({x})", ATOM)
    name, before, after = _COMPLEX.get(function, (f"c{function}", 1.0, 1.0))
    wide = DTYPES["complex128"]
    argument = x.text if source == wide else f"({c_type(wide)}){x.within(UNARY)}"
    if before != 1.0:
        argument = f"{constant(before, FLOAT64)} * ({argument})"
    text = f"__builtin_{name}({argument})"
    if after != 1.0:
        text = f"({constant(after, FLOAT64)} * {text})"
    return Code(text, ATOM) if dtype == wide else Code(f"({c_type(dtype)}){text}", UNARY)
