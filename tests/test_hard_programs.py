"""Programs that are too much for isl or LLVM: finished as they are, or refused; never a hang."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from drawn import in_all
from loopwright import options, pipeline
from loopwright.analysis import dependences as analysis
from loopwright.analysis.dependences import dependences
from loopwright.analysis.reductions import reductions
from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.diagnostics import UsageError
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import extract
from loopwright.ir.islkit import GaveUp, attempt
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.machines.host import host
from loopwright.pipeline import compile_program
from loopwright.planner import generic
from loopwright.transform.plan import initial_schedule
from loopwright.validate import check_translation
from loopwright.validate.runners import jit_runner
from programs import jacobi, lu, triangular_solve

DEPTH = 32 if in_all() else 17  # above the most loops that LLVM optimises, 16
ARGUMENTS = "double x[n], double A[n][n]"


def program_in(body: str, declarations: str = "", arguments: str = ARGUMENTS) -> Program:
    text = (
        f"void f(int n, {arguments}) {{\nint i, j;\n{declarations}\n"
        f"#pragma scop\n{body}\n#pragma endscop\n}}\n"
    )
    # Without the checks of a stage, which take longer than the stage itself.
    return extract(read_c(text, compiler="").regions[0].tree)


def deep(depth: int, *, triangular: bool) -> Program:
    """Loops inside each other, each from 0 or from the one around it."""
    names = [f"v{k}" for k in range(depth)]
    starts = ["0", *(names if triangular else ["0"] * depth)]
    loops = (f"for ({v} = {a}; {v} < n; {v}++)\n" for v, a in zip(names, starts, strict=False))
    return program_in("".join(loops) + f"x[{names[-1]}] += 1.0;", f"int {', '.join(names)};")


def many(count: int) -> Program:
    """Statements in one nest, each reading what the one before wrote."""
    arrays = ", ".join(f"double a{k}[n][n]" for k in range(count + 1))
    body = "".join(f"a{k + 1}[i][j] = a{k}[i][j] * 0.5 + {k}.0;\n" for k in range(count))
    loops = f"for (i = 0; i < n; i++) for (j = 0; j < n; j++) {{ {body} }}"
    return program_in(loops, arguments=arrays)


def holes(count: int) -> Program:
    """A square without some of its points: a set of many pieces."""
    test = " && ".join(f"(i != {3 * k} || j != {5 * k})" for k in range(count))
    loops = "for (i = 0; i < n; i++) for (j = 0; j < n; j++)"
    return program_in(f"{loops} if ({test}) A[i][j] += 1.0;")


@contextmanager
def told(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """What the compiler tells of its plans."""
    lines: list[str] = []
    with options.override(log=("plan",)), caplog.at_level(logging.INFO, logger="loopwright"):
        yield lines
    lines += [record.getMessage() for record in caplog.records]


def test_blow_up_ends_in_source_order_and_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source = jacobi()
    monkeypatch.setattr(generic, "_QUOTA", 2000)
    monkeypatch.setattr(generic, "_QUOTAS", {})
    with told(caplog) as lines:
        nest = compile_program(source, host(), 2, unit={}).nest
    assert "plan: plan_marks gave up on 'jacobi': more than 2000 isl operations" in lines
    assert "plan: loops of 'jacobi': loops in source order" in lines
    assert (
        check_translation(source, nest, [{"n": 5, "m": 3}], runners={"jit": jit_runner(nest)}) == ()
    )


def test_loops_too_hard_to_write_down_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    source = holes(12)
    monkeypatch.setattr(generic, "_QUOTA", 2000)
    monkeypatch.setattr(generic, "_QUOTAS", {})
    monkeypatch.setattr(pipeline, "ISL_QUOTA", 2000)
    monkeypatch.setattr(pipeline, "_SOURCE_QUOTA", 50_000)
    with pytest.raises(UsageError) as error:
        compile_program(source, host(), 2, unit={})
    assert str(error.value) == (
        "the loops of 'f' are too hard to write down\n"
        "note: found more than 50000 isl operations\n"
        "try: simpler conditions, or several functions"
    )


def test_conditions_of_many_pieces_do_not_multiply() -> None:
    with attempt(2_000_000):
        assert holes(20).statements[0].domain.n_basic_set() < 200


@pytest.mark.parametrize("triangular", [False, True])
def test_nests_too_deep_for_dependences(triangular: bool, caplog: pytest.LogCaptureFixture) -> None:
    source = deep(DEPTH, triangular=triangular)
    with told(caplog) as lines:
        found = compile_program(source, host(), 2, unit={})
    nest = found.nest
    assert len(found.plan) == 0
    assert f"{DEPTH} loops around a statement are more than 12" in lines[0]
    assert "noinline optnone" in emit_module(nest).text
    sizes = [{"n": 0}, {"n": 1}]
    assert check_translation(source, nest, sizes, runners={"jit": jit_runner(nest)}) == ()


def test_deep_nests_are_analysed_up_to_twelve_loops() -> None:
    with attempt(pipeline.ISL_QUOTA):
        assert not dependences(deep(9, triangular=True)).is_empty
        (found,) = reductions(deep(9, triangular=True))
    assert found.loops == tuple(f"v{k}" for k in range(8))
    with pytest.raises(GaveUp, match="13 loops around a statement are more than 12"):
        dependences(deep(13, triangular=True))


def test_two_hundred_statements() -> None:
    source = many(200)
    with attempt(pipeline.ISL_QUOTA):
        found = dependences(source)
        assert len(found.edges()) == 199
        nest: LoopNest = lower_schedule(initial_schedule(source))
    # Two statements of the chain have no common array, so nothing else is between them.
    assert {(int(s[1:]) + 1, int(t[1:])) for s, t in found.edges()} == {
        (k, k) for k in range(1, 200)
    }
    assert check_translation(source, nest, [{"n": 1}]) == ()


def test_isl_gives_up_on_many_statements_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The planners after it do not ask again."""
    source, asked = many(61), list[str]()
    monkeypatch.setattr(analysis, "_MOST_OPERATIONS", 1000)
    monkeypatch.setattr(
        analysis, "dependences", lambda p: (asked.append(p.name), dependences(p))[1]
    )
    with told(caplog) as lines:
        generic.default_plan(source, host())
    assert len(asked) == 1
    message = "gave up on 'f': its dependences take isl more than 1000 operations"
    assert len([line for line in lines if message in line]) > 1


@pytest.mark.parametrize("make", [jacobi, lu, triangular_solve], ids=lambda make: make.__name__)
def test_array_by_array_or_all_at_once(make: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many statements there are, the dependences are the same."""
    source: Program = make()  # type: ignore[operator]
    whole = dependences(source)
    monkeypatch.setattr(analysis, "_FEW_STATEMENTS", 0)
    for (kind, one), (_, other) in zip(whole.kinds, dependences(source).kinds, strict=True):
        assert one.is_equal(other), kind
