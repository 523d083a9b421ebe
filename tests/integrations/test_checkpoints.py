"""Runs that are cut off go on from the last sound step and end with the same answer."""

import numpy as np
import pytest

from integrations.thread_ranks import run_ranks
from loopwright.diagnostics import UsageError
from loopwright.integrations.mpi import ArraySource, GridOptions, closure, einsum, gather
from loopwright.integrations.mpi.checkpoint import Checkpoint, saved_steps
from loopwright.integrations.mpi.watchdog import how_to_restart

STEPS = 4


class CutOffError(RuntimeError):
    """What ends a run in the middle of it."""


def graph() -> np.ndarray:
    return np.random.default_rng(8).random((16, 16)) * 50


def cut_after(step: int):
    def progress(done: int, total: int) -> None:
        assert total == STEPS
        if done == step:
            raise CutOffError

    return progress


def run(folder, source=None, grid="2x2", block=4, **options):
    seen = []

    def work(world):
        made = {"progress": (lambda done, _: seen.append(done)) if world.rank == 0 else None}
        made |= options
        source_ = ArraySource(graph() if source is None else source)
        at = GridOptions(grid=grid, block=block, checkpoint=folder, **made)
        return gather(closure(source_, "min_plus", world, at), world)

    return run_ranks(4, work)[0], seen


@pytest.mark.parametrize("step", [1, 3])
def test_a_run_that_was_cut_off_goes_on(tmp_path, step) -> None:
    whole, seen = run(tmp_path / "whole")
    assert seen == list(range(STEPS + 1))
    with pytest.raises(CutOffError):
        run(tmp_path / "cut", progress=cut_after(step))
    assert [saved.step for saved in saved_steps(tmp_path / "cut")] == [step, step - 1][:step]
    again, seen = run(tmp_path / "cut")
    assert seen == list(range(step, STEPS + 1))
    assert np.array_equal(again, whole)
    # A run that is over only adds what comes after its steps.
    over, seen = run(tmp_path / "cut")
    assert seen == [STEPS]
    assert np.array_equal(over, whole)


@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "manifest"])
def test_a_damaged_part_sends_the_run_back_by_one_step(tmp_path, damage) -> None:
    whole, _ = run(None)
    with pytest.raises(CutOffError):
        run(tmp_path, progress=cut_after(3))
    part = tmp_path / "step-00000003.rank-00002"
    content = bytearray(part.read_bytes())
    if damage == "flip":
        content[17] ^= 1
        part.write_bytes(content)
    elif damage == "cut":
        part.write_bytes(content[:-8])
    elif damage == "remove":
        part.unlink()
    else:
        (tmp_path / "step-00000003.json").write_text('{"step": 3', encoding="utf-8")
    again, seen = run(tmp_path)
    assert seen == list(range(2, STEPS + 1))
    assert np.array_equal(again, whole)


def test_another_problem_is_refused(tmp_path) -> None:
    with pytest.raises(CutOffError):
        run(tmp_path, progress=cut_after(2))
    with pytest.raises(UsageError) as caught:
        run(tmp_path, grid="1x4")
    text = str(caught.value).replace(str(tmp_path), "FOLDER")
    assert text == (
        "the checkpoint in FOLDER is of another problem\n"
        "note: found layout {'grid': [2, 2], 'dimensions': [[16, 4, 0], [16, 4, 1]]} there, "
        "{'grid': [1, 4], 'dimensions': [[16, 4, 0], [16, 4, 1]]} here\n"
        "try: another folder, or --fresh to begin anew"
    )
    other = graph()
    other[3, 4] += 1
    with pytest.raises(UsageError, match="is of another problem\nnote: found sources"):
        run(tmp_path, source=other)
    fresh, seen = run(tmp_path, source=other, fresh=True)
    assert seen == list(range(STEPS + 1))
    assert np.array_equal(fresh, run(None, source=other)[0])


def test_einsums_go_on_as_well(tmp_path) -> None:
    random = np.random.default_rng(2)
    a, b = random.integers(0, 9, (10, 16)), random.integers(0, 9, (16, 7))
    seen = []

    def work(progress):
        def on_rank(world):
            told = progress if world.rank == 0 or progress is not seen.append else None
            made = None if told is None else (lambda done, total: told(done, total))
            at = GridOptions(grid="2x2", block=4, checkpoint=tmp_path, progress=made)
            sources = ArraySource(a), ArraySource(b)
            return gather(einsum("ik,kj->ij", *sources, "plus_times", world, at), world)

        return run_ranks(4, on_rank)[0]

    with pytest.raises(CutOffError):
        work(cut_after(3))
    found = work(lambda done, _: seen.append(done))
    assert np.array_equal(found, a @ b)
    assert min(seen) == 3


def test_what_is_told_of_a_folder(tmp_path) -> None:
    assert how_to_restart(None) == (
        "note: nothing was saved\ntry: --checkpoint FOLDER saves each step"
    )
    assert how_to_restart("nowhere") == (
        "note: no step was saved in nowhere yet\ntry: the same command again"
    )

    def save(world):
        Checkpoint(tmp_path, world, {"n": 3}, steps=7).save(5, np.zeros(3))

    run_ranks(2, save)
    assert how_to_restart(tmp_path) == (
        f"note: 5 of 7 steps are saved in {tmp_path}\n"
        "try: the same command again, which goes on with step 6"
    )
