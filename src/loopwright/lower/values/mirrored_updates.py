"""Update rows in place where every element needs itself and its mirror image only.

    for i in range(lo, hi): z[i] = f(y[i], y[lo + hi - 1 - i])
    for i in range(lo, hi): y[i] = z[i]

An element and its mirror image are all that both of them need, so that one iteration makes both new
values and stores them, without the array between. The recursions of Levinson and Durbin, of
reflection coefficients and of lattice filters are such updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.loops import Alloc, Block, For, Let, LoopNest, Mark, Stmt, Store
from loopwright.ir.visit import fresh_name, loads, names, rebuild, rewrite, statements, substitute
from loopwright.lower.build import names_bound, touches
from loopwright.lower.linear_forms import linear, normal

__all__ = ["update_in_pairs"]


def update_in_pairs(nest: LoopNest) -> LoopNest:
    """Make new values of an element and its mirror image in one iteration of half the loop.

        alloc z: simd for i in range(lo, hi): z[i] = f(y[i], y[lo + hi - 1 - i])
                 simd for i in range(lo, hi): y[i] = z[i]
    ->  simd for i in range(lo, lo + (hi - lo + 1) / 2):
            let new = f(y[i], y[m]), mirrored = f(y[m], y[i]): y[i] = new; y[m] = mirrored

    with m = lo + hi - 1 - i. An element in the middle is its own image, and both values are one.
    Nothing else may use z, whose memory is left out. Every value is the one of the source order.
    """
    if not any(_is_local(stmt) for stmt in statements(nest.body)):
        return nest
    taken = names_bound(nest.body) | {*nest.scalars, *(buffer.name for buffer in nest.buffers)}
    return replace(nest, body=rebuild(nest.body, lambda stmt: _without_copies(stmt, taken)))


def _is_local(stmt: Stmt) -> bool:
    return isinstance(stmt, Alloc) and bool(stmt.shape)


def _without_copies(stmt: Stmt, taken: set[str]) -> Stmt:
    """The body of an allocation with updates in place, where it then needs no memory."""
    if not isinstance(stmt, Alloc) or not stmt.shape:
        return stmt
    name = stmt.buffer.name
    users = sum(touches(part, name) for part in statements(stmt.body))
    if not users or users % 2:
        return stmt

    def in_place(part: Stmt) -> Stmt:
        return Block(tuple(_paired(part.body, name, taken))) if isinstance(part, Block) else part

    body = rebuild(stmt.body, in_place)
    is_free = not any(touches(part, name) for part in statements(body))
    return body if is_free else stmt


def _paired(parts: tuple[Stmt, ...], name: str, taken: set[str]) -> Iterator[Stmt]:
    """The parts of a sequence, with one loop for every two that update a row by way of `name`."""
    at = 0
    while at < len(parts):
        found = None
        if at + 1 < len(parts):
            found = _update(parts[at], parts[at + 1], name, taken)
        yield parts[at] if found is None else found
        at += 1 if found is None else 2


def _update(first: Stmt, second: Stmt, name: str, taken: set[str]) -> For | None:
    """The loop over pairs in the place of two loops; None where they are no such update."""
    computed, stored = _only_store(first), _only_store(second)
    if computed is None or stored is None:
        return None
    assert isinstance(first, For)
    assert isinstance(second, For)
    here = Var(first.var)
    target = replace(stored, index=tuple(substitute(x, {second.var: here}) for x in stored.index))
    bounds = [(normal(x.start), normal(x.stop)) for x in (first, second)]
    kept = Load(name, _normal(computed.index), computed.value.dtype)
    copied = substitute(stored.value, {second.var: here})
    is_copy = (
        isinstance(copied, Load)
        and replace(copied, index=_normal(copied.index)) == kept
        and bounds[0] == bounds[1]
        and computed.buffer == name != stored.buffer
    )
    image = normal(first.start + first.stop - 1 - here)
    places = [tuple(substitute(x, {first.var: to}) for x in target.index) for to in (here, image)]
    if not is_copy or not _is_mirrored(computed.value, stored.buffer, places, first.var):
        return None
    half = Binary("floordiv", normal(first.stop - first.start + 1), Const(2))
    new, mirrored = (fresh_name(f"{stored.buffer}_{x}", taken) for x in ("new", "mirrored"))
    value = computed.value
    body: Stmt = Block(
        tuple(
            replace(target, index=_normal(place), value=Var(bound, value.dtype))
            for place, bound in zip(places, (new, mirrored), strict=True)
        )
    )
    body = Let(mirrored, _at_image(value, first.var, image), body)
    return replace(first, stop=normal(first.start + half), body=Let(new, value, body))


def _at_image(value: Expr, var: str, image: Expr) -> Expr:
    """A value in the iteration `image`, its subscripts in normal form."""

    def change(expr: Expr) -> Expr:
        return replace(expr, index=_normal(expr.index)) if isinstance(expr, Load) else expr

    return rewrite(substitute(value, {var: image}), change)


def _only_store(stmt: Stmt) -> Store | None:
    """What a loop of independent iterations stores, if that is all it does."""
    if not isinstance(stmt, For) or stmt.mark is not Mark.SIMD:
        return None
    if stmt.step != Const(1) or stmt.until is not None:
        return None
    body = stmt.body
    while isinstance(body, Block) and len(body.body) == 1:
        (body,) = body.body
    return body if isinstance(body, Store) and not body.is_atomic else None


def _is_mirrored(value: Expr, row: str, places: list[tuple[Expr, ...]], var: str) -> bool:
    """Whether a value needs of a row the elements at two places only, mirror images of each other.

    Places of different iterations are different elements: a subscript grows or falls with `var`.
    """
    read = [load for load in loads(value) if load.array == row]
    known = [_normal(place) for place in places]
    found = {known.index(x) if (x := _normal(load.index)) in known else -1 for load in read}
    entries = [linear(entry) for entry in known[0]]
    is_moving = any(
        any(atom == Var(var) for atom, _ in entry.terms)
        and all(atom == Var(var) or var not in names(atom) for atom, _ in entry.terms)
        for entry in entries
    )
    return is_moving and -1 not in found and 1 in found


def _normal(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return tuple(map(normal, index))
