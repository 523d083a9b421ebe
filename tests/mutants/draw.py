"""A draw of mutants over all packages, by a fixed seed."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator

from .candidates import candidates
from .mutant import Mutant
from .reached import SOURCE, Reached, package_of

__all__ = ["draw", "quotas"]

SEED = 48
COUNT = 200
FEWEST = 3  # of each package


def quotas(lines: dict[str, int], count: int, fewest: int) -> dict[str, int]:
    """Return how many mutants each package has: by its lines, at least `fewest`."""
    found = dict.fromkeys(lines, fewest)
    whole = sum(lines.values())
    while sum(found.values()) < count:
        behind = max(sorted(lines), key=lambda name: lines[name] * count / whole - found[name])
        found[behind] += 1
    return found


def draw(table: Reached, count: int = COUNT, seed: int = SEED) -> list[Mutant]:
    """Return mutants of lines that tests reach: kinds equally often, one for each function."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    lines: Counter[str] = Counter()
    for file in sorted(table.starts):
        package = package_of(file)
        files[package].append(file)
        text = (SOURCE / file).read_text(encoding="utf-8")
        lines[package] += text.count("\n")
    wanted = quotas(lines, count, FEWEST)
    rng = random.Random(seed)
    found: list[Mutant] = []
    for package in sorted(files):
        found += _drawn(table, files[package], wanted[package], rng)
    return sorted(found, key=lambda mutant: (mutant.file, mutant.line))


def _drawn(table: Reached, files: list[str], count: int, rng: random.Random) -> list[Mutant]:
    kinds: defaultdict[str, list[Mutant]] = defaultdict(list)
    for file in files:
        for mutant in _possible(table, file):
            kinds[mutant.kind].append(mutant)
    found: dict[tuple[str, str], Mutant] = {}
    for kind in sorted(kinds):
        rng.shuffle(kinds[kind])
    while len(found) < count and (left := [kind for kind in sorted(kinds) if kinds[kind]]):
        mutant = kinds[rng.choice(left)].pop()
        place = (mutant.file, mutant.within)
        if place not in found and _compiles(mutant):
            found[place] = mutant
    return list(found.values())


def _possible(table: Reached, file: str) -> Iterator[Mutant]:
    """Yield the mutants of a file whose line runs in a test that passes."""
    text = (SOURCE / file).read_text(encoding="utf-8")
    for mutant in candidates(file, text):
        if mutant.within:
            if any(test.outcome == "passed" for test in table.tests_of(file, mutant.line)):
                yield mutant
        elif table.is_imported(file, mutant.line):
            yield mutant


def _compiles(mutant: Mutant) -> bool:
    text = (SOURCE / mutant.file).read_text(encoding="utf-8")
    try:
        compile(mutant.applied(text), mutant.file, "exec")
    except SyntaxError:
        return False
    return True
