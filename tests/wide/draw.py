"""Which programs of the wide corpus are set aside: a third of each family, by a seeded draw.

Nobody looks into why these are slow before the end: what was never tuned for tells how the
compiler does on programs that nobody named. With `tests` on the path, `python -m wide.draw` writes
set_aside.txt anew after programs were added.
"""

from __future__ import annotations

import random
from functools import cache

from wide.corpus import FAMILIES, HERE, WIDE

__all__ = ["SET_ASIDE", "is_set_aside", "set_aside_text"]

SET_ASIDE = HERE / "set_aside.txt"
_SEED = "loopwright wide corpus 16 "


def is_set_aside(name: str) -> bool:
    """Whether the program `name` is among those drawn."""
    return name in _drawn(WIDE[name].kind)


@cache
def _drawn(family: str) -> frozenset[str]:
    names = sorted(name for name, program in WIDE.items() if program.kind == family)
    return frozenset(random.Random(_SEED + family).sample(names, -(-len(names) // 3)))


def set_aside_text() -> str:
    """One line for each program drawn, `family/name`, sorted."""
    lines = sorted(f"{family}/{name}\n" for family in FAMILIES for name in _drawn(family))
    return "".join(lines)


if __name__ == "__main__":
    SET_ASIDE.write_text(set_aside_text(), encoding="utf-8")
