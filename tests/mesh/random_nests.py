"""Random programs of nests over matrices and vectors, of which some can run in one pass."""

from __future__ import annotations

from random import Random

from loopwright.ir.program import Program
from programs import Do, For, program

__all__ = ["random_nests"]


def random_nests(seed: int) -> Program:
    """Two to four nests over two matrices and vectors of rows and columns, constants or not."""
    random = Random(seed)
    is_constant = random.random() < 0.5
    rows, columns = ("20", "23") if is_constant else ("n", "m")
    arrays = dict.fromkeys("AB", f"inout float64 [{rows}, {columns}]")
    arrays |= dict.fromkeys(("p", "q"), f"inout float64 [{rows}]")
    arrays |= dict.fromkeys(("u", "v"), f"inout float64 [{columns}]")
    parts: list[For] = []
    for at in range(random.randint(2, 4)):
        r, c = f"r{at}", f"c{at}"
        matrix = f"{random.choice('AAAB')}[{r}, {c}]"
        row, column = f"{random.choice('pq')}[{r}]", f"{random.choice('uv')}[{c}]"
        target = random.choice((row, column, matrix))
        factor = random.choice([one for one in (row, column) if one != target])
        body = Do(target, f"{target} + {random.choice(('2', matrix))} * {factor}")
        ends = [(r, "n"), (c, "m")]
        random.shuffle(ends)
        (outer, last), (inner, end) = ends
        parts.append(For(outer, 0, last, For(inner, 0, end, body)))
        if random.random() < 0.3:
            parts.append(For(f"k{at}", 0, "n", Do(f"p[k{at}]", f"q[k{at}] + 1")))
    is_free = random.random() < 0.7
    if not is_free and random.random() < 0.5:
        parts = [For("t", 0, 2, *parts)]
    return program("nests", arrays, *parts, params="n m", reassoc=is_free)
