"""The corpora in tests for benchmarks: the tests are no package, so their folder is told."""

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
from kernels.manifest import read_manifest  # noqa: E402
from kernels.rewrite import rewrite  # noqa: E402
from wide.corpus import FAMILIES, WIDE, wide_inputs  # noqa: E402
from wide.draw import is_set_aside  # noqa: E402

__all__ = [
    "CONSTANT",
    "FAMILIES",
    "KERNELS",
    "MODES",
    "SYMBOLIC",
    "WIDE",
    "Inputs",
    "Kernel",
    "Mode",
    "Sizes",
    "arrays_of",
    "bind",
    "differences",
    "fresh",
    "is_set_aside",
    "link",
    "make_inputs",
    "read_manifest",
    "rewrite",
    "wide_inputs",
    "write_source",
]
