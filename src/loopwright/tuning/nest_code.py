"""The LLVM code of one nest of a tree: loops, the block in registers, straight-line bodies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from loopwright.backends.llvm import llvm_arithmetic as arithmetic
from loopwright.backends.llvm.llvm_builder import (
    FunctionBuilder,
    SSAValue,
    literal,
    type_name,
)
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Const, Load
from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.ir.program import Access
from loopwright.ir.visit import names
from loopwright.tuning.access_moves import access_moves
from loopwright.tuning.join_loops import joined_nest
from loopwright.tuning.loop_tree import (
    LoopTree,
    TreeLoop,
    TreeNest,
    TreeStatement,
    identity_of,
    shape_of,
)
from loopwright.tuning.lower_tree import packed_depths, row_major
from loopwright.tuning.point_code import PointCode
from loopwright.tuning.quick_plan import MOST_OPERATIONS, CodeLevel, plan_code

__all__ = ["NestCode", "buffer_address", "buffer_bytes"]

_ALIGN = 128  # bytes, of buffers in scratch memory
_MOST_ON_THE_WAY = 8  # elements between memory and memory at a time

# Pieces of the block in registers: offset of the first element, lanes, number of the accumulator.
_Piece = tuple[int, int, int]
# Operands that are in registers: number of the access, offset, lanes.
_Operands = dict[tuple[int, int, int], SSAValue]
# A pointer and constant elements behind it, for each access.
_Places = tuple[tuple[str, int], ...]


def buffer_bytes(shape: Sequence[int], dtype: DType) -> int:
    total = dtype.bytes
    for extent in shape:
        total *= extent
    return -(-total // _ALIGN) * _ALIGN


def buffer_address(code: FunctionBuilder, offset: int) -> str:
    """The address of a buffer in scratch memory."""
    return code.emit(f"getelementptr i8, ptr %memory, i64 {offset}")


class NestCode:
    """Writes the code of one nest."""

    def __init__(
        self,
        tree: LoopTree,
        nest: TreeNest,
        machine: Machine,
        code: FunctionBuilder,
        pointers: dict[str, str],
        memory: int = 0,
    ) -> None:
        lanes = machine.lanes(nest.statement.write.dtype.bits)
        nest = joined_nest(nest, lanes, MOST_OPERATIONS)
        self.tree, self.nest, self.machine, self.code = tree, nest, machine, code
        self.pointers = pointers
        self.memory = memory  # bytes of scratch memory in use
        self.statement = nest.statement
        self.operands = self.statement.operands
        self.point = PointCode(code, machine, self.statement)
        self.dtype = self.statement.write.dtype
        accesses: list[Access | Load] = [self.statement.write, *self.operands]
        self.dtypes = [access.dtype for access in accesses]
        self.moves = [access_moves(a, tree.array(a.array), self.statement) for a in accesses]
        starts = [
            (pointers[access.array], moves[""])
            for access, moves in zip(accesses, self.moves, strict=True)
        ]
        levels = self._levels(starts)
        plus = self.statement.plus
        self.is_free = plus is not None and (
            tree.reassoc or self.dtype.is_exact or plus not in ("add", "mul")
        )
        self.plan = plan_code(
            levels,
            machine,
            self.dtype.bits,
            accumulates=plus is not None,
            is_free=self.is_free,
            accumulators=nest.accumulators,
        )
        self.starts: _Places = tuple(starts)
        self.kept: _Operands = {}  # loaded before the loop around straight-line code
        self.is_copy = self.point.is_copy and not self.copies

    def _levels(self, starts: list[tuple[str, int]]) -> tuple[CodeLevel, ...]:
        """The loops with the moves of all accesses; packed operands move in their buffers.

        Behind the operands stand the sources of the packed ones, which move up to the loop before
        which they are packed.
        """
        nest, steps = self.nest, self.nest.steps
        columns = [
            [moves[loop.dim] * step for loop, step in zip(nest.loops, steps, strict=True)]
            for moves in self.moves
        ]
        # Of packed operands: the access of the source, the loops of the buffer, and its moves.
        self.copies: dict[int, tuple[int, list[int], list[int]]] = {}
        for depth, loop in enumerate(nest.loops):
            for operand in loop.packs:
                load = self.statement.operands[operand]
                depths = packed_depths(nest, depth, load)
                shape = [nest.loops[k].trips for k in depths]
                original, access = columns[operand + 1], operand + 1
                strides = dict(zip(depths, row_major(shape), strict=True))
                columns[access] = [strides.get(k, 0) for k in range(len(nest.loops))]
                columns.append([c if k < depth else 0 for k, c in enumerate(original)])
                self.dtypes.append(load.dtype)
                starts.append(starts[access])
                starts[access] = (buffer_address(self.code, self.memory), 0)
                self.memory += buffer_bytes(shape, load.dtype)
                self.copies[access] = (len(columns) - 1, depths, original)
        written = names(self.statement.write.load())
        return tuple(
            CodeLevel(
                loop.dim,
                steps[k],
                loop.trips,
                tuple(column[k] for column in columns),
                loop.dim in written,
                tuple(operand + 1 for operand in loop.packs),
                loop.mark is Mark.VECTOR,
                loop.mark is Mark.UNROLL,
            )
            for k, loop in enumerate(nest.loops)
        )

    def write(self) -> None:
        """Append the code of the nest."""
        limits = dict(self.statement.dims)
        if self.statement.plus is not None and self._is_resumed():
            self._fill(limits)
        self._walk(0, limits, self.starts, None)

    def _is_resumed(self) -> bool:
        """Whether blocks are left and come back to, because sums go on in a loop around them."""
        outer = self.plan.levels[: self.plan.registers]
        return any(not level.is_written and level.trips > 1 for level in outer)

    def _fill(self, limits: dict[str, int]) -> None:
        """Set what is written to the identity of plus, in the order of memory."""
        write, moves = self.statement.write, self.moves[0]
        assert self.statement.plus is not None
        zero = Const(identity_of(self.statement.plus, self.dtype), self.dtype)
        dims = [(d, limits[d]) for d in moves if d and moves[d]]
        size = prod(extent for _, extent in dims)
        if zero.value == 0 and size == prod(shape_of(self.tree.array(write.array))):
            # All of the array, and no element twice.
            self.code.declarations["declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"] = None
            operands = f"ptr {self.starts[0][0]}, i8 0, i64 {size * self.dtype.bytes}, i1 false"
            self.code.effect(f"call void @llvm.memset.p0.i64({operands})")
            return
        dims.sort(key=lambda x: -abs(moves[x[0]]))
        loops = tuple(TreeLoop(name, extent) for name, extent in dims)
        nest = TreeNest(TreeStatement(tuple(dims), write, zero), loops)
        NestCode(self.tree, nest, self.machine, self.code, self.pointers).write()

    # -- loops ------------------------------------------------------------------------------------

    def _walk(
        self,
        depth: int,
        limits: dict[str, int],
        places: _Places,
        block: dict[_Piece, SSAValue] | None,
    ) -> None:
        """The loops from `depth` on: `limits` are the points left of each dimension."""
        plan = self.plan
        if self.is_copy and self._copied(depth, limits, places):
            return
        if plan.is_once and depth == plan.body and not plan.levels[depth].packs:
            self._once(limits, places)
            return
        if depth == plan.registers and block is None and self.statement.plus is not None:
            block = self._opened(limits, places)
            self._walk(depth, limits, places, block)
            self._close(block, places)
            return
        if depth < len(plan.levels):
            for access in plan.levels[depth].packs:
                self._pack(access, limits, places)
        if depth >= plan.body:
            self._body(limits, places, block)
            return
        level = plan.levels[depth]
        full, rest = divmod(limits[level.dim], level.step)
        inner = {**limits, level.dim: level.step}
        if full == 1 or (level.is_written and block is not None):
            for at in range(full):
                self._walk(depth + 1, inner, _moved(places, level, at), block)
        elif full:
            self._loop(depth, full, inner, places, block)
        if rest:
            rested = {**limits, level.dim: rest}
            self._walk(depth + 1, rested, _moved(places, level, full), block)

    def _copied(self, depth: int, limits: dict[str, int], places: _Places) -> bool:
        """Copy what the loops from `depth` on copy, where it is contiguous in both arrays.

        The arrays are different ones, so the order of the elements does not matter.
        """
        left, moves = dict(limits), []
        for level in self.plan.levels[depth:]:
            full, rest = divmod(left[level.dim], level.step)
            if full and rest:
                return False
            if full:
                left[level.dim] = level.step
                moves.append((*level.coefs[:2], full))
        count = 1
        for write, read, trips in sorted(moves):
            if trips > 1 and (write != count or read != count):
                return False
            count *= trips
        if count < 2:
            return False
        pointers = [f"ptr {self._address(k, *places[k])}" for k in (0, 1)]
        self.code.declarations["declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"] = None
        operands = f"{', '.join(pointers)}, i64 {count * self.dtype.bytes}, i1 false"
        self.code.effect(f"call void @llvm.memcpy.p0.p0.i64({operands})")
        return True

    def _loop(
        self,
        depth: int,
        trips: int,
        limits: dict[str, int],
        places: _Places,
        block: dict[_Piece, SSAValue] | None,
    ) -> None:
        """A loop that advances the pointers that move, and carries the block in registers."""
        code, level = self.code, self.plan.levels[depth]
        moving = [k for k, coef in enumerate(level.coefs) if coef]
        begins = {k: self._address(k, *places[k]) for k in moving}
        self.kept = self._kept(depth, limits, places)
        entered, head, done = code.block, code.label(f"{level.dim}."), code.label("done.")
        code.branch(head)
        code.start(head)
        counter = code.name("n.")
        own = {k: code.name("p.") for k in moving}
        phis = len(code.lines)
        code.lines.append("")
        carried = dict(block or {})
        for piece, value in carried.items():
            assert block is not None
            block[piece] = SSAValue(code.name("c."), value.dtype, value.lanes)
        names_in = {piece: block[piece] for piece in carried} if block is not None else {}
        here = tuple((own[k], 0) if k in own else place for k, place in enumerate(places))
        with code.scope():
            self._walk(depth + 1, limits, here, block)
        self.kept = {}
        nexts = {
            k: code.emit(f"getelementptr i8, ptr {own[k]}, i64 {self._stride(k, level)}")
            for k in moving
        }
        following = code.emit(f"add nuw nsw i64 {counter}, 1")
        back = code.block
        lines = [f"  {counter} = phi i64 [ 0, %{entered} ], [ {following}, %{back} ]"]
        lines += [
            f"  {own[k]} = phi ptr [ {begins[k]}, %{entered} ], [ {nexts[k]}, %{back} ]"
            for k in moving
        ]
        for piece, before in carried.items():
            assert block is not None
            name, after = names_in[piece], block[piece]
            lines.append(
                f"  {name.text} = phi {name.type} [ {before.text}, %{entered} ], "
                f"[ {after.text}, %{back} ]"
            )
        code.lines[phis] = "\n".join(lines)
        more = code.emit(f"icmp ult i64 {following}, {trips}")
        code.effect(f"br i1 {more}, label %{head}, label %{done}")
        code.start(done)

    def _kept(self, depth: int, limits: dict[str, int], places: _Places) -> _Operands:
        """Operands that the loop around straight-line code does not move in, loaded before it.

        As many as there are registers for: one is left for each operand that moves, eight for
        elements on their way from and to memory.
        """
        known: _Operands = {}
        still = [k for k, x in enumerate(self.plan.levels[depth].coefs) if k and x == 0]
        if depth + 1 != self.plan.body or not still or self.plan.levels[depth + 1].packs:
            return known
        offsets = tuple(offset for _, offset in places)
        points = list(self._points(self.plan.body, limits, offsets, 1, ()))
        written = {(at[0], lanes) for _, at, lanes in points}
        is_block = self.plan.registers <= depth
        room = self.machine.vector_registers - (len(written) if is_block else 6)
        for access in (k for k in still if k <= len(self.operands)):
            wanted = dict.fromkeys((at[access], lanes) for _, at, lanes in points)
            if len(wanted) + len(self.operands) <= room:
                room -= len(wanted)
                for offset, lanes in wanted:
                    self._operand(access, places[access][0], offset, lanes, known)
        return known

    def _stride(self, access: int, level: CodeLevel) -> int:
        return level.coefs[access] * self.dtypes[access].bytes

    def _pack(self, access: int, limits: dict[str, int], places: _Places) -> None:
        """Copy what the loops from here on use of an operand to its buffer."""
        source, depths, original = self.copies[access]
        nest = self.nest
        levels = tuple(
            CodeLevel(
                nest.loops[k].dim,
                nest.steps[k],
                nest.loops[k].trips,
                (self._packed_stride(access, k, depths), original[k]),
                is_written=True,
            )
            for k in depths
        )
        load = self.statement.operands[access - 1]
        copy = _CopyCode(self, levels, load, (places[access], places[source]))
        copy._walk(0, limits, copy.starts, None)

    def _packed_stride(self, access: int, depth: int, depths: list[int]) -> int:
        shape = [self.nest.loops[k].trips for k in depths]
        return row_major(shape)[depths.index(depth)]

    # -- the block in registers -------------------------------------------------------------------

    def _pieces(
        self, depth: int, limits: dict[str, int], offset: int, lanes: int = 1
    ) -> Iterator[tuple[int, int]]:
        """Offset and lanes of every vector that the loops from `depth` on write."""
        if depth == len(self.plan.levels):
            yield offset, lanes
            return
        level = self.plan.levels[depth]
        full, rest = divmod(limits[level.dim], level.step)
        inner = {**limits, level.dim: level.step}
        coef = level.coefs[0]
        if depth == self.plan.vector:
            groups = list(self._groups(full))
            if self.plan.is_dot:
                groups = [(0, width) for width in dict.fromkeys(width for _, width in groups)]
            for first, width in groups:
                yield from self._pieces(depth + 1, inner, offset + coef * first, width)
        else:
            for at in range(full if level.is_written else min(full, 1)):
                yield from self._pieces(depth + 1, inner, offset + coef * at, lanes)
        if rest:
            rested = {**limits, level.dim: rest}
            yield from self._pieces(depth + 1, rested, offset + coef * full, lanes)

    def _groups(self, count: int) -> Iterator[tuple[int, int]]:
        """Iterations of the vector loop: the first and the lanes of each vector."""
        first, lanes = 0, self.plan.lanes
        while first < count:
            while first + lanes > count:
                lanes //= 2
            yield first, lanes
            first += lanes

    def _opened(self, limits: dict[str, int], places: _Places) -> dict[_Piece, SSAValue]:
        """The registers of a block, with what they start from."""
        assert self.statement.plus is not None
        zero = literal(self.dtype, identity_of(self.statement.plus, self.dtype))
        pieces = dict.fromkeys(self._pieces(self.plan.registers, limits, places[0][1]))
        is_loaded = self._is_resumed() and not self.plan.is_dot
        block: dict[_Piece, SSAValue] = {}
        for offset, lanes in pieces:
            for number in range(self.plan.accumulators):
                if is_loaded and number == 0:
                    value = self._load(0, (places[0][0], offset), lanes)
                else:
                    value = _constant(zero, lanes)
                block[offset, lanes, number] = value
        return block

    def _close(self, block: dict[_Piece, SSAValue], places: _Places) -> None:
        """Combine the accumulators and write the block to memory."""
        totals: dict[tuple[int, int], SSAValue] = {}
        for (offset, lanes, _), value in block.items():
            key = (offset, lanes)
            totals[key] = value if key not in totals else self.point.plus(totals[key], value)
        if not self.plan.is_dot:
            for (offset, _), value in totals.items():
                self._store((places[0][0], offset), value)
            return
        sums: dict[int, SSAValue] = {}
        for (offset, _), value in totals.items():
            total = self.point.reduced(value)
            sums[offset] = total if offset not in sums else self.point.plus(sums[offset], total)
        for offset, value in sums.items():
            place = (places[0][0], offset)
            if self._is_resumed():
                value = self.point.plus(self._load(0, place, 1), value)
            self._store(place, value)

    # -- straight-line code -----------------------------------------------------------------------

    def _body(
        self, limits: dict[str, int], places: _Places, block: dict[_Piece, SSAValue] | None
    ) -> None:
        """The points of the loops from `body` on, sums outermost: their order stays, per element.

        Operands of one step of the sums are then the only ones that are live.
        """
        offsets = tuple(offset for _, offset in places)
        points = list(self._points(self.plan.body, limits, offsets, 1, ()))
        points.sort(key=lambda point: point[0])
        known = dict(self.kept)
        stores: list[tuple[tuple[str, int], SSAValue]] = []
        steps: dict[tuple[int, ...], int] = {}
        for step, at, lanes in points:
            number = steps.setdefault(step, len(steps)) % self.plan.accumulators
            values = [
                self._operand(k, places[k][0], at[k], lanes, known)
                for k in range(1, len(self.operands) + 1)
            ]
            if block is None:
                value = self.point.value(self.point.expr, values)
                whole = arithmetic.broadcast(self.code, value, lanes)
                stores.append(((places[0][0], at[0]), whole))
            else:
                piece = (at[0], lanes, number)
                block[piece] = self.point.updated(block[piece], values)
        # After all loads, which LLVM would not move over a store that may be to the same memory.
        for place, value in stores:
            self._store(place, value)

    def _once(self, limits: dict[str, int], places: _Places) -> None:
        """Straight-line code in which every element takes one step of its sum: a few at a time.

        All of them at once would need registers that operands are kept in.
        """
        offsets = tuple(offset for _, offset in places)
        points = list(self._points(self.plan.body, limits, offsets, 1, ()))
        assert self.statement.plus is not None
        zero = literal(self.dtype, identity_of(self.statement.plus, self.dtype))
        known, is_resumed = dict(self.kept), self._is_resumed()
        count = -(-len(points) // _MOST_ON_THE_WAY)
        size = -(-len(points) // count)
        for first in range(0, len(points), size):
            batch = points[first : first + size]
            elements = [
                self._load(0, (places[0][0], at[0]), lanes)
                if is_resumed
                else _constant(zero, lanes)
                for _, at, lanes in batch
            ]
            for number, (_, at, lanes) in enumerate(batch):
                values = [
                    self._operand(k, places[k][0], at[k], lanes, known)
                    for k in range(1, len(self.operands) + 1)
                ]
                elements[number] = self.point.updated(elements[number], values)
            for element, (_, at, _) in zip(elements, batch, strict=True):
                self._store((places[0][0], at[0]), element)

    def _points(
        self,
        depth: int,
        limits: dict[str, int],
        offsets: tuple[int, ...],
        lanes: int,
        step: tuple[int, ...],
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], int]]:
        """The step of the sums, the offsets of all accesses, and the lanes of every operation."""
        if depth == len(self.plan.levels):
            yield step, offsets, lanes
            return
        level = self.plan.levels[depth]
        full, rest = divmod(limits[level.dim], level.step)
        inner = {**limits, level.dim: level.step}
        groups = self._groups(full) if depth == self.plan.vector else ((q, 0) for q in range(full))
        for first, width in groups:
            at = _advanced(offsets, level, first)
            after = step if level.is_written else (*step, first)
            yield from self._points(depth + 1, inner, at, width or lanes, after)
        if rest:
            rested = {**limits, level.dim: rest}
            after = step if level.is_written else (*step, full)
            yield from self._points(
                depth + 1, rested, _advanced(offsets, level, full), lanes, after
            )

    def _operand(
        self,
        access: int,
        pointer: str,
        offset: int,
        lanes: int,
        known: _Operands,
    ) -> SSAValue:
        key = (access, offset, lanes)
        if key not in known:
            coef = self.plan.levels[self.plan.vector].coefs[access] if lanes > 1 else 0
            if coef == 0 and lanes > 1:
                scalar = self._operand(access, pointer, offset, 1, known)
                known[key] = arithmetic.broadcast(self.code, scalar, lanes)
            else:
                known[key] = self._load(access, (pointer, offset), lanes)
        return known[key]

    # -- memory -----------------------------------------------------------------------------------

    def _address(self, access: int, pointer: str, offset: int) -> str:
        if offset == 0:
            return pointer
        far = offset * self.dtypes[access].bytes
        return self.code.pure(f"getelementptr i8, ptr {pointer}, i64 {far}")

    def _load(self, access: int, place: tuple[str, int], lanes: int) -> SSAValue:
        """The elements of the lanes of an access: one vector, or one by one."""
        dtype = self.dtypes[access]
        coef = self.plan.levels[self.plan.vector].coefs[access] if lanes > 1 else 1
        if coef == 1:
            pointer = self._address(access, *place)
            text = self.code.emit(
                f"load {type_name(dtype, lanes)}, ptr {pointer}, align {dtype.bytes}"
            )
            return SSAValue(text, dtype, lanes)
        whole = "poison"
        vector, scalar = type_name(dtype, lanes), type_name(dtype)
        for lane in range(lanes):
            pointer = self._address(access, place[0], place[1] + lane * coef)
            element = self.code.emit(f"load {scalar}, ptr {pointer}, align {dtype.bytes}")
            whole = self.code.emit(
                f"insertelement {vector} {whole}, {scalar} {element}, i64 {lane}"
            )
        return SSAValue(whole, dtype, lanes)

    def _store(self, place: tuple[str, int], value: SSAValue) -> None:
        lanes, size = value.lanes, value.dtype.bytes
        coef = self.plan.levels[self.plan.vector].coefs[0] if lanes > 1 else 1
        if coef == 1:
            pointer = self._address(0, *place)
            self.code.effect(f"store {value}, ptr {pointer}, align {size}")
            return
        for lane in range(lanes):
            pointer = self._address(0, place[0], place[1] + lane * coef)
            element = self.code.emit(f"extractelement {value}, i64 {lane}")
            scalar = type_name(value.dtype)
            self.code.effect(f"store {scalar} {element}, ptr {pointer}, align {size}")


class _CopyCode(NestCode):
    """Writes the loops that pack an operand: an assignment from its array to its buffer."""

    def __init__(
        self, nest: NestCode, levels: tuple[CodeLevel, ...], load: Load, starts: _Places
    ) -> None:
        self.code, self.machine = nest.code, nest.machine
        self.dtype = load.dtype
        self.dtypes = [load.dtype, load.dtype]
        write = Access(load.array, load.index, load.dtype)
        self.statement = TreeStatement(nest.statement.dims, write, load)
        self.operands = (load,)
        self.point = PointCode(self.code, self.machine, self.statement)
        self.starts, self.is_copy, self.kept = starts, True, {}
        self.plan = plan_code(
            levels, nest.machine, load.dtype.bits, accumulates=False, is_free=False
        )


def _moved(places: _Places, level: CodeLevel, trips: int) -> _Places:
    """The places of all accesses after iterations of a loop."""
    if trips == 0:
        return places
    return tuple(
        (pointer, offset + trips * coef)
        for (pointer, offset), coef in zip(places, level.coefs, strict=True)
    )


def _advanced(offsets: tuple[int, ...], level: CodeLevel, trips: int) -> tuple[int, ...]:
    return tuple(x + trips * coef for x, coef in zip(offsets, level.coefs, strict=True))


def _constant(value: SSAValue, lanes: int) -> SSAValue:
    """A constant in all lanes."""
    if lanes == 1:
        return value
    entries = ", ".join([str(value)] * lanes)
    return SSAValue(f"<{entries}>", value.dtype, lanes)
