"""Statistics against counting by hand, predicted sizes against real ones, and what is advised."""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from drawn import some
from loopwright.diagnostics import UsageError
from loopwright.machines.load import load_machine
from loopwright.sparse.convert_tensor import convert_tensor
from loopwright.sparse.formats import find
from loopwright.sparse.recommend_format import BLOCKS, recommend, statistics_of
from loopwright.sparse.tensor import from_dense

MACHINE = load_machine("neoverse-n1")


def band(count: int, *offsets: int) -> np.ndarray[Any, Any]:
    return sum((np.eye(count, k=offset) for offset in offsets), np.zeros((count, count)))


@settings(max_examples=some(40), deadline=None)
@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 12), st.integers(1, 12)),
        elements=st.sampled_from([0.0, 0.0, 1.0]),
    )
)
def test_statistics_are_what_one_counts(whole: np.ndarray[Any, Any]) -> None:
    found = statistics_of(from_dense(whole))
    rows, columns = np.nonzero(whole)
    assert found.stored == len(rows)
    assert found.longest == (whole != 0).sum(axis=1).max()
    assert found.filled_rows == len(set(rows.tolist()))
    assert found.diagonals == len(set((columns - rows).tolist()))
    for side in BLOCKS:
        blocks = set(zip((rows // side).tolist(), (columns // side).tolist(), strict=True))
        assert found.blocks[side] == len(blocks)
    square = whole.shape[0] == whole.shape[1]
    assert found.is_symmetric == (square and bool(((whole != 0) == (whole != 0).T).all()))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8"])
def test_predicted_sizes_are_those_of_the_arrays(dtype: str) -> None:
    whole = (np.random.default_rng(3).random((70, 45)) < 0.1).astype(dtype)
    whole[11] = 0
    tensor = from_dense(whole)
    report = recommend(tensor, machine=MACHINE)
    assert len(report.choices) > 10
    for choice in report.choices:
        other = tensor
        if choice.format != tensor.format.name:
            other = convert_tensor(tensor, find(choice.format))
        assert choice.size == other.nbytes, choice.format


def test_the_table_and_its_page() -> None:
    report = recommend(from_dense(np.eye(6)), uses=1, machine=MACHINE)
    text = str(report)
    assert "6 x 6, 6 stored, pattern symmetric" in text
    assert "diagonals: 1, filled to 100%" in text
    assert "1 product with a vector on neoverse-n1, now scoo: scoo" in text
    lines = text.splitlines()
    head = next(line for line in lines if line.startswith("format"))
    assert head.split()[:2] == ["format", "size"]
    page = report._repr_html_()
    assert page.count("<tr>") == len(report.choices) + 1
    assert "<script" not in page


def test_refusals() -> None:
    tensor = from_dense(np.eye(2))
    with pytest.raises(UsageError, match="uses is -1"):
        recommend(tensor, uses=-1)
    with pytest.raises(UsageError, match="nothing is predicted for 'lil'"):
        recommend(tensor, machine=MACHINE).choice("lil")
    with pytest.raises(UsageError, match="statistics are of matrices"):
        recommend(from_dense(np.zeros((2, 2, 2))))
    with pytest.raises(UsageError, match="expected a sparse tensor"):
        recommend("csr")


def test_plots_need_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="matplotlib is not installed"):
        recommend(from_dense(np.eye(2)), machine=MACHINE).plot()


def test_a_plot_has_a_line_for_each_format() -> None:
    report = recommend(from_dense(band(30, 0, 1)), uses=40, machine=MACHINE)
    axes = Mock()
    assert report.plot(axes) is axes
    lines = {call.kwargs["label"]: call.args for call in axes.plot.call_args_list}
    assert lines.keys() == {choice.format for choice in report.choices[:8]} | {report.source}
    assert axes.axvline.call_args.args == (40,)
    assert axes.set.call_args.kwargs["xscale"] == "log"
    assert "neoverse-n1" in axes.set_title.call_args.args[0]
    uses, seconds = lines["dia"]
    choice = report.choice("dia")
    np.testing.assert_allclose(seconds, choice.conversion + uses * choice.use)
