"""Bad input is refused with its place, and no process dies of it."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drawn import HUNTS, drawn, in_all
from loopwright import options
from loopwright.diagnostics import DtypeError, RoomError, UsageError
from loopwright.sparse.convert_tensor import convert
from loopwright.sparse.tensor import sparse_tensor
from sparse.synthesis.pairs import FORMATS_2D

TESTS = Path(__file__).parent.parent
COO = {"row": [0, 1, 1], "col": [1, 0, 2]}
CSR = {"rowptr": [0, 1, 3], "col": [1, 0, 2]}
VALUES = [1.0, 2.0, 3.0]


def given(format: str, arrays: dict[str, Any], values: Any = VALUES, shape: Any = (2, 3)) -> Any:
    return sparse_tensor(format, shape, arrays, values)


@pytest.mark.parametrize(
    ("format", "arrays", "told"),
    [
        ("coo", COO | {"row": [0, 1, 2]}, r"coo: row\[2\] = 2 is outside its range"),
        ("coo", COO | {"col": [1, -1, 2]}, r"coo: col\[1\] = -1 is outside its range"),
        ("csr", CSR | {"rowptr": [0, 2, 1]}, r"csr: .*rowptr"),
        ("csr", CSR | {"rowptr": [0, 4, 3]}, r"csr: rowptr\[1\] = 4 is outside its range"),
        ("csr", CSR | {"rowptr": [1, 1, 3]}, r"rowptr\(0\) = 0"),
        ("csr", CSR | {"col": [1, 0, 3]}, r"csr: col\[2\] = 3 is outside its range"),
        ("csr", CSR | {"col": [1, 0, 1 << 40]}, r"csr: col\[2\] = 1099511627776 is outside"),
    ],
)
@pytest.mark.parametrize("target", ["csc", "dia"])
def test_indices_out_of_range(format: str, arrays: dict[str, Any], told: str, target: str) -> None:
    with pytest.raises(UsageError, match=told):
        convert(given(format, arrays), target)


@pytest.mark.parametrize(
    ("format", "arrays", "told"),
    [
        ("scoo", COO | {"row": [1, 0, 1]}, "scoo: the entries are not in the order of i, j"),
        ("csr", CSR | {"col": [1, 2, 0]}, "csr: an invariant is violated: forall x,k"),
        ("csr", CSR | {"col": [1, 2, 2]}, "csr: an invariant is violated: forall x,k"),
        ("mcoo2", COO | {"row": [1, 0, 1]}, "mcoo2: an invariant is violated"),
        ("alto", {"alto": [4, 2, 1]}, "alto: alto is not strictly increasing"),
    ],
)
def test_what_is_not_sorted_is_refused(format: str, arrays: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        convert(given(format, arrays), "csc")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: given("csr", CSR, shape=(-2, 3)), "dimension 0 of the shape is -2"),
        (lambda: given("csr", CSR, shape=(2.5, 3)), "a shape is a tuple of whole numbers"),
        (lambda: given("csr", CSR, [1.0, 2.0]), "csr: "),
        (lambda: given("csr", CSR | {"rowptr": [0, 3]}), "csr: rowptr has shape"),
        (lambda: given("csr", {"rowptr": [0, 1, 3]}), "csr needs the index array col"),
        (lambda: given("coo", COO | {"row": [[0, 1, 1]]}), "coo: row must have 1 dimensions"),
        (lambda: given("coo", COO, [VALUES]), "coo: the values have shape"),
        (lambda: given("csr", CSR, shape=(2, 3, 4)), "holds tensors of 2 dimensions, not 3"),
    ],
)
def test_lengths_and_sizes(make: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        make()


@pytest.mark.parametrize("wrong", [[0.0, 1.0, 1.0], ["a", "b", "c"], [True, False, True]])
def test_indices_must_be_integers(wrong: list[Any]) -> None:
    with pytest.raises(DtypeError, match="coo: the index array row must hold integers"):
        convert(given("coo", COO | {"row": wrong}), "csr")


def test_packed_numbers_have_their_width() -> None:
    with pytest.raises(DtypeError, match="alto: the index array alto must be int64"):
        given("alto", {"alto": np.array([0, 1, 2], np.int32)})


def test_arrays_that_shrink_after_the_tensor_was_made() -> None:
    """A tensor is a view: what is in its arrays later counts, and is looked at again."""
    columns = np.array([1, 0, 2])
    tensor = given("csr", CSR | {"col": columns})
    columns[1] = 1 << 50
    with pytest.raises(UsageError, match=r"csr: col\[1\]"):
        convert(tensor, "csc")


DANGEROUS = """
    import sys
    import numpy as np
    from loopwright.diagnostics import BoundsError, LoopwrightError
    from loopwright.sparse.convert_tensor import convert
    from loopwright.sparse.tensor import sparse_tensor
    from sparse_builders import of_dense

    rng = np.random.default_rng(0)
    dense = np.where(rng.random((20, 19)) < 0.3, rng.random((20, 19)), 0)
    for source, *targets in [line.split() for line in sys.argv[1:]]:
        good = of_dense(source, dense)
        outcomes = dict.fromkeys(("refused", "converted"), 0)
        for turn in range(TURNS):
            arrays = {name: array.copy() for name, array in good.arrays.items()}
            name = list(arrays)[turn % len(arrays)]
            flat = arrays[name].reshape(-1)
            info = np.iinfo(flat.dtype)
            far = (info.max, info.min, 19, 20, 25, 31, 32, -1, -2, 1, 0)
            flat[rng.integers(len(flat))] = np.array(far[turn % len(far)]).astype(flat.dtype)
            bad = sparse_tensor(source, good.shape, arrays, good.values, symbols=good.symbols)
            for target in targets:
                try:
                    convert(bad, target)
                    outcomes["converted"] += 1
                except BoundsError as error:
                    raise SystemExit(f"{source} -> {target}, {name}: {error}")
                except LoopwrightError as error:
                    outcomes["refused"] += 1
                    assert name in str(error) or "(" in str(error), error
        print(source, outcomes)
        assert outcomes["refused"]
"""
TURNS = "60" if HUNTS else "33"  # each of the numbers in each of up to three arrays
SOURCES = tuple(f for f in FORMATS_2D if f != "csf")


def spoilt_in_a_child(first: int, **environ: str) -> None:
    targets = ("csc", "dia", "mcoo2")
    sources = enumerate(drawn(SOURCES, 2 if in_all() else 4, first))
    lines = [" ".join((source, *drawn(targets, 2, number))) for number, source in sources]
    paths = filter(None, (str(TESTS), os.environ.get("PYTHONPATH", "")))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DANGEROUS).replace("TURNS", TURNS), *lines],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | environ,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_process_dies() -> None:
    """Indices far outside would be read or written at addresses of others: none is."""
    spoilt_in_a_child(0)


def test_no_access_leaves_its_array() -> None:
    """What the fast look lets pass may be out of order, but never out of bounds."""
    spoilt_in_a_child(1, **{options.variable("boundscheck"): "1"})


@pytest.mark.parametrize(
    ("format", "arrays", "told"),
    [
        ("csr", CSR | {"col": [-1, 0, 2]}, r"csr: col\[0\] = -1 is outside its range"),
        ("csr", CSR | {"rowptr": [1, 1, 3]}, r"rowptr\(0\) = 0"),
        ("coo", COO | {"row": [0, 1, 2]}, r"coo: row\[2\] = 2 is outside its range"),
        ("scoo", COO | {"row": [1, 0, 1]}, "scoo: the entries are not in the order of i, j"),
    ],
)
def test_refused_even_where_nothing_is_to_be_done(
    format: str, arrays: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        convert(given(format, arrays), format)


def test_what_is_no_format_thread_or_tensor() -> None:
    for wrong in (None, 3, ["csr"]):
        with pytest.raises(UsageError, match="a format is a name or a Format"):
            convert(np.eye(2), wrong)  # type: ignore[arg-type]
    for threads in (0, -1, 2.5, "2"):
        with pytest.raises(UsageError, match="threads must be a whole number"):
            convert(np.eye(2), "csr", threads=threads)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a masked array does not say"):
        convert(np.ma.masked_array(np.eye(2), np.eye(2)), "csr")


@pytest.mark.parametrize(
    ("format", "told"),
    [
        ("dia", f"745058.1 GiB for {10**14} x float64 of 'values'"),
        ("csr", f"745058.1 GiB for {10**14 + 1} x int64 of 'rowptr'"),
        ("bcsr(10000000,10000000)", f"745058.1 GiB for {10**14} x float64 of 'values'"),
    ],
)
def test_what_does_not_fit_into_memory(format: str, told: str) -> None:
    wide = given("coo", {"row": [0], "col": [0]}, [1.0], (10**14, 10**14))
    with pytest.raises(RoomError) as caught:
        convert(wide, format)
    assert caught.value.message == f"the tensor does not fit into memory as {format}"
    assert caught.value.found == told
    assert "recommend" in caught.value.hint
    assert isinstance(caught.value, UsageError)
