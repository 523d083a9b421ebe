"""The names of `lw.sparse`: there, light, and never hidden by the files they live in."""

import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

import loopwright as lw


def test_every_name_is_there() -> None:
    names = lw.sparse.__all__
    assert sorted(set(names)) == sorted(names)
    assert [name for name in names if not hasattr(lw.sparse, name)] == []
    assert set(names) <= set(dir(lw.sparse))


def test_files_do_not_hide_functions() -> None:
    for name in ("convert", "verify", "explain", "recommend"):
        import_module(f"loopwright.sparse.{name}")  # Python then stores the file under that name
    for name in ("convert", "verify", "explain", "recommend"):
        assert not isinstance(getattr(lw.sparse, name), ModuleType)
        assert callable(getattr(lw.sparse, name))
    assert lw.sparse.convert.__wrapped__ is sys.modules["loopwright.sparse.convert"].convert


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
    assert "loopwright.sparse.convert" not in loaded
