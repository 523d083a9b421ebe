"""Keep elements of arrays in variables where a compiler of C cannot know that it may.

Arrays of a nest do not overlap, but pointers of C may, and what `restrict` says is lost where
OpenMP makes a function of a parallel region. After each store such a compiler loads anew what it
had in registers; a sum in an element waits for memory in every iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from loopwright.ir.expr import Const, Expr, Load, Select, Var
from loopwright.ir.fixed_conditions import fixed_first
from loopwright.ir.loops import (
    Alloc,
    Block,
    Buffer,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Prefetch,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.visit import (
    constant_trips,
    expressions,
    fresh_name,
    loads,
    names,
    rebuild,
    rewrite,
    statements,
    unguarded_loads,
)
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import bound_names, is_straight_line, substitute_statement
from loopwright.lower.linear_forms import differ
from loopwright.lower.values.plain_reductions import as_reduction

__all__ = ["keep_elements"]

_MOST_AHEAD = 12  # elements that an iteration loads before its first store; more would be spilled
_MOST_KEPT = 16  # elements that a loop keeps
_LANES = (Mark.SIMD, Mark.VECTOR)  # loops that compilers are to take in vectors


def keep_elements(nest: LoopNest, *, may_guess: Expr | None = None) -> LoopNest:
    """Name what innermost loops of straight-line code load and store more than once.

        for j in range(m): d[j] = b[j]; a[i] = a[i] + b[j] * c[i]
    ->  if 0 < m:
            alloc a_k; a_k = a[i]; let c_k = c[i]
            for j in range(m): let b_k = b[j]; d[j] = b_k; a_k = a_k + b_k * c_k
            a[i] = a_k

    An element that a serial loop writes is kept where no other access of the loop can be to the
    same element by other subscripts. What a loop loads in every iteration and does not write is
    loaded before it, and what an iteration stores and loads again is loaded from a name.

    Where the condition `may_guess` holds, of parameters, loads happen whether data choose them or
    not, in loops of vectors and where integers are gathered in variables or handed on by them;
    what is chosen then are numbers, without branches. Updates under a condition become plain
    reductions (lower/values/plain_reductions).
    """
    taken = bound_names(nest)

    def visit(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For) or stmt.mark not in (Mark.SERIAL, *_LANES):
            return stmt
        keeper = _Keeper(stmt, taken, nest.reassoc, may_guess)
        if stmt.mark is Mark.VECTOR:
            return keeper.lanes() if is_straight_line(stmt.body) else stmt
        if stmt.until is not None:
            return stmt
        return keeper.loop() if is_straight_line(stmt.body) else keeper.branches()

    return replace(nest, body=rebuild(nest.body, visit))


_Item: TypeAlias = Let | Store  # a binding holds for all items after it


@dataclass(frozen=True, slots=True)
class _Keeper:
    """Keeps elements of one loop; `taken` grows with the names."""

    stmt: For
    taken: set[str]
    may_reorder: bool
    may_guess: Expr | None

    def loop(self) -> Stmt:
        plain = _row(self.stmt.body, self.taken)
        row = [as_reduction(item) if isinstance(item, Store) else item for item in plain]
        stores = [item for item in row if isinstance(item, Store)]
        if any(store.is_atomic for store in stores):
            return self.stmt
        kept = {}
        if self.stmt.mark is Mark.SERIAL:
            kept = self._kept(row, _moving(self.stmt, row))
        guessed = self._guessed(row, kept)
        whole = self._with_names(row, plain, kept, guessed)
        if not guessed or self.may_guess is None or isinstance(self.may_guess, Const):
            return whole
        return If(self.may_guess, whole, self._with_names(row, plain, kept, set()))

    def lanes(self) -> Stmt:
        """Lanes of a vector, with names for what data choose to load and all lanes may load."""
        plain = _row(self.stmt.body, self.taken)
        guessed = self._guessed(plain, {})
        if not guessed or not isinstance(self.may_guess, Const):
            return self.stmt
        return self._with_names(plain, plain, {}, guessed)

    def _with_names(
        self,
        row: list[_Item],
        plain: list[_Item],
        kept: Mapping[Load, str],
        guessed: set[Load],
    ) -> Stmt:
        """The loop with names for what it keeps, and for what is loaded again or guessed.

        `plain` is the row as it stands in the loop.
        """
        moving = _moving(self.stmt, row)
        values: dict[Expr, Expr] = {
            element: Load(name, (), element.dtype) for element, name in kept.items()
        }
        others = [s for s in _stores(row) if s.index and _element(s) not in kept]
        before: dict[Load, str] = {}
        if others:
            # With all that is written in variables, a compiler moves loads by itself.
            before = self._invariant(row, moving, values, guessed)
            values |= {element: Var(name, element.dtype) for element, name in before.items()}
        changed = [_with_values(item, values) for item in row]
        # Reductions that may be regrouped are known by their form.
        is_left = self.may_reorder and self.stmt.mark is Mark.SERIAL
        named = changed if is_left else self._named_once(changed, guessed - kept.keys())
        if self.stmt.mark is Mark.SIMD:
            named = self._chosen_first(named)
            named = [_with_fixed_first(item, _moving(self.stmt, named)) for item in named]
        if not kept and not before and named == plain:
            return self.stmt
        whole: Stmt = replace(self.stmt, body=_statement(named))
        for element, name in reversed(before.items()):
            whole = Let(name, element, whole)
        for element, name in kept.items():
            whole = _in_register(element, name, whole, is_read=_is_read_first(element, row))
        has_iterations = (constant_trips(self.stmt) or 0) > 0
        # A loop without iterations must not touch memory.
        if has_iterations or not (kept or before):
            return whole
        return If(self.stmt.start < self.stmt.stop, whole)

    def branches(self) -> Stmt:
        """The loop with kept elements only, where branches or prefetches but no loops are in it."""
        inside = list(statements(self.stmt.body))
        items = [s for s in inside if isinstance(s, Store | Let)]
        if self.stmt.mark is not Mark.SERIAL or any(
            not isinstance(s, Store | Let | Block | If | Prefetch) for s in inside
        ):
            return self.stmt
        if any(isinstance(item, Store) and item.is_atomic for item in items):
            return self.stmt
        # What is written only under a condition may be somebody else's where that is not met.
        always = set(map(_element, _stores(list(_unbranched(self.stmt.body)))))
        conditions = [If(s.cond, Block(())) for s in inside if isinstance(s, If)]
        found = self._kept([*items, *conditions], _moving(self.stmt, items))
        kept = {element: name for element, name in found.items() if element in always}
        if not kept:
            return self.stmt
        values: dict[Expr, Expr] = {x: Load(name, (), x.dtype) for x, name in kept.items()}

        def visit(stmt: Stmt) -> Stmt:
            match stmt:
                case Store():
                    return _with_values(stmt, values)
                case Let(value=value):
                    return replace(stmt, value=rewrite(value, lambda x: values.get(x, x)))
                case If(cond=cond):
                    return replace(stmt, cond=rewrite(cond, lambda x: values.get(x, x)))
            return stmt

        whole: Stmt = replace(self.stmt, body=rebuild(self.stmt.body, visit))
        for element, name in kept.items():
            whole = _in_register(element, name, whole, is_read=True)
        return If(self.stmt.start < self.stmt.stop, whole)

    def _kept(self, row: Sequence[_Item | If], moving: set[str]) -> dict[Load, str]:
        """Elements that are written in every iteration, with names of their variables."""
        touched = dict.fromkeys([*map(_element, _stores(row)), *_loads(row)])
        found: dict[Load, str] = {}
        for element in dict.fromkeys(map(_element, _stores(row))):
            if not _is_fixed(element, moving) or len(found) == _MOST_KEPT:
                continue
            if all(x == element or differ(x, element) for x in touched):
                found[element] = self._fresh(element)
        return found

    def _invariant(
        self,
        row: Sequence[_Item],
        moving: set[str],
        known: Mapping[Expr, Expr],
        guessed: set[Load],
    ) -> dict[Load, str]:
        """Elements that every iteration loads and none writes."""
        written = dict.fromkeys(map(_element, _stores(row)))
        found = {}
        for load in dict.fromkeys(x for item in row for x in _happening(item, guessed)):
            if load in known or not _is_fixed(load, moving):
                continue
            if all(differ(load, other) for other in written) or self._is_constant(load, row):
                found[load] = self._fresh(load)
        return found

    def _is_constant(self, load: Load, row: Sequence[_Item]) -> bool:
        """Whether independent iterations all load an element before they store anything like it.

        None of several writes it then, since the others read it; a single one loads it first.
        """
        if self.stmt.mark is not Mark.SIMD:
            return False
        is_stored = False
        for item in row:
            if is_stored and _is_loaded(load, [item]):
                return False
            is_stored = is_stored or (isinstance(item, Store) and not differ(load, _element(item)))
        return True

    def _guessed(self, row: Sequence[_Item], kept: Mapping[Load, str]) -> set[Load]:
        """The loads that data choose and that happen all the same."""
        stores = list(_stores(row))
        # What waits for a variable of integers is not to wait for branches too.
        is_sum = any(_element(store) in kept or not store.index for store in stores) and all(
            store.value.dtype.kind in "iub" for store in stores
        )
        if self.may_guess is None or not (is_sum or self.stmt.mark in _LANES):
            return set()
        certain = {load for item in row for load in _certain(item)}
        return {load for load in _loads(row) if load.index} - certain

    def _named_once(self, row: list[_Item], guessed: set[Load]) -> list[_Item]:
        """`row` with names for elements that are loaded again, guessed, or loaded after a store."""
        to_arrays = (at for at, item in enumerate(row) if isinstance(item, Store) and item.index)
        first_store = next(to_arrays, len(row))
        if not guessed and not any(load.index for load in _loads(row[first_store + 1 :])):
            return row
        first = self._loaded_ahead(row, guessed)
        done: list[_Item] = [Let(name, load, Block(())) for load, name in first.items()]
        values: dict[Expr, Expr] = {x: Var(name, x.dtype) for x, name in first.items()}
        for at, item in enumerate(row):
            left = row[at + 1 :]
            for load in dict.fromkeys(_happening(item, guessed)):
                is_named = load in values or not load.index or any(_inner(load))
                if not is_named and (load in guessed or _is_loaded(load, left)):
                    done.append(Let(name := self._fresh(load), load, Block(())))
                    values[load] = Var(name, load.dtype)
            new = _with_values(item, values)
            if isinstance(new, Let) and isinstance(new.value, Var):
                values[Var(new.name, new.value.dtype)] = new.value
                continue
            if not isinstance(new, Store) or not new.index:
                done.append(new)
                continue
            own = _element(new)
            values = {
                x: value for x, value in values.items() if not isinstance(x, Load) or differ(x, own)
            }
            if any(_inner(own)):
                done.append(new)
                continue
            if not isinstance(new.value, Var) and _is_loaded(own, left):
                done.append(Let(name := self._fresh(own), new.value, Block(())))
                new = replace(new, value=Var(name, own.dtype))
            if isinstance(new.value, Var):
                values[own] = new.value
            done.append(new)
        return done

    def _chosen_first(self, row: list[_Item]) -> list[_Item]:
        """`row` with its stores last, where several store what one condition chooses.

            a[j] = x if c else y; b[j] = v if c else w
        ->  let a_k = x if c else y; let b_k = v if c else w; a[j] = a_k; b[j] = b_k

        Between two such stores a compiler of C makes branches of the choices and no vectors.
        """
        stores = [at for at, item in enumerate(row) if isinstance(item, Store)]
        chosen = [x.value.cond for x in _stores(row) if isinstance(x.value, Select)]
        is_shared = len(set(chosen)) < len(chosen)
        if not is_shared or any(load.index for load in _loads(row[stores[0] + 1 :])):
            return row
        done: list[_Item] = []
        last: list[_Item] = []
        for item in row:
            if isinstance(item, Store) and isinstance(item.value, Select):
                done.append(Let(name := self._fresh(_element(item)), item.value, Block(())))
                item = replace(item, value=Var(name, item.value.dtype))
            (last if isinstance(item, Store) else done).append(item)
        return [*done, *last]

    def _loaded_ahead(self, row: Sequence[_Item], guessed: set[Load]) -> dict[Load, str]:
        """What every iteration loads, if that is little and no store before it can change it.

        Loads need not wait then for stores whose addresses are known late.
        """
        bound: set[str] = set()
        written: dict[Load, None] = {}
        found: dict[Load, None] = {}
        for item in row:
            for load in _happening(item, guessed):
                is_early = load.index and not bound & names(load) and not any(_inner(load))
                if load in found or not is_early:
                    continue
                if all(differ(load, other) for other in written):
                    found[load] = None
            if isinstance(item, Let):
                bound.add(item.name)
            else:
                written[_element(item)] = None
        if len(found) > _MOST_AHEAD:
            return {}
        return {load: self._fresh(load) for load in found}

    def _fresh(self, element: Load) -> str:
        name = fresh_name(f"{element.array}_k", self.taken)
        self.taken.add(name)
        return name


def _row(body: Stmt, taken: set[str]) -> list[_Item]:
    """The stores and bindings of straight-line code in order, every binding with its own name."""
    found: list[_Item] = []
    seen: set[str] = set()

    def down(stmt: Stmt) -> None:
        match stmt:
            case Block(body=parts):
                for part in parts:
                    down(part)
            case Let(name=name, body=inner):
                if name in seen:
                    other = fresh_name(name, taken)
                    taken.add(other)
                    inner = substitute_statement(inner, {name: Var(other, stmt.value.dtype)})
                    name = other
                seen.add(name)
                found.append(replace(stmt, name=name, body=Block(())))
                down(inner)
            case Store():
                found.append(stmt)

    down(body)
    return found


def _unbranched(stmt: Stmt) -> Iterator[_Item]:
    """The stores and bindings that no branch guards."""
    match stmt:
        case Block(body=parts):
            for part in parts:
                yield from _unbranched(part)
        case Let(body=inner):
            yield stmt
            yield from _unbranched(inner)
        case Store():
            yield stmt


def _statement(row: Sequence[_Item]) -> Stmt:
    """The inverse of `_row`."""
    after: tuple[Stmt, ...] = ()
    for item in reversed(row):
        after = (replace(item, body=Block(after)),) if isinstance(item, Let) else (item, *after)
    return after[0] if len(after) == 1 else Block(after)


def _element(store: Store) -> Load:
    return Load(store.buffer, store.index, store.value.dtype)


def _moving(loop: For, row: Sequence[_Item]) -> set[str]:
    """The variables that iterations have values of their own for."""
    return {loop.var, *(item.name for item in row if isinstance(item, Let))}


def _stores(row: Sequence[_Item | If]) -> Iterator[Store]:
    return (item for item in row if isinstance(item, Store))


def _loads(row: Sequence[_Item | If]) -> Iterator[Load]:
    return (load for item in row for expr in expressions(item) for load in loads(expr))


def _certain(item: _Item) -> Iterator[Load]:
    return (load for expr in expressions(item) for load in unguarded_loads(expr))


def _happening(item: _Item, guessed: set[Load]) -> Iterator[Load]:
    """The loads that an item makes in any case, with those that are guessed."""
    yield from _certain(item)
    yield from (load for expr in expressions(item) for load in loads(expr) if load in guessed)


def _inner(load: Load) -> Iterator[Load]:
    """Loads in the subscripts of a load."""
    return (inner for index in load.index for inner in loads(index))


def _is_fixed(element: Load, moving: set[str]) -> bool:
    """Whether an element of an array is the same one in all iterations."""
    return bool(element.index) and not moving & names(element) and not any(_inner(element))


def _is_loaded(element: Load, row: Sequence[_Item]) -> bool:
    return any(load == element for load in _loads(row))


def _is_read_first(element: Load, row: Sequence[_Item]) -> bool:
    """Whether the first access to an element loads it."""
    for item in row:
        if any(load == element for expr in expressions(item) for load in loads(expr)):
            return True
        if isinstance(item, Store) and _element(item) == element:
            return False
    return False


def _with_values(item: _Item, values: Mapping[Expr, Expr]) -> _Item:
    """An item that finds elements in variables; a store to a variable of the loop goes there."""

    def change(expr: Expr) -> Expr:
        return values.get(expr, expr)

    if isinstance(item, Let):
        return replace(item, value=rewrite(item.value, change))
    place = values.get(_element(item))
    value = rewrite(item.value, change)
    if isinstance(place, Load):
        return replace(item, buffer=place.array, index=(), value=value)
    return replace(item, index=tuple(rewrite(i, change) for i in item.index), value=value)


def _with_fixed_first(item: _Item, moving: set[str]) -> _Item:
    return replace(item, value=fixed_first(item.value, moving))


def _in_register(element: Load, name: str, body: Stmt, *, is_read: bool) -> Stmt:
    """`body` with a variable for an element, loaded before it and stored after it."""
    memory = Buffer(name, element.dtype, (), Space.STACK, writable=True)
    first = (Store(name, (), element),) if is_read else ()
    last = Store(element.array, element.index, Load(name, (), element.dtype))
    return Alloc(memory, (), Block((*first, body, last)))
