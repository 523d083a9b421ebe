"""Names that a loop of a NumPy function changes: in cells, or in arrays that iterations hand on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from loopwright.frontends.python.procedures.abstract_values import AnyValue, ArrayValue, Unknown
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.procedures.joins import Wider, joined_type, same_value, stored
from loopwright.frontends.python.python_grammar import bound_by, nodes_of_scope
from loopwright.frontends.python.python_values import PyType, PyValue
from loopwright.frontends.refusal import Refusal
from loopwright.ir.procedure import (
    AllocateArray,
    ArrayRole,
    ComputeArray,
    ProcedureStmt,
    SetElement,
)

__all__ = ["LoopNames", "bound_names", "changed_names", "exported", "rebound"]


def bound_names(body: Sequence[ast.stmt]) -> frozenset[str]:
    """Every name that statements bind anew; `x += ...` may change an array in place."""
    nodes = list(nodes_of_scope(body))
    augmented = {id(node.target) for node in nodes if isinstance(node, ast.AugAssign)}
    return frozenset(bound_by(node) for node in nodes if id(node) not in augmented) - {""}


def changed_names(body: Sequence[ast.stmt]) -> frozenset[str]:
    """Every name that statements assign."""
    return frozenset(map(bound_by, nodes_of_scope(body))) - {""}


class LoopNames:
    """The names of one loop while its body is read."""

    def __init__(
        self,
        build: Building,
        env: dict[str, AnyValue],
        body: Sequence[ast.stmt],
        types: Mapping[str, PyType],
        arrays: frozenset[str],
    ) -> None:
        """Store what changes, before the loop; `env` becomes that of an iteration's start."""
        self._build = build
        self._cells: dict[str, tuple[str, PyType]] = {}
        self._arrays: dict[str, ArrayValue] = {}
        self._shared: set[str] = set()  # names of arrays that others see too
        self._before = set(build.arrays)  # memory that there is before the loop
        self._written, build.written = build.written, set()  # before the loop, and in it
        self._given: set[str] = set()  # memory of which names go on with copies
        self._kept: set[str] = set()  # names that an iteration may leave as they are
        self._taken: dict[str, set[str]] = {}  # names, and those that go on with their arrays
        changed, bound = changed_names(body), bound_names(body)
        self._changed, self._bound = changed, bound
        self.is_widened = False  # a number has another type behind the loop, if that runs
        for name in sorted(changed & env.keys()):
            value = env[name]
            if isinstance(value, PyValue):
                kind = types.get(name, value.type)
                cell = build.cell(name, kind[0])
                stored(build, cell, value)
                self._cells[name] = cell, kind
                self.is_widened = self.is_widened or kind != value.type
            elif isinstance(value, ArrayValue) and name in bound and name in arrays:
                self._arrays[name] = build.copy(value, name)
                if self._is_shared(name, value, env):
                    self._shared.add(name)
            elif not isinstance(value, ArrayValue) or name in bound:
                carried = name if isinstance(value, ArrayValue) else ""
                env[name] = Unknown("is changed by the loop", carried)

    def _is_shared(self, name: str, value: ArrayValue, env: Mapping[str, AnyValue]) -> bool:
        assert value.view is not None
        base = value.view.base
        if self._build.arrays[base].role is ArrayRole.ARGUMENT:
            return True
        others = (v for n, v in env.items() if n != name and isinstance(v, ArrayValue))
        return any(v.view is not None and v.view.base == base for v in others)

    def has(self, name: str) -> bool:
        """Whether iterations hand a name on."""
        return name in self._cells or name in self._arrays

    def keeps(self, name: str, value: AnyValue) -> bool:
        """Whether what a name is at the end of an iteration is not handed on or replaced then."""
        if self.has(name):
            return False
        view = value.view if isinstance(value, ArrayValue) else None
        replaced = {v.view.base for v in self._arrays.values() if v.view is not None}
        return view is None or view.base not in replaced | self._given

    def start(self, env: dict[str, AnyValue]) -> None:
        """What names are at the start of an iteration; emitted inside the loop."""
        for name, (cell, (_, weak)) in self._cells.items():
            value = self._build.define(name, self._build.load(cell))
            env[name] = PyValue(value, weak)
        env.update(self._arrays)

    def hand_on(self, env: Mapping[str, AnyValue]) -> None:
        """Store what the next iteration, or what stands after the loop, goes on with."""
        build = self._build
        wider: dict[str, PyType] = {}
        for name, (cell, kind) in self._cells.items():
            value = env.get(name)
            if isinstance(value, Unknown) and not value.why:
                continue
            if not isinstance(value, PyValue):
                text = f"'{name}' is a number before the loop, and something else in it"
                raise Refusal("LW192", text, hint="use another name")
            found = joined_type(name, [kind, value.type])
            if found != kind:
                wider[name] = found
            else:
                stored(build, cell, value)
        if wider:
            raise Wider(wider)
        self._hand_on_arrays(env)

    def _hand_on_arrays(self, env: Mapping[str, AnyValue]) -> None:
        build = self._build
        bases = {v.view.base: name for name, v in self._arrays.items() if v.view is not None}
        moves: list[tuple[ArrayValue, ArrayValue]] = []
        for name, held in self._arrays.items():
            value = env.get(name)
            if same_value(value, held):
                self._kept.add(name)
                continue
            if not isinstance(value, ArrayValue) or value.view is None:
                raise Refusal("LW192", f"'{name}' is no array at the end of the loop")
            is_like = value.dtype == held.dtype and value.rank == held.rank
            if not is_like:
                text = f"'{name}' is {held} before the loop, and {value} in it"
                raise Refusal("LW192", text, hint="use another name")
            for x, y in zip(held.shape, value.shape, strict=True):
                if not build.equal(x, y):
                    text = f"'{name}' has another shape in the loop"
                    raise Refusal("LW192", text, hint="use another name")
            assert held.view is not None
            if self._is_seen(value.view.base, env):
                build.freeze(value.view.base, held.view.base)
            self._given.add(value.view.base)
            if value.view.base in bases:
                self._taken.setdefault(bases[value.view.base], set()).add(name)
            moves.append((held, build.copy(value) if value.view.base in bases else value))
        for held, value in moves:
            assert held.view is not None
            build.emit(ComputeArray(held.view.name, value.expr))

    def _is_seen(self, base: str, env: Mapping[str, AnyValue]) -> bool:
        """Whether memory that a name goes on with is seen by another name then."""
        ends = [env.get(name) for name in self._arrays]
        views = [value.view for value in ends if isinstance(value, ArrayValue)]
        shared = sum(view is not None and view.base == base for view in views) > 1
        own = (held.view.base for held in self._arrays.values() if held.view is not None)
        return shared or (base in self._before and base not in own)

    def _is_written(self, name: str) -> bool:
        """Whether the loop may write an array that a name has before it, by any name."""
        names, new = {name}, {name}
        while new:
            new = {x for one in new for x in self._taken.get(one, ())} - names
            names |= new
        views = (self._arrays[x].view for x in names)
        return any(view is not None and view.base in self._build.written for view in views)

    def finish(
        self,
        env: dict[str, AnyValue],
        before: Mapping[str, AnyValue],
        runs: Callable[[], bool],
    ) -> None:
        """What names are after the loop; `runs` asks whether it surely has an iteration."""
        build = self._build
        for name, held in self._arrays.items():
            assert held.view is not None
            if name not in self._shared:
                continue
            if self._is_written(name):
                text = f"'{name}' is an array that others see, or another one that the loop makes"
                hint = f"copy into it: {name}[...] = ..."
                raise Refusal("LW192", text, hint=hint)
            if name in self._kept or not runs():
                # It may be the array that it was: that nobody sees while neither is written.
                known = before[name]
                assert isinstance(known, ArrayValue)
                assert known.view is not None
                build.frozen |= {held.view.base, known.view.base}
        build.written |= self._written
        env.clear()
        env.update(before)
        for name in self._changed:
            if name in self._cells:
                cell, (_, weak) = self._cells[name]
                env[name] = PyValue(build.define(name, build.load(cell)), weak)
            elif name in self._arrays:
                env[name] = self._arrays[name]
            elif name not in before or name in self._bound:
                env[name] = Unknown("has no value of its own where the loop does not run")


def exported(
    build: Building, body: list[ProcedureStmt], end: Mapping[str, AnyValue]
) -> dict[str, AnyValue]:
    """What names of the last iteration are behind a loop that has one.

    Numbers are stored in cells. Arrays are allocated before the loop, and keep their contents.
    """
    found: dict[str, AnyValue] = {}
    for name, value in end.items():
        if isinstance(value, PyValue):
            cell = build.cell(name, value.dtype)
            body.append(SetElement(cell, (), value.expr))
            found[name] = PyValue(build.load(cell), value.weak)
        elif isinstance(value, ArrayValue) and value.view is not None:
            view = value.view
            steps = [step for axis in view.axes for _, step in axis.steps]
            inside = (x for x in body if isinstance(x, AllocateArray))
            own = next((x for x in inside if x.array.name == view.base), None)
            needed = (*view.start, *view.shape, *steps, *(() if own is None else own.array.shape))
            if not all(map(build.is_entry, needed)):
                continue
            if own is not None:
                body.remove(own)
                build.emit(own)
            found[name] = value
    return found


def rebound(build: Building, value: AnyValue) -> AnyValue:
    """What a loop has exported, behind the loop."""
    if isinstance(value, PyValue):
        return build.number("last", value)
    if (
        not isinstance(value, ArrayValue)
        or value.view is None
        or value.view.name == value.view.base
    ):
        return value
    return build.bind(value.view.base, value.view.start, value.view.axes, "last")
