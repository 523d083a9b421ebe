"""Tables of nests: what the check says of them, and what the interpreter leaves or tells.

A nest of `checked.txt` ends with `-> valid` or with `!!`, the rule that it breaks and where. One
of `interpreted.txt` has a title, the number of elements and threads, and ends with what is in y
where x counts from 0 and y is zero, or with `!!` and the fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from loopwright.diagnostics import InternalError
from loopwright.ir.check import check_nest
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import LoopNest
from loopwright.ir.text import nest_text
from nest_text import read_nest

FOLDER = Path(__file__).parent / "nests"


def rows(name: str) -> Iterator[tuple[str, LoopNest, str, str]]:
    """The title of each row, its nest, how it ends, and what follows."""
    head, *parts = re.split(r"\n\n+", (FOLDER / f"{name}.txt").read_text().strip())
    for part in parts:
        title, body = part.split("\n", 1) if part.startswith("# ") else ("", part)
        nest, end, told = re.split(r"^(->|!!) ?", body, maxsplit=1, flags=re.MULTILINE)
        inside = "\n".join("    " + line for line in nest.splitlines())
        yield title.removeprefix("# "), read_nest(f"{head}\n{inside}"), end, told


@pytest.mark.parametrize(("title", "nest", "end", "told"), list(rows("checked")))
def test_checked(title: str, nest: LoopNest, end: str, told: str) -> None:
    assert read_nest(nest_text(nest)) == nest
    if end == "->":
        check_nest(nest)
        return
    with pytest.raises(InternalError) as caught:
        check_nest(nest)
    assert caught.value.dump.startswith("nest ")
    assert caught.value.message == f"nest f is not valid: {told}"


@pytest.mark.parametrize(("title", "nest", "end", "told"), list(rows("interpreted")))
def test_interpreted(title: str, nest: LoopNest, end: str, told: str) -> None:
    options = {k: int(v) for k, v in (x.split("=") for x in title.split(" | ")[1].split())}
    n = options.pop("n")
    x, y = np.arange(float(n)), np.zeros(n)
    if end == "->":
        interpret_nest(nest, {"x": x, "y": y}, {"n": n}, **options)
        assert y.tolist() == [float(value) for value in told.split(", ")]
        return
    with pytest.raises(InternalError) as caught:
        interpret_nest(nest, {"x": x, "y": y}, {"n": n}, **options)
    assert caught.value.message == told
