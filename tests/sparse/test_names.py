"""The names of `lw.sparse`: there, and light."""

import subprocess
import sys
from pathlib import Path

import pytest

import loopwright as lw


def test_every_name_is_there() -> None:
    names = lw.sparse.__all__
    assert sorted(set(names)) == sorted(names)
    assert [name for name in names if not hasattr(lw.sparse, name)] == []
    assert set(names) <= set(dir(lw.sparse))


def test_no_file_hides_a_name() -> None:
    """Python stores a module that is loaded under its name in the package."""
    files = {file.stem for file in Path(lw.sparse.__file__).parent.iterdir()}
    assert files & {*lw.sparse.__all__} == set()


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match=r"'loopwright\.sparse' has no attribute 'covert'"):
        lw.sparse.covert  # noqa: B018


def test_the_package_is_light() -> None:
    program = "import sys, loopwright; loopwright.sparse; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert loaded & {"islpy", "llvmlite", "scipy", "z3", "matplotlib"} == set()
    assert "loopwright.sparse.convert_tensor" not in loaded
