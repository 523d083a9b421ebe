"""The table of a kernel's accesses: which threads share their elements, what a warp transfers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from loopwright.analysis.sharing import (
    SharedElement,
    Sharing,
    find_sharing,
    shared_element,
)
from loopwright.analysis.size_estimates import likely_sizes
from loopwright.analysis.thread_mapping import ThreadMapping
from loopwright.analysis.warp_access import (
    WarpAccess,
    is_broadcast,
    lane_step,
    lane_stride,
    warp_access,
)
from loopwright.ir.expr import Expr
from loopwright.ir.islkit import inside, isl
from loopwright.ir.program import Program
from loopwright.ir.text import access_text, expr_text
from loopwright.lazy_dataclass import dataclass
from loopwright.tables import table_lines

__all__ = [
    "AccessSharing",
    "sharing_lines",
    "sharing_table",
]


@dataclass(frozen=True, slots=True)
class AccessSharing:
    """One access of a kernel, as `loopwright explain` shows it."""

    kernel: str
    statement: str
    array: str
    text: str  # the access: `A[i, k]`
    is_write: bool
    kind: Sharing  # of its elements, by all accesses of the array in a block
    kind_alone: Sharing  # by this access only
    rule: str  # what decided
    witness: SharedElement | None  # why the elements are not private
    guard: isl.Set  # [params, block] -> { : the elements are private in this block }
    guard_text: str  # "always", "never", or a condition on parameters and block coordinates
    broadcast: bool | None  # lanes of a warp access one element at a time; None: not known
    stride: Expr | None  # elements from one lane to the next; None: not constant
    warp: WarpAccess | None  # the addresses of one warp, at the sizes of the table
    copied_in: str = ""  # the loop whose iterations have copies of the array, in their thread

    @property
    def sectors(self) -> int | None:
        """Sectors of 32 bytes that a warp transfers for one execution of the access."""
        return None if self.warp is None else self.warp.sectors


def sharing_table(
    program: Program,
    mappings: Iterable[ThreadMapping],
    where: isl.Set | None = None,
    sizes: Mapping[str, int] | None = None,
    copies: Mapping[str, str] = MappingProxyType({}),
) -> tuple[AccessSharing, ...]:
    """Every access of every kernel, the write of a statement before its reads.

    `where` restricts parameters and block coordinates; `sizes` are those that sectors are counted
    at, by default the likely ones. `copies` are the arrays of which threads have copies, by loops
    (`copies_of_threads`).
    """
    sizes = {**likely_sizes(program), **(sizes or {})}
    return tuple(
        row for mapping in mappings for row in _rows(program, mapping, where, sizes, copies)
    )


def _rows(
    program: Program,
    mapping: ThreadMapping,
    where: isl.Set | None,
    sizes: Mapping[str, int],
    copies: Mapping[str, str],
) -> Iterator[AccessSharing]:
    found = find_sharing(program, mapping, where, copied=copies)
    accesses = [sharing.access for sharing in found]
    done: dict[tuple[str, str], AccessSharing] = {}  # a write often has a read like it
    for sharing in found:
        access = sharing.access
        text = access_text(access.access)
        if (access.statement.name, text) in done:
            yield replace(done[access.statement.name, text], is_write=access.is_write)
            continue
        step = lane_step(mapping, access)
        guard, existing = sharing.guard, access.elements.domain().params()
        row = AccessSharing(
            mapping.kernel,
            access.statement.name,
            access.array,
            text,
            access.is_write,
            sharing.kind,
            sharing.kind_alone,
            sharing.rule,
            shared_element(sharing, accesses),
            guard,
            "always" if sharing.is_private else _condition(guard, existing),
            is_broadcast(mapping, access),
            None if step is None else lane_stride(program, access, step),
            warp_access(program, mapping, access, sizes),
            copies.get(access.array, ""),
        )
        done[access.statement.name, text] = row
        yield row


def _condition(guard: isl.Set, existing: isl.Set) -> str:
    """A guard as text, without what holds wherever a block exists."""
    return "never" if guard.is_empty() else inside(guard.gist(existing).coalesce())


_HEAD = ("statement", "access", "", "class", "alone", "private", "broadcast", "stride", "sectors")


def sharing_lines(rows: Sequence[AccessSharing]) -> list[str]:
    """The table as text; below it where elements are private, and why they are not elsewhere."""
    lines: list[str] = []
    for kernel in dict.fromkeys(row.kernel for row in rows):
        own = [row for row in rows if row.kernel == kernel]
        lines.append(f"kernel {kernel}")
        lines += (f"  {line}" for line in table_lines([_HEAD, *map(_cells, own)]))
        for array, loop in {row.array: row.copied_in for row in own if row.copied_in}.items():
            lines.append(f"  {array} is private: every iteration of {loop} has a copy")
        for row in {row.text: row for row in own if row.witness is not None}.values():
            if row.guard_text != "never":
                lines.append(f"  {row.text} is private where {row.guard_text}")
            lines.append(f"  {row.text} is shared: {row.witness}")
    return lines


def _cells(row: AccessSharing) -> tuple[str, ...]:
    memory = (
        {None: "?", True: "yes", False: "no"}[row.broadcast],
        "?" if row.stride is None else expr_text(row.stride),
        "?" if row.sectors is None else str(row.sectors),
    )
    return (
        row.statement,
        row.text,
        "write" if row.is_write else "read",
        row.kind.value,
        row.kind_alone.value,
        row.guard_text if row.guard_text in ("always", "never") else "in some blocks",
        # What warps transfer from memory: of copies that a thread has, nothing.
        *(("-",) * len(memory) if row.copied_in else memory),
    )
