"""Scopes of emitted C: blocks, constants, loop variables and memory, and what they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from loopwright.backends.c_text.c_dialect import ANY_FLAG, FAR_FLAG
from loopwright.backends.c_text.c_expression_printer import CExpressions, NamedBuffer, width_of
from loopwright.backends.c_text.c_modulo_sums import gathers_modulo
from loopwright.backends.c_text.c_operations import Helper
from loopwright.backends.c_text.c_syntax import (
    ATOM,
    PRODUCT,
    CText,
    IndentedText,
    NamesInUse,
    Width,
    c_type,
)
from loopwright.backends.c_text.c_vectors import VectorStatements
from loopwright.diagnostics import InternalError
from loopwright.ir.device import shared_part
from loopwright.ir.dtypes import BOOL, DTYPES, INT32, INT64, DType
from loopwright.ir.expr import Cast, Const, Expr, Load, Var, as_expr
from loopwright.ir.fixed_conditions import has_fixed_part
from loopwright.ir.intervals import Interval, interval, limits
from loopwright.ir.loops import Alloc, Buffer, For, If, Let, LoopNest, Mark, Space, Stmt, Store
from loopwright.ir.mesh_program import scratchpad_part
from loopwright.ir.visit import expressions, names, statements, statements_inside, walk
from loopwright.memo import IdentityMap

__all__ = ["Scopes", "allocations", "contiguous_buffers"]

# Cache lines of memory that vectors like to begin on; never no bytes, for which the answer is open.
_ALLOCATE = Helper(
    "lw_allocate",
    "void *",
    ("unsigned long",),
    (
        "void *lw_p = __builtin_aligned_alloc(64, lw_a / 64 * 64 + 64);",
        "if (!lw_p) __builtin_abort();",
    ),
    "lw_p",
)
# How many pieces the team makes of lw_a at most; the function is declared as omp.h does it.
_PIECES = Helper(
    "lw_pieces",
    "long",
    ("long",),
    ("int omp_get_num_threads(void);", "const long lw_t = omp_get_num_threads();"),
    "lw_a < lw_t ? lw_a : lw_t",
    alone="1",
)
# Before a loop of independent iterations. gcc takes more of them in vectors where OpenMP says so.
_SIMD = Helper("lw_simd", "", (), (), '_Pragma("omp simd")', alone='_Pragma("GCC ivdep")')
_SIMD_FAR, _SIMD_ANY = (
    Helper(
        name, "", (), (), f'_Pragma("omp simd reduction(|:{flag})")', alone='_Pragma("GCC ivdep")'
    )
    for name, flag in (("lw_simd_far", FAR_FLAG), ("lw_simd_any", ANY_FLAG))
)
_Index = Callable[[Expr], CText]  # writes an index expression


def _is_small(bound: Expr) -> bool:
    """Whether a bound is no number that int does not hold."""
    return not isinstance(bound, Const) or bound.value in range(INT32.least, INT32.greatest + 1)


def _array_extents(buffer: Buffer, shape: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
    """Extents of a C array with the strides of `buffer`; None when there is none.

    The distance from one row to the next is the extent of a row, which may be more than is used.
    """
    strides = buffer.strides
    if not strides:
        return ()
    if strides[-1] != Const(1):
        return None
    extents = [shape[0]]
    for outer, inner, least in zip(strides, strides[1:], shape[1:], strict=False):
        if outer == least * inner:
            extents.append(least)
            continue
        match outer, inner, least:
            case Const(value=int(o)), Const(value=int(i)), Const(value=int(m)):
                if i <= 0 or o % i or o // i < m:
                    return None
                extents.append(Const(o // i))
            case _:
                return None
    return tuple(extents)


def _total_elements(stmt: Alloc, extents: tuple[Expr, ...] | None) -> Expr:
    """The number of elements of the memory; a negative extent counts as zero."""
    total: Expr = Const(1)
    if extents is not None:
        for extent in extents:
            total = total * extent.max(0)
        return total
    for extent, stride in zip(stmt.shape, stmt.buffer.strides, strict=True):
        total = total + (extent - 1).max(0) * stride
    return total


def _declaration(
    name: str,
    dtype: DType,
    extents: tuple[Expr, ...] | None,
    count: Expr,
    write: _Index,
    heap: bool,
    *,
    is_volatile: bool = False,
) -> str:
    """The declaration of local memory; `count` elements where it has no extents of its own."""
    sizes = (count,) if extents is None else extents
    # gcc has no vectors for selections by elements of type _Bool.
    kind = "unsigned char" if dtype == BOOL and sizes else c_type(dtype)
    element = kind if not is_volatile else f"volatile {kind}"
    if not heap:
        return f"{element} {name}" + "".join(f"[{write(as_expr(n))}]" for n in sizes) + ";"
    rows = "".join(f"[{write(n)}]" for n in sizes[1:])
    pointer = f"(*{name}){rows}" if rows else f"*{name}"
    return f"{element} {pointer} = lw_allocate({write(count).within(PRODUCT)} * sizeof({element}));"


_MOST_STACK = 16 << 10  # bytes of one array that a block declares; more goes to the heap


def _from(start: Expr, known: Mapping[str, Interval]) -> Interval | None:
    """All indices from the least of some on; None where that is negative, and nothing to know."""
    low = interval(start, known)[0]
    return (low, limits(INT64)[1]) if low >= 0 else None


def allocations(stmt: Stmt, space: Space) -> list[Alloc]:
    """The allocations in a space, outer ones first."""
    return [s for s in statements(stmt) if isinstance(s, Alloc) and s.buffer.space is space]


class _IndexNames:
    """Variables that statements use as subscripts, bounds or sizes: these do not overflow.

    Where `is_deep`, also those that bindings of such variables are computed from. What is found of
    a statement is kept: bindings inside each other ask for the same ones.
    """

    def __init__(self, *, is_deep: bool) -> None:
        self._is_deep = is_deep
        self._known: IdentityMap[Stmt, frozenset[str]] = IdentityMap()

    def of(self, stmt: Stmt) -> frozenset[str]:
        """The variables of a statement and of those inside of it."""
        found = self._known.get(stmt)
        if found is not None:
            return found
        parts = [self.of(inner) for inner in statements_inside(stmt)]
        places = expressions(stmt)
        if isinstance(stmt, Store):
            places = (*stmt.index, *_subscripts_in(stmt.value))
        elif isinstance(stmt, Let | If):
            places = tuple(e for x in places for e in _subscripts_in(x))
        used = set().union(*map(names, places))
        if self._is_deep and isinstance(stmt, Let) and stmt.name in parts[0]:
            used |= names(stmt.value)
        is_same = len(parts) == 1 and used <= parts[0]
        found = parts[0] if is_same else frozenset(used.union(*parts))
        self._known[stmt] = found
        return found


def _subscripts_in(expr: Expr) -> list[Expr]:
    return [entry for part in walk(expr) if isinstance(part, Load) for entry in part.index]


class Scopes:
    """Opens and closes blocks; declares variables and memory for the expressions in them."""

    def __init__(
        self, names: NamesInUse, expressions: CExpressions, vectors: VectorStatements, margin: str
    ) -> None:
        self.names = names
        self.expressions = expressions
        self.vectors = vectors
        self.lines = IndentedText(margin)
        self.wishes: dict[str, str] = {}  # variables and arrays whose name the user chose
        self.kept: dict[str, NamedBuffer] = {}  # scratch memory that the text around declares
        self.last_origin = ""  # of the last store in this block
        self.scratchpad_offset = 0  # where the next box begins
        self.boxes: dict[str, None] = {}  # buffers in scratchpads
        self.shared_offset: int | None = None  # where the next part of one shared array begins
        self._hoisted: dict[
            int, NamedBuffer
        ] = {}  # memory declared ahead, by identity of its Alloc
        self._index_names = _IndexNames(is_deep=expressions.dialect.is_device)

    def hoist(
        self, body: Stmt, scalars: frozenset[str], space: Space, *, has_team: bool = False
    ) -> list[str]:
        """Declare the memory of a space before all statements; return the names of what is freed.

        All threads share one scratch memory. Private memory is one per thread, however often it
        is allocated.
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
        """A binding as a const variable of the enclosing block."""
        dtype = stmt.value.dtype
        is_index = dtype == INT64 and stmt.name in self._index_names.of(stmt.body)
        if is_index and isinstance(stmt.value, Const) and not stmt.parts:
            with self.constant(stmt.name, stmt.value):
                yield
            return
        value = (
            self.expressions.index(stmt.value) if is_index else self.expressions.value(stmt.value)
        )
        name = self.declare_name(stmt.name)
        known = _from(stmt.value, self.expressions.ranges) if is_index else None
        if dtype.is_integer and not is_index:
            known = interval(stmt.value, self.expressions.ranges)
        kind = self.expressions.dialect.index if is_index else c_type(dtype)
        text = self.expressions.anew(value) if stmt.is_anew else value
        if stmt.parts and (pieces := self.expressions.dialect.pieces):
            self.expressions.helpers[_PIECES.name] = _PIECES
            text = CText(pieces.format(parts=stmt.parts), ATOM)
            known = (1, stmt.parts)
        self.lines.add(f"const {kind} {name} = {text};")
        self.expressions.spelling[stmt.name] = CText(name, ATOM, width_of(dtype))
        with self.known_range(stmt.name, known):
            yield

    @contextmanager
    def constant(self, name: str, value: Const) -> Iterator[None]:
        """An integer variable with a constant value, which is written in its place."""
        self.expressions.constants[name] = value
        self.expressions.spelling[name] = self.expressions.index(value)
        yield
        del self.expressions.constants[name]

    @contextmanager
    def loop(self, stmt: For) -> Iterator[None]:
        """The head of a loop, and its body between braces."""
        start, stop, step = (
            self.expressions.index(stmt.start),
            self.expressions.index(stmt.stop),
            self.expressions.index(stmt.step),
        )
        known = _from(stmt.start, self.expressions.ranges)
        with self.names.block(), self.known_range(stmt.var, known):
            name = self.declare_name(stmt.var)
            is_narrow = self.counts_in_int(stmt, start, stop)
            kind = "int" if is_narrow else self.expressions.dialect.index
            width = Width.INT if is_narrow else Width.LONG
            self.expressions.spelling[stmt.var] = CText(name, ATOM, width)
            by = f"{name}++" if step.text == "1" else f"{name} += {step}"
            bound = stop.within(ATOM) if " ? " in stop.text else stop.text
            goes_on = f"{name} < {bound}"
            if stmt.until is not None:
                goes_on += f" && !({self.expressions.condition(stmt.until, is_guard=True)})"
            with self.braces(f"for ({kind} {name} = {start}; {goes_on}; {by})"):
                yield

    def counts_in_int(self, stmt: For, start: CText, stop: CText) -> bool:
        """Whether a loop of vectors counts in int: its bounds are, and so is its variable as data.

        Lanes of a variable of 64 bits would be made and halved for every vector.
        """
        if stmt.mark is not Mark.SIMD or stmt.step != Const(1) or not self.expressions.from_c:
            return False
        ends = (stmt.start, start), (stmt.stop, stop)
        if any(text.width is not Width.INT or not _is_small(bound) for bound, text in ends):
            return False
        inside = list(statements(stmt.body))
        nodes = [node for part in inside for expr in expressions(part) for node in walk(expr)]
        moving = {stmt.var, *(part.name for part in inside if isinstance(part, Let))}
        # gcc then no longer asks before the loop for what stays the same in it.
        if any(node.dtype == BOOL and has_fixed_part(node, moving) for node in nodes):
            return False
        return any(
            isinstance(node, Cast) and node.dtype == INT32 and node.x == Var(stmt.var)
            for node in nodes
        )

    def known_from(self, start: Expr) -> Interval | None:
        """What is known of a variable that counts from `start` on."""
        return _from(start, self.expressions.ranges)

    @contextmanager
    def known_range(self, name: str, known: Interval | None) -> Iterator[None]:
        """Inside, a variable is known to lie in an interval, if one is given."""
        before = self.expressions.ranges.pop(name, None)
        if known is not None:
            self.expressions.ranges[name] = known
        yield
        self.expressions.ranges.pop(name, None)
        if before is not None:
            self.expressions.ranges[name] = before

    @contextmanager
    def allocated(self, stmt: Alloc) -> Iterator[None]:
        """Memory that the statements inside may use."""
        if stmt.buffer.space is Space.SHARED and not self.expressions.dialect.shared:
            raise InternalError("shared memory is for a GPU", stmt.buffer.name)
        place, is_heap = self._hoisted.get(id(stmt)), False
        offset = self.scratchpad_offset
        if place is None:
            place, is_heap = self._declare(stmt)
        before = self.expressions.buffers.get(stmt.buffer.name)
        self.expressions.buffers[stmt.buffer.name] = place
        yield
        self.scratchpad_offset = offset
        if is_heap:
            self.free([place.name])
        del self.expressions.buffers[stmt.buffer.name]
        if before is not None:
            self.expressions.buffers[stmt.buffer.name] = before

    def _declare(self, stmt: Alloc) -> tuple[NamedBuffer, bool]:
        """Declare local memory: where it is, and whether it must be freed."""
        if stmt.buffer.name in self.vectors.registers:
            return self._declare_vectors(stmt), False
        if stmt.buffer.space is Space.SCRATCHPAD:
            return self._declare_box(stmt), False
        buffer, extents = stmt.buffer, _array_extents(stmt.buffer, stmt.shape)
        count = _total_elements(stmt, extents)
        size = count.value * buffer.dtype.bytes if isinstance(count, Const) else None
        is_device = self.expressions.dialect.is_device
        is_small = isinstance(size, int) and (size <= _MOST_STACK or is_device)
        is_constant = extents is None or all(isinstance(n, Const) for n in extents)
        is_stack = is_small and is_constant
        name = self.declare_name(buffer.name)
        if not is_stack and is_device:
            raise InternalError("memory of a thread has no constant size", buffer.name)
        if not is_stack:
            self.expressions.helpers[_ALLOCATE.name] = _ALLOCATE
        if buffer.space is Space.SHARED and self.shared_offset is not None:
            return self._declare_part(name, stmt, extents), False
        space = self.expressions.dialect.shared if buffer.space is Space.SHARED else ""
        index = self.expressions.index
        is_unsigned = not is_device and gathers_modulo(stmt)
        self.lines.add(
            space
            + _declaration(
                name,
                DTYPES[f"u{buffer.dtype.name}"] if is_unsigned else buffer.dtype,
                extents,
                count,
                index,
                not is_stack,
                is_volatile=buffer.is_volatile,
            )
        )
        strides = buffer.strides if extents is None else None
        return NamedBuffer(name, buffer.dtype, strides, is_unsigned), not is_stack

    def _declare_box(self, stmt: Alloc) -> NamedBuffer:
        """Declare memory in the scratchpad, behind that of the blocks around."""
        dialect, buffer = self.expressions.dialect, stmt.buffer
        if not dialect.scratchpad:
            raise InternalError("scratchpads are for cores of a mesh", buffer.name)
        name = self.declare_name(buffer.name)
        kind, offset = c_type(buffer.dtype), self.scratchpad_offset
        self.lines.add(dialect.scratchpad.format(type=kind, name=name, offset=offset))
        self.scratchpad_offset += scratchpad_part(stmt)
        self.boxes[buffer.name] = None
        return NamedBuffer(name, buffer.dtype, buffer.strides)

    def _declare_part(
        self, name: str, stmt: Alloc, extents: tuple[Expr, ...] | None
    ) -> NamedBuffer:
        """Declare an array in the memory that all shared arrays of a kernel have in common."""
        assert self.shared_offset is not None
        assert extents is not None, "shared arrays have rows"
        buffer, dialect = stmt.buffer, self.expressions.dialect
        count = _total_elements(stmt, extents)
        assert isinstance(count, Const)
        shape = "".join(f"[{self.expressions.index(n)}]" for n in extents)
        kind = "volatile " * buffer.is_volatile + c_type(buffer.dtype)
        part = dialect.shared_part.format(
            type=kind, name=name, extents=shape, offset=self.shared_offset
        )
        self.lines.add(part)
        size = int(count.value.real) * buffer.dtype.bytes
        self.shared_offset += shared_part(size)
        return NamedBuffer(name, buffer.dtype, None)

    def _declare_vectors(self, stmt: Alloc) -> NamedBuffer:
        """Declare registers: an array of vectors, whose elements are the last dimension."""
        buffer = stmt.buffer
        kind = self.vectors.type_name(buffer.dtype, self.vectors.registers[buffer.name])
        name = self.declare_name(buffer.name)
        rows = "".join(f"[{self.expressions.index(extent)}]" for extent in stmt.shape[:-1])
        self.lines.add(f"{kind} {name}{rows};")
        return NamedBuffer(name, buffer.dtype, None)

    def declare_name(self, name: str) -> str:
        """Declare the identifier of a new variable or array: the user's name where there is one."""
        wish = self.wishes.get(name)
        return self.names.declare(wish or name, is_own=wish is None)

    def free(self, heap: list[str]) -> None:
        """Free heap memory, in reverse order of its allocation."""
        for name in reversed(heap):
            self.lines.add(f"__builtin_free({name});")

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """A block of its own."""
        with self.names.block(), self.braces(head):
            yield

    @contextmanager
    def braces(self, head: str) -> Iterator[None]:
        """Braces around statements, without a scope of names."""
        self.lines.add(f"{head} {{" if head else "{")
        self.lines.indent()
        self.last_origin = ""
        yield
        self.lines.dedent()
        self.lines.add("}")

    @contextmanager
    def inside(self) -> Iterator[None]:
        """A scope of names between braces that the caller writes."""
        with self.names.block():
            self.lines.indent()
            self.last_origin = ""
            yield
            self.lines.dedent()

    def pragma(self, text: str) -> None:
        """A line of a dialect, if it has one."""
        self.pragma_helper(text)
        if text:
            self.lines.directive(text)

    def pragma_helper(self, text: str) -> None:
        """Define what a line of a dialect stands for, where that depends on the compiler."""
        for used in (_SIMD, _SIMD_FAR, _SIMD_ANY):
            if text.startswith(f"{used.name}("):
                self.expressions.helpers[used.name] = used


def contiguous_buffers(nest: LoopNest, known: Mapping[str, NamedBuffer]) -> frozenset[str]:
    """Buffers whose elements are contiguous along the last subscript.

    `known` are the arguments; one name may be allocated more than once.
    """
    steps: dict[str, set[bool]] = {}
    for name, buffer in known.items():
        steps[name] = {buffer.strides is None or buffer.strides[-1:] == (Const(1),)}
    for stmt in statements(nest.body):
        if isinstance(stmt, Alloc):
            is_contiguous = stmt.buffer.strides[-1:] == (Const(1),)
            steps.setdefault(stmt.buffer.name, set()).add(is_contiguous)
    return frozenset(name for name, found in steps.items() if found == {True})
