"""Every program of the wide corpus: what it promises, and that all our roads compute its result.

Those set aside are tested like the others: only their speed is looked at apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import loopwright as lw
from drawn import combined, drawn
from kernels.build import bind, link, system_compiler
from kernels.corpus import (
    PLAIN,
    Inputs,
    Kernel,
    arrays_of,
    differences,
    fresh,
    reference,
    write_source,
)
from kernels.manifest import NUMPY
from kernels.rewrite import rewrite
from wide.corpus import FAMILIES, HERE, WIDE, WIDE_MAKERS, python_twin, wide_inputs
from wide.draw import SET_ASIDE, is_set_aside, set_aside_text

Call = Callable[..., Any]

needs_compiler = pytest.mark.skipif(system_compiler() is None, reason="there is no C compiler")


def by_jit(program: Kernel, source: Path) -> Call:
    """Machine code in the order of the source."""
    return lw.compile(str(source))[program.function]


def by_reordered_jit(program: Kernel, source: Path) -> Call:
    """Machine code whose sums may be regrouped."""
    return lw.compile(str(source), reassoc=True)[program.function]


def by_text(program: Kernel, source: Path) -> Call:
    """The text of `loopwright cc`, compiled plainly."""
    command = [system_compiler() or "", *PLAIN, "-fopenmp"]
    return bind(link(command, [rewrite(source)]), program)


def by_reordered_text(program: Kernel, source: Path) -> Call:
    """The text of `loopwright cc --reassoc`, compiled plainly."""
    command = [system_compiler() or "", *PLAIN, "-fopenmp"]
    return bind(link(command, [rewrite(source, reassoc=True)]), program)


def by_python(program: Kernel, source: Path) -> Call:
    """The twin in Python, as it stands."""
    twin = python_twin(program)
    assert twin is not None
    return twin


def by_python_jit(program: Kernel, source: Path) -> Call:
    """The twin in Python through `lw.jit`."""
    return lw.jit(by_python(program, source))


ROADS: dict[str, Callable[[Kernel, Path], Call]] = {
    "jit": by_jit,
    "reordered jit": by_reordered_jit,
    "text": by_text,
    "reordered text": by_reordered_text,
}
# What we cannot do today, by program and road; noticed when it is mended.
KNOWN: dict[tuple[str, str], str] = {}
TWIN_ROADS = {"python": by_python, "python jit": by_python_jit}
TWINS = [name for name, program in WIDE.items() if program.path.with_suffix(".py").exists()]


def cases() -> Iterator[Any]:
    """Programs and roads, of which the usual run draws a part."""
    pairs = [*combined(WIDE, ROADS, one_in=19), *combined(TWINS, TWIN_ROADS, one_in=11)]
    for name, road in pairs:
        reason = KNOWN.get((name, road))
        marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
        yield pytest.param(name, road, marks=marks)


@pytest.mark.drawn(20)
@needs_compiler
@pytest.mark.parametrize(("name", "road"), list(cases()))
def test_result(name: str, road: str, tmp_path: Path) -> None:
    program = WIDE[name]
    inputs, expected = inputs_and_result(program)
    source = write_source(program, tmp_path, extents=program.at("MINI"))
    found = fresh(inputs)
    (ROADS | TWIN_ROADS)[road](program, source)(*found.values())
    same_order = not road.startswith("reordered")
    assert differences(program, arrays_of(found), expected, same_order=same_order) == []


def inputs_and_result(program: Kernel) -> tuple[Inputs, dict[str, Any]]:
    """Inputs of MINI, and the arrays that plain C leaves."""
    inputs = wide_inputs(program, "MINI")
    expected = reference(program, inputs, extents=program.at("MINI"))
    assert expected is not None
    return inputs, expected


def test_known_faults_are_of_programs() -> None:
    assert {name for name, _ in KNOWN} <= set(WIDE)
    assert {road for _, road in KNOWN} <= {*ROADS, *TWIN_ROADS}


def test_drawn_names_are_those_committed() -> None:
    """`python -m wide.draw`, with tests on the path, writes them."""
    assert SET_ASIDE.read_text(encoding="utf-8") == set_aside_text()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_third_of_a_family_is_set_aside(family: str) -> None:
    names = [name for name, program in WIDE.items() if program.kind == family]
    assert 3 * sum(map(is_set_aside, names)) - len(names) in (0, 1, 2)


@pytest.mark.parametrize("family", FAMILIES)
def test_manifest_and_files_agree(family: str) -> None:
    names = {name for name, program in WIDE.items() if program.folder == HERE / family}
    assert {path.stem for path in (HERE / family).glob("*.c")} == names
    assert {path.stem for path in (HERE / family).glob("*.py")} <= names


@pytest.mark.parametrize("program", WIDE.values(), ids=lambda program: program.name)
def test_entry(program: Kernel) -> None:
    text = program.path.read_text(encoding="utf-8")
    assert re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", program.name)
    assert program.kind == program.folder.name
    assert f"void {program.function}(" in text
    assert re.findall("#pragma (?:end)?scop$", text, re.M) == ["#pragma scop", "#pragma endscop"]
    assert set(program.classes) == {"MINI", "LARGE"}
    assert all(len(values) == len(program.sizes) for values in program.classes.values())
    assert program.bits in ("exact", "ordered", "close")
    assert program.data in WIDE_MAKERS
    assert {array.ctype for array in program.arrays} <= {"DATA", *NUMPY}
    mini, large = (program.count_flops(program.at(size)) for size in ("MINI", "LARGE"))
    assert 0 < mini < large
    assert mini <= 500_000


@pytest.mark.drawn(10)
@needs_compiler
@pytest.mark.parametrize("family", drawn(FAMILIES, 4))
def test_roles(family: str) -> None:
    """Arrays that are `in` stay, those that are `out` do not show what they held before."""
    wrong = []
    for program in WIDE.values():
        if program.kind != family:
            continue
        inputs, after = inputs_and_result(program)
        out = {array.name for array in program.arrays if array.role == "out"}
        other = {k: v + v.dtype.type(1) if k in out else v for k, v in inputs.items()}
        again = reference(program, other, extents=program.at("MINI"))
        assert again is not None
        wrong += differences(program, again, after)
        for array in program.arrays:
            changed = not (after[array.name] == inputs[array.name]).all()
            if changed != (array.role != "in"):
                wrong.append(f"{program.name}: {array.name} is not {array.role}")
    assert wrong == []
