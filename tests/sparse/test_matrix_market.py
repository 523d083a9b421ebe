"""Texts of matrices and tensors: what is read again, and what is refused with its line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.diagnostics import DtypeError, SourceError, UsageError
from loopwright.sparse import frostt
from loopwright.sparse import matrix_market as mm
from loopwright.sparse.matrix_market import iterate_triplets
from loopwright.sparse.tensor import same
from sparse_builders import build, of_dense


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def dense_of(folder: Path, text: str, **options: Any) -> Any:
    return mm.read(written(folder / "a.mtx", text), **options).check().to_dense()


def test_coordinates_of_every_field(folder: Path) -> None:
    head = "%%MatrixMarket matrix coordinate "
    real = head + "real general\n% a comment\n\n%\n 2 3 3 \n1 1 1.5\n\n% more\n2 3 -2\n2 3 1\n"
    assert dense_of(folder, real).tolist() == [[1.5, 0, 0], [0, 0, -1]]
    whole = dense_of(folder, head + "integer general\n2 2 1\n2 1 -9007199254740993\n")
    assert whole.dtype == np.int64
    assert whole.tolist() == [[0, 0], [-9007199254740993, 0]]
    assert dense_of(folder, head + "complex general\n1 2 1\n1 2 1 -2\n").tolist() == [[0, 1 - 2j]]
    assert dense_of(folder, head + "PATTERN General\n2 2 2\n1 2\n2 1\n").tolist() == [
        [0, 1],
        [1, 0],
    ]


def test_symmetries(folder: Path) -> None:
    head = "%%MatrixMarket matrix coordinate "
    lower = head + "real symmetric\n2 2 2\n1 1 5\n2 1 3\n"
    assert dense_of(folder, lower).tolist() == [[5, 3], [3, 0]]
    assert dense_of(folder, lower, expand=False).tolist() == [[5, 0], [3, 0]]
    upper = head + "real symmetric\n2 2 2\n1 1 5\n1 2 3\n"
    assert dense_of(folder, upper).tolist() == [[5, 3], [3, 0]]
    skew = head + "integer skew-symmetric\n2 2 1\n2 1 3\n"
    assert dense_of(folder, skew).tolist() == [[0, -3], [3, 0]]
    hermitian = head + "complex hermitian\n2 2 2\n1 1 5 0\n2 1 3 4\n"
    assert dense_of(folder, hermitian).tolist() == [[5, 3 - 4j], [3 + 4j, 0]]


def test_arrays_are_stored_by_columns(folder: Path) -> None:
    head = "%%MatrixMarket matrix array "
    text = head + "real general\n2 3\n1\n2\n3\n4\n5\n6\n"
    assert dense_of(folder, text).tolist() == [[1, 3, 5], [2, 4, 6]]
    text = head + "real symmetric\n3 3\n1\n2\n3\n4\n5\n6\n"
    assert dense_of(folder, text).tolist() == [[1, 2, 3], [2, 4, 5], [3, 5, 6]]
    text = head + "real skew-symmetric\n3 3\n1\n2\n3\n"
    assert dense_of(folder, text).tolist() == [[0, -1, -2], [1, 0, -3], [2, 3, 0]]
    assert dense_of(folder, head + "real general\n0 3\n").shape == (0, 3)


HEAD = "%%MatrixMarket matrix coordinate real general\n"
SYMMETRIC = "%%MatrixMarket matrix coordinate real symmetric\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "a.mtx:1:1: error: the file is empty"),
        ("1 1 1\n", "a.mtx:1:1: error: the first line is not the banner of MatrixMarket"),
        ("%%MatrixMarket matrix coordinate real\n1 1 0\n", "a.mtx:1:1: error: the first line is"),
        (
            "%%MatrixMarket matrix ellpack real general\n",
            "a.mtx:1:1: error: unknown word 'ellpack'",
        ),
        ("%%MatrixMarket matrix array pattern general\n", "a.mtx:1:1: error: an array has values"),
        ("%%MatrixMarket matrix array real hermitian\n", "a.mtx:1:1: error: only complex matrices"),
        (HEAD + "% c\n", "a.mtx:2:1: error: the file ends before its line of sizes"),
        (HEAD + "2 2\n", "a.mtx:2:1: error: expected 3 sizes: rows, columns, entries"),
        (HEAD + "2 -2 1\n", "a.mtx:2:1: error: expected 3 sizes"),
        (HEAD + "2 2 x\n", "a.mtx:2:1: error: expected 3 sizes"),
        (HEAD + "2 2 9999999999999999999999\n", "a.mtx:2:1: error: a size does not fit 62 bits"),
        (HEAD + "0 2 1\n1 1 1\n", "a.mtx:2:1: error: a matrix of 0 x 2 has no entries"),
        (SYMMETRIC + "2 3 0\n", "a.mtx:2:1: error: a symmetric matrix must be square"),
        (HEAD + "2 2 2\n1 1 1\n", "a.mtx:2:1: error: the file ends after 1 of 2 entries"),
        (HEAD + "2 2 1\n1 1 1\n\n2 2 1\n", "a.mtx:5:1: error: more entries than the 1 of the"),
        (HEAD + "2 2 1\n3 1 1\n", "a.mtx:3:1: error: row 3 is outside 1 to 2"),
        (HEAD + "2 2 1\n2 0 1\n", "a.mtx:3:3: error: column 0 is outside 1 to 2"),
        (HEAD + "2 2 1\n2 -1 1\n", "a.mtx:3:3: error: column -1 is outside 1 to 2"),
        (HEAD + "2 2 1\n4294967297 1 1\n", "a.mtx:3:1: error: row 4294967297 is outside 1 to 2"),
        (HEAD + "2 2 1\n1 1\n", "a.mtx:3:1: error: the line has 2 numbers, each needs 3"),
        (HEAD + "2 2 1\n1 1 nan\n", "a.mtx:3:5: error: the value is not finite"),
        (
            SYMMETRIC + "2 2 2\n2 1 1\n1 2 1\n",
            "a.mtx:4:1: error: entries on both sides of the diagonal",
        ),
        (
            "%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n1 1 1\n",
            "a.mtx:3:1: error: the diagonal of a skew-symmetric matrix is 0",
        ),
        (
            "%%MatrixMarket matrix coordinate complex hermitian\n2 2 1\n1 1 1 2\n",
            "a.mtx:3:7: error: the diagonal of a hermitian matrix is real",
        ),
        (
            "%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 9223372036854775808\n",
            "a.mtx:3:5: error: the number does not fit 64 bits",
        ),
        (
            "%%MatrixMarket matrix coordinate integer skew-symmetric\n"
            "2 2 1\n2 1 -9223372036854775808\n",
            "a.mtx:2:1: error: an entry has no negation in 64 bits",
        ),
    ],
)
def test_faulty_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "a.mtx", text)
    with pytest.raises(SourceError) as caught:
        mm.read("a.mtx")
    assert str(caught.value).startswith(told)


def test_whole_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "a.mtx", HEAD + "2 2 3\n1 1 1\n1 2 3\n")
    with pytest.raises(SourceError) as caught:
        mm.read("a.mtx")
    assert str(caught.value) == (
        "a.mtx:2:1: error: the file ends after 2 of 3 entries [LW160]\n"
        "    2 2 3\n"
        "    ^^^^^\n"
        "try: it was cut off, or the count is wrong"
    )


def test_lying_count_takes_no_memory(tmp_path: Path) -> None:
    path = written(tmp_path / "a.mtx", HEAD + f"10 10 {10**18}\n1 1 1\n")
    with pytest.raises(SourceError, match=f"after 1 of {10**18} entries"):
        mm.read(path)


def test_dtype(tmp_path: Path) -> None:
    path = written(tmp_path / "a.mtx", HEAD + "1 2 2\n1 1 2\n1 2 0.5\n")
    assert mm.read(path, dtype=np.float32).dtype == np.float32
    assert mm.read(path, dtype=np.complex64).dtype == np.complex64
    with pytest.raises(UsageError, match="values of type float64 do not fit the dtype int32"):
        mm.read(path, dtype=np.int32)
    whole = written(tmp_path / "b.mtx", HEAD.replace("real", "integer") + "1 1 1\n1 1 300\n")
    assert mm.read(whole, dtype=np.int16).values.tolist() == [300]
    for narrow in (np.int8, np.uint8, np.bool_):
        with pytest.raises(UsageError, match="do not fit the dtype"):
            mm.read(whole, dtype=narrow)
    written(whole, HEAD.replace("real", "integer") + "1 1 1\n1 1 -1\n")
    with pytest.raises(UsageError, match="do not fit the dtype uint64"):
        mm.read(whole, dtype=np.uint64)
    written(whole, HEAD + "1 1 1\n1 1 1e300\n")
    with pytest.raises(UsageError, match="do not fit the dtype float32"):
        mm.read(whole, dtype=np.float32)
    written(whole, HEAD.replace("real", "complex") + "1 1 1\n1 1 1 2\n")
    with pytest.raises(UsageError, match="do not fit the dtype float64"):
        mm.read(whole, dtype=np.float64)


@settings(max_examples=some(25))
@given(
    st.lists(st.tuples(st.tuples(st.integers(0, 6), st.integers(0, 4)), st.floats(-1e300, 1e300))),
    st.integers(8, 64),
    st.booleans(),
)
def test_written_is_read_again(
    folder: Path, entries: list[tuple[tuple[int, int], float]], block: int, is_packed: bool
) -> None:
    path = folder / ("a.mtx.gz" if is_packed else "a.mtx")
    tensor = build("coo", (7, 5), entries)
    mm.write(path, tensor, comments=("two\nlines",))
    assert same(mm.read(path, block=block), tensor)
    parts = list(iterate_triplets(path, block=block))
    assert sum(len(part.values) for part in parts) == len(entries)
    expected = scipy.io.mmread(path, spmatrix=False).toarray()
    assert np.allclose(expected, tensor.to_dense(), rtol=1e-12)


@pytest.mark.parametrize("symmetry", ["symmetric", "skew-symmetric", "hermitian"])
def test_symmetry_is_written(tmp_path: Path, symmetry: str) -> None:
    square = np.random.default_rng(0).integers(-4, 5, (6, 6)).astype(np.complex128)
    square += 1j * np.random.default_rng(1).integers(-4, 5, (6, 6))
    mirror = {"symmetric": square.T, "skew-symmetric": -square.T, "hermitian": square.T.conj()}
    whole = square + mirror[symmetry]
    path = tmp_path / "a.mtx"
    mm.write(path, of_dense("csr", whole), symmetry=symmetry)
    assert mm.read_header(path).symmetry == symmetry
    assert mm.read(path).to_dense().tolist() == whole.tolist()
    with pytest.raises(UsageError, match=f"the matrix is not {symmetry}"):
        mm.write(path, of_dense("csr", square), symmetry=symmetry)
    assert mm.read(path).to_dense().tolist() == whole.tolist()


def test_what_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (np.zeros(3), {}, "MatrixMarket holds matrices, not 1 dimensions"),
        (np.zeros((2, 2)), {"symmetry": "odd"}, "unknown symmetry 'odd'"),
        (np.zeros((2, 2)), {"pattern": True}, "it cannot be a pattern"),
        (np.zeros((2, 3)), {"symmetry": "symmetric"}, "a symmetric matrix is square"),
        (np.zeros((2, 2)), {"symmetry": "hermitian"}, "only complex matrices are hermitian"),
        (of_dense("coo", np.eye(2) * 2), {"pattern": True}, "some are not 1"),
        (build("coo", (1, 1), [((0, 0), np.inf)]), {}, r"the value at \(0, 0\) is inf"),
        (np.full((1, 1), 1 << 63, np.uint64), {}, "does not fit a signed 64-bit number"),
    ]
    for matrix, options, told in cases:
        with pytest.raises(UsageError, match=told):
            mm.write(path, matrix, **options)
    with pytest.raises(DtypeError, match="no field for <U1"):
        mm.write(path, np.array([["a"]]))
    assert list(tmp_path.iterdir()) == []


def test_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tns"
    path.write_text("# a comment\n\n1 2 3 1.5\n2 1 1 -1 # tail\n", encoding="utf-8")
    found = frostt.read(path).check()
    assert found.shape == (2, 2, 3)
    assert found.to_dense()[0, 1, 2] == 1.5
    assert found.to_dense()[1, 0, 0] == -1
    assert frostt.read(path, shape=(4, 5, 6), dtype=np.float32).shape == (4, 5, 6)
    assert frostt.read(path, base=0).shape == (3, 3, 4)


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", ["a.tns", "a.tns.gz"])
def test_written_tensors_are_read_again(tmp_path: Path, rank: int, name: str) -> None:
    random = np.random.default_rng(rank)
    array = random.standard_normal((3,) * rank) * (random.random((3,) * rank) < 0.5)
    array[(2,) * rank] = 1
    tensor = of_dense("coo", array)
    frostt.write(tmp_path / name, tensor, comments=("x",))
    assert same(frostt.read(tmp_path / name, block=64), tensor)


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("", {}, "a.tns:1:1: error: the file has no entries [LW162]"),
        ("# c\n5\n", {}, "a.tns:2:1: error: an entry has 1 to 8 indices and a value [LW162]"),
        ("1 1 1\n1 1\n", {}, "a.tns:2:1: error: the line has 2 numbers, each needs 3 [LW161]"),
        ("1 0 1\n", {}, "a.tns:1:3: error: index 0 of dimension 1 is outside 1 upwards"),
        (
            "1 3 1\n",
            {"shape": (2, 2)},
            "a.tns:1:3: error: index 3 of dimension 1 is outside 1 to 2",
        ),
        ("1 x 1\n", {}, "a.tns:1:3: error: expected a whole number"),
        ("1 1 nan\n", {}, "a.tns:1:5: error: the value is not finite"),
    ],
)
def test_faulty_file_of_a_tensor_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    options: dict[str, Any],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.tns").write_text(text, encoding="utf-8")
    with pytest.raises(SourceError) as caught:
        frostt.read("a.tns", **options)
    assert str(caught.value).startswith(told)


def test_refusals(tmp_path: Path) -> None:
    path = tmp_path / "a.tns"
    path.write_text("1 1 1\n", encoding="utf-8")
    with pytest.raises(UsageError, match="the file has 2 indices an entry"):
        frostt.read(path, shape=(1, 1, 1))
    with pytest.raises(UsageError, match=r"\.tns files hold real numbers"):
        frostt.write(path, of_dense("coo", np.eye(2) * 1j))
    with pytest.raises(UsageError, match=r"the value at \(0, 0\) is nan"):
        frostt.write(path, build("coo", (1, 1), [((0, 0), np.nan)]))
    assert path.read_text(encoding="utf-8") == "1 1 1\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("# c\n# shape 2 2\n3 1 1\n", ":3:1: error: index 3 of dimension 0 is outside 1 to 2"),
        (
            "# shape 2 2\n1 1 1 1\n",
            ":1:1: error: this shape has 2 sizes, but the file has 3 indices",
        ),
        ("# shape 2 2\n0 1 1\n", ":2:1: error: index 0 of dimension 0"),
    ],
    ids=["outside", "dimensions", "base"],
)
def test_a_shape_that_does_not_hold(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "a.tns"
    path.write_text(text, encoding="utf-8")
    hint = {"outside": "line 2", "this shape": "remove the line", "index 0": "base=0"}
    with pytest.raises(SourceError) as caught:
        frostt.read(path)
    assert told in str(caught.value)
    assert next(hint[word] for word in reversed(hint) if word in told) in str(caught.value)


def test_whole_numbers_are_not_rounded(tmp_path: Path) -> None:
    path = tmp_path / "a.tns"
    frostt.write(path, of_dense("csr", np.array([[-(1 << 53), 0], [0, 1 << 53]])))
    assert frostt.read(path).values.tolist() == [-(2.0**53), 2.0**53]
    for dtype, value in ((np.int64, -(1 << 53) - 1), (np.uint64, (1 << 64) - 1)):
        wrong = of_dense("csr", np.array([[1, 0], [0, value]], dtype))
        with pytest.raises(UsageError, match=rf"a.tns: the value at \(1, 1\) is {value}, which"):
            frostt.write(path, wrong)
    assert frostt.read(path).values.tolist() == [-(2.0**53), 2.0**53]
