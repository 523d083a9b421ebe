"""Update statements `x = x op e` with an associative operator, and the product that e is.

Rewritings keep every bit of the result. Where they would change the rounding of floating-point
values they are done only for programs that allow reassociation.

`alpha * A[i,k] * B[k,j]` has the factors `alpha * A[i,k]` and `B[k,j]`: a scalar operation on one
element belongs to its factor. A scalar outside the product, as in `(A * B) * alpha`, is moved into
a factor only where that keeps every bit or the program allows reassociation.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary
from loopwright.ir.passed_nan import extreme_over_numbers, passed_term
from loopwright.ir.program import Program, Statement
from loopwright.ir.visit import loads, rewrite, walk
from loopwright.ir.visit import names as names_in
from loopwright.lazy_dataclass import dataclass
from loopwright.semirings import identity

__all__ = [
    "ASSOCIATIVE",
    "FactoredProduct",
    "Update",
    "elements",
    "exchangeable_update",
    "factored_product",
    "is_exchangeable",
    "is_reorderable",
    "joined",
    "loop_values",
    "narrowed",
    "operands",
    "operator_and_term",
    "update_of",
]


# Associative and commutative operators. min and max are so for every type, the bitwise ones too;
# add and mul for integers (modulo 2^bits) and booleans only, but for rounding.
ASSOCIATIVE = frozenset({"add", "mul", "min", "max", "and", "or", "xor"})
_EXACT_FOR_ALL = ASSOCIATIVE - {"add", "mul"}
_OF_NUMBERS = frozenset({"min_number", "max_number"})
# Integer operators whose low bits depend on the low bits of the operands only.
_MODULAR = frozenset({"add", "sub", "mul", "and", "or", "xor"})
# (comparison, whether the element itself stands on its left) of `x if x < e else e` -> operator.
_SELECTED = {
    ("lt", True): "min",
    ("le", True): "min",
    ("gt", True): "max",
    ("ge", True): "max",
    ("lt", False): "max",
    ("le", False): "max",
    ("gt", False): "min",
    ("ge", False): "min",
}


@dataclass(frozen=True, slots=True)
class Update:
    """`x = x op value`, x being the element the statement writes."""

    op: str  # of ASSOCIATIVE, or of `operands`
    value: Expr


def is_reorderable(op: str | Expr, dtype: DType, program: Program) -> bool:
    """Whether `(x op y) op z = x op (y op z)` for all values, or the program allows it.

    Operators that are expressions are so by declaration, or as `operator_and_term` makes them.
    """
    return not isinstance(op, str) or op in _EXACT_FOR_ALL or dtype.is_exact or program.reassoc


def update_of(program: Program, statement: Statement) -> Update | None:
    """The update a statement makes to its element; None when it is not of that form."""
    found = _update(narrowed(statement.value), statement.write.load(), program)
    if found is None or statement.write.load() in walk(found.value):
        return None
    return found


def operator_and_term(update: Update) -> tuple[str | Expr, Expr]:
    """Operator and term of an update: the term itself where the operator passes over NaN."""
    term = passed_term(update.op, update.value)
    if term is None:
        return update.op, update.value
    return extreme_over_numbers(update.op, term.dtype), term


def operands(program: Program, value: Expr) -> tuple[str, tuple[Expr, Expr]] | None:
    """The operator of `x op y` and both terms, for operators that may be associative.

    fmin and fmax are among them: who is the least of numbers does not depend on the order they are
    asked in, of two zeros either, and NaN is passed over. They have no identity, and are no
    operators of reductions therefore.
    """
    match value:
        case Binary(op=op, x=x, y=y) if op in ASSOCIATIVE:
            return op, (x, y)
        case Call(function="min_number" | "max_number" as op, args=(x, y)):
            return op, (x, y)
        case Select(cond=Binary(op=comparison, x=left, y=right), x=x, y=y) if left in (x, y):
            found = _selected(comparison, (left, right), (x, y), left, program)
            return None if found is None else (found.op, (x, y))
    return None


def joined(op: str, x: Expr, y: Expr) -> Expr:
    """`x op y` for an operator of `operands`."""
    return Call(op, (x, y)) if op in _OF_NUMBERS else Binary(op, x, y)


def exchangeable_update(program: Program, statement: Statement) -> Update | None:
    """The update of a statement that may change places with others by its operator."""
    found = update_of(program, statement)
    if found is None:
        own = statement.write.load()
        op, terms = operands(program, statement.value) or ("", ())
        others = [term for term in terms if term != own]
        if op not in _OF_NUMBERS or len(others) != 1 or own in walk(others[0]):
            return None
        found = Update(op, others[0])
    is_free = is_exchangeable(found.op, statement.write.dtype, program)
    return found if is_free else None


def is_exchangeable(op: str, dtype: DType, program: Program) -> bool:
    """Whether terms of an operator of `operands` may be taken in any order."""
    return op in _OF_NUMBERS or is_reorderable(op, dtype, program)


def narrowed(value: Expr) -> Expr:
    """`value` without conversions around integer operators: `int8(x + y)` as `int8(x) + int8(y)`.

    Exact modulo 2^bits; this is how C and NumPy promotions of small integers come off.
    """
    match value:
        case Cast(x=x) if x.dtype == value.dtype:
            return narrowed(x)
        case Cast(x=Cast(x=x, dtype=wide)) if _is_narrowing(wide, value.dtype):
            # int8(int32(x)) = int8(x) whenever x is an integer, whatever its width.
            return narrowed(Cast(x, value.dtype)) if x.dtype.is_integer else value
        case Cast(x=Binary(op=op, x=x, y=y)) if op in _MODULAR:
            if _is_narrowing(x.dtype, value.dtype):
                return Binary(op, narrowed(Cast(x, value.dtype)), narrowed(Cast(y, value.dtype)))
        case Cast(x=Unary(op="neg", x=x)) if _is_narrowing(x.dtype, value.dtype):
            return Unary("neg", narrowed(Cast(x, value.dtype)))
    return value


def _is_narrowing(wide: DType, narrow: DType) -> bool:
    return wide.is_integer and narrow.is_integer and narrow.bits <= wide.bits


def _update(value: Expr, own: Load, program: Program) -> Update | None:
    match value:
        case Binary(op=op, x=x, y=y) if op in ASSOCIATIVE and own in (x, y):
            return Update(op, y if x == own else x)
        case Binary(op="sub", x=x, y=y) if x == own:
            return Update("add", Unary("neg", y))
        case Call(function="fma", args=(x, y, z)) if z == own:
            return Update("add", Binary("mul", x, y))
        case Select(cond=Binary(op=comparison, x=left, y=right), x=x, y=y):
            found = _selected(comparison, (left, right), (x, y), own, program)
            return found or _guarded(value, own, program)
        case Select():
            return _guarded(value, own, program)
        case Binary(op="add" | "sub" | "mul" as op, x=x, y=y) if is_reorderable(
            op, value.dtype, program
        ):
            return _inner_update(op, x, y, own, program)
    return None


def _guarded(value: Select, own: Load, program: Program) -> Update | None:
    """`own + e if c else own` as `own + (e if c else 0)`, and the like.

    Not for floating-point types: -0.0 + 0.0 is 0.0.
    """
    if not own.dtype.is_exact or own not in (value.x, value.y):
        return None
    is_first = value.y == own
    inner = _update(value.x if is_first else value.y, own, program)
    if inner is None:
        return None
    nothing = Const(identity(inner.op, own.dtype), inner.value.dtype)
    chosen = (inner.value, nothing) if is_first else (nothing, inner.value)
    return Update(inner.op, Select(value.cond, *chosen))


def _selected(
    comparison: str,
    compared: tuple[Expr, Expr],
    chosen: tuple[Expr, Expr],
    own: Expr,
    program: Program,
) -> Update | None:
    """`x if x < e else e` and its kin as a minimum or maximum.

    Not for floating-point types by themselves: a NaN would take another way.
    """
    if own not in compared or not (own.dtype.is_exact or program.reassoc):
        return None
    other = compared[1] if compared[0] == own else compared[0]
    op = _SELECTED.get((comparison, compared[0] == own))
    if op is None or set(chosen) != {own, other}:
        return None
    if chosen[0] == own:
        return Update(op, other)
    return Update("max" if op == "min" else "min", other)


def _inner_update(op: str, x: Expr, y: Expr, own: Load, program: Program) -> Update | None:
    """`(own + a) - b` as `own + (a - b)`, and the like; rounding may change."""
    inner = _update(x, own, program)
    if inner is not None and inner.op == ("add" if op == "sub" else op):
        return Update(inner.op, Binary(op, inner.value, y))
    inner = _update(y, own, program) if op != "sub" else None
    if inner is not None and inner.op == op:
        return Update(op, Binary(op, x, inner.value))
    return None


@dataclass(frozen=True, slots=True)
class FactoredProduct:
    """`left times right`, each over one array element and scalars; right is None for one factor."""

    times: str
    left: Expr
    right: Expr | None


def elements(value: Expr, loops: Collection[str]) -> tuple[Load, ...]:
    """The distinct array elements of `value` that vary with the loops; other loads are scalars."""
    return tuple(x for x in loads(value) if names_in(x) & set(loops))


def loop_values(value: Expr, loops: Collection[str]) -> set[str]:
    """The loops whose variable is used as a value, outside of subscripts."""
    hollow = rewrite(value, lambda x: Const(0, x.dtype) if isinstance(x, Load) else x)
    return names_in(hollow) & set(loops)


def factored_product(
    program: Program, value: Expr, loops: Collection[str]
) -> FactoredProduct | str:
    """`value` as a product of two factors, or the reason why it is none."""
    used = loop_values(value, loops)
    if used:
        return f"loop variable '{min(used)}' is used as a value"
    product = _product(program, narrowed(value), frozenset(loops))
    if product is not None:
        return product
    found = elements(value, loops)
    if len(found) == 1:
        return FactoredProduct("mul", value, None)
    if not found:
        return "what is accumulated does not vary with the loops"
    match value:
        case Cast(x=Binary() as inner) if len(found) == 2:
            return (
                f"the product is formed in {inner.dtype} and only then converted to {value.dtype};"
                " convert the factors instead"
            )
    if len(found) == 2:
        names = f"'{found[0].array}' and '{found[1].array}'"
        return f"{names} are not combined by one operator as two factors"
    return f"{len(found)} array elements are combined, more than two"


def _product(program: Program, value: Expr, loops: frozenset[str]) -> FactoredProduct | None:
    match value:
        case Binary(op=op, x=x, y=y):
            if len(elements(x, loops)) == 1 and len(elements(y, loops)) == 1:
                return FactoredProduct(op, x, y)
            if op in ASSOCIATIVE and is_reorderable(op, value.dtype, program):
                return _grouped(op, _factors_of(op, value), loops)
        case Unary(op="neg", x=x):
            return _negated(_product(program, x, loops))
    return None


def _negated(product: FactoredProduct | None) -> FactoredProduct | None:
    """`-(left times right)` with the sign on the left factor: rounding is symmetric."""
    if product is None or product.right is None or product.times not in ("mul", "div"):
        return None
    return FactoredProduct(product.times, Unary("neg", product.left), product.right)


def _factors_of(op: str, value: Expr) -> tuple[Expr, ...]:
    """The operands of nested applications of one operator."""
    match value:
        case Binary(op=other, x=x, y=y) if other == op:
            return _factors_of(op, x) + _factors_of(op, y)
        case Unary(op="neg", x=x) if op == "mul":
            first, *rest = _factors_of(op, x)
            return (Unary("neg", first), *rest)
    return (value,)


def _grouped(op: str, operands: tuple[Expr, ...], loops: frozenset[str]) -> FactoredProduct | None:
    """The operands of an associative, commutative operator, grouped by their array element."""
    groups: dict[Load, list[Expr]] = {}
    scalars: list[Expr] = []
    for operand in operands:
        found = elements(operand, loops)
        if len(found) > 1:
            return None
        (groups.setdefault(found[0], []) if found else scalars).append(operand)
    if len(groups) != 2:
        return None
    left, right = (reduce(lambda x, y: Binary(op, x, y), group) for group in groups.values())
    return FactoredProduct(op, reduce(lambda x, y: Binary(op, y, x), scalars, left), right)
