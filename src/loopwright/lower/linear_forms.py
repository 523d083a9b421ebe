"""Index arithmetic as linear forms: sums of atoms with integer coefficients, and a normal form.

Loop bounds and subscripts never leave the range of int64, so the rules here are those of the
integers; they must not be used on the user's data, whose arithmetic wraps around.
"""

from __future__ import annotations

from loopwright.ir.dtypes import BOOL, INT64
from loopwright.ir.expr import Binary, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.visit import loads, operands, rewrite, walk
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import BoundedCache

__all__ = ["LinearForm", "add_constant", "differ", "linear", "nonnegative_form", "normal"]


@dataclass(frozen=True, slots=True)
class LinearForm:
    """The sum of coefficient * atom over `terms`, plus a constant."""

    terms: tuple[tuple[Expr, int], ...]  # atoms are not sums themselves; no coefficient is zero
    constant: int

    def __add__(self, other: LinearForm) -> LinearForm:
        if not other.terms:
            return LinearForm(self.terms, self.constant + other.constant)
        if not self.terms:
            return LinearForm(other.terms, self.constant + other.constant)
        total: dict[Expr, int] = dict(self.terms)
        for atom, count in other.terms:
            total[atom] = total.get(atom, 0) + count
        kept = tuple((atom, count) for atom, count in total.items() if count)
        return LinearForm(kept, self.constant + other.constant)

    def __mul__(self, factor: int) -> LinearForm:
        if factor == 0:
            return LinearForm((), 0)
        return LinearForm(tuple((a, c * factor) for a, c in self.terms), self.constant * factor)

    def __sub__(self, other: LinearForm) -> LinearForm:
        if not other.terms:
            return LinearForm(self.terms, self.constant - other.constant)
        return self + other * -1

    @property
    def expr(self) -> Expr:
        """The form as an expression, positive terms first and the constant last."""
        positive = [(atom, count) for atom, count in self.terms if count > 0]
        negative = [(atom, count) for atom, count in self.terms if count < 0]
        if not positive:
            total: Expr = Const(self.constant)
        else:
            total = positive[0][0] * positive[0][1]
        for atom, count in positive[1:]:
            total = total + atom * count
        for atom, count in negative:
            total = total - atom * -count
        if not positive or self.constant == 0:
            return total
        return total + self.constant if self.constant > 0 else total - -self.constant


def linear(expr: Expr) -> LinearForm:
    """`expr`, of int64, as a linear form; what is no sum, difference or multiple is an atom."""
    match expr:
        case Const(value=value) if isinstance(value, int) and expr.dtype == INT64:
            return LinearForm((), value)
        case Unary(op="neg", x=x):
            return linear(x) * -1
        case Binary(op="add", x=x, y=y):
            return linear(x) + linear(y)
        case Binary(op="sub", x=x, y=y):
            return linear(x) - linear(y)
        case Binary(op="mul", x=x, y=y):
            left, right = linear(x), linear(y)
            if not right.terms:
                return left * right.constant
            if not left.terms:
                return right * left.constant
            return LinearForm(((left.expr * right.expr, 1),), 0)
    return LinearForm(((expr, 1),), 0)


_KNOWN: BoundedCache[Expr, Expr] = BoundedCache(1 << 14)  # normal forms


def normal(expr: Expr) -> Expr:
    """An index expression or condition in normal form: sums collected, constants decided."""
    kind = type(expr)
    if kind is Var or kind is Const:
        return expr
    found = _KNOWN.get(expr)
    if found is None:
        found = rewrite(expr, _normal_node)
        if all(_is_plain(node) for node in walk(expr)):
            _KNOWN[expr] = found
    return found


def _is_plain(node: Expr) -> bool:
    """Whether what is equal to a node is the same: 0.0 is equal to -0.0, and True to 1."""
    if not isinstance(node, Const):
        return True
    return type(node.value) is (bool if node.dtype == BOOL else int) and not node.dtype.is_float


def differ(x: Load, y: Load) -> bool:
    """Whether two accesses of an iteration are to different elements for certain."""
    if x.array != y.array:
        return True
    if any(loads(index) for index in (*x.index, *y.index)):
        return False
    gaps = (linear(a) - linear(b) for a, b in zip(x.index, y.index, strict=True))
    return any(not gap.terms and gap.constant for gap in gaps)


def add_constant(expr: Expr, amount: int) -> Expr:
    """`expr + amount` with the constant added inside minima, maxima and selections."""
    match expr:
        case Binary(op="min" | "max" as op, x=x, y=y):
            return normal(Binary(op, add_constant(x, amount), add_constant(y, amount)))
        case Select(cond=cond, x=x, y=y):
            return Select(cond, add_constant(x, amount), add_constant(y, amount))
    return normal(expr + amount)


def nonnegative_form(cond: Expr) -> LinearForm | None:
    """The form that is >= 0 exactly where the integer comparison `cond` holds; None for others."""
    match cond:
        case Binary(op="le", x=x, y=y) | Binary(op="ge", x=y, y=x) if x.dtype == INT64:
            return linear(y) - linear(x)
        case Binary(op="lt", x=x, y=y) | Binary(op="gt", x=y, y=x) if x.dtype == INT64:
            return linear(y) - linear(x) + LinearForm((), -1)
    return None


def _normal_node(expr: Expr) -> Expr:
    match expr:
        case Binary(op="and" | "or" as op, x=x, y=y) if expr.dtype == BOOL:
            return _connective(op, x, y)
        case Select(cond=Const(value=value), x=x, y=y):
            return x if value else y
        case Binary(x=x) if x.dtype == INT64:
            return _integer_node(expr)
        case Unary(op="neg") if expr.dtype == INT64:
            return linear(expr).expr
    return expr


def _integer_node(expr: Binary) -> Expr:
    match expr.op:
        case "add" | "sub" | "mul":
            return linear(expr).expr
        case "min" | "max":
            return _extremum(expr.op, expr)
        case "floordiv" | "mod":
            return _division(expr)
        case "lt" | "le" | "gt" | "ge":
            return _comparison(expr)
        case "eq" | "ne":
            difference = linear(expr.x) - linear(expr.y)
            if not difference.terms:
                return Const((difference.constant == 0) == (expr.op == "eq"), BOOL)
    return expr


def _extremum(op: str, expr: Expr) -> Expr:
    """A minimum or maximum without the operands that never decide it."""
    kept: list[Expr] = []
    for operand in operands(op, expr):
        for at, other in enumerate(kept):
            gap = linear(operand) - linear(other)
            if gap.terms:
                continue
            if (gap.constant < 0) == (op == "min"):
                kept[at] = operand
            break
        else:
            kept.append(operand)
    result = kept[0]
    for operand in kept[1:]:
        result = Binary(op, result, operand)
    return result


def _division(expr: Binary) -> Expr:
    """floor(x / c) or x mod c, for a constant c, with the multiples of c taken out."""
    divisor = expr.y.value if isinstance(expr.y, Const) else None
    if not isinstance(divisor, int) or divisor <= 0:
        return expr
    total = linear(expr.x)
    whole = LinearForm(
        tuple((a, c) for a, c in total.terms if c % divisor == 0),
        total.constant - total.constant % divisor,
    )
    rest = total - whole
    if expr.op == "mod":
        return rest.expr if not rest.terms else rest.expr % divisor
    quotient = LinearForm(
        tuple((a, c // divisor) for a, c in whole.terms), whole.constant // divisor
    )
    if not rest.terms:
        return quotient.expr
    return (quotient + LinearForm(((rest.expr // divisor, 1),), 0)).expr


def _comparison(expr: Binary) -> Expr:
    """A comparison; a constant where both sides differ by a constant."""
    form = nonnegative_form(expr)
    if form is not None and not form.terms:
        return Const(form.constant >= 0, BOOL)
    return expr


def _connective(op: str, x: Expr, y: Expr) -> Expr:
    """`x and y` or `x or y` without constants and repeated operands."""
    for known, other in ((x, y), (y, x)):
        if isinstance(known, Const):
            return other if bool(known.value) == (op == "and") else known
    return x if x == y else Binary(op, x, y)
