"""Code in memory: counted, shared between equal signatures, given back beyond the limit."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import loopwright as lw
from loopwright import kernels, options
from loopwright.kernels import nest_kernel
from loopwright.memo import BoundedCache, SharedWhileUsed
from loopwright.runtime import code_memory
from loopwright.runtime.code_memory import code_state, make_room
from loopwright.runtime.llvm_engine import compile_to_object, load_object

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
