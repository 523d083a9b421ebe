"""Quick code of trees with parallel loops: each thread's chunk is a nest of its own.

All sizes are constants, so the iterations of a parallel loop are cut into one chunk per thread when
the tree is compiled. A chunk is a nest with fewer iterations whose arrays begin further on:

    for x in 10, parallel   ->   for x in 5, arrays at 0     for x in 5, arrays at 5 iterations

Chunks of equal length share their code. Threads meet after each nest; arrays that live between
nests are shared, packed operands are private. Parallel loops are outermost (actions, `parallel`).
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.expr import Load
from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.ir.program import Access, Role
from loopwright.lazy_dataclass import dataclass
from loopwright.tuning.access_moves import access_moves
from loopwright.tuning.loop_tree import LoopTree, TreeNest, shape_of
from loopwright.tuning.nest_code import buffer_bytes
from loopwright.tuning.quick_code import can_emit, emit_tree

__all__ = ["ParallelCode", "ThreadChunk", "chunks_of", "parallel_code"]


@dataclass(frozen=True, slots=True)
class ThreadChunk:
    """What one thread does of a nest."""

    entry: str  # void entry(ptr memory, ptr first...) with all arrays of the tree
    offsets: tuple[int, ...]  # bytes from the first element of each array


@dataclass(frozen=True, slots=True)
class ParallelCode:
    """The code of a tree for a number of threads.

    `run` is what the thread pool calls: void run(ptr launch, ptr team, i64 thread, ptr table). A
    row of the table belongs to a thread and has the address of its code and those of its arrays.
    """

    text: str
    run: str
    nests: tuple[tuple[ThreadChunk, ...], ...]  # chunks of each nest, one or as many as threads
    arrays: tuple[str, ...]  # in the order of the arguments
    locals: tuple[tuple[str, int], ...]  # arrays between nests, with their bytes
    private: int  # bytes of scratch memory that a thread needs

    @property
    def entries(self) -> tuple[str, ...]:
        """All symbols."""
        return self.run, *dict.fromkeys(c.entry for chunks in self.nests for c in chunks)


def parallel_code(tree: LoopTree, machine: Machine, threads: int) -> ParallelCode | None:
    """The code of a tree with parallel loops; None where a chunk has no quick code."""
    # Arrays between nests are arguments of a chunk: all threads see them.
    given = tuple(replace(a, role=Role.INOUT) if a.role is Role.LOCAL else a for a in tree.arrays)
    texts: dict[str, str] = {}
    known: dict[TreeNest, str] = {}
    nests, private = [], 0
    for nest in tree.nests:
        chunks = []
        for part, offsets in chunks_of(tree, nest, threads):
            whole = LoopTree(tree.name, given, (part,), tree.reassoc)
            if offsets is None or not can_emit(whole):
                return None
            if part not in known:
                known[part] = entry = f"chunk{len(known)}"
                code = emit_tree(whole, machine, entry)
                texts[entry] = code.text
                private = max(private, code.memory)
            chunks.append(ThreadChunk(known[part], offsets))
        nests.append(tuple(chunks))
    lines = [line for text in texts.values() for line in text.splitlines()]
    declarations = dict.fromkeys(line for line in lines if line.startswith("declare "))
    bodies = [line for line in lines if not line.startswith("declare ")]
    text = "\n".join([*declarations, *bodies, _run_source(len(given))])
    between = tuple(
        (a.name, buffer_bytes(shape_of(a), a.dtype)) for a in tree.arrays if a.role is Role.LOCAL
    )
    names = tuple(a.name for a in given)
    return ParallelCode(text, "run_chunk", tuple(nests), names, between, private)


def chunks_of(
    tree: LoopTree, nest: TreeNest, threads: int
) -> list[tuple[TreeNest, tuple[int, ...] | None]]:
    """The nests of the threads, with the bytes by which each array of the tree begins further on.

    None in place of these: an array is moved over in different ways by one iteration.
    """
    loop = nest.loops[0] if nest.loops else None
    if loop is None or loop.mark is not Mark.PARALLEL:
        return [(nest, (0,) * len(tree.arrays))]
    count = min(threads, loop.size)
    step = nest.covered(0)
    found: list[tuple[TreeNest, tuple[int, ...] | None]] = []
    for number in range(count):
        first, last = loop.size * number // count, loop.size * (number + 1) // count
        tail = loop.tail if number == count - 1 else 0
        serial = replace(loop, size=last - first, tail=tail, mark=Mark.SERIAL)
        points = (last - first) * step + tail
        dims = tuple((d, points if d == loop.dim else n) for d, n in nest.statement.dims)
        part = replace(
            nest, statement=replace(nest.statement, dims=dims), loops=(serial, *nest.loops[1:])
        )
        found.append((part, _offsets(tree, nest, loop.dim, first * step)))
    return found


def _offsets(tree: LoopTree, nest: TreeNest, dim: str, points: int) -> tuple[int, ...] | None:
    statement = nest.statement
    accesses: list[Access | Load] = [statement.write, *statement.operands]
    found = []
    for array in tree.arrays:
        moves = {access_moves(x, array, statement)[dim] for x in accesses if x.array == array.name}
        if len(moves) > 1:
            return None
        found.append(points * max(moves, default=0) * array.dtype.bytes)
    return tuple(found)


def _run_source(arrays: int) -> str:
    """A thread finds its row of the table and its private memory, and runs its chunk."""
    lines = [
        "define void @run_chunk(ptr %launch, ptr %team, i64 %thread, ptr %table) nounwind {",
        "entry:",
        "  %base.at = getelementptr i64, ptr %team, i64 2",
        "  %base = load i64, ptr %base.at, align 8",
        "  %bytes.at = getelementptr i64, ptr %team, i64 3",
        "  %bytes = load i64, ptr %bytes.at, align 8",
        "  %offset = mul i64 %bytes, %thread",
        "  %own = add i64 %base, %offset",
        "  %memory = inttoptr i64 %own to ptr",
        f"  %skipped = mul i64 %thread, {1 + arrays}",
        "  %row = getelementptr i64, ptr %table, i64 %skipped",
        "  %code = load ptr, ptr %row, align 8",
    ]
    for k in range(arrays):
        lines.append(f"  %at{k} = getelementptr i64, ptr %row, i64 {1 + k}")
        lines.append(f"  %a{k} = load ptr, ptr %at{k}, align 8")
    given = ", ".join(["ptr %memory", *(f"ptr %a{k}" for k in range(arrays))])
    return "\n".join([*lines, f"  call void %code({given})", "  ret void", "}"])
