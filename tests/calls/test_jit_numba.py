"""numba's options on `jit`: what they mean here, and what is said where they mean nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import options
from loopwright.diagnostics import UsageError


def total(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
    return s


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (False, None, True)),
        ({"parallel": True}, (False, None, True)),
        ({"parallel": False}, (False, 1, True)),
        ({"parallel": False, "threads": 1}, (False, 1, True)),
        ({"parallel": True, "threads": 2}, (False, 2, True)),
        ({"fastmath": True}, (True, None, True)),
        ({"fastmath": False, "reassoc": True}, (True, None, True)),
        ({"fastmath": {"reassoc", "nsz"}}, (True, None, True)),
        ({"fastmath": {"nsz"}}, (False, None, True)),
        ({"cache": True}, (False, None, True)),
        ({"cache": False}, (False, None, False)),
        ({"nogil": True, "nopython": True, "boundscheck": True}, (False, None, True)),
        ({"nogil": False, "boundscheck": False}, (False, None, True)),
    ],
)
def test_what_they_mean(given: dict[str, Any], expected: tuple[Any, ...]) -> None:
    compiled = lw.jit(**given)(total)
    assert (compiled.reassoc, compiled.threads, compiled.cache) == expected
    assert compiled(np.arange(9.0)) == 36


def test_no_disk_cache(tmp_path: Path) -> None:
    with options.override(cache_dir=str(tmp_path)):
        function = lw.jit(cache=False)(total)
        for size in (3, 1000):
            assert function(np.ones(size)) == size
        assert not list(tmp_path.rglob("*"))
        assert lw.jit(cache=False, on_unsupported="python")(total)(np.ones(3)) == 3
        assert not list(tmp_path.rglob("*"))
        assert lw.jit(total)(np.ones(3)) == 3
        assert list(tmp_path.rglob("*"))


OPTIONS = (
    "boundscheck, cache, calls, error_model, fastmath, nogil, nopython, on_unsupported, parallel, "
    "plan, race, reassoc, threads, tune"
)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"parallel": {}},
            "parallel is True or False\nnote: found {}\ntry: True, or False for one thread",
        ),
        (
            {"parallel": False, "threads": 2},
            "parallel=False means one thread\nnote: found threads=2",
        ),
        (
            {"fastmath": 3},
            "fastmath is True or False\nnote: found 3\ntry: True stands for reassoc=True",
        ),
        ({"cache": "yes"}, "cache is True or False\nnote: found 'yes'"),
        (
            {"nopython": False},
            "jit compiles or refuses\nnote: found nopython=False\n"
            "try: on_unsupported='python' runs in Python what cannot be compiled",
        ),
        (
            {"forceobj": True},
            "jit has no option 'forceobj'\n"
            "try: on_unsupported='python' runs in Python what cannot be compiled",
        ),
        (
            {"locals": {}},
            "jit has no option 'locals'\n"
            "try: leave it out: types follow from the arguments of each call",
        ),
        ({"paralel": True}, f"jit has no option 'paralel'\ntry: one of {OPTIONS}"),
    ],
)
def test_refusals(given: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        lw.jit(**given)(total)
    assert str(caught.value) == text


def test_a_signature() -> None:
    with pytest.raises(TypeError) as caught:
        lw.jit("f8(f8[:])")  # type: ignore[call-overload]
    assert str(caught.value) == (
        "jit takes a function\nnote: found 'f8(f8[:])'\n"
        "try: leave the signature out: types follow from each call"
    )
