"""What a place in emitted C can name: blocks, bindings, memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from loopwright.backends.c_index import width_of
from loopwright.backends.c_layout import Lines
from loopwright.backends.c_memory import (
    ALLOCATE,
    Place,
    array_extents,
    declaration,
    total_elements,
)
from loopwright.backends.c_names import Names
from loopwright.backends.c_ranges import interval
from loopwright.backends.c_shape import allocations, is_subscript
from loopwright.backends.c_types import ATOM, INDEX, Code, Width, c_type
from loopwright.backends.c_vectors import VectorExpressions
from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Const, Expr
from loopwright.ir.loops import Alloc, For, Let, LoopNest, Space, Stmt
from loopwright.ir.visit import names, statements

__all__ = ["Scopes", "memory_runs"]

_MOST_STACK = 16 << 10  # bytes of one array that a block declares; more goes to the heap


class Scopes(VectorExpressions):
    """Opens and closes blocks, declares variables and memory."""

    def __init__(
        self,
        names: Names,
        *,
        from_c: bool = False,
        margin: str = "",
    ) -> None:
        super().__init__(from_c=from_c)
        self.names = names
        self.lines = Lines(margin)
        self.places: dict[str, Place] = {}  # buffers by name
        self.wishes: dict[str, str] = {}  # variables and arrays whose name the user chose
        self.kept: dict[str, Place] = {}  # scratch memory that the text around has already
        self.told = ""  # the origin told last
        self._hoisted: dict[int, Place] = {}  # memory declared ahead, by identity of its Alloc
        self.runs: frozenset[str] = frozenset()  # buffers whose last subscript runs along memory

    def is_run(self, buffer: str) -> bool:
        """Whether neighbours along the last subscript of a buffer are so in memory."""
        return buffer in self.runs

    def element(self, array: str, index: tuple[Expr, ...]) -> str:
        if array not in self.places:
            raise InternalError(f"buffer {array} does not exist here")
        return self.places[array].element(index, self.index)

    def row(self, array: str, index: tuple[Expr, ...]) -> str:
        return self.places[array].element(index, self.index)

    def hoist(
        self, body: Stmt, scalars: frozenset[str], space: Space, *, has_team: bool = False
    ) -> list[str]:
        """Declare the memory of a space ahead of everything; the names of what must be freed.

        All threads see one scratch memory. Private memory is one per thread, whatever the number
        of times it is asked for.
        """
        heap: list[str] = []
        for stmt in allocations(body, space):
            used = set().union(*map(names, (*stmt.shape, *stmt.buffer.strides)))
            if not used <= scalars:
                if has_team:
                    raise InternalError(f"size of scratch memory {stmt.buffer.name} varies")
                continue
            if space is Space.SCRATCH and stmt.buffer.name in self.kept:
                self._hoisted[id(stmt)] = self.kept[stmt.buffer.name]
                continue
            self._hoisted[id(stmt)], is_heap = self._declare(stmt)
            heap += [self._hoisted[id(stmt)].name] if is_heap else []
        return heap

    @contextmanager
    def bound(self, stmt: Let) -> Iterator[None]:
        """A binding as a constant of the enclosing block, to whose end its name stays taken."""
        dtype = stmt.value.dtype
        is_index = dtype == INT64 and is_subscript(stmt)
        if is_index and isinstance(stmt.value, Const):
            with self.constant(stmt.name, stmt.value):
                yield
            return
        value = self.index(stmt.value) if is_index else self.value(stmt.value)
        name = self.fresh_name(stmt.name)
        low = interval(stmt.value, self.ranges)[0] if is_index else None
        self.lines.add(f"const {c_type(dtype)} {name} = {value};")
        self.spelling[stmt.name] = Code(name, ATOM, width_of(dtype))
        with self.known_range(stmt.name, low):
            yield

    @contextmanager
    def constant(self, name: str, value: Const) -> Iterator[None]:
        """An integer variable that is a number, and is written as one."""
        self.constants[name] = value
        self.spelling[name] = self.index(value)
        yield
        del self.constants[name]

    @contextmanager
    def loop(self, stmt: For) -> Iterator[None]:
        """The head of a loop, and its body between braces."""
        start, stop, step = self.index(stmt.start), self.index(stmt.stop), self.index(stmt.step)
        low = interval(stmt.start, self.ranges)[0]
        with self.names.block(), self.known_range(stmt.var, low):
            name = self.fresh_name(stmt.var)
            self.spelling[stmt.var] = Code(name, ATOM, Width.LONG)
            by = f"{name}++" if step.text == "1" else f"{name} += {step}"
            bound = stop.within(ATOM) if " ? " in stop.text else stop.text
            goes_on = f"{name} < {bound}"
            if stmt.until is not None:
                goes_on += f" && !({self.condition(stmt.until, is_guard=True)})"
            with self.braces(f"for ({INDEX} {name} = {start}; {goes_on}; {by})"):
                yield

    @contextmanager
    def known_range(self, name: str, low: int | None) -> Iterator[None]:
        """Inside, a variable is known not to be negative, if it is not."""
        before = self.ranges.pop(name, None)
        if low is not None and low >= 0:
            self.ranges[name] = (low, (1 << 63) - 1)
        yield
        self.ranges.pop(name, None)
        if before is not None:
            self.ranges[name] = before

    @contextmanager
    def allocated(self, stmt: Alloc) -> Iterator[None]:
        """Memory that the statements inside may use."""
        if stmt.buffer.space is Space.SHARED:
            raise InternalError("shared memory is for a GPU", stmt.buffer.name)
        place, is_heap = self._hoisted.get(id(stmt)), False
        if place is None:
            place, is_heap = self._declare(stmt)
        before = self.places.get(stmt.buffer.name)
        self.places[stmt.buffer.name] = place
        yield
        if is_heap:
            self.free([place.name])
        del self.places[stmt.buffer.name]
        if before is not None:
            self.places[stmt.buffer.name] = before

    def _declare(self, stmt: Alloc) -> tuple[Place, bool]:
        """Declare local memory: where it is, and whether it must be freed."""
        if stmt.buffer.name in self.registers:
            return self._declare_vectors(stmt), False
        buffer, extents = stmt.buffer, array_extents(stmt.buffer, stmt.shape)
        count = total_elements(stmt, extents)
        size = count.value * buffer.dtype.bytes if isinstance(count, Const) else None
        is_small = isinstance(size, int) and size <= _MOST_STACK
        is_constant = extents is None or all(isinstance(n, Const) for n in extents)
        is_stack = is_small and is_constant
        name = self.fresh_name(buffer.name)
        if not is_stack:
            self.helpers[ALLOCATE.name] = ALLOCATE
        self.lines.add(declaration(name, buffer.dtype, extents, count, self.index, not is_stack))
        return Place(name, buffer.dtype, buffer.strides if extents is None else None), not is_stack

    def _declare_vectors(self, stmt: Alloc) -> Place:
        """Declare registers: an array of vectors, whose elements are the last dimension."""
        buffer = stmt.buffer
        kind = self.vector_type(buffer.dtype, self.registers[buffer.name])
        name = self.fresh_name(buffer.name)
        rows = "".join(f"[{self.index(extent)}]" for extent in stmt.shape[:-1])
        self.lines.add(f"{kind} {name}{rows};")
        return Place(name, buffer.dtype, None)

    def fresh_name(self, name: str) -> str:
        """What a new variable or array is called in C."""
        wish = self.wishes.get(name)
        return self.names.declare(wish or name, is_own=wish is None)

    def free(self, heap: list[str]) -> None:
        """Give memory back, the last first."""
        for name in reversed(heap):
            self.lines.add(f"__builtin_free({name});")

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """A block of its own."""
        with self.names.block(), self.braces(head):
            yield

    @contextmanager
    def braces(self, head: str) -> Iterator[None]:
        """What stands between braces; names in it are the caller's affair."""
        self.lines.add(f"{head} {{" if head else "{")
        self.lines.indent()
        self.told = ""
        yield
        self.lines.dedent()
        self.lines.add("}")

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Between braces that the caller writes."""
        with self.names.block():
            self.lines.indent()
            self.told = ""
            yield
            self.lines.dedent()

    def pragma(self, text: str) -> None:
        """A line of a dialect, if it has one."""
        if text:
            self.lines.directive(text)


def memory_runs(nest: LoopNest, places: Mapping[str, Place]) -> frozenset[str]:
    """Buffers whose neighbours along the last subscript are neighbours in memory."""
    steps: dict[str, set[bool]] = {}
    for name, place in places.items():
        steps[name] = {place.strides is None or place.strides[-1:] == (Const(1),)}
    for stmt in statements(nest.body):
        if isinstance(stmt, Alloc):
            is_run = stmt.buffer.strides[-1:] == (Const(1),)
            steps.setdefault(stmt.buffer.name, set()).add(is_run)
    return frozenset(name for name, found in steps.items() if found == {True})
