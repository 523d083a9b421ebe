"""Code in memory: counted, shared between equal signatures, given back beyond the limit."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from loopwright import kernels, options
from loopwright.kernels import nest_kernel
from loopwright.memo import BoundedCache, SharedWhileUsed
from loopwright.runtime import code_memory
from loopwright.runtime.code_memory import code_state, make_room
from loopwright.runtime.llvm_engine import compile_to_object, load_object
from loopwright.runtime.toolchain import build_library, load_library

ADD = """define i64 @add(i64 %x) {{
  %y = add i64 %x, {number}
  ret i64 %y
}}
"""


def code(number: int) -> bytes:
    return compile_to_object(ADD.format(number=number))


@pytest.fixture
def kept() -> BoundedCache[int, object]:
    """A cache of code that forgets beyond the limit."""
    return code_memory.bounded(BoundedCache[int, object](1000))


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests' caches keep what they have."""
    monkeypatch.setattr(code_memory, "_older", [])
    monkeypatch.setattr(code_memory, "_all", [])
    monkeypatch.setattr(code_memory, "_pinned", 0)
    gc.collect()


def test_loaded_code_is_counted_while_it_is_used() -> None:
    before = code_state()
    loaded = load_object(code(1), ("add",))
    during = code_state()
    assert during.kernels == before.kernels + 1
    assert during.bytes - before.bytes > len(code(1))
    del loaded
    assert code_state() == before


def test_libraries_are_counted_and_shared() -> None:
    """With `shared`, equal libraries are one; without, each has variables of its own."""
    text = "int x; int next(void) { return ++x; }\n"
    made = build_library(text, ("-O1",))
    before = code_state().kernels
    first, second = load_library(made, shared=True), load_library(made, shared=True)
    third = load_library(made)
    assert first is second
    assert code_state().kernels == before + 2
    assert [x["next"]() for x in (first, second, third)] == [1, 2, 1]
    del first, second, third
    gc.collect()  # functions of ctypes refer to themselves
    assert code_state().kernels == before


def test_what_is_loaded_stays_within_the_limit(kept: BoundedCache[int, object]) -> None:
    state = code_state()
    one = code_memory._counted(len(code(0)))
    with options.override(code_limit=state.bytes + 8 * one):
        for number in range(40):
            kept[number] = load_object(code(number), ("add",))
            assert code_state().bytes <= state.bytes + 8 * one
            assert number in kept
        assert 4 <= len(kept) <= 8


def test_what_users_hold_stays_and_is_counted(kept: BoundedCache[int, object]) -> None:
    """Caches then have a quarter of the limit beyond it, and are not emptied by every kernel."""
    state = code_state()
    one = code_memory._counted(len(code(0)))
    held: list[object] = []
    with options.override(code_limit=max(state.bytes, 16 * one)):
        held += [load_object(code(number), ("add",)) for number in range(40)]
        assert code_state().bytes == state.bytes + 40 * one
        lengths = []
        for number in range(30):
            kept[number] = load_object(code(100 + number), ("add",))
            lengths.append(len(kept))
        assert max(lengths) >= 3
        assert code_state().bytes <= state.bytes + 40 * one + options.current().code_limit // 4
    held.clear()
    kept.clear()
    make_room(0)
    assert code_state() == state


def test_equal_signatures_share_code_that_was_forgotten() -> None:
    """A call that needs a kernel again gets the one that another callable still uses."""
    held: list[object] = []
    found = None
    for _ in range(2):
        lw.einsum("ab,bc->ac", np.ones((3, 5)), np.ones((5, 7)))
        name, checked = list(kernels._kernels)[-1]
        kernel = kernels._kernels[name, checked]
        held.append(kernel._run.owner)  # as launches have it
        kernels._kernels.clear()
        count = code_state().kernels

        def refuse() -> object:
            raise AssertionError("made again")

        again = nest_kernel(name, refuse, checked=checked)  # type: ignore[arg-type]
        assert again is not kernel
        assert again._run.owner is kernel._run.owner
        assert code_state().kernels == count
        assert found is None or found is kernel._run.owner
        found = kernel._run.owner


def test_shared_objects_go_with_their_last_user() -> None:
    class Thing:
        pass

    shared: SharedWhileUsed[str, Thing] = SharedWhileUsed()
    thing = shared["a"] = Thing()
    assert shared.get("a") is thing
    del thing
    assert shared.get("a") is None
    kept = [Thing() for _ in range(3)]
    for place, each in enumerate(kept):
        shared[str(place)] = each
    assert len(shared) == 3


def test_a_replaced_entry_outlives_the_old_object() -> None:
    class Thing:
        pass

    shared: SharedWhileUsed[str, Thing] = SharedWhileUsed()
    old, new = Thing(), Thing()
    shared["a"] = old
    shared["a"] = new
    del old
    shared["b"] = new
    assert shared.get("a") is shared.get("b") is new


def test_the_older_half_is_forgotten_first() -> None:
    cache: BoundedCache[int, str] = BoundedCache(10)
    for number in range(5):
        cache[number] = str(number)
    cache.forget_older()
    assert list(cache) == [3, 4]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system tells no mappings")
def test_mappings_go_with_the_code() -> None:
    def mappings() -> int:
        return Path("/proc/self/maps").read_text(encoding="utf-8").count("\n")

    load_object(code(0), ("add",))
    before = mappings()
    made = code(1)
    for _ in range(100):
        load_object(made, ("add",))
    assert mappings() - before < 60  # one engine's, and what Python allocates
