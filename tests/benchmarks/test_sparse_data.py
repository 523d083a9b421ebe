"""Twins of well-known matrices have their sizes, entries and diagonals; files are found."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks.sparse_data import TWINS, diagonals, file_names, load, matrices_directory, twin


@pytest.mark.parametrize("name", ["Baumann", "chem_master1", "jnlbrng1", "obstclae"])
def test_small_twins(name: str) -> None:
    made = twin(name)
    assert made.format.name == "scoo"
    assert (made.shape[0], made.nnz) == (TWINS[name].rows, TWINS[name].stored)
    assert len(diagonals(made)) == TWINS[name].diagonals
    assert int((made.values == 0).sum()) == TWINS[name].zeros


def test_counts_of_large_twins() -> None:
    """Entries of a star on a grid: one per point, and two per pair of neighbours along an axis."""
    for name in ("ecology1", "Lin", "atmosmodd", "Baumann", "chem_master1", "jnlbrng1"):
        sizes = np.array(TWINS[name].sizes)
        points = int(sizes.prod())
        pairs = sum(points // int(size) * (int(size) - 1) for size in sizes)
        assert (points, points + 2 * pairs) == (TWINS[name].rows, TWINS[name].stored)


def test_twins_have_the_pattern_of_the_files(matrices: Path) -> None:
    for name in ("jnlbrng1", "obstclae"):
        made, real = twin(name), load(matrices, name)
        order = np.lexsort((real.arrays["col"], real.arrays["row"]))
        for index in ("row", "col"):
            assert np.array_equal(real.arrays[index][order], made.arrays[index])


def test_files(matrices: Path) -> None:
    names = file_names(matrices)
    assert {"west0479", "splatt_med"} <= set(names)
    assert load(matrices, "west0479").nnz == 1910
    with pytest.raises(FileNotFoundError, match="no matrix absent"):
        load(matrices, "absent")


def test_directory_that_was_asked_for_must_be(tmp_path: Path) -> None:
    assert matrices_directory(tmp_path) == tmp_path
    with pytest.raises(FileNotFoundError, match="no directory of matrices"):
        matrices_directory(tmp_path / "absent")
