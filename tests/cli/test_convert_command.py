"""`loopwright convert` as a user meets it: files, advice, refusals, nothing half-written."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from loopwright import cli
from loopwright.sparse import tensor_files
from loopwright.sparse.tensor import from_dense
from loopwright.sparse.tensor_files import read_tensor, write_tensor

Capture = pytest.CaptureFixture[str]

WHOLE = np.diag([2.0, 3.0, 4.0, 5.0]) + np.diag([1.0, 1.0, 1.0], k=1)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "A.mtx"
    write_tensor(path, from_dense(WHOLE))
    return path


def files(path: Path) -> list[str]:
    return sorted(p.name for p in path.parent.iterdir())


@pytest.mark.drawn(2)
@pytest.mark.parametrize("format", ["dia", "csr", "bcsr(2,2)", "ell"])
def test_a_file_in_another_format(source: Path, format: str, capsys: Capture) -> None:
    output = source.with_name("A.npz")
    assert cli.main(["convert", str(source), "--to", format, "-o", str(output)]) == 0
    found = tensor_files.load(output)
    assert found.format.name.split("(")[0] == format.split("(")[0]
    np.testing.assert_array_equal(found.to_dense(), WHOLE)
    out, err = capsys.readouterr()
    assert out.startswith(f"{output}: <SparseTensor {found.format.name}, 4 x 4, float64")
    assert err == ""
    assert files(source) == ["A.mtx", "A.npz"]


def test_advice_needs_no_output(source: Path, capsys: Capture) -> None:
    assert cli.main(["convert", str(source), "--recommend", "--uses", "1000000"]) == 0
    out = capsys.readouterr().out
    assert "4 x 4, 7 stored, pattern not symmetric" in out
    assert "1000000 products with a vector" in out
    assert files(source) == ["A.mtx"]


def test_the_conversion_is_explained(source: Path, capsys: Capture) -> None:
    assert cli.main(["convert", str(source), "--to", "dia", "--explain"]) == 0
    out = capsys.readouterr().out
    assert "to_off(to_d) = -i+j" in out
    assert "for (long " in out


# arguments after the file, and what is said
REFUSED = (
    ([], "nothing to do"),
    (["--explain"], "--explain needs a format"),
    (["--to", "crs", "-o", "A.npz"], "unknown format 'crs'"),
    (["--to", "bcsr(0,2)", "-o", "A.npz"], "the sides of a block are whole numbers from 1"),
    (["--to", "mcoo3", "-o", "A.npz"], "holds tensors of 3 dimensions, not 2"),
    (["--to", "csr", "-o", "A.csv"], "the ending does not say what the file holds"),
    (["--to", "csr", "-o", "none/A.npz"], "there is no folder none"),
    (["--to", "csr", "-o", "A.mtx"], "is the file to be read"),
    (["--recommend", "--uses", "-3"], "--uses is -3"),
    (["--recommend", "--shape", "3,x"], "--shape is not a list of sizes"),
    (["--recommend", "--base", "0"], "'base' says nothing about .mtx files"),
    (["--recommend", "--kind", "csv"], "the ending does not say what the file holds"),
    (["--to", "csr", "-o", "A.npz", "--threads", "0"], "--threads is 0"),
)


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=[row[1] for row in REFUSED])
def test_refusals(
    source: Path, words: list[str], said: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source.parent)
    assert cli.main(["convert", "A.mtx", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("loopwright: error: ")
    assert said in err
    assert files(source) == ["A.mtx"]


def test_options_of_what_is_read(tmp_path: Path, capsys: Capture) -> None:
    path, output = tmp_path / "B.tns", tmp_path / "B.npz"
    path.write_text("0 1 1\n2 2 nan\n", encoding="utf-8")
    words = ["convert", str(path), "-o", str(output)]
    for told in (["--not-finite"], ["--base", "0"]):  # each error names the option that helps
        assert cli.main(words) == 2
        assert told[0] in capsys.readouterr().err
        words += told
    assert cli.main([*words, "--shape", "4,5"]) == 0
    assert read_tensor(output).shape == (4, 5)


def test_a_missing_file(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "none.mtx"
    for words in ([], ["--recommend"], ["--to", "csr", "-o", str(tmp_path / "a.npz")]):
        assert cli.main(["convert", str(path), *words]) == 2
        assert capsys.readouterr().err == f"loopwright: error: {path}: there is no such file\n"


def test_a_terminated_write_leaves_nothing(source: Path) -> None:
    """A process that is asked to end while it writes takes its unfinished file away."""
    code = """
        import os, signal, sys
        from loopwright import cli
        from loopwright.sparse import tensor_files

        def stop(*args, **options):
            os.kill(os.getpid(), signal.SIGTERM)

        tensor_files.np.savez = stop
        sys.exit(cli.main())
    """
    words = ["convert", str(source), "--to", "csr", "-o", str(source.with_name("A.npz"))]
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *words], capture_output=True, check=False
    )
    assert ended.returncode == 143, ended.stderr
    assert files(source) == ["A.mtx"]
