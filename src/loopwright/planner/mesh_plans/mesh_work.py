"""Issue slots of a compute core: what the statements of a nest cost it, in closed form.

A core issues one instruction of floating-point numbers or vectors and one of loads, stores and
branches in a cycle. An innermost loop takes as many cycles as the fuller pipeline has slots, and no
less than the latency of a sum that every iteration adds to (7 cycles on SW26010). Loops around it
multiply; where the bounds of inner loops depend on an outer one, all its iterations are evaluated
at once as vectors of NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from math import ceil, prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from loopwright.diagnostics import InternalError
from loopwright.ir.device import is_by_value
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import (
    Alloc,
    Block,
    Buffer,
    Commit,
    Copy,
    For,
    If,
    Let,
    Mark,
    MeshBroadcast,
    MeshMessage,
    Prefetch,
    Space,
    Stmt,
    Store,
)
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.visit import children, constant_trips, loads, names, substitute, walk
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.linear_forms import normal

__all__ = [
    "NO_SLOTS",
    "Costs",
    "DataDependent",
    "Env",
    "Slots",
    "WorkSignature",
    "deciding_names",
    "index_function",
    "integer_function",
    "trips",
]

Env: TypeAlias = dict[str, Any]  # values of integers by name: an int, or a vector of them
_ENTRY_SLOTS = 2  # of the second pipeline to begin a loop
_DIVISION_SLOTS = 30  # of a division or square root, which is not pipelined (unchecked)
_FUNCTION_SLOTS = 60  # of any other function (unchecked)
_NEAR = frozenset({Space.SCRATCHPAD, Space.STACK})
_MOST_POINTS = 1 << 20  # of loops that depend on each other, evaluated at once
_REPEATED = (Mark.UNROLL, Mark.VECTOR)


class DataDependent(Exception):  # noqa: N818, says what a bound is
    """A loop, a condition or a size depends on the contents of arrays."""


class Slots(NamedTuple):
    """Work of a core: slots of both pipelines, accesses to main memory, flops, and cycles."""

    vector: Any = 0.0
    memory: Any = 0
    direct: Any = 0
    flops: Any = 0
    cycles: Any = 0.0

    def plus(self, other: Slots) -> Slots:
        vector, memory, direct, flops, cycles = self
        v, m, d, f, c = other
        return Slots(vector + v, memory + m, direct + d, flops + f, cycles + c)

    def times(self, count: Any) -> Slots:
        vector, memory, direct, flops, cycles = self
        return Slots(vector * count, memory * count, direct * count, flops * count, cycles * count)


NO_SLOTS = Slots()


# -- integers -------------------------------------------------------------------------------------


def _least(x: Any, y: Any) -> Any:
    if type(x) is int and type(y) is int:
        return x if x < y else y
    return np.minimum(x, y)


def _most(x: Any, y: Any) -> Any:
    if type(x) is int and type(y) is int:
        return x if x > y else y
    return np.maximum(x, y)


_INTEGER_OPS: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "floordiv": lambda x, y: x // y,
    "mod": lambda x, y: x % y,
    "min": _least,
    "max": _most,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
}


def index_function(expr: Expr) -> Callable[[Env], Any]:
    """The value of an integer expression as a function of variables, ints or vectors.

    Raises DataDependent where it reads arrays.
    """
    match expr:
        case Const(value=value):
            number = value if isinstance(value, bool) else int(value.real)
            return lambda env: number
        case Var(name=name):
            return lambda env: env[name]
        case Binary(op=op, x=x, y=y) if op in _INTEGER_OPS:
            function, left, right = _INTEGER_OPS[op], index_function(x), index_function(y)
            return lambda env: function(left(env), right(env))
        case Unary(op="neg", x=x):
            inner = index_function(x)
            return lambda env: -inner(env)
        case Unary(op="not", x=x):
            inner = index_function(x)
            return lambda env: np.logical_not(inner(env))
        case Cast(x=x):
            return index_function(x)
        case Select(cond=cond, x=x, y=y):
            chosen, left, right = (index_function(e) for e in (cond, x, y))

            def select(env: Env) -> Any:
                holds = chosen(env)
                if isinstance(holds, np.ndarray):
                    return np.where(holds, left(env), right(env))
                return left(env) if holds else right(env)

            return select
    raise DataDependent(str(expr))


_PYTHON = {
    "add": "({} + {})",
    "sub": "({} - {})",
    "mul": "({} * {})",
    "floordiv": "({} // {})",
    "mod": "({} % {})",
    "min": "min({}, {})",
    "max": "max({}, {})",
    "lt": "({} < {})",
    "le": "({} <= {})",
    "gt": "({} > {})",
    "ge": "({} >= {})",
    "eq": "({} == {})",
    "ne": "({} != {})",
    "and": "({} & {})",
    "or": "({} | {})",
}


def _python(expr: Expr) -> str:
    """An integer expression in Python, over the variables of a mapping `e`."""
    match expr:
        case Const(value=value):
            return repr(value if isinstance(value, bool) else int(value.real))
        case Var(name=name):
            return f"e[{name!r}]"
        case Binary(op=op, x=x, y=y) if op in _PYTHON:
            return _PYTHON[op].format(_python(x), _python(y))
        case Unary(op="neg", x=x):
            return f"(-{_python(x)})"
        case Unary(op="not", x=x):
            return f"(not {_python(x)})"
        case Cast(x=x):
            return _python(x)
        case Select(cond=cond, x=x, y=y):
            return f"({_python(x)} if {_python(cond)} else {_python(y)})"
    raise DataDependent(str(expr))


def integer_function(expr: Expr) -> Callable[[Env], Any]:
    """As `index_function`, of variables that are ints; many times as fast."""
    found: Callable[[Env], Any] = eval(f"lambda e: {_python(expr)}", {})
    return found


def trips(start: Any, stop: Any, step: Any) -> Any:
    """How often a loop runs."""
    return _most(0, (stop - start + step - 1) // step)


# -- statements -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Straight:
    """Statements without loops or branches: fixed slots, and the longest chain of an iteration."""

    slots: Slots
    chains: tuple[tuple[Load, float], ...]  # elements that are added to, latency

    def cost(self, env: Env) -> Slots:
        return self.slots


@dataclass(frozen=True, slots=True)
class _Parts:
    parts: tuple[_Cost, ...]

    def cost(self, env: Env) -> Slots:
        found = NO_SLOTS
        for part in self.parts:
            found = found.plus(part.cost(env))
        return found


@dataclass(frozen=True, slots=True)
class _Counted:
    """A loop: as often as it runs, or each iteration by itself where the costs differ."""

    var: str
    bounds: tuple[Callable[[Env], Any], ...]  # first value, end, step
    body: _Cost
    is_uniform: bool
    least: float  # cycles of an iteration: chains of sums

    def cost(self, env: Env) -> Slots:
        start, stop, step = (bound(env) for bound in self.bounds)
        count = trips(start, stop, step)
        if self.is_uniform:
            each = self._iteration(self.body.cost(env))
            return each.times(count).plus(_ENTRY)
        most = int(np.max(count)) if isinstance(count, np.ndarray) else count
        if most == 0:
            return _ENTRY
        size = count.size if isinstance(count, np.ndarray) else 1
        if most * size > _MOST_POINTS:
            return self._in_turns(env, start, step, count, most)
        # Loops around have the axes behind, also those that the count does not depend on.
        axes = max(np.ndim(value) for value in (count, *env.values()))
        number = np.arange(most).reshape(-1, *(1 for _ in range(axes)))
        inner = {**env, self.var: start + step * number}
        each = self._iteration(self.body.cost(inner))
        runs = number < count
        total = Slots(*(np.sum(x * runs, axis=0) for x in each))
        return total.plus(_ENTRY)

    def _in_turns(self, env: Env, start: Any, step: Any, count: Any, most: int) -> Slots:
        """Iterations one after another, of loops too large to be evaluated at once."""
        total = _ENTRY
        for number in range(most):
            inner = {**env, self.var: start + step * number}
            total = total.plus(self._iteration(self.body.cost(inner)).times(number < count))
        return total

    def _iteration(self, body: Slots) -> Slots:
        """One iteration with its branch; the body has the cycles of loops inside."""
        memory, cycles = body.memory + 1, body.cycles + 1
        if isinstance(self.body, _Straight):
            cycles = _most(float(self.least), _most(body.vector * 1.0, memory * 1.0))
        return Slots(body.vector, memory, body.direct, body.flops, cycles)


_ENTRY = Slots(0.0, _ENTRY_SLOTS, 0, 0, float(_ENTRY_SLOTS))


@dataclass(frozen=True, slots=True)
class _Branch:
    cond: Callable[[Env], Any] | None  # None: it depends on data, and is taken to hold
    body: _Cost
    other: _Cost

    def cost(self, env: Env) -> Slots:
        holds = True if self.cond is None else self.cond(env)
        if not isinstance(holds, np.ndarray):
            return (self.body if holds else self.other).cost(env).plus(_BRANCH)
        inner = self.body.cost(env).times(holds)
        return inner.plus(self.other.cost(env).times(~holds)).plus(_BRANCH)


_BRANCH = Slots(0.0, 1, 0, 0, 1.0)


@dataclass(frozen=True, slots=True)
class _Bound:
    name: str
    value: Callable[[Env], Any]
    body: _Cost

    def cost(self, env: Env) -> Slots:
        return self.body.cost({**env, self.name: self.value(env)})


_Cost: TypeAlias = _Straight | _Parts | _Counted | _Branch | _Bound
_NOTHING = _Straight(NO_SLOTS, ())


@dataclass(slots=True)
class Costs:
    """Writes down what statements cost, with the buffers that are known where they stand."""

    machine: MeshMachine
    buffers: dict[str, Buffer]
    repeated: dict[str, tuple[Mark, int]] = field(default_factory=dict)  # unrolled, vector loops

    def of(self, stmt: Stmt) -> _Cost:
        """The cost of a statement without requests and barriers."""
        match stmt:
            case Store():
                return self._store(stmt)
            case Block(body=body):
                return _joined([self.of(child) for child in body])
            case For(mark=mark, var=var) if mark in _REPEATED:
                count = constant_trips(stmt)
                if count is None:
                    raise InternalError(f"a loop marked {mark.value} has no constant extent", var)
                inner = Costs(self.machine, self.buffers, {**self.repeated, var: (mark, count)})
                return inner.of(stmt.body)
            case For():
                return self._loop(stmt)
            case If(cond=cond, body=body, orelse=orelse):
                other = _NOTHING if orelse is None else self.of(orelse)
                head = self._straight((cond,), None)
                try:
                    holds = index_function(cond)
                except DataDependent:
                    holds = None
                return _joined([head, _Branch(holds, self.of(body), other)])
            case Let(name=name, value=value, body=body):
                return self._let(name, value, body)
            case Alloc(buffer=buffer, body=body):
                return self.with_buffer(buffer).of(body)
            case Copy(shape=shape):
                return self._loop_of_copy(stmt, shape)
            case Prefetch() | Commit():
                return _NOTHING
        raise InternalError(f"the model knows no cost of {type(stmt).__name__}")

    def with_buffer(self, buffer: Buffer) -> Costs:
        return Costs(self.machine, {**self.buffers, buffer.name: buffer}, self.repeated)

    def _let(self, name: str, value: Expr, body: Stmt) -> _Cost:
        inner, head = self.of(body), self._straight((value,), None)
        if name not in deciding_names(body):
            return _joined([head, inner])
        try:
            return _joined([head, _Bound(name, index_function(value), inner)])
        except DataDependent:
            return _joined([head, inner])

    def _loop(self, stmt: For) -> _Cost:
        body = self.of(stmt.body)
        is_uniform = stmt.var not in deciding_names(stmt.body)
        bounds = tuple(map(index_function, _deciding_bounds(stmt, is_uniform)))
        least = _longest_chain(body.chains, stmt.var) if isinstance(body, _Straight) else 0.0
        return _Counted(stmt.var, bounds, body, is_uniform, least)

    def _loop_of_copy(self, stmt: Copy, shape: Sequence[Expr]) -> _Cost:
        """A copy without DMA: a load and a store for every element."""
        extents = [index_function(extent) for extent in shape]
        far = sum(self._is_far(name) for name in (stmt.target, stmt.source))
        found: _Cost = _Straight(Slots(0.0, 2, far, 0, 2.0), ())
        for extent in reversed(extents):
            found = _Counted("", (lambda env: 0, extent, lambda env: 1), found, True, 0.0)
        return found

    def _is_far(self, name: str) -> bool:
        """Whether elements lie in main memory."""
        buffer = self.buffers[name]
        return buffer.space not in (*_NEAR, Space.REGISTER) and not is_by_value(buffer)

    def _is_free(self, name: str) -> bool:
        """Whether elements are in registers."""
        buffer = self.buffers[name]
        if buffer.space is Space.REGISTER:
            return True
        return not buffer.strides and (buffer.space is Space.STACK or is_by_value(buffer))

    # -- straight code ----------------------------------------------------------------------------

    def _store(self, stmt: Store) -> _Straight:
        written = Load(stmt.buffer, stmt.index, stmt.value.dtype)
        found = self._straight((*stmt.index, stmt.value), written)
        if written not in loads(stmt.value):
            return found
        used = set().union(*map(names, stmt.index))
        again = prod(count for var, (_, count) in self.repeated.items() if var not in used)
        return _Straight(found.slots, ((written, again * (self.machine.fma_latency or 1.0)),))

    def _straight(self, exprs: Sequence[Expr], written: Load | None) -> _Straight:
        read = dict.fromkeys(load for expr in exprs for load in loads(expr))
        memory = direct = 0
        for load in (*read, *(() if written is None else (written,))):
            if self._is_free(load.array):
                continue
            count = self._accesses(load)
            memory += count
            direct += count * self._is_far(load.array)
        vector, flops = self._arithmetic(exprs[-1:])
        return _Straight(Slots(vector, memory, direct, flops, max(vector, float(memory))), ())

    def _lanes(self) -> int:
        return max(1, self.machine.vector_bytes // 8)

    def _accesses(self, load: Load) -> int:
        """Loads or stores of an access in unrolled and vector loops around it."""
        count = 1
        used = set().union(*map(names, load.index)) if load.index else set()
        for var, (mark, extent) in self.repeated.items():
            if var not in used:
                continue
            is_row = var in names(load.index[-1]) and not any(
                var in names(entry) for entry in load.index[:-1]
            )
            is_vector = mark is Mark.VECTOR and is_row
            count *= ceil(extent / self._lanes()) if is_vector else extent
        return count

    def _arithmetic(self, exprs: Sequence[Expr]) -> tuple[float, int]:
        """Slots of the first pipeline, products fused with sums, and flops."""
        products = sums = others = extremes = divisions = functions = 0
        for node in (node for expr in exprs for node in walk(expr)):
            if not (node.dtype.is_float or node.dtype.is_complex) or not isinstance(
                node, Binary | Unary | Call
            ):
                continue
            weight = 4 if node.dtype.is_complex else 1
            word = node.function if isinstance(node, Call) else node.op
            if word == "mul":
                products += weight
            elif word in ("add", "sub"):
                sums += weight
            elif word in ("div", "sqrt"):
                divisions += weight
            elif word == "fma":
                products, sums = products + weight, sums + weight
            elif word in ("min", "max"):
                extremes += weight
            elif word in ("neg", "abs", "floor", "ceil"):
                others += weight
            else:
                functions += weight
        slots = max(products, sums) + extremes + others
        slots += _DIVISION_SLOTS * divisions + _FUNCTION_SLOTS * functions
        flops = products + sums + extremes + divisions + functions
        unrolled = prod(count for mark, count in self.repeated.values() if mark is Mark.UNROLL)
        lanes = prod(count for mark, count in self.repeated.values() if mark is Mark.VECTOR)
        return float(slots * unrolled * ceil(lanes / self._lanes())), flops * unrolled * lanes


def _longest_chain(chains: Sequence[tuple[Load, float]], var: str) -> float:
    """Cycles of the sums in one element that stays the same while a loop runs, at most."""
    found: dict[Load, float] = {}
    for element, latency in chains:
        if not any(var in names(entry) for entry in element.index):
            found[element] = found.get(element, 0.0) + latency
    return max(found.values(), default=0.0)


def _joined(parts: Sequence[_Cost]) -> _Cost:
    """Parts in order; straight code next to straight code is one part."""
    found: list[_Cost] = []
    for part in parts:
        inner = part.parts if isinstance(part, _Parts) else (part,)
        for one in inner:
            last = found[-1] if found else None
            if isinstance(one, _Straight) and isinstance(last, _Straight):
                vector, memory, direct, flops, _ = last.slots.plus(one.slots)
                slots = Slots(vector, memory, direct, flops, max(vector, float(memory)))
                found[-1] = _Straight(slots, (*last.chains, *one.chains))
            elif one is not _NOTHING:
                found.append(one)
    if not found:
        return _NOTHING
    return found[0] if len(found) == 1 else _Parts(tuple(found))


class WorkSignature:
    """Numbers of which the events and the work of a statement are a function.

    The values of bounds, conditions and extents, as far as they do not depend on loops inside of
    the statement, or of their parts that do not. A statement that has its signature again,
    at another place or on another core, does the same again.
    """

    def __init__(self, stmt: Stmt, *, has_offsets: bool = False) -> None:
        self._has_offsets = has_offsets
        self._texts: dict[str, None] = {}
        self._collect(stmt, frozenset(), {})
        self._values: Callable[[Env], tuple[Any, ...]]
        self._values = eval(f"lambda e: ({''.join(f'{text}, ' for text in self._texts)})", {})

    def __call__(self, env: Env) -> tuple[Any, ...]:
        return self._values(env)

    def _collect(self, stmt: Stmt, inner: frozenset[str], lets: dict[str, Expr]) -> None:
        match stmt:
            case For(var=var, start=start, stop=stop, step=step, body=body):
                if var in deciding_names(body, self._has_offsets):
                    for expr in (start, stop, step):
                        self._add((expr,), inner, lets)
                else:
                    self._add((start, stop, step), inner, lets)
                self._collect(body, inner | {var}, {k: v for k, v in lets.items() if k != var})
            case If(cond=cond, body=body, orelse=orelse):
                if not loads(cond):
                    self._add((cond,), inner, lets)
                self._collect(body, inner, lets)
                if orelse is not None:
                    self._collect(orelse, inner, lets)
            case Let(name=name, value=value, body=body):
                is_integer = not loads(value)
                bound = {**lets, name: substitute(value, lets)} if is_integer else lets
                self._collect(body, inner, bound)
            case Alloc(body=body):
                self._collect(body, inner, lets)
            case Block(body=parts):
                for child in parts:
                    self._collect(child, inner, lets)
            case Copy(shape=shape, source_start=source, target_start=target):
                for expr in (*shape, *((*source, *target) if self._has_offsets else ())):
                    self._add((expr,), inner, lets)
            case MeshBroadcast(shape=shape) | MeshMessage(shape=shape):
                for expr in shape:
                    self._add((expr,), inner, lets)

    def _add(
        self, exprs: tuple[Expr, ...], inner: frozenset[str], lets: Mapping[str, Expr]
    ) -> None:
        plain = tuple(substitute(expr, lets) for expr in exprs)
        used = set().union(*map(names, plain))
        if used & inner:
            for expr in plain:
                self._add_parts(expr, inner)
        elif len(plain) == 3:
            start, stop, step = map(_python, plain)
            self._texts[f"max(0, ({stop} - {start} + {step} - 1) // {step})"] = None
        elif used:
            self._texts[_python(plain[0])] = None

    def _add_parts(self, expr: Expr, inner: frozenset[str]) -> None:
        """The largest parts of an expression that do not depend on loops inside."""
        used = names(expr)
        if used & inner:
            for part in children(expr):
                self._add_parts(part, inner)
        elif used:
            self._texts[_python(expr)] = None


def _deciding_bounds(loop: For, is_uniform: bool) -> tuple[Expr, Expr, Expr]:
    """First value, end and step; where nothing inside depends on the values, their number."""
    count = normal(loop.stop - loop.start)
    return (Const(0), count, loop.step) if is_uniform else (loop.start, loop.stop, loop.step)


def deciding_names(stmt: Stmt, has_offsets: bool = False) -> frozenset[str]:
    """The variables that decide how often statements run and how much is copied, or also where."""
    found: set[str] = set()
    match stmt:
        case For(var=var, body=body):
            found |= deciding_names(body, has_offsets)
            found = (found - {var}).union(*map(names, _deciding_bounds(stmt, var not in found)))
        case If(cond=cond, body=body, orelse=orelse):
            for inner in (body,) if orelse is None else (body, orelse):
                found |= deciding_names(inner, has_offsets)
            found |= set() if loads(cond) else names(cond)
        case Let(name=name, value=value, body=body):
            found |= deciding_names(body, has_offsets)
            if name in found:
                found = (found - {name}) | names(value)
        case Alloc(body=body):
            found |= deciding_names(body, has_offsets)
        case Block(body=parts):
            found = found.union(*(deciding_names(part, has_offsets) for part in parts))
        case Copy(shape=shape, source_start=source, target_start=target):
            starts = (*source, *target) if has_offsets else ()
            found = found.union(*map(names, (*shape, *starts)))
        case MeshBroadcast(shape=shape) | MeshMessage(shape=shape):
            found = found.union(*map(names, shape))
    return frozenset(found)
