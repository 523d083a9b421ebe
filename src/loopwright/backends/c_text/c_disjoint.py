"""A region of C twice, under a test of its addresses: where no arrays overlap, and as written.

{
    /* Must not overlap: p and q. */
    const __UINTPTR_TYPE__ lw_p_first = (__UINTPTR_TYPE__)p;
    const __UINTPTR_TYPE__ lw_p_stop = (__UINTPTR_TYPE__)p + sizeof(float) * n;
    ...
    if (lw_p_stop <= lw_q_first || lw_q_stop <= lw_p_first)
    {
        the loops as they were planned
    }
    else /* the region as it was written */
    {
        the text between the pragmas
    }
}
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from loopwright.backends.c_text.c_dialect import C
from loopwright.backends.c_text.c_module import RegionSurroundings, name_integers
from loopwright.backends.c_text.c_printer import CPrinter
from loopwright.backends.c_text.c_syntax import INDENT, UNARY, NamesInUse
from loopwright.ir.expr import Const, Expr
from loopwright.lazy_dataclass import dataclass

__all__ = ["TouchedBytes", "comment_lines", "emit_unless_overlap"]

_COLUMNS = 100


@dataclass(frozen=True, slots=True)
class TouchedBytes:
    """The bytes that a region touches of an array: from one element to another."""

    name: str  # of the variable
    address: str  # C text of an address
    size: str  # C text of the bytes of an element
    first: Expr  # elements behind that address, over the integers of the program
    stop: Expr  # one past the last


def emit_unless_overlap(
    ranges: Sequence[TouchedBytes],
    pairs: Sequence[tuple[int, int]],
    bodies: tuple[str, str],
    note: str,
    around: RegionSurroundings,
    integer: str,
) -> str:
    """A block of both texts of a region: the first runs where no pair of ranges overlaps.

    The texts are whole lines, the first a block. `integer` is the type of C that holds an address,
    `note` what is tested, in words.
    """
    first_text, other_text = bodies
    margin = around.margin + INDENT
    printer = CPrinter(C, NamesInUse(), from_c=True, margin=margin)
    name_integers(printer, around)
    names: list[tuple[str, str]] = []
    taken = set(around.words)
    for one in ranges:
        bounds = []
        for word, elements in (("first", one.first), ("stop", one.stop)):
            name = f"lw_{one.name}_{word}"
            while name in taken:
                name += "_"
            taken.add(name)
            bounds.append(name)
            offset = "" if elements == Const(0) else f" + {_bytes(printer, one.size, elements)}"
            printer.lines.add(f"const {integer} {name} = ({integer}){one.address}{offset};")
        names.append((bounds[0], bounds[1]))
    declared = str(printer.lines)
    helpers = printer.expressions.helpers
    defined = "".join(used.macro() for used in helpers.values())
    undefined = "".join(f"#undef {name}\n" for name in helpers)
    tests = [f"{names[x][1]} <= {names[y][0]} || {names[y][1]} <= {names[x][0]}" for x, y in pairs]
    head = CPrinter(C, NamesInUse(), from_c=True, margin=margin)
    condition = tests[0] if len(tests) == 1 else " && ".join(f"({test})" for test in tests)
    head.lines.add(f"if ({condition})")
    return (
        f"{around.margin}{{\n{comment_lines(note, margin)}"
        f"{defined}{declared}{undefined}{head.lines}{first_text}"
        f"{margin}else /* the region as it was written */\n{margin}{{\n{other_text}{margin}}}\n"
        f"{around.margin}}}\n"
    )


def _bytes(printer: CPrinter, size: str, elements: Expr) -> str:
    """The bytes of a number of elements, in the unsigned arithmetic of `sizeof`."""
    count = printer.expressions.index(elements)
    return size if count.text == "1" else f"{size} * {count.within(UNARY)}"


def comment_lines(note: str, margin: str) -> str:
    """A comment of as many lines as it takes."""
    head, rest = f"{margin}/* ", f"{margin}   "
    lines = textwrap.wrap(
        f"{note} */", _COLUMNS, initial_indent=head, subsequent_indent=rest, break_on_hyphens=False
    )
    return "".join(f"{line}\n" for line in lines)
