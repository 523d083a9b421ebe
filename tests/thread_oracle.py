"""Blocks, threads and what they access, by plain enumeration of the instances of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from brute_force import Element, Memory, element, instances
from loopwright.analysis.thread_mapping import AXES, LoopTile
from loopwright.ir.program import Access, Program


@dataclass(frozen=True)
class Use:
    """One access in one instance: where and when it happens."""

    statement: str
    point: tuple[int, ...]
    access: Access
    is_write: bool
    element: Element
    block: tuple[int, ...]
    thread: tuple[int, ...]
    time: tuple[int, ...]


def uses(
    program: Program,
    tiles: Sequence[LoopTile],
    params: Mapping[str, int],
    statements: Sequence[str] = (),
) -> list[Use]:
    """Every access of some statements (default: all) in the order of the schedule."""
    memory = Memory(program)
    by_axis = {tile.axis: tile for tile in tiles if tile.axis}
    found: list[Use] = []
    for name, point in instances(program, params):
        if statements and name not in statements:
            continue
        statement = program.statement(name)
        loops = dict(zip(statement.iterators, point, strict=True))
        block = tuple(_value(t, loops) // t.block for t in tiles if t.block)
        thread = tuple(
            _in_block(by_axis[axis], loops) // by_axis[axis].thread
            for axis in AXES
            if axis in by_axis
        )
        time = dict(loops)
        for tile in tiles:
            inner = _in_block(tile, loops)
            time[tile.loop] = inner % tile.thread if tile.thread else inner
        names = {**params, **loops}
        for at, access in enumerate((statement.write, *statement.reads)):
            where = element(access, names, memory)
            order = tuple(time[x] for x in statement.iterators)
            found.append(Use(name, point, access, at == 0, where, block, thread, order))
    return found


def _value(tile: LoopTile, loops: Mapping[str, int]) -> int:
    return loops[tile.loop] - tile.origin


def _in_block(tile: LoopTile, loops: Mapping[str, int]) -> int:
    value = _value(tile, loops)
    return value % tile.block if tile.block else value


def threads_by_element(found: Sequence[Use]) -> dict[tuple[tuple[int, ...], Element], set]:
    """(block, element) -> the threads of the block that access it."""
    threads: dict[tuple[tuple[int, ...], Element], set] = {}
    for use in found:
        threads.setdefault((use.block, use.element), set()).add(use.thread)
    return threads
