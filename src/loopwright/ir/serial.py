"""Expressions, accesses, arrays and contractions as JSON values, and back.

A noun becomes a list that begins with its name: `A[i]` is ["load", "A", [["var", "i", "int64"]],
"float64"]. Floating constants are written in hexadecimal, so every bit survives. Readers take
nothing on trust: what is not exactly of this form raises Malformed. Whether names and types fit
together is for `check_expr` to say.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from enum import Enum
from typing import Any, TypeAlias, assert_never, get_type_hints

from loopwright.ir.contraction import Contraction, LoopRange, Operand
from loopwright.ir.dtypes import DTYPES, DType
from loopwright.ir.expr import (
    BINARY_OPS,
    FUNCTIONS,
    UNARY_OPS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
)
from loopwright.ir.grid_kernel import ElementsVariant, GridVariant
from loopwright.ir.kernel_variant import KernelVariant
from loopwright.ir.program import Access, Array, Role

__all__ = [
    "Malformed",
    "read_array",
    "read_contraction",
    "read_expr",
    "read_grid_variant",
    "read_variant",
    "to_json",
    "variant_to_json",
]

Json: TypeAlias = Any  # what the json module takes and gives
Noun: TypeAlias = Expr | Access | Array | LoopRange | Operand | Contraction
Number: TypeAlias = bool | int | float | complex


class Malformed(ValueError):  # noqa: N818, names what was found
    """A JSON value is no noun of ours; holds the smallest part at fault."""

    def __init__(self, what: str, found: object) -> None:
        super().__init__(f"not {what}: {found!r:.200}")


def to_json(noun: Noun) -> Json:
    """`noun` as lists, texts and numbers."""
    match noun:
        case Const(value=value, dtype=dtype):
            return ["const", _number(value), dtype.name]
        case Var(name=name, dtype=dtype):
            return ["var", name, dtype.name]
        case Load(array=array, index=index, dtype=dtype):
            return ["load", array, _list(index), dtype.name]
        case Unary(op=op, x=x):
            return ["unary", op, to_json(x)]
        case Binary(op=op, x=x, y=y):
            return ["binary", op, to_json(x), to_json(y)]
        case Select(cond=cond, x=x, y=y):
            return ["select", to_json(cond), to_json(x), to_json(y)]
        case Cast(x=x, dtype=dtype):
            return ["cast", to_json(x), dtype.name]
        case Call(function=function, args=args):
            return ["call", function, _list(args)]
        case Access(array=array, index=index, dtype=dtype):
            return ["access", array, _list(index), dtype.name]
        case Array(name=name, dtype=dtype, shape=shape, role=role):
            return ["array", name, dtype.name, _list(shape), role.value]
        case LoopRange(name=name, start=start, stop=stop):
            return ["loop", name, to_json(start), to_json(stop)]
        case Operand(access=access, value=value):
            return ["operand", to_json(access), to_json(value)]
        case Contraction():
            return _contraction(noun)
        case _:
            assert_never(noun)


def _list(nouns: tuple[Noun, ...]) -> list[Json]:
    return [to_json(noun) for noun in nouns]


def _number(value: Number) -> Json:
    match value:
        case bool() | int():
            return value
        case float():
            return value.hex()
        case complex():
            return [value.real.hex(), value.imag.hex()]


def _operator(operator: str | Expr) -> Json:
    return operator if isinstance(operator, str) else to_json(operator)


def _contraction(found: Contraction) -> Json:
    return {
        "statement": found.statement,
        "operators": [_operator(found.plus), _operator(found.times)],
        "zero": _number(found.zero),
        "dtype": found.dtype.name,
        "bundles": [_list(loops) for loops in (found.batch, found.i, found.j, found.p)],
        "out": to_json(found.out),
        "left": to_json(found.left),
        "right": None if found.right is None else to_json(found.right),
        "initial": to_json(found.initial),
        "final": to_json(found.final),
        "reassoc": found.reassoc,
        "covers": list(found.covers),
    }


# -- and back ---------------------------------------------------------------------------------


def read_expr(data: Json) -> Expr:
    """The expression that `to_json` wrote."""
    match data:
        case ["const", value, dtype]:
            return Const(_value(value), _dtype(dtype))
        case ["var", str(name), dtype]:
            return Var(name, _dtype(dtype))
        case ["load", str(array), list(index), dtype]:
            return Load(array, tuple(map(read_expr, index)), _dtype(dtype))
        case ["unary", str(op), x] if op in UNARY_OPS:
            return Unary(op, read_expr(x))
        case ["binary", str(op), x, y] if op in BINARY_OPS:
            return Binary(op, read_expr(x), read_expr(y))
        case ["select", cond, x, y]:
            return Select(read_expr(cond), read_expr(x), read_expr(y))
        case ["cast", x, dtype]:
            return Cast(read_expr(x), _dtype(dtype))
        case ["call", str(function), list(args)] if len(args) == FUNCTIONS.get(function):
            return Call(function, tuple(map(read_expr, args)))
    raise Malformed("an expression", data)


def read_array(data: Json) -> Array:
    """The array that `to_json` wrote."""
    match data:
        case ["array", str(name), dtype, list(shape), str(role)] if role in _ROLES:
            return Array(name, _dtype(dtype), tuple(map(read_expr, shape)), Role(role))
    raise Malformed("an array", data)


def read_contraction(data: Json) -> Contraction:
    """The contraction that `to_json` wrote."""
    match data:
        case {
            "statement": str(statement),
            "operators": [plus, times],
            "zero": zero,
            "dtype": dtype,
            "bundles": [list(batch), list(i), list(j), list(p)],
            "out": out,
            "left": left,
            "right": right,
            "initial": initial,
            "final": final,
            "reassoc": bool(reassoc),
            "covers": list(covers),
        } if all(isinstance(s, str) for s in covers):
            return Contraction(
                statement,
                _read_operator(plus),
                _read_operator(times),
                _value(zero),
                _dtype(dtype),
                tuple(map(_loop, batch)),
                tuple(map(_loop, i)),
                tuple(map(_loop, j)),
                tuple(map(_loop, p)),
                out=_access(out),
                left=_operand(left),
                right=None if right is None else _operand(right),
                initial=read_expr(initial),
                final=read_expr(final),
                reassoc=reassoc,
                covers=tuple(covers),
            )
    raise Malformed("a contraction", data)


def _read_operator(data: Json) -> str | Expr:
    if not isinstance(data, str):
        return read_expr(data)
    if data not in BINARY_OPS:
        raise Malformed("an operator", data)
    return data


def variant_to_json(variant: KernelVariant | GridVariant | ElementsVariant) -> Json:
    """A kernel variant as an object: enumerations by their values.

    `strided` is left out where a contraction has no tables, as in plans that are older than it.
    """
    values = {field.name: getattr(variant, field.name) for field in fields(variant)}
    if isinstance(variant, KernelVariant) and variant.strided == "gijp":
        del values["strided"]
    return {name: x.value if isinstance(x, Enum) else x for name, x in values.items()}


def read_variant(data: Json) -> KernelVariant:
    """The kernel variant that `variant_to_json` wrote."""
    if not isinstance(data, dict) or data.keys() | {"strided"} != _VARIANT.keys():
        raise Malformed("a kernel variant", data)
    return KernelVariant(**{name: _decision(name, x, _VARIANT[name]) for name, x in data.items()})


def read_grid_variant(data: Json) -> GridVariant | ElementsVariant:
    """The variant of a GPU's kernel that `variant_to_json` wrote; its fields tell which it is.

    Fields that came later, and have a value of their own, may be missing.
    """
    for cls in (GridVariant, ElementsVariant):
        types = get_type_hints(cls)
        needed = {field.name for field in fields(cls) if field.default is MISSING}
        if isinstance(data, dict) and needed <= data.keys() <= types.keys():
            return cls(**{name: _decision(name, x, types[name]) for name, x in data.items()})
    raise Malformed("a variant of a GPU's kernel", data)


def _decision(name: str, value: Json, wanted: type) -> Any:
    if issubclass(wanted, Enum) and isinstance(value, str):
        for member in wanted:
            if member.value == value:
                return member
    # JSON's true is an int in Python, but not a number to us.
    elif type(value) is wanted and (not isinstance(value, int) or 0 <= value <= _MOST_SIZE):
        return value
    raise Malformed(f"a value of '{name}' of a kernel variant", value)


_VARIANT: dict[str, type] = get_type_hints(KernelVariant)
_MOST_SIZE = 1 << 16
_ROLES = frozenset(role.value for role in Role)


def _access(data: Json) -> Access:
    match data:
        case ["access", str(array), list(index), dtype]:
            return Access(array, tuple(map(read_expr, index)), _dtype(dtype))
    raise Malformed("an access", data)


def _loop(data: Json) -> LoopRange:
    match data:
        case ["loop", str(name), start, stop]:
            return LoopRange(name, read_expr(start), read_expr(stop))
    raise Malformed("a loop", data)


def _operand(data: Json) -> Operand:
    match data:
        case ["operand", access, value]:
            return Operand(_access(access), read_expr(value))
    raise Malformed("an operand", data)


def _dtype(data: Json) -> DType:
    found = DTYPES.get(data) if isinstance(data, str) else None
    if found is None:
        raise Malformed("a dtype", data)
    return found


def _value(data: Json) -> Number:
    match data:
        case bool() | int():
            return data
        case str():
            return _float(data)
        case [str(real), str(imag)]:
            return complex(_float(real), _float(imag))
    raise Malformed("a number", data)


def _float(text: str) -> float:
    try:
        return float.fromhex(text)
    except (ValueError, OverflowError):
        raise Malformed("a number", text) from None
