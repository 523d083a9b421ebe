"""One corpus of programs for planners: C functions by name, planned for machines and threads.

planned("pairs n=3000", "n1")            # sizes that are named are constants, the others arguments
planned("near T=float", "skx", 2, True)  # T is the type of elements; two threads; C text
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.machines.load import load_machine
from loopwright.planner.generic import default_plan
from loopwright.planner.plan_choice import choose_plan
from loopwright.transform.plan import Plan

__all__ = ["NAMES", "Planned", "machine_of", "planned", "program_named", "text_of"]

_FOLDER = Path(__file__).parent / "corpus"
_TEXT = "\n".join(path.read_text() for path in sorted(_FOLDER.glob("*.c")))
_MACROS = "\n".join(re.findall(r"^#define .*$", _TEXT, re.M))
_FUNCTIONS = {
    found[1]: found[0] for found in re.finditer(r"^void (\w+)\(.*?^}\n", _TEXT, re.M | re.S)
}
NAMES = tuple(_FUNCTIONS)
_MACHINES = {
    "n1": "neoverse-n1",
    "spr": "sapphirerapids",
    "skx": "skylake-avx512",
    "clx": "cascadelake",
    "zen3": "zen3",
}


def text_of(words: str) -> str:
    """A function by its name, with `T=float` for its type and `n=9` for sizes that are known.

    A size before a bar bounds arrays only: of `map n=9|` loops run to the argument n.
    """
    name, *given = words.split()
    text, kind, macros = _FUNCTIONS[name], "double", []
    for word in given:
        size, _, value = word.partition("=")
        if size == "T":
            kind = value.replace("_", " ")
        elif value.endswith("|"):
            head, rest = text.split("{", 1)
            head = re.sub(rf"(?<=[\[ ]){size}(?=[\] ])", value[:-1], head)
            text = head.replace(f"int {value[:-1]}", f"int {size}") + "{" + rest
        else:
            assert f"int {size}," in text
            text = text.replace(f"int {size}, ", "", 1)
            macros.append(f"#define {size} {value}")
    lines = ["#include <math.h>", f"#define T {kind}", _MACROS, *macros, text]
    return "\n".join(lines)


@cache
def program_named(words: str) -> Program:
    """The region of a function; with the word `reassoc` its sums may be regrouped."""
    plain = words.removesuffix(" reassoc")
    (region,) = read_c(text_of(plain).encode()).regions
    return program_of(region.tree, reassoc=plain != words)


@cache
def machine_of(name: str, threads: int = 1) -> Machine:
    """A machine by its short name, of so many cores where several threads are asked for."""
    found = load_machine(_MACHINES.get(name, name))
    return found if threads == 1 else replace(found, cores=threads)


@dataclass(frozen=True)
class Planned:
    """A program and what one planner makes of it."""

    source: Program
    plan: Plan
    schedule: Schedule
    taken: str = ""

    def __str__(self) -> str:
        return "\n".join(map(str, self.plan.steps))

    def kinds(self) -> list[str]:
        return [step.kind for step in self.plan]


@cache
def planned(
    words: str, machine: str, threads: int = 1, is_text: bool = False, is_chosen: bool = False
) -> Planned:
    """The plan of all planners, or with `is_chosen` the one that is weighed against others."""
    source, known = program_named(words), machine_of(machine, threads)
    if is_chosen:
        chosen = choose_plan(source, known, threads, text=is_text)
        return Planned(source, chosen.plan, chosen.schedule, chosen.taken)
    plan, schedule = default_plan(source, known, parallel=threads > 1, text=is_text)
    return Planned(source, plan, schedule)
