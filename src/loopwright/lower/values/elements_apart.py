"""Which loops of vectors run element by element, since their elements lie apart.

    for j in range(1, n, 2): u[j] = f(u[j - 1], u[j + 1])         only every other element is stored

A vector of elements that are s apart is s vectors and s shuffles, or elements that are put into
their lanes one by one; stores that leave gaps go out lane by lane. With the lanes n of a vector,
instructions are counted on both sides:

    vectors   operations + accesses beside each other + 2 s of each group of loads + 2 n of a store
    single    n * (operations + accesses)

Few lanes do not pay (red-black sweeps of double on 128 bits: singly 25% less time, Neoverse N1),
many do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import For, Let, LoopNest, Mark, Stmt, Store
from loopwright.ir.visit import children, expressions, names, rebuild, statements
from loopwright.lower.build import is_straight_line
from loopwright.lower.linear_forms import linear

__all__ = ["distance_of", "run_elements_singly"]

_MOST_APART = 4  # elements; code has no shuffles for more


def run_elements_singly(nest: LoopNest, lanes: Callable[[int], int]) -> LoopNest:
    """Have SIMD loops that vectors of `lanes(bits)` elements slow down in the code once, singly.

    Their iterations stay independent.
    """

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark is not Mark.SIMD:
            return stmt
        is_single = is_straight_line(stmt.body) and _is_faster_singly(stmt, lanes)
        return replace(stmt, copies=1) if is_single else stmt

    return replace(nest, body=rebuild(nest.body, visit))


def _is_faster_singly(loop: For, lanes: Callable[[int], int]) -> bool:
    inside = [s for s in statements(loop.body) if isinstance(s, Store | Let)]
    values = [s.value for s in inside]
    stores = {Load(s.buffer, s.index, s.value.dtype) for s in inside if isinstance(s, Store)}
    stores = {store for store in stores if store.index}
    parts = {part for value in values for part in _on_data(value)}
    loads = {part for part in parts if isinstance(part, Load) and part.index}
    apart = {distance_of(loop, access) for access in (*loads, *stores)}
    if apart <= {0, 1} or None in apart:
        return False
    width = lanes(max(expr.dtype.bits for s in inside for expr in expressions(s)))
    done = sum(isinstance(x, Binary | Call | Cast | Select | Unary) for x in parts)
    done -= sum(isinstance(x, Binary) and x.op in ("add", "sub") and _has_product(x) for x in parts)
    vectors = done + _in_vectors(loop, loads, width, is_stored=False)
    vectors += _in_vectors(loop, stores, width, is_stored=True)
    return width > 1 and vectors >= width * (done + len(loads) + len(stores))


def _in_vectors(loop: For, accesses: Iterable[Load], lanes: int, *, is_stored: bool) -> int:
    """Instructions that load or store a vector of each access."""
    groups: dict[tuple[int, object], set[int]] = {}
    total = 0
    for access in accesses:
        apart = distance_of(loop, access)
        if apart in (0, 1):
            total += 1
        elif apart is None or abs(apart) > _MOST_APART:
            total += 2 * lanes
        else:
            last = linear(access.index[-1])
            first, rest = divmod(last.constant, abs(apart))
            place = (access.array, access.index[:-1], frozenset(last.terms), first)
            groups.setdefault((abs(apart), place), set()).add(rest)
    for (apart, _), rests in groups.items():
        is_whole = not is_stored or len(rests) == apart
        total += 2 * apart if is_whole else 2 * lanes * len(rests)
    return total


def distance_of(loop: For, access: Load) -> int | None:
    """Elements from one iteration to the next; None where rows change, which may be short ones."""
    step = loop.step.value if isinstance(loop.step, Const) else None
    is_in_row = not any(loop.var in names(index) for index in access.index[:-1])
    if not is_in_row or not isinstance(step, int):
        return None
    found = dict(linear(access.index[-1]).terms)
    own = found.pop(Var(loop.var), 0)
    if any(loop.var in names(atom) for atom in found):
        return None
    return own * step


def _has_product(expr: Binary) -> bool:
    """Whether a sum rounds once with a product in it."""
    sides = (x for x in (expr.x, expr.y) if isinstance(x, Binary))
    return expr.dtype.is_float and any(x.op == "mul" for x in sides)


def _on_data(expr: Expr) -> Iterable[Expr]:
    """An expression and its parts, subscripts left out."""
    yield expr
    if not isinstance(expr, Load):
        for part in children(expr):
            yield from _on_data(part)
