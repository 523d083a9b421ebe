"""The text of a LoopTree, for people to read and write, and back.

    contraction, reassociation allowed
    in A: float32[64, 48]
    in B: float32[48, 70]
    out out: float32[64, 70]

      for m in 64
    >   for n in 4, tail 6 (by 16), pack b
          for k in 48
            for n in 16, vector
              out[m, n] add= A[m, k] * B[k, n]

The cursor is `>`. `(by 16)` says how many points an iteration covers and is left out where that is
1; it follows from the loops inside. Dimensions are listed in the order of the source, `dims`, where
that is not the order in which the loops name them first.

Lines that stand further to the right are inside: a loop holds one loop or one statement, and a line
back at the first loop's margin begins the next nest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field, replace

from loopwright.diagnostics import Diagnostic, SourceError, Span
from loopwright.ir.dtypes import DTYPES, INT64
from loopwright.ir.expr import Const, Load
from loopwright.ir.loops import Mark
from loopwright.ir.program import Access, Array, Role
from loopwright.ir.text import access_text, expr_text
from loopwright.lazy_dataclass import dataclass
from loopwright.tuning.loop_tree import PLUS, LoopTree, TreeLoop, TreeNest, TreeStatement
from loopwright.tuning.tree_check import TreeFault, mark_faults, statement_faults
from loopwright.tuning.tree_expressions import ExpressionReader, NotUnderstood

__all__ = ["parse_tree", "tree_text"]

_REASSOC = ", reassociation allowed"
_NAME = r"[A-Za-z_][A-Za-z_0-9]*"
_HEAD = re.compile(rf"({_NAME})(, reassociation allowed)?")
_ARRAY = re.compile(rf"(in|out|inout|local) ({_NAME}): (\w+)\[((?:\d+(?:, ?\d+)*)?)\]")
_LOOP = re.compile(rf"for ({_NAME}) in (\d+)(?:, tail (\d+))?(?: \(by (\d+)\))?((?:, [A-Za-z ]+)*)")
_STATEMENT = re.compile(r"([^=]+?) ?([A-Za-z]*)=(?!=) ?(.+)")
_DIMS = re.compile(rf"dims ({_NAME} \d+(?:, {_NAME} \d+)*)")
_ACCUMULATORS = re.compile(r"accumulators (\d+)")
_FORMS = (
    "`in A: float32[8, 4]`, `for i in 8, tail 3, vector`, `out[i] add= A[i, k]`, "
    "`dims i 8, k 4` or `accumulators 4`"
)
_MOST_DIGITS = 15
_MOST_LINE = 4000


def tree_text(tree: LoopTree) -> str:
    """The text of a tree, with its cursor."""
    head = tree.name + (_REASSOC if tree.reassoc else "")
    lines = [head, *map(_array_text, tree.arrays), ""]
    number = 0
    for nest in tree.nests:
        for line in _nest_lines(nest):
            is_loop = line.lstrip().startswith("for ")
            here = is_loop and number == tree.cursor
            lines.append(f"{'>' if here else ' '} {line}")
            number += is_loop
    return "\n".join(lines) + "\n"


def _array_text(array: Array) -> str:
    shape = ", ".join(map(expr_text, array.shape))
    return f"{array.role.value} {array.name}: {array.dtype}[{shape}]"


def _nest_lines(nest: TreeNest) -> Iterator[str]:
    statement = nest.statement
    given = [f"{name} {extent}" for name, extent in statement.dims]
    if [name for name, _ in statement.dims] != list(dict.fromkeys(x.dim for x in nest.loops)):
        yield f"dims {', '.join(given)}"
    if nest.accumulators:
        yield f"accumulators {nest.accumulators}"
    margin = ""
    for loop, step in zip(nest.loops, nest.steps, strict=True):
        words = [f"for {loop.dim} in {loop.size}"]
        words += [f"tail {loop.tail}"] if loop.tail else []
        words[-1] += f" (by {step})" if step > 1 else ""
        words += [loop.mark.value] if loop.mark is not Mark.SERIAL else []
        words += [f"pack {'ab'[operand]}" for operand in loop.packs]
        yield margin + ", ".join(words)
        margin += "  "
    sign = f"{statement.plus or ''}="
    yield f"{margin}{access_text(statement.write)} {sign} {expr_text(statement.value)}"


def parse_tree(text: str, file: str = "<loop tree>") -> LoopTree:
    """The tree of a text.

    Raises SourceError with every line that is not understood or does not fit where it stands; of a
    text that is understood, with what leaves an array, has no meaning, or breaks an order.
    """
    reader = _TreeReader(file, text)
    found = reader.tree()
    if not reader.faults:
        reader.judge(found)
    if reader.faults:
        raise SourceError(*reader.faults)
    return found


@dataclass
class _Nest:
    """The lines of a nest so far."""

    loops: list[TreeLoop] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # of the loops
    steps: list[int | None] = field(default_factory=list)  # `(by 16)`
    dims: tuple[int, dict[str, int]] | None = None  # line, and extents as they are given
    accumulators: int = 0


@dataclass
class _TreeReader:
    """Reads a text line by line; a faulty line is reported and left out."""

    file: str
    text: str
    faults: list[Diagnostic] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)
    nests: list[TreeNest] = field(default_factory=list)
    known: list[tuple[_Nest, int, ExpressionReader]] = field(default_factory=list)
    nest: _Nest = field(default_factory=_Nest)
    margins: list[int] = field(default_factory=list)  # of the loops that are open, outside in
    margin: int | None = None  # of outermost loops
    cursor: int | None = None
    count: int = 0  # loops so far

    def tree(self) -> LoopTree:
        """The tree, of use where there are no faults."""
        lines = self.text.split("\n")
        head = _HEAD.fullmatch(lines[0].rstrip())
        if head is None:
            self.refuse(1, "the first line is the name of the tree", hint=f"contraction{_REASSOC}")
        for number, line in enumerate(lines[1:], 2):
            if line.removeprefix(">").strip():
                self.line(number, line.rstrip())
        if self.nest.loops:
            self.refuse(self.nest.lines[-1], self.without_body(), hint="a statement inside of it")
        if not self.nests and not self.faults:
            self.refuse(len(lines), "a tree has a nest at least", hint=_FORMS)
        name, reassoc = head.groups() if head else ("", None)
        if self.faults:
            return LoopTree(name, (), ())
        cursor = self.cursor or 0
        return LoopTree(name, tuple(self.arrays), tuple(self.nests), reassoc is not None, cursor)

    def refuse(
        self,
        number: int,
        message: str,
        found: str = "",
        hint: str = "",
        columns: tuple[int, int] | None = None,
        code: str = "LW170",
    ) -> None:
        """Tell of a fault of a line: of all that stands there, or from one column to another."""
        lines = self.text.split("\n")
        line = lines[number - 1].rstrip()
        bare = len(line) - len(line[1:].lstrip() if line.startswith(">") else line.lstrip())
        start, end = columns or (bare, len(line))
        span = Span.in_text(
            self.file, self.text, number, start + 1, number, max(end, start + 1) + 1
        )
        self.faults.append(Diagnostic(span, message, code, found, hint))

    def line(self, number: int, line: str) -> None:
        plain = f" {line[1:]}" if line.startswith(">") else line
        words = plain.strip()
        margin = len(plain) - len(plain.lstrip(" "))
        if len(words) > _MOST_LINE:
            self.refuse(number, f"a line has more than {_MOST_LINE} characters", columns=(0, 1))
        elif any(len(digits) > _MOST_DIGITS for digits in re.findall(r"\d+", words)):
            self.refuse(number, f"a number has more than {_MOST_DIGITS} digits")
        elif "\t" in plain[: margin + 1]:
            self.refuse(number, "a line begins with a tab", hint="spaces", columns=(margin, margin))
        elif line.startswith(">") and not words.startswith("for "):
            self.refuse(number, "the cursor stands on a loop", hint="> before a line with `for`")
        elif found := _ARRAY.fullmatch(words):
            self.array(number, *found.groups())
        elif found := _LOOP.fullmatch(words):
            if line.startswith(">"):
                if self.cursor is not None:
                    self.refuse(number, "the cursor stands on two loops", columns=(0, 1))
                self.cursor = self.count
            self.loop(number, margin, found)
        elif found := _DIMS.fullmatch(words):
            if self.at_margin(number, "dims", margin):
                entries = [entry.split() for entry in found[1].split(", ")]
                self.nest.dims = number, {name: int(extent) for name, extent in entries}
        elif found := _ACCUMULATORS.fullmatch(words):
            if self.at_margin(number, "accumulators", margin):
                self.nest.accumulators = int(found[1])
        elif found := _STATEMENT.fullmatch(words):
            self.statement(number, margin, found)
        else:
            self.refuse(number, "this line is not understood", hint=_FORMS)

    def array(self, number: int, role: str, name: str, dtype: str, shape: str) -> None:
        if dtype not in DTYPES:
            self.refuse(number, f"'{dtype}' is no type", hint=", ".join(DTYPES))
            dtype = "float64"
        if any(array.name == name for array in self.arrays):
            self.refuse(number, f"array {name} is declared twice")
        if self.nest.loops or self.nests:
            self.refuse(number, "arrays are declared before the first loop")
        extents = tuple(Const(int(x)) for x in shape.split(",") if x.strip())
        self.arrays.append(Array(name, DTYPES[dtype], extents, Role(role)))

    def at_margin(self, number: int, what: str, margin: int) -> bool:
        """Whether a line stands before the loops of a nest, which is where it belongs."""
        if self.nest.loops:
            self.refuse(number, f"`{what}` stands before the loops of a nest")
        elif self.margin is not None and margin != self.margin:
            self.refuse(number, f"`{what}` stands at the margin of the outermost loops")
        else:
            return True
        return False

    def without_body(self) -> str:
        return f"the loop of {self.nest.loops[-1].dim} has nothing inside"

    def fits(self, number: int, margin: int, *, is_loop: bool) -> bool:
        """Whether a line stands at a margin that its place in the nest asks for."""
        if self.nest.loops:
            if margin > self.margins[-1]:
                return True
            here = "the loop" if margin == self.margins[-1] else "a loop around"
            found = f"line {number} at the margin of {here}"
            hint = "two spaces more before what is inside"
            self.refuse(self.nest.lines[-1], self.without_body(), found, hint)
            return False
        if self.margin is None:
            self.margin = margin
        if margin == self.margin:
            return True
        if margin < self.margin:
            self.refuse(number, "this line stands left of the first loop")
        elif is_loop:
            hint = "a nest of its own, at the margin of the first loop"
            self.refuse(number, "a loop holds one loop or one statement", hint=hint)
        else:
            hint = "`for i in 8` before it, and two spaces more"
            self.refuse(number, "no loop stands around this statement", hint=hint)
        return False

    def loop(self, number: int, margin: int, found: re.Match[str]) -> None:
        dim, size, tail, step, words = found.groups()
        if not self.fits(number, margin, is_loop=True):
            self.nest, self.margins = _Nest(), []
        loop = TreeLoop(dim, int(size), int(tail or 0))
        for word in words.split(", ")[1:]:
            if word in ("pack a", "pack b"):
                loop = replace(loop, packs=(*loop.packs, "ab".index(word[-1])))
            elif word in (Mark.VECTOR.value, Mark.UNROLL.value, Mark.PARALLEL.value):
                if loop.mark is not Mark.SERIAL:
                    self.refuse(number, "a loop has one mark", word)
                loop = replace(loop, mark=Mark(word))
            else:
                hint = "vector, unroll, parallel, pack a, pack b"
                self.refuse(number, f"'{word}' is nothing that a loop can be", hint=hint)
        if any(array.name == dim for array in self.arrays):
            self.refuse(number, f"'{dim}' is the name of an array and of a dimension")
        if loop.size < 1:
            self.refuse(number, "a loop has one iteration at least")
        self.nest.loops.append(loop)
        self.nest.lines.append(number)
        self.nest.steps.append(None if step is None else int(step))
        self.margins.append(margin)
        self.count += 1

    def statement(self, number: int, margin: int, found: re.Match[str]) -> None:
        nest, is_there = self.nest, self.fits(number, margin, is_loop=False)
        self.nest, self.margins = _Nest(), []
        if not is_there:
            return
        extents = self.extents(number, nest)
        line = self.text.split("\n")[number - 1]
        begin = line.index(found[0])
        reader = ExpressionReader({array.name: array.dtype for array in self.arrays})
        try:
            target = reader.read(found[1], begin, INT64)
            if not isinstance(target, Load):
                raise NotUnderstood(
                    "no array element is written", begin, begin + len(found[1]), found[1]
                )
            value = reader.read(found[3], begin + found.start(3) - found.start(0), target.dtype)
        except NotUnderstood as fault:
            columns = fault.start, fault.end
            self.refuse(number, fault.message, fault.found, fault.hint, columns, "LW171")
            return
        if found[2] and found[2] not in PLUS:
            place = begin + found.start(2) - found.start(0)
            self.refuse(
                number,
                f"'{found[2]}' accumulates nothing",
                hint=", ".join(PLUS),
                columns=(place, place + len(found[2])),
            )
            return
        if extents is None:
            return
        write = Access(target.array, target.index, target.dtype)
        made = TreeStatement(tuple(extents.items()), write, value, found[2] or None)
        self.nests.append(TreeNest(made, tuple(nest.loops), nest.accumulators))
        self.known.append((nest, number, reader))

    def extents(self, number: int, nest: _Nest) -> dict[str, int] | None:
        """The points that loops cover, in the order of the source; None where they are at fault."""
        before = len(self.faults)
        named = list(dict.fromkeys(loop.dim for loop in nest.loops))
        if nest.dims is not None and set(nest.dims[1]) != set(named):
            self.refuse(
                nest.dims[0],
                "`dims` names other dimensions than the loops",
                ", ".join(nest.dims[1]),
                ", ".join(named),
            )
            return None
        points = dict.fromkeys(named if nest.dims is None else nest.dims[1], 1)
        for at in reversed(range(len(nest.loops))):
            loop, step = nest.loops[at], points[nest.loops[at].dim]
            given = nest.steps[at]
            if given is not None and given != step:
                self.refuse(nest.lines[at], f"an iteration covers {step} points, not {given}")
            if loop.tail >= max(step, 1):
                self.refuse(
                    nest.lines[at],
                    f"a tail of {loop.tail} is no shorter than an iteration of {step}",
                    hint="a tail is what is left: fewer points than the loops inside cover",
                )
            points[loop.dim] = step * loop.size + loop.tail
        if nest.dims is not None and nest.dims[1] != points:
            self.refuse(
                nest.dims[0],
                "the loops cover other extents than `dims` says",
                ", ".join(f"{name} {extent}" for name, extent in points.items()),
            )
        return points if len(self.faults) == before else None

    def judge(self, tree: LoopTree) -> None:
        """Tell of what is wrong with a tree that was understood."""
        for fault in statement_faults(tree):
            self.tell(fault)
        if not self.faults:
            for fault in mark_faults(tree):
                self.tell(fault)

    def tell(self, fault: TreeFault) -> None:
        nest, number, reader = self.known[fault.nest]
        if fault.depth is not None:
            self.refuse(
                nest.lines[fault.depth], fault.message, fault.found, fault.hint, code="LW172"
            )
            return
        part = fault.expr.load() if isinstance(fault.expr, Access) else fault.expr
        columns = None if part is None else reader.places.get(part)
        self.refuse(number, fault.message, fault.found, fault.hint, columns, "LW172")
