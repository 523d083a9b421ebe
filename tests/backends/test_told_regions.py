"""Regions whose loops are written anew because compilers are told more: which, and the same bits.

`told.c` has functions behind `// told: TITLE` or `// left: TITLE`; what is written is compared with
the meaning of the region.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from drawn import in_all
from loopwright.calls.splice import optimise_region, spliced
from loopwright.frontends.c import read_c
from loopwright.ir.interpret import interpret_program
from loopwright.lower.passes import lower_schedule
from loopwright.machines import load_machine
from loopwright.planner.planners import model_planner
from loopwright.runtime.toolchain import build_library, load_library
from loopwright.targets import tells_more
from loopwright.transform.plan import initial_schedule
from oracle import arrays_of

ROWS = [
    (kind, title, text)
    for kind, title, text in re.findall(
        r"^// (told|left): (.*)\n((?:.*\n)*?^})",
        (Path(__file__).parent / "told.c").read_text(),
        flags=re.MULTILINE,
    )
]
SIZES = ((0, 3), (1, 1), (2, 9), (3, 43), (61, 2))


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, _, text in ROWS])
def test_which_are_told(kind: str, text: str) -> None:
    (program,) = lw.parse_c(text)
    nest = lower_schedule(initial_schedule(program))
    assert tells_more(program, nest, load_machine("sapphirerapids")) is (kind == "told")


@needs_cc
@pytest.mark.parametrize("machine", ["sapphirerapids", "neoverse-n1"])
def test_the_same_bits(machine: str) -> None:
    """All functions in one file for the compiler; sums wrap in a few numbers at the ends."""
    taken = ROWS if in_all() else ROWS[machine == "sapphirerapids" :: 2]
    texts = [text.replace("void f(", f"void f{at}(") for at, (*_, text) in enumerate(taken)]
    file = read_c("\n".join(texts))
    chosen = load_machine(machine)
    made = [
        optimise_region(file, region, model_planner, chosen, target="c", always=True)
        for region in file.regions
    ]
    library = load_library(build_library(spliced(file, made).decode(), ("-O3",)))
    for at, (_, title, text) in enumerate(taken):
        (program,) = lw.parse_c(text)
        names = re.findall(r"(\w+)(?:\[.*?\])*[,)]", text.split("{")[0])
        for n, m in SIZES:
            params = {name: {"n": n, "m": m}[name] for name in program.params}
            found = arrays_of(program, params, seed=n)
            wanted = {name: array.copy() for name, array in found.items()}
            interpret_program(program, wanted, params)
            given = {name: ctypes.c_void_p(array.ctypes.data) for name, array in found.items()}
            library[f"f{at}"](*(given.get(name, {"n": n, "m": m}.get(name)) for name in names))
            for name, array in wanted.items():
                np.testing.assert_array_equal(found[name], array, err_msg=f"{title} {n} {m}")
