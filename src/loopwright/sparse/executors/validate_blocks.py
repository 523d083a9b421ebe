"""Kernels that validate index arrays themselves, block by block, right before they follow them.

Index arrays that others can write are validated before every call. As a whole they are read from
memory twice, once to be validated and once for the product; a block at a time the product finds
them in the cache.

The arrays of a format are taken by levels: rows, then the entries that the pointers of rows lead
to, and so on. The pointers of a block are validated before they lead to the next level. A block
validates what its loops read, and all blocks together validate what the quick check does
(validate_arrays), which is left with shapes and the ends of pointers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial, reduce

from loopwright.ir.dtypes import DTYPES, INT32, INT64, DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Var
from loopwright.ir.loops import (
    Alloc,
    Block,
    Buffer,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.visit import expressions, fresh_name, loads, rebuild, statements, substitute
from loopwright.lower.build import bound_names, lets, loop, seq
from loopwright.sparse.executors.compose import REFUSED
from loopwright.sparse.format import Index
from loopwright.sparse.spf.term_exprs import as_expr
from loopwright.sparse.uf import symbols
from loopwright.sparse.validated_levels import Level, limit_of

__all__ = ["validate_in_blocks"]

_BLOCK = 2048  # iterations of loops that are in no blocks yet: some arrays of that fit into L1
_LONG = 10  # entries of rows, on average, from which on their groups are validated one by one
_REFUSE = Store(REFUSED, (Const(0),), Const(1))
_UINT64 = DTYPES["uint64"]


# -- loops that follow levels --------------------------------------------------------------------


def validate_in_blocks(
    nest: LoopNest, scanned: LoopNest, levels: tuple[Level, ...]
) -> LoopNest | None:
    """`nest` that validates the index arrays of `levels`, block by block of its outermost loop.

    rewrite:  for i in range(n): S(i)
              ->  for t in blocks of the range:
                      if in the block pointers ascend and indices lie in their ranges:
                          for i in the block: S(i)
                      else: refused[0] = 1

    Blocks of all threads set the one flag, to the same number. `scanned` is the nest before its
    loops were rewritten. None where its loops do not follow the levels, or where other loops than
    one have been made of the outermost.
    """
    var = _outermost_variable(scanned, levels)
    outermost = _outermost(nest.body)
    if var is None or outermost is None:
        return None
    rows = [part for part in statements(outermost) if isinstance(part, For) and part.var == var]
    if len(rows) != 1 or rows[0].step != Const(1):
        return None
    writer = _Writer(nest, levels)
    made = writer.cut(outermost) if rows[0] is outermost else writer.guarded(outermost, rows[0])
    used = {s for level in levels for s in symbols(level.count)}
    used |= {s for level in levels for index in level.arrays for s in symbols(limit_of(index))}
    return replace(
        nest,
        buffers=(Buffer(REFUSED, INT64, (Const(1),), writable=True), *nest.buffers),
        scalars=(*nest.scalars, *sorted(used - {*nest.scalars})),
        body=_with_outermost(nest.body, made),
    )


def _outermost(stmt: Stmt) -> For | None:
    """The loop around everything, where there is one."""
    match stmt:
        case For(mark=Mark.SERIAL | Mark.PARALLEL, until=None):
            return stmt
        case Alloc(body=inner) | Block(body=(inner,)):
            return _outermost(inner)
    return None


def _with_outermost(stmt: Stmt, made: Stmt) -> Stmt:
    match stmt:
        case Alloc(body=inner):
            return replace(stmt, body=_with_outermost(inner, made))
        case Block(body=(inner,)):
            return _with_outermost(inner, made)
    return made


def _outermost_variable(nest: LoopNest, levels: tuple[Level, ...]) -> str | None:
    """The variable of the outermost loop, where index arrays are read along their levels only.

    Element x of a list and elements x and x + 1 of a pointer are read in a loop of x over their
    level: that of the outermost goes up to its count, others go from one pointer to the next.
    """
    outermost = _outermost(nest.body)
    names = {buffer.name for buffer in nest.buffers}
    if outermost is None or not all(i.name in names for level in levels for i in level.arrays):
        return None
    is_from_0 = (outermost.start, outermost.step) == (Const(0), Const(1))
    if not is_from_0 or not _is_at_most(outermost.stop, as_expr(levels[0].count, {})):
        return None
    depth = {outermost.var: 0}
    for part in statements(outermost.body):
        if isinstance(part, For):
            found = _depth_inside(part, depth, levels)
            if part.var in depth and depth[part.var] != found:
                return None
            if found is not None:
                depth[part.var] = found
    allowed = {
        (index.name, at)
        for var, at_level in depth.items()
        for index in levels[at_level].arrays
        for at in ((Var(var), Var(var) + 1) if index is levels[at_level].pointer else (Var(var),))
    }
    arrays = {index.name for level in levels for index in level.arrays}
    read = {(load.array, load.index[0]) for load in _loads_in(nest.body) if load.array in arrays}
    return outermost.var if read <= allowed else None


def _is_at_most(stop: Expr, count: Expr) -> bool:
    match stop:
        case Binary(op="min", x=x, y=y):
            return _is_at_most(x, count) or _is_at_most(y, count)
    return stop == count


def _depth_inside(inner: For, depth: dict[str, int], levels: tuple[Level, ...]) -> int | None:
    """The level that a loop visits inside those around it; None: no level."""
    starts, stops = loads(inner.start), loads(inner.stop)
    if len(starts) != 1 or len(stops) != 1 or inner.step != Const(1) or inner.until is not None:
        return None
    (start,), (stop,) = starts, stops
    is_plain_bound = _widened(start) == inner.start and _widened(stop) == inner.stop
    for var, at in depth.items():
        pointer = levels[at].pointer
        if pointer is None or at + 1 == len(levels):
            continue
        ends = ((pointer.name, (Var(var),)), (pointer.name, (Var(var) + 1,)))
        if is_plain_bound and ((start.array, start.index), (stop.array, stop.index)) == ends:
            return at + 1
    return None


def _widened(load: Load) -> Expr:
    return load if load.dtype == INT64 else Cast(load, INT64)


# -- the code of a block -------------------------------------------------------------------------


class _Writer:
    def __init__(self, nest: LoopNest, levels: tuple[Level, ...]) -> None:
        self.levels = levels
        self.types = {buffer.name: buffer.dtype for buffer in nest.buffers}
        self.taken = bound_names(nest)
        self.wrong = self._named("wrong")
        self.by_groups: dict[str, Index] = {}  # lists that groups of entries validate

    def cut(self, outermost: For) -> Stmt:
        """A loop in blocks, each of them validated before it is run."""
        block = Var(self._named(f"{outermost.var}_block"))
        first = outermost.start + block * _BLOCK
        rows = replace(
            outermost, start=first, stop=(first + _BLOCK).min(outermost.stop), mark=Mark.SERIAL
        )
        count = (outermost.stop - outermost.start + (_BLOCK - 1)) // _BLOCK
        whole = For(block.name, Const(0), count, rows, Const(1), outermost.mark)
        return self.guarded(whole, rows)

    def guarded(self, blocks: For, rows: For) -> Stmt:
        """A loop over blocks, which begin and end where the loop over rows inside does."""
        first, last = (Var(self._named(f"{rows.var}_{end}")) for end in ("first", "last"))
        self.by_groups = self._read_by_groups(blocks.body)
        check = self._if_right(self._level(0, first, last), self._versions(blocks, first, last))
        bounds = (first, rows.start), (last, rows.stop)
        whole = seq(Store(self.wrong, (), Const(0, INT32)), check)
        return replace(blocks, body=lets(bounds, _with_scalar(self.wrong, INT32, whole)))

    def _if_right(self, check: Stmt, run: Stmt) -> Stmt:
        is_right = Binary("eq", self._scalar(self.wrong, INT32), Const(0, INT32))
        return seq(check, If(is_right, run, _REFUSE))

    def _versions(self, blocks: For, first: Var, last: Var) -> Stmt:
        """The body of a block, twice where it reads lists in groups of entries.

        Long rows validate each group: a product waits for its sums and has time to compare, while
        the processor guesses how that ends. In short rows there are branches enough: all indices of
        the block are validated before (N1: 1.07 times a product without validation at 50 entries a
        row, 1.16 at 5; the other way around 1.27 and 1.22).
        """
        pointer = self.levels[0].pointer
        if not self.by_groups or pointer is None:
            return blocks.body
        ends = [Var(self._named(f"{pointer.name}_{end}")) for end in ("first", "last")]
        places = [_widened(self._element(pointer, place)) for place in (first, last)]
        checks = [self._top(index, ends[0], ends[1]) for index in self.by_groups.values()]
        short = self._if_right(seq(*checks), blocks.body)
        long = rebuild(blocks.body, self._with_tested_group)
        is_short = Binary("lt", ends[1] - ends[0], (last - first) * _LONG)
        return lets(list(zip(ends, places, strict=True)), If(is_short, short, long))

    def _read_by_groups(self, body: Stmt) -> dict[str, Index]:
        """Lists that are read in groups of entries only, and by no loops inside those."""
        if len(self.levels) != 2:
            return {}
        rest = rebuild(body, lambda part: Block(()) if _is_group(part) else part)
        others = {load.array for load in _loads_in(rest)}
        return {
            index.name: index
            for index in self.levels[-1].lists
            if not index.monotone
            and index.name not in others
            and self.types[index.name].kind == "i"
        }

    def _with_tested_group(self, part: Stmt) -> Stmt:
        """A group of entries that is run where all its indices lie in their ranges."""
        if not _is_group(part):
            return part
        assert isinstance(part, For), "a group is a loop"
        assert isinstance(part.stop, Const), "a group has so many entries"
        found = dict.fromkeys(load for load in _loads_in(part) if load.array in self.by_groups)
        tests = [
            self._is_inside(substitute(load, {part.var: Const(step)}))
            for load in found
            for step in range(int(part.stop.value.real))
        ]
        return If(reduce(partial(Binary, "and"), tests), part, _REFUSE) if tests else part

    def _is_inside(self, element: Expr) -> Expr:
        assert isinstance(element, Load), f"{element} is an element"
        dtype = DTYPES[f"uint{element.dtype.bits}"]
        limit = self._limit(self.by_groups[element.array])
        return Binary("lt", Cast(element, dtype), Cast(limit, dtype))

    def _level(self, at: int, first: Var, last: Var) -> Stmt:
        """Validate elements `first` to `last` of a level, and what its pointers lead to."""
        level = self.levels[at]
        parts: list[Stmt] = []
        for index in level.lists:
            if index.name in self.by_groups:
                continue
            if index.monotone:
                check = self._ascends(index, first, last.min(as_expr(level.count - 1, {})))
                parts.append(If(Binary("lt", first, last), check))
            else:
                parts.append(self._top(index, first, last))
        pointer = level.pointer
        if pointer is None:
            return seq(*parts)
        parts.append(self._ascends(pointer, first, last))
        if any(
            index.name not in self.by_groups
            for level in self.levels[at + 1 :]
            for index in level.arrays
        ):
            ends = [Var(self._named(f"{pointer.name}_{end}")) for end in ("first", "last")]
            inner = self._level(at + 1, ends[0], ends[1])
            here = [_widened(self._element(pointer, place)) for place in (first, last)]
            is_right = Binary("eq", self._scalar(self.wrong, INT32), Const(0, INT32))
            parts.append(If(is_right, lets(list(zip(ends, here, strict=True)), inner)))
        return seq(*parts)

    def _ascends(self, index: Index, first: Expr, last: Expr) -> Stmt:
        """Elements `first` to `last` ascend, from 0 on and below the limit; `last` is there."""
        at = Var(self._named("e"))
        op = "ge" if index.is_strict else "gt"
        fails = Binary(op, self._element(index, at), self._element(index, at + 1))
        ends = [self._is_outside(self._element(index, end), index) for end in (first, last)]
        return seq(*map(self._join, ends), loop(at, first, last, self._join(fails)))

    def _top(self, index: Index, first: Expr, last: Expr) -> Stmt:
        """Elements before `last`, if any, lie in their range; as unsigned, negative ones do not."""
        at, top = Var(self._named("e")), self._named("top")
        dtype = DTYPES[f"uint{self.types[index.name].bits}"]
        here = Cast(self._element(index, at), dtype)
        more = Store(top, (), Binary("max", self._scalar(top, dtype), here))
        check = seq(
            Store(top, (), Const(0, dtype)),
            loop(at, first, last, more),
            self._join(self._is_outside(self._scalar(top, dtype), index)),
        )
        return If(Binary("lt", first, last), _with_scalar(top, dtype, check))

    def _is_outside(self, value: Expr, index: Index) -> Expr:
        return Binary("ge", Cast(value, _UINT64), Cast(self._limit(index), _UINT64))

    def _limit(self, index: Index) -> Expr:
        """What elements, read as unsigned, are less than: those that were negative are not."""
        dtype, limit = self.types[index.name], as_expr(limit_of(index), {})
        is_narrow = dtype.kind == "i" and dtype.bits < 64
        return limit.min(1 << (dtype.bits - 1)) if is_narrow else limit

    def _join(self, test: Expr) -> Stmt:
        found = Binary("max", self._scalar(self.wrong, INT32), Cast(test, INT32))
        return Store(self.wrong, (), found)

    def _element(self, index: Index, at: Expr) -> Load:
        return Load(index.name, (at,), self.types[index.name])

    def _scalar(self, name: str, dtype: DType) -> Load:
        return Load(name, (), dtype)

    def _named(self, wish: str) -> str:
        name = fresh_name(wish, self.taken)
        self.taken.add(name)
        return name


def _is_group(stmt: Stmt) -> bool:
    """Whether a statement is an unrolled group of entries (row_loops)."""
    if not isinstance(stmt, For) or stmt.mark is not Mark.UNROLL:
        return False
    is_counted = stmt.start == Const(0) and isinstance(stmt.stop, Const)
    return is_counted and not any(isinstance(s, For | Let | Alloc) for s in statements(stmt.body))


def _loads_in(stmt: Stmt) -> Iterator[Load]:
    return (load for part in statements(stmt) for e in expressions(part) for load in loads(e))


def _with_scalar(name: str, dtype: DType, body: Stmt) -> Stmt:
    return Alloc(Buffer(name, dtype, (), Space.STACK, writable=True), (), body)
