"""Loops that statements of different depth share, though the source gave them different ones.

In a table filled by intervals

    for j: for k in [0, j): t[j] = min(t[j], a[k] + b[k, j])      T[j, k]
           a[j] = t[j]                                             S[j]

every a[k] is used as soon as it is known when T runs by k and S by j, in one loop:

    for k: a[k] = t[k]; for j in (k, n): t[j] = min(t[j], a[k] + b[k, j])

Candidates for a statement are the subscripts that it uses, if they are an iterator and a constant.
Two statements may share a loop where no dependence between them goes back; those that all agree are
found by depth-first search over the statements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from loopwright.analysis.relations import ends, maps_of
from loopwright.ir.expr import Binary, Const, Expr, Var
from loopwright.ir.islkit import context, isl
from loopwright.ir.program import Program, Statement
from loopwright.ir.schedule_tree import Band, Leaf
from loopwright.transform.band_dependences import goes_back

__all__ = ["aligned_bands"]

Pairs = Any  # isl.UnionMap, { S[i] -> T[j] }
_Shifted = tuple[str, int]  # iterator + constant

_MOST_STATEMENTS = 6
_MOST = 4  # loops that are offered


def aligned_bands(
    program: Program,
    names: Sequence[str],
    pairs: Pairs,
    fixed: Mapping[str, frozenset[str]],
    loop: str,
) -> Iterator[Band]:
    """Loops called `loop` over iterators that no loop around fixes, and that keep `pairs`.

    Only those that follow different iterators in different statements.
    """
    statements = [program.statement(name) for name in names]
    if not 1 < len(statements) <= _MOST_STATEMENTS:
        return
    written = {s.write.array for s in statements}
    options = [_candidates(s, written, fixed.get(s.name, frozenset())) for s in statements]
    between: dict[tuple[str, str], list[isl.Map]] = {}
    for part in maps_of(pairs):
        between.setdefault(ends(part), []).append(part)

    @cache
    def is_kept(source: str, first: _Shifted, target: str, second: _Shifted) -> bool:
        parts = between.get((source, target), [])
        chosen = {source: first, target: second}
        return not any(
            goes_back(isl.UnionMap.from_map(part), _band(program, chosen, loop)) for part in parts
        )

    def agree(chosen: dict[str, _Shifted], name: str, option: _Shifted) -> bool:
        return is_kept(name, option, name, option) and all(
            is_kept(other, taken, name, option) and is_kept(name, option, other, taken)
            for other, taken in chosen.items()
        )

    def extended(chosen: dict[str, _Shifted], at: int) -> Iterator[dict[str, _Shifted]]:
        if at == len(statements):
            yield chosen
            return
        for option in options[at]:
            if agree(chosen, statements[at].name, option):
                yield from extended({**chosen, statements[at].name: option}, at + 1)

    count = 0
    for chosen in extended({}, 0):
        if len({iterator for iterator, _ in chosen.values()}) > 1:
            yield _band(program, chosen, loop)
            count += 1
            if count == _MOST:
                return


def _candidates(
    statement: Statement, arrays: Collection[str], fixed: frozenset[str]
) -> tuple[_Shifted, ...]:
    """Subscripts of the arrays by which a statement may run, most used first."""
    found: dict[_Shifted, int] = {}
    for access in (statement.write, *statement.reads):
        for entry in access.index if access.array in arrays else ():
            option = _shifted(entry)
            if option is not None and option[0] in set(statement.iterators) - fixed:
                found[option] = found.get(option, 0) + 1
    return tuple(sorted(found, key=lambda option: (-found[option], option)))


def _shifted(entry: Expr) -> _Shifted | None:
    match entry:
        case Var(name=name):
            return name, 0
        case Binary(op="add", x=Var(name=name), y=Const(value=int(value))):
            return name, value
        case Binary(op="sub", x=Var(name=name), y=Const(value=int(value))):
            return name, -value
    return None


def _band(program: Program, chosen: Mapping[str, _Shifted], loop: str) -> Band:
    texts = [
        f"{name}[{', '.join(program.statement(name).iterators)}] -> [({iterator} + {shift})]"
        for name, (iterator, shift) in chosen.items()
    ]
    function = isl.UnionPwAff.read_from_str(context(), f"{{ {'; '.join(texts)} }}")
    partial = isl.MultiUnionPwAff.from_union_pw_aff(function)
    return Band(loop, partial.set_tuple_name(isl.dim_type.set, loop), Leaf())
