"""Programs with plans for them, as text: what comes of each plan, or why its last step is refused.

    program scale(n) where n >= 1:
        x: inout float64 [n]
        for i in range(n):
            x[i] = 2 * x[i]

    # a title
    strip_mine(loop='i', size=4)
    parallel(loop='i_t')
    -> ok

A plan ends with `-> ok`, with `->` and the loops that come of it, with `=>` and the text of the
schedule, or with `!!` and the reason of the refusal. Values of loops with a negative step count
downwards; `# where` restricts a statement.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from loopwright.ir.program import Program
from loopwright.transform.plan import STEPS
from loopwright.transform.step import Step
from programs import Do, For, program

FOLDER = Path(__file__).parent / "plans"
KINDS = {step.kind: step for step in STEPS}


@dataclass(frozen=True)
class Case:
    """A program, a plan for it, and the loops that come of it or the reason of its refusal."""

    file: str
    title: str
    text: str  # of the program
    steps: tuple[Step, ...]
    loops: str  # empty: any
    schedule: str  # its text; empty: any
    reason: str  # empty: not refused

    def __str__(self) -> str:
        return f"{self.file}: {self.title}"

    @property
    def program(self) -> Program:
        return read_program(self.text)


def read_step(text: str) -> Step:
    """`kind(field=value, ...)` as a step."""
    call = ast.parse(text.strip(), mode="eval").body
    assert isinstance(call, ast.Call)
    fields = {x.arg: ast.literal_eval(x.value) for x in call.keywords}
    return KINDS[ast.unparse(call.func)](**fields)


def known(text: str) -> str:
    """What a program says of its parameters, as Python reads it."""
    found = re.match(r"program \w+\(.*?\)(?: where (.*?))?(?: reassoc)?:", text)
    assert found is not None
    return found[1] or "True"


@cache
def read_program(text: str) -> Program:
    head, *lines = text.splitlines()
    found = re.match(r"program (\w+)\((.*?)\)(?: where (.*?))?( reassoc)?:", head)
    assert found is not None
    name, params, facts, reassoc = found.groups()
    arrays = {}
    while not re.match(r" *(for|\w+(\[.*?\])? =) ", lines[0]):
        array, kind = lines.pop(0).strip().split(": ")
        arrays[array] = kind
    body = list(_nodes([line[4:] for line in lines]))
    return program(
        name,
        arrays,
        *body,
        params=params.replace(",", ""),
        known=facts or "",
        reassoc=bool(reassoc),
    )


def _nodes(lines: list[str]) -> Iterator[For | Do]:
    at = 0
    while at < len(lines):
        ends = next((k for k in range(at + 1, len(lines)) if lines[k][0] != " "), len(lines))
        if loop := re.fullmatch(r"for (\w+) in (range\(.*\)):", lines[at]):
            call = ast.parse(loop[2], mode="eval").body
            assert isinstance(call, ast.Call)
            limits = [ast.unparse(x) for x in call.args]
            start, stop = limits[:2] if len(limits) > 1 else ("0", limits[0])
            step = int(limits[2]) if len(limits) > 2 else 1
            inside = _nodes([x[4:] for x in lines[at + 1 : ends]])
            yield For(loop[1], _bound(start), _bound(stop), *inside, step=step)
            at = ends
            continue
        statement, _, where = lines[at].partition("  # where ")
        target, value = statement.split(" = ", 1)
        yield Do(target, value, where)
        at += 1


def _bound(text: str) -> str | int:
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def cases() -> Iterator[Case]:
    for path in sorted(FOLDER.glob("*.txt")):
        text = ""
        for part in re.split(r"\n\n+", path.read_text().strip()):
            if part.startswith("program "):
                text = part
                continue
            title, rest = part.removeprefix("# ").split("\n", 1)
            steps, end, told = re.split(r"^(->|=>|!!)", rest, maxsplit=1, flags=re.MULTILINE)
            plan = tuple(read_step(line) for line in steps.splitlines())
            loops = told.strip("\n") if end == "->" and told.strip() != "ok" else ""
            schedule = told.strip("\n") if end == "=>" else ""
            reason = told.strip() if end == "!!" else ""
            yield Case(path.stem, title, text, plan, loops, schedule, reason)


def programs() -> list[str]:
    """The text of every program."""
    return list(dict.fromkeys(case.text for case in cases()))
