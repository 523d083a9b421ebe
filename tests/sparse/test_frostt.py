"""FROSTT files: any number of dimensions, read again as written, faults with their line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loopwright.diagnostics import SourceError, UsageError
from loopwright.sparse import frostt
from loopwright.sparse.tensor import same
from sparse_builders import build, of_dense


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
def test_written_is_read_again(tmp_path: Path, rank: int, name: str) -> None:
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
def test_faulty_file_is_refused(
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


def test_the_shape_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.tns"
    for shape in ((5, 7), (0, 3), (4, 1 << 40, 2)):
        empty = build("coo", shape, [])
        frostt.write(path, empty)
        assert path.read_text(encoding="utf-8") == f"# shape {' '.join(map(str, shape))}\n"
        assert same(frostt.read(path), empty)
    tensor = build("coo", (5, 7), [((1, 2), 3.0)])
    frostt.write(path, tensor, base=0, comments=("shape 1 1",))
    assert same(frostt.read(path, base=0, block=8), tensor)
    assert frostt.read(path, base=0, shape=(2, 3)).shape == (2, 3)
    path.write_text("# a shape\n2 2 1\n# shape 9 9\n", encoding="utf-8")
    assert frostt.read(path).shape == (2, 2)
    path.write_text("# nothing\n", encoding="utf-8")
    assert frostt.read(path, shape=(3, 3)).shape == (3, 3)


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


def test_a_shape_of_too_many_sizes(tmp_path: Path) -> None:
    path = tmp_path / "a.tns"
    path.write_text("# shape" + " 2" * 9, encoding="utf-8")
    with pytest.raises(UsageError, match="9"):
        frostt.read(path)


def test_real_files(matrices: Path) -> None:
    found = frostt.read(matrices / "splatt_med.tns.gz")
    assert (found.shape, len(found.values)) == ((2425, 10816, 29567), 100_000)
    found = frostt.read(matrices / "wn18rr_train.tns.gz", shape=(40943, 11, 40943))
    assert len(found.check().values) == 86_835


def test_whole_numbers_are_not_rounded(tmp_path: Path) -> None:
    path = tmp_path / "a.tns"
    frostt.write(path, of_dense("csr", np.array([[-(1 << 53), 0], [0, 1 << 53]])))
    assert frostt.read(path).values.tolist() == [-(2.0**53), 2.0**53]
    for dtype, value in ((np.int64, -(1 << 53) - 1), (np.uint64, (1 << 64) - 1)):
        wrong = of_dense("csr", np.array([[1, 0], [0, value]], dtype))
        with pytest.raises(UsageError, match=rf"a.tns: the value at \(1, 1\) is {value}, which"):
            frostt.write(path, wrong)
    assert frostt.read(path).values.tolist() == [-(2.0**53), 2.0**53]
