"""The meaning of small programs by plain enumeration: instances, dependences, values.

Memory is a dictionary from elements to values, so subscripts may leave any bounds; an element that
was never written holds a value drawn from its name.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Iterable, Mapping
from itertools import product

import islpy as isl

from loopwright.analysis.dependences import statement_between
from loopwright.ir.contraction import ACCUMULATOR, Contraction, LoopRange
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.program import Access, Program, Role, Statement

Instance = tuple[str, tuple[int, ...]]
Element = tuple[str, tuple[int, ...]]
Pairs = set[tuple[Instance, Instance]]

_OPERATORS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "min": min, "max": max,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip


class Memory(dict[Element, float]):
    """Elements that were never written have a random value, always the same."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.floating = {array.name for array in program.arrays if array.dtype.is_float}

    def __missing__(self, element: Element) -> float:
        draw = random.Random(repr(element))
        size = 10.0 ** draw.randint(-3, 3)
        is_float = element[0] in self.floating
        self[element] = draw.uniform(-size, size) if is_float else draw.randint(-9, 9)
        return self[element]


def instances(program: Program, params: Mapping[str, int]) -> list[Instance]:
    """All statement instances in the order of the schedule."""
    fixed = isl.Set.universe(program.context.get_space())
    for position, name in enumerate(program.params):
        value = isl.Val.int_from_si(fixed.get_ctx(), params[name])
        fixed = fixed.fix_val(isl.dim_type.param, position, value)
    timed: list[tuple[tuple[int, ...], Instance]] = []

    def visit(part: isl.Map) -> None:
        name, depth = part.get_tuple_name(isl.dim_type.in_), part.dim(isl.dim_type.in_)
        flat = part.wrap().flatten()

        def add(point: isl.Point) -> None:
            kind = isl.dim_type.set
            count = flat.dim(kind)
            at = [point.get_coordinate_val(kind, k).to_python() for k in range(count)]
            timed.append((tuple(at[depth:]), (name, tuple(at[:depth]))))

        flat.foreach_point(add)

    time = program.schedule.get_map().intersect_domain(program.schedule.get_domain())
    time.intersect_params(fixed).foreach_map(visit)
    return [instance for _, instance in sorted(timed)]


def evaluate(expr: Expr, names: Mapping[str, float], memory: Memory) -> float:
    def down(child: Expr) -> float:
        return evaluate(child, names, memory)

    match expr:
        case Const(value=value):
            return value
        case Var(name=name):
            return names[name]
        case Load(array=array, index=index):
            return memory[array, tuple(int(down(x)) for x in index)]
        case Unary(op="neg", x=x):
            return -down(x)
        case Unary(op="abs", x=x):
            return abs(down(x))
        case Binary(op=op, x=x, y=y):
            return _OPERATORS[op](down(x), down(y))
        case Select(cond=cond, x=x, y=y):
            return down(x) if down(cond) else down(y)
        case Call(function="fma", args=(x, y, z)):
            return down(x) * down(y) + down(z)
        case Cast(x=x):
            return down(x)
    raise AssertionError(f"not in the test language: {expr}")


def element(access: Access, names: Mapping[str, float], memory: Memory) -> Element:
    return access.array, tuple(int(evaluate(x, names, memory)) for x in access.index)


def dependences(program: Program, params: Mapping[str, int]) -> dict[str, Pairs]:
    """Flow, anti and output dependences as defined in analysis/dependences.py."""
    found: dict[str, Pairs] = {"flow": set(), "anti": set(), "output": set()}
    writer: dict[Element, Instance] = {}
    readers: dict[Element, list[Instance]] = {}
    memory = Memory(program)
    for name, point in instances(program, params):
        statement, this = program.statement(name), (name, point)
        names = _names(statement, point, params)
        reads = {element(access, names, memory) for access in statement.reads}
        for item in reads:
            if item in writer:
                found["flow"].add((writer[item], this))
            readers.setdefault(item, []).append(this)
        item = element(statement.write, names, memory)
        if item in writer:
            found["output"].add((writer[item], this))
        found["anti"] |= {(reader, this) for reader in readers.get(item, ()) if reader != this}
        writer[item] = this
        readers[item] = [this] if item in reads else []
    return found


def run(program: Program, params: Mapping[str, int], order: Iterable[Instance]) -> Memory:
    """The memory after the instances were executed in the given order."""
    memory = Memory(program)
    for instance in order:
        _execute(program, params, instance, memory)
    return memory


def run_with(program: Program, params: Mapping[str, int], found: tuple[Contraction, ...]) -> Memory:
    """The memory when contractions run as units and everything else keeps its order around them."""
    edges = {
        (source[0], target[0])
        for pairs in dependences(program, params).values()
        for source, target in pairs
    }
    units = [frozenset(contraction.covers) for contraction in found]
    assert statement_between([e for e in edges if e[0] != e[1]], units) is None
    memory = Memory(program)
    todo: list[Contraction | list[str]] = _components(program, edges, found)
    for item in todo:
        if isinstance(item, Contraction):
            run_contraction(item, params, memory)
            continue
        for instance in instances(program, params):
            if instance[0] in item:
                _execute(program, params, instance, memory)
    return memory


def run_contraction(found: Contraction, params: Mapping[str, int], memory: Memory) -> None:
    """The formula in the docstring of ir/contraction.py; values are read before any is stored."""
    results: dict[Element, float] = {}
    for point in _points((*found.batch, *found.i, *found.j), params, memory):
        names: dict[str, float] = {**params, **point}
        total = evaluate(found.initial, names, memory)
        for inner in _points(found.p, params, memory):
            here = {**names, **inner}
            term = evaluate(found.left.value, here, memory)
            if found.right is not None:
                term = _OPERATORS[found.times](term, evaluate(found.right.value, here, memory))
            total = _OPERATORS[found.plus](total, term)
        item = element(found.out, names, memory)
        assert item not in results, "out is not injective"
        results[item] = evaluate(found.final, {**names, ACCUMULATOR: total}, memory)
    memory.update(results)


def visible(program: Program, memory: Memory, others: Memory) -> dict[Element, float]:
    """The elements of arrays the caller can see, those touched in either memory."""
    shown = {array.name for array in program.arrays if array.role is not Role.LOCAL}
    return {e: memory[e] for e in sorted({*memory, *others}) if e[0] in shown}


def _components(
    program: Program, edges: set[tuple[str, str]], found: tuple[Contraction, ...]
) -> list[Contraction | list[str]]:
    """Contractions and groups of statements in an order that respects the edges."""
    owner = {name: contraction for contraction in found for name in contraction.covers}
    names = [statement.name for statement in program.statements]
    reach = {name: {name} for name in names}
    merged = edges | {(a, b) for c in found for a in c.covers for b in c.covers}
    for _ in names:
        for source, target in merged:
            reach[source] |= reach[target]
    groups: list[list[str]] = []
    for name in names:
        group = [other for other in names if other in reach[name] and name in reach[other]]
        if group not in groups:
            groups.append(group)
    done: list[list[str]] = []
    while len(done) < len(groups):
        waiting = [group for group in groups if group not in done]
        ready = next(
            group
            for group in waiting
            if not any(group[0] in reach[other[0]] for other in waiting if other != group)
        )
        done.append(ready)
    return [owner.get(group[0], group) for group in done]


def _points(
    loops: tuple[LoopRange, ...], params: Mapping[str, int], memory: Memory
) -> Iterable[dict[str, int]]:
    ranges = [
        range(int(evaluate(x.start, params, memory)), int(evaluate(x.stop, params, memory)))
        for x in loops
    ]
    names = [loop.name for loop in loops]
    return (dict(zip(names, point, strict=True)) for point in product(*ranges))


def _names(
    statement: Statement, point: tuple[int, ...], params: Mapping[str, int]
) -> dict[str, float]:
    return {**params, **dict(zip(statement.iterators, point, strict=True))}


def _execute(
    program: Program, params: Mapping[str, int], instance: Instance, memory: Memory
) -> None:
    statement = program.statement(instance[0])
    names = _names(statement, instance[1], params)
    value = evaluate(statement.value, names, memory)
    memory[element(statement.write, names, memory)] = value
