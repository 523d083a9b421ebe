"""Loops drawn at random from what people write: a seed gives a program in C, its sizes and data.

A program has one to three nests over arrays of one to three dimensions. Each nest has an idiom: a
map, a stencil, a sum or an extreme (of all, of rows, of columns), a running total, a recurrence, a
filter with few taps, a transposition, an update in place, a choice by data. Its right sides are
small expressions of loads, scalars and numbers. Nobody chose the programs, so their race
(`python -m benchmarks drawn`) tells about programs that nobody has looked at.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.corpus_kernels import Kernel, read_manifest

__all__ = ["PREFIX", "drawn_program", "seed_of"]

PREFIX = "loops-"
ELEMENTS = 1_000_000  # of an array, about
TYPES = ("double", "double", "double", "float", "float", "int", "short", "uint8_t")
WIDER = {"double": "double", "float": "float", "int": "int", "short": "int", "uint8_t": "int"}
ITERATORS = ("i", "j", "k")
SIZES = ("n", "m", "l")


def seed_of(name: str) -> int | None:
    """The seed of a program's name; None for names of other programs."""
    number = name.removeprefix(PREFIX)
    return int(number) if name.startswith(PREFIX) and number.isdecimal() else None


def drawn_program(seed: int, folder: Path) -> Kernel:
    """The program of a seed, written with its manifest into a folder."""
    name = f"{PREFIX}{seed}"
    draft = _Draft(random.Random(seed))
    text = draft.text(name)
    (folder / f"{name}.c").write_text(text, encoding="utf-8")
    (folder / "manifest.toml").write_text(draft.manifest(name), encoding="utf-8")
    return read_manifest(folder)[name]


@dataclass
class _Draft:
    """A program on its way: what has been declared so far."""

    chance: random.Random
    rank: int = 0
    ctype: str = ""
    extents: tuple[int, ...] = ()
    arrays: dict[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)  # shape, role
    results: list[str] = field(default_factory=list)  # arrays of full shape that have been set
    idioms: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rank = self.chance.choice((1, 2, 2, 2, 3))
        self.ctype = self.chance.choice(TYPES)
        side = ELEMENTS ** (1 / self.rank)
        self.extents = tuple(
            max(12, int(side * self.chance.uniform(0.7, 1.3))) for _ in range(self.rank)
        )
        if self.rank > 1 and self.chance.random() < 0.25:  # long and narrow
            short = self.chance.choice((3, 4, 8, 20))
            rest = self.extents[1:-1]
            length = ELEMENTS // max(1, short * (rest[0] if rest else 1))
            self.extents = (length, *rest, short)

    @property
    def is_floating(self) -> bool:
        return self.ctype in ("double", "float")

    @property
    def sizes(self) -> tuple[str, ...]:
        return SIZES[: self.rank]

    @property
    def iterators(self) -> tuple[str, ...]:
        return ITERATORS[: self.rank]

    def text(self, name: str) -> str:
        """The file in C."""
        nests = [self._nest() for _ in range(self.chance.choice((1, 1, 2, 2, 3)))]
        body = "\n".join(nests)
        scalar = WIDER[self.ctype]
        parameters = [f"int {size}" for size in self.sizes] + [f"{scalar} alpha"]
        for array, (shape, role) in self.arrays.items():
            const = "const " if role == "in" else ""
            parameters.append(f"{const}{self._element(array)} {array}" + _brackets(shape))
        function = "kernel_" + name.replace("-", "_")
        return (
            f"/* {', '.join(self.idioms)} */\n#include <math.h>\n#include <stdint.h>\n\n"
            f"void {function}({', '.join(parameters)})\n{{\n#pragma scop\n{body}\n"
            "#pragma endscop\n}\n"
        )

    def manifest(self, name: str) -> str:
        arrays = ", ".join(
            f'"{self._element(array)} {array}{_brackets(shape)} {role}"'
            for array, (shape, role) in self.arrays.items()
        )
        sizes = ", ".join(f'"{size}"' for size in self.sizes)
        scalar = WIDER[self.ctype]
        value = "0.25" if self.is_floating else "3"
        return (
            f'[{name}]\nkind = "drawn"\ndtypes = ["{scalar}"]\nbits = "close"\n'
            f"sizes = [{sizes}]\narrays = [{arrays}]\nscalars = {{ alpha = {value} }}\n"
            f'data = "unit"\nflops = "{" * ".join(self.sizes)}"\n'
            f"MINI = {[min(extent, 17 - at) for at, extent in enumerate(self.extents)]}\n"
            f"LARGE = {list(self.extents)}\n"
        )

    def _element(self, array: str) -> str:
        """The element type of an array: sums of narrow integers are wider."""
        return WIDER[self.ctype] if array.startswith(("sum", "total", "run")) else self.ctype

    def _nest(self) -> str:
        idioms = [
            self._map, self._map, self._stencil, self._stencil, self._in_place, self._choice,
            self._reduction, self._reduction, self._total, self._running, self._recurrence,
            self._taps, self._guarded,
        ]  # fmt: skip
        if self.rank > 1:
            idioms += [self._transposed, self._triangle, self._extreme_of_row]
        idiom = self.chance.choice(idioms)
        self.idioms.append(idiom.__name__[1:].replace("_", " "))
        return idiom()

    # Names of arrays: operands are never written; every nest may read what one before has set.

    def _operand(self, shape: tuple[str, ...] | None = None) -> str:
        shape = shape or self.sizes
        if shape == self.sizes and self.results and self.chance.random() < 0.5:
            return self.chance.choice(self.results)
        number = self.chance.randrange(3)
        name = f"{'abc'[number]}{'' if shape == self.sizes else len(shape)}"
        if self.arrays.setdefault(name, (shape, "in"))[0] != shape:
            name += "_" + "".join(shape)
            self.arrays.setdefault(name, (shape, "in"))
        return name

    def _result(self, prefix: str = "out", shape: tuple[str, ...] | None = None) -> str:
        name = f"{prefix}{len(self.arrays)}"
        self.arrays[name] = (self.sizes if shape is None else shape, "inout")
        return name

    def _load(self, shift: tuple[int, ...] = ()) -> str:
        """A load of a full operand, or of a row, or a column that is spread."""
        if self.rank > 1 and not shift and self.chance.random() < 0.2:
            at = self.chance.randrange(self.rank)
            return f"{self._operand((self.sizes[at],))}[{self.iterators[at]}]"
        subscripts = [
            iterator if by == 0 else f"{iterator} {'+' if by > 0 else '-'} {abs(by)}"
            for iterator, by in zip(self.iterators, shift or (0,) * self.rank, strict=True)
        ]
        return self._operand() + _brackets(subscripts)

    def _number(self) -> str:
        if not self.is_floating:
            return str(self.chance.randint(1, 5))
        return f"{self.chance.choice((0.125, 0.25, 0.5, 0.75, 1.5))}" + self._suffix

    @property
    def _suffix(self) -> str:
        return "f" if self.ctype == "float" else ""

    def _expression(self, depth: int, shifts: tuple[tuple[int, ...], ...] = ((),)) -> str:
        """A small expression; operations that stay finite for numbers between 0 and 2."""
        if depth == 0:
            kind = self.chance.random()
            if kind < 0.7:
                return self._load(self.chance.choice(shifts))
            return "alpha" if kind < 0.85 else self._number()
        left, right = (self._expression(depth - 1, shifts) for _ in range(2))
        f = self._suffix
        if self.is_floating:
            forms = [f"({left} + {right})", f"({left} - {right})", f"{left} * {right}"] * 4
            forms += [
                f"fabs{f}({left} - {right})", f"fmax{f}({left}, {right})",
                f"({left} > {right} ? {left} : {right})", f"sqrt{f}(fabs{f}({left}))",
                f"{left} / (1.0{f} + {right} * {right})",
            ]  # fmt: skip
        else:
            forms = [f"({left} + {right})", f"({left} - {right})", f"{left} * {self._number()}"] * 3
            forms += [
                f"({left} < {right} ? {left} : {right})", f"(({left}) >> 1)",
                f"({left} > {right} ? {self._number()} : {right})",
            ]  # fmt: skip
        return self.chance.choice(forms)

    # Loops.

    def _loops(self, body: str, margins: int = 0, order: tuple[int, ...] | None = None) -> str:
        lines = []
        for depth, at in enumerate(order or range(self.rank)):
            iterator, size = self.iterators[at], self.sizes[at]
            low, high = (str(margins), f"{size} - {margins}") if margins else ("0", size)
            indent = "    " * (depth + 1)
            lines.append(f"{indent}for (int {iterator} = {low}; {iterator} < {high}; {iterator}++)")
        indent = "    " * (self.rank + 1)
        return "\n".join([*lines, *(indent + line for line in body.splitlines())])

    def _order(self) -> tuple[int, ...]:
        """Mostly the order of memory; sometimes another, as people err."""
        order = list(range(self.rank))
        if self.chance.random() < 0.15:
            self.chance.shuffle(order)
        return tuple(order)

    def _here(self, name: str) -> str:
        return name + _brackets(self.iterators)

    def _map(self) -> str:
        value = self._expression(self.chance.choice((1, 2, 2, 3)))
        name = self._result()
        self.results.append(name)
        return self._loops(f"{self._here(name)} = {value};", order=self._order())

    def _guarded(self) -> str:
        """A scalar of the iteration, and a store under a condition."""
        first, second = self._expression(2), self._expression(1)
        name = self._result()
        self.results.append(name)
        scalar = WIDER[self.ctype]
        lines = f"{{\n    {scalar} t = {first};\n    if (t > {second})\n"
        return self._loops(lines + f"        {self._here(name)} = t;\n}}")

    def _choice(self) -> str:
        one, other, more = (self._expression(1) for _ in range(3))
        name = self._result()
        self.results.append(name)
        lines = f"if ({self._load()} > {one})\n    {self._here(name)} = {other};\nelse\n"
        return self._loops(lines + f"    {self._here(name)} = {more};")

    def _stencil(self) -> str:
        reach = self.chance.choice((1, 1, 1, 2))
        shifts = [(0,) * self.rank]
        shifts += [
            tuple(self.chance.randint(-reach, reach) for _ in range(self.rank))
            for _ in range(self.chance.randint(2, 6))
        ]
        terms = [self._load(shift) for shift in dict.fromkeys(shifts)]
        weighted = " + ".join(
            f"{self._number()} * {term}" if self.chance.random() < 0.5 else term for term in terms
        )
        name = self._result()
        self.results.append(name)
        return self._loops(f"{self._here(name)} = {weighted};", margins=reach)

    def _in_place(self) -> str:
        value = self._expression(self.chance.choice((1, 2)))
        name = self._result()
        self.results.append(name)
        operation = self.chance.choice(("+=", "-=", "+=") if self.is_floating else ("+=", "-="))
        return self._loops(f"{self._here(name)} {operation} {value};", order=self._order())

    def _reduction(self) -> str:
        """A sum over one of the loops, or over all but one."""
        if self.rank == 1:
            return self._total()
        value = self._expression(self.chance.choice((0, 1, 2)))
        kept = sorted(self.chance.sample(range(self.rank), self.chance.randint(1, self.rank - 1)))
        name = self._result("sum", tuple(self.sizes[at] for at in kept))
        place = name + _brackets(self.iterators[at] for at in kept)
        return self._loops(f"{place} += {value};", order=self._order())

    def _extreme_of_row(self) -> str:
        value = self._expression(1)
        name = self._result("run", self.sizes[:-1])
        place = name + _brackets(self.iterators[:-1])
        sign = self.chance.choice("<>")
        return self._loops(f"{place} = {value} {sign} {place} ? {value} : {place};")

    def _total(self) -> str:
        value = self._expression(self.chance.choice((1, 2)))
        name = self._result("total", ("1",))
        if self.chance.random() < 0.4:
            body = f"if ({self._load()} > {self._load()})\n    {name}[0] += {value};"
        else:
            body = f"{name}[0] += {value};"
        return self._loops(body)

    def _running(self) -> str:
        """Running totals along one of the loops."""
        value = self._expression(1)
        along = self.chance.randrange(self.rank)
        name = self._result("run")
        before = [f"{it} - 1" if at == along else it for at, it in enumerate(self.iterators)]
        line = f"{self._here(name)} = {name}{_brackets(before)} + {value};"
        return self._loops(line, margins=1)

    def _recurrence(self) -> str:
        """A recurrence of first order along one of the loops."""
        value = self._expression(1)
        along = self.chance.randrange(self.rank)
        name = self._result("run")
        by = self.chance.choice((1, 1, 2))
        before = [f"{it} - {by}" if at == along else it for at, it in enumerate(self.iterators)]
        factor = "alpha * " if self.is_floating else "(int)"
        line = f"{self._here(name)} = {factor}{name}{_brackets(before)} + {value};"
        return self._loops(line, margins=by)

    def _taps(self) -> str:
        """A filter with few taps along the last loop."""
        taps = self.chance.choice((3, 5, 8))
        weights = self._operand(("8",))
        last = self.iterators[-1]
        operand = self._operand()
        place = operand + _brackets([*self.iterators[:-1], f"{last} + t"])
        name = self._result("sum")
        scalar = WIDER[self.ctype]
        start = "0" + (".0" + self._suffix if self.is_floating else "")
        body = (
            f"{{\n    {scalar} s = {start};\n    for (int t = 0; t < {taps}; t++)\n"
            f"        s += {weights}[t] * {place};\n    {self._here(name)} = s;\n}}"
        )
        return self._loops(body, margins=8)

    def _transposed(self) -> str:
        value = self._expression(1)
        turned = (*self.sizes[:-2], self.sizes[-1], self.sizes[-2])
        name = self._result("turned", turned)
        subscripts = (*self.iterators[:-2], self.iterators[-1], self.iterators[-2])
        return self._loops(f"{name}{_brackets(subscripts)} = {value};")

    def _triangle(self) -> str:
        """The part of the array below or above the diagonal of the last two dimensions."""
        value = self._expression(self.chance.choice((1, 2)))
        name = self._result()
        above, last = self.iterators[-2], self.iterators[-1]
        low, high = self.chance.choice((("0", f"{above} + 1"), (above, self.sizes[-1])))
        lines = self._loops("", order=None).splitlines()[: self.rank - 1]
        if low == "0":  # rows may be longer than columns
            high = f"({high} < {self.sizes[-1]} ? {high} : {self.sizes[-1]})"
        indent = "    " * self.rank
        lines.append(f"{indent}for (int {last} = {low}; {last} < {high}; {last}++)")
        lines.append(f"{indent}    {self._here(name)} = {value};")
        return "\n".join(lines)


def _brackets(subscripts: Iterable[str]) -> str:
    return "".join(f"[{each}]" for each in subscripts)
