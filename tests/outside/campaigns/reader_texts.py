"""Mutated texts for everything that reads text: each is read, or refused as users are promised.

One campaign for each reader. Texts are mutated from a corpus by edits of our own, led by coverage:
what reaches a line of the package that no text before it has reached is mutated further. The corpus
is kept in `outside/corpora`, a list of texts for each reader; `python -m
outside.campaigns.reader_texts READER --minutes 10` mutates for some minutes and keeps the fewest
texts that reach all lines.

Nothing here looks at a clock: a text that takes more than a fixed number of lines of Python does
not end.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeAlias

import numpy as np

import loopwright
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import extract
from loopwright.ir.check import check_program
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.machines.machine_argument import target_machine
from loopwright.planner.planners import Planner, given_planner, loaded_planners, plans_from_text
from loopwright.sparse import frostt, matrix_market
from loopwright.sparse.format import declare, index
from loopwright.sparse.formats import find
from loopwright.sparse.invariants import facts_of
from loopwright.sparse.spf.computation_parser import computation
from loopwright.sparse.uf import NO_FACTS
from loopwright.transform.plan import STEPS
from loopwright.tuning.records import Log
from outside.campaigns.campaign import (
    REFUSALS,
    Campaign,
    Case,
    Difference,
    Random,
    Unjudged,
    chance,
    judge,
    pick,
    save,
    shrunk,
)

CORPORA = Path(__file__).parent.parent / "corpora"
PACKAGE = str(Path(loopwright.__file__).parent)
MOST_LINES = 8_000_000  # of Python, for one text
MOST_TEXT = 6000  # characters of a mutated text
ALIVE = "0", "1", "-1", "2147483648", "9223372036854775807", "9223372036854775808", "1e999"
ODD = "\0", "é", "３", "²", "\x85", "\u2028", "\ufeff", "\t", "\r", "\\", "'", '"', "\n"

# -- the readers --------------------------------------------------------------------------------


def _c(text: str) -> None:
    for region in read_c(text, filename="k.c", compiler="").regions:
        check_program(extract(region.tree))


@cache
def _program() -> tuple[Program, Machine]:
    text = """void f(int n, int m, double a[n][m], double b[m][n], double s[n]) {
    #pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) a[i][j] = b[j][i] * 2;
    for (int i = 0; i < n; i++) {
        s[i] = 0;
        for (int j = 0; j < m; j++) s[i] += a[i][j];
    }
    #pragma endscop
    }"""
    (region,) = read_c(text, compiler="").regions
    return extract(region.tree), target_machine("neoverse-n1")


def _planned(planners: list[Planner]) -> None:
    program, machine = _program()
    try:
        for planner in planners:
            planner(program, machine, 2)
    except loopwright.IllegalStep as error:
        raise loopwright.UsageError("a step is illegal", str(error)) from error


def _plan(text: str) -> None:
    _planned([given_planner(plan) for plan in plans_from_text(text, 1)])


def _schedule(text: str) -> None:
    _planned(loaded_planners(text, 1))


def _record(text: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        here, there = Log(Path(name) / "here"), Log(Path(name) / "there")
        there.path.write_text(text, encoding="utf-8", errors="surrogateescape")
        for record in there:
            there.best(record.key)
        taken, _ = here.take(text)
        if taken != len(list(here)):
            raise Difference(f"{taken} records were taken, and {len(list(here))} are there")
        here.take(there.export())


def _texts(found: object, *names: str) -> list[str]:
    """Fields of an object of JSON that are texts; a case of another shape says nothing."""
    if not isinstance(found, dict) or not all(isinstance(found.get(n), str) for n in names):
        raise Unjudged("no texts where texts belong")
    return [found[name] for name in names]


def _list(found: Any, name: str) -> list[str]:
    given = found.get(name, [])
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        raise Unjudged("no texts where texts belong")
    return given


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        raise Unjudged("no JSON") from None


def _format(text: str) -> None:
    data = _json(text)
    name, relation, access, places = _texts(data, "name", "map", "access", "places")
    rows = data.get("indices", [])
    if not isinstance(rows, list):
        raise Unjudged("no texts where texts belong")
    indices = [index(*_texts(row, "name", "domain", "range")) for row in rows]
    order, invariants, sizes = (_list(data, key) for key in ("order", "invariants", "sizes"))
    found = declare(
        name, relation, access, *indices,
        places=places, order=order, invariants=invariants, sizes=sizes,
    )  # fmt: skip
    facts_of(found)
    str(found)
    find(name)


def _computation(text: str) -> None:
    data = _json(text)
    spaces, statements = _texts(data, "spaces", "statements")
    facts = find("csr", 2) if data.get("csr") else NO_FACTS
    str(computation("made", spaces, statements, facts=facts))


def _file(read: Callable[[str], object], ending: str, text: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / f"k{ending}"
        path.write_bytes(text.encode("latin-1", "replace"))
        read(os.fspath(path))


READERS: dict[str, Callable[[str], None]] = {
    "c": _c,
    "plan": _plan,
    "schedule": _schedule,
    "record": _record,
    "format": _format,
    "computation": _computation,
    "market": partial(_file, matrix_market.read, ".mtx"),
    "frostt": partial(_file, frostt.read, ".tns"),
}
WORDS = {
    "c": (
        *"()[]{};,*&#?:<>=+-/%!~.",
        *("for", "if", "else", "int", "double", "unsigned", "while", "return", "static", "const"),
        *("restrict", "#pragma scop\n", "\n#pragma endscop\n", "#define A a\n", "#if 1\n", "/*"),
        *("0x1p9999", "0x1p-9999", "1e-999f", "08", "0b2", "'\\777'", "1ull", "n", "i", "a[i]"),
        *("++", "+=", "<<", ">>", "&&", "||", "sizeof", "(char)", "%", "struct s", "typedef"),
    ),
    "plan": ('"kind"', '"steps"', "null", "true", "[]", "{}", '""', '"S0"', "[1]", '"i"', "1.5",
             *(f'"{step.kind}"' for step in STEPS)),
    "schedule": ("domain:", "child:", "schedule:", "filter:", "{ }", "[n] -> ", "S0[i]", "- ", "#"),
    "record": ('"plan"', "null", "true", "[]", "{}", '""', "NaN", "Infinity", "\n"),
    "format": ("&&", "||", "exists", "forall", "=>", "<=", "{[i] : ", "floor(", "mod", "%", "NR"),
    "computation": ("+=", "min=", "if", "at (1, i)", "{[i] : 0<=i<N}", "y(i)", "**", "//", "not"),
    "market": ("%", "%%MatrixMarket", "matrix", "array", "coordinate", "pattern", "symmetric",
               "complex", "integer", "nan", "inf", "1e999", "1_0", "0x1", "+1", "\n\n"),
    "frostt": ("#", "nan", "1e999", "1 1 1 1.0\n", "0", "-1", "1_0", "\n\n"),
}  # fmt: skip


# -- coverage -----------------------------------------------------------------------------------


class _Lines:
    """The lines of the package that a call reaches."""

    def __init__(self) -> None:
        self.seen: set[tuple[CodeType, int]] = set()
        self._left = MOST_LINES

    def call(self, frame: FrameType, event: str, arg: object) -> Any:
        return self.line if frame.f_code.co_filename.startswith(PACKAGE) else None

    def line(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line":
            self.seen.add((frame.f_code, frame.f_lineno))
            self._left -= 1
            if self._left < 0:
                raise Difference(f"more than {MOST_LINES} lines of Python")
        return self.line


def reached(read: Callable[[str], None], text: str) -> frozenset[tuple[CodeType, int]]:
    """The lines that reading a text reaches, also where it is refused; other errors are raised."""
    lines, before = _Lines(), sys.gettrace()
    sys.settrace(lines.call)
    try:
        read(text)
    except (*REFUSALS, Unjudged):
        pass
    finally:
        sys.settrace(before)
    return frozenset(lines.seen)


# -- mutation -----------------------------------------------------------------------------------


def _mutated(random: Random, reader: str, texts: list[str]) -> str:
    text = texts[int(random.integers(len(texts)))]
    for _ in range(int(random.integers(1, 5))):
        text = pick(random, _cut, _doubled, _moved, _put, _put, _number, _spliced, _line, _data)(
            random, reader, text, texts
        )[:MOST_TEXT]
    return text


def _span(random: Random, text: str) -> tuple[int, int]:
    at = int(random.integers(len(text) + 1))
    return at, at + int(random.integers(1, pick(random, 3, 8, 40)))


def _cut(random: Random, reader: str, text: str, texts: list[str]) -> str:
    at, end = _span(random, text)
    return text[:at] + text[end:]


def _doubled(random: Random, reader: str, text: str, texts: list[str]) -> str:
    at, end = _span(random, text)
    return text[:at] + text[at:end] * pick(random, 2, 2, 3, 40) + text[end:]


def _moved(random: Random, reader: str, text: str, texts: list[str]) -> str:
    at, end = _span(random, text)
    part, rest = text[at:end], text[:at] + text[end:]
    to = int(random.integers(len(rest) + 1))
    return rest[:to] + part + rest[to:]


def _put(random: Random, reader: str, text: str, texts: list[str]) -> str:
    at, end = _span(random, text)
    words = ODD if chance(random, 6) else WORDS[reader]
    word = words[int(random.integers(len(words)))]
    return text[:at] + pick(random, word, f" {word} ") + text[pick(random, at, end) :]


def _number(random: Random, reader: str, text: str, texts: list[str]) -> str:
    places = [k for k, c in enumerate(text) if c.isdigit()]
    if not places:
        return text
    at = places[int(random.integers(len(places)))]
    return text[:at] + pick(random, *ALIVE) + text[at + 1 :]


def _spliced(random: Random, reader: str, text: str, texts: list[str]) -> str:
    other = texts[int(random.integers(len(texts)))]
    at, _ = _span(random, text)
    start, _ = _span(random, other)
    length = int(random.integers(1, 200))
    return text[:at] + other[start : start + length] + text[at:]


def _line(random: Random, reader: str, text: str, texts: list[str]) -> str:
    lines = text.splitlines(keepends=True) or [""]
    at, to = (int(random.integers(len(lines))) for _ in range(2))
    match pick(random, "swap", "drop", "again"):
        case "swap":
            lines[at], lines[to] = lines[to], lines[at]
        case "drop":
            del lines[at]
        case _:
            lines.insert(to, lines[at])
    return "".join(lines)


def _data(random: Random, reader: str, text: str, texts: list[str]) -> str:
    """JSON with one of its parts replaced; other text as it is."""
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return text
    places: list[tuple[Any, Any]] = []
    waiting = [data] if isinstance(data, dict | list) else []
    while waiting:
        node = waiting.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node))
        places += ((node, key) for key in keys)
        waiting += (node[key] for key in keys if isinstance(node[key], dict | list))
    if places:
        node, key = places[int(random.integers(len(places)))]
        other, name = places[int(random.integers(len(places)))]
        node[key] = json.loads(json.dumps(pick(
            random, other[name], None, True, 0, -1, 1 << 70, 1.5, "", "i", [], {}, [node[key]]
        )))  # fmt: skip
    return json.dumps(data)


# -- the campaigns ------------------------------------------------------------------------------


def corpus(reader: str) -> list[str]:
    """The texts that are kept for a reader."""
    texts: list[str] = json.loads((CORPORA / f"{reader}.json").read_text(encoding="utf-8"))
    return texts


Reached: TypeAlias = dict[str, frozenset[tuple[CodeType, int]]]  # text -> lines it reaches


def campaign(reader: str, kept: Reached | None = None) -> Campaign:
    """Mutated texts for one reader; texts that reach new lines are mutated further, and kept."""
    read, texts = READERS[reader], corpus(reader)
    seen: set[tuple[CodeType, int]] = set()

    def draw(random: Random) -> Case:
        return {"text": _mutated(random, reader, texts)}

    def check(case: Case) -> None:
        text = case["text"]
        lines = reached(read, text)
        if not lines <= seen:
            seen.update(lines)
            if kept is not None:
                kept[text] = lines
            if text not in texts:
                texts.append(text)

    return Campaign(f"{reader}_texts", draw, check, _smaller)


def _smaller(case: Case) -> Iterator[Case]:
    text = case["text"]
    lines = text.splitlines(keepends=True)
    if len(lines) > 1:
        for k in range(len(lines)):
            yield {"text": "".join(lines[:k] + lines[k + 1 :])}
    size = max(1, len(text) // 2)
    while True:
        for at in range(0, len(text), size):
            yield {"text": text[:at] + text[at + size :]}
        if size == 1:
            return
        size //= 2


def fewest(texts: Reached) -> list[str]:
    """Texts, the shortest first, of which each reaches a line that those before it do not."""
    seen: set[tuple[CodeType, int]] = set()
    kept = []
    for text in sorted(texts, key=lambda text: (len(text), text)):
        if not texts[text] <= seen:
            seen |= texts[text]
            kept.append(text)
    return kept


def main() -> int:
    """Mutate for some minutes; faults are printed, the corpus is written."""
    parser = argparse.ArgumentParser(prog="reader_texts")
    parser.add_argument("reader", choices=list(READERS))
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for faults")
    args = parser.parse_args()
    # Texts are read once: reading all of them again at the end would take as long as the campaign.
    texts: Reached = {}
    found = campaign(args.reader, texts)
    random = np.random.default_rng(args.seed)
    for text in corpus(args.reader):
        judge(found, {"text": text})
    cases = 0
    kinds: set[str] = set()
    end = time.monotonic() + 60 * args.minutes
    while time.monotonic() < end:
        case = found.draw(random)
        cases += 1
        verdict = judge(found, case)
        if verdict.is_fault and verdict.kind not in kinds:
            kinds.add(verdict.kind)
            small, verdict, _ = shrunk(found, case, verdict)
            print(f"FAULT {verdict.told[:500]}\n{small['text']!r}", flush=True)
            if args.keep is not None:
                save(args.keep, found.name, small, verdict, f"seed {args.seed}, case {cases}")
    kept = fewest(texts)
    text = json.dumps(kept, indent=0, ensure_ascii=True)
    (CORPORA / f"{args.reader}.json").write_text(text + "\n", encoding="utf-8")
    print(f"{args.reader}: {cases} texts, {len(kinds)} kinds of fault, {len(kept)} kept")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
