"""The corpus of tests/kernels for benchmarks: the tests are no package, so their folder is told."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent / "tests"
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

from kernels.build import CONSTANT, MODES, SYMBOLIC, Mode, bind, link, write_source  # noqa: E402
from kernels.corpus import (  # noqa: E402
    KERNELS,
    Inputs,
    Kernel,
    Sizes,
    arrays_of,
    differences,
    fresh,
    make_inputs,
)

__all__ = [
    "CONSTANT",
    "KERNELS",
    "MODES",
    "SYMBOLIC",
    "Inputs",
    "Kernel",
    "Mode",
    "Sizes",
    "arrays_of",
    "bind",
    "differences",
    "fresh",
    "link",
    "make_inputs",
    "write_source",
]
