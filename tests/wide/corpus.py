"""The wide corpus: one manifest.toml and a file in C for each program, in a folder a family.

    program = WIDE["attention"]
    inputs = wide_inputs(program, "MINI")
    expected = reference(program, inputs, extents=program.at("MINI"))

Everything of `kernels.corpus` serves these programs too. They are written in many ways: extents
are constants of the file (EXTENT_n before its text) in some of them only, so a build is always
given the extents, and those are its sizes.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernels.inputs import MAKERS, Maker, make_inputs
from kernels.manifest import Inputs, Kernel, read_manifest

__all__ = ["FAMILIES", "HERE", "WIDE", "WIDE_MAKERS", "python_twin", "wide_inputs"]

HERE = Path(__file__).parent
FAMILIES: tuple[str, ...] = tuple(sorted(path.parent.name for path in HERE.glob("*/manifest.toml")))


def _programs() -> dict[str, Kernel]:
    found: dict[str, Kernel] = {}
    for family in FAMILIES:
        for name, program in read_manifest(HERE / family).items():
            assert name not in found, f"{name} in {family} and in {found[name].kind}"
            found[name] = program
    return found


WIDE: dict[str, Kernel] = _programs()


def _makers() -> dict[str, Maker]:
    """The makers of the other corpus, and those of every makers*.py here."""
    found = dict(MAKERS)
    for path in sorted(HERE.glob("makers*.py")):
        more = importlib.import_module(f"wide.{path.stem}").MAKERS
        assert not more.keys() & found.keys(), f"{path.name}: {more.keys() & found.keys()}"
        found.update(more)
    return found


WIDE_MAKERS: dict[str, Maker] = _makers()


def wide_inputs(program: Kernel, size: str, seed: int = 0) -> Inputs:
    """The arguments of a call at a class of sizes."""
    return make_inputs(program, program.at(size), seed=seed, makers=WIDE_MAKERS)


def python_twin(program: Kernel) -> Callable[..., Any] | None:
    """The program as plain loops in Python, called alike; None where it is in C only."""
    path = program.path.with_suffix(".py")
    if not path.exists():
        return None
    spec = importlib.util.spec_from_file_location(f"wide.{program.kind}.{program.function}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., Any] = getattr(module, program.function)
    return found
