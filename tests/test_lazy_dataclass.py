"""Frozen dataclasses of ours behave as those of the standard library do."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, is_dataclass, replace
from typing import Any

import pytest

from loopwright import lazy_dataclass

Decorator = Callable[..., Any]
BOTH: tuple[Decorator, ...] = (lazy_dataclass.dataclass, dataclasses.dataclass)


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Point:
    """At the top of a module, where pickle finds it."""

    x: int
    y: list[int] = field(default_factory=list, compare=False)


@lazy_dataclass.dataclass(frozen=True)
class Named(Point):
    name: str = "none"


def everything(dataclass: Decorator, slots: bool) -> Any:
    """A class with fields of every kind."""

    @dataclass(frozen=True, slots=slots)
    class Thing:
        """A thing."""

        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list, hash=False)
        d: int = field(default=4, compare=False, repr=False)
        e: int = field(default=5, init=False)
        f: list[int] = field(default_factory=list, init=False, hash=False)
        g: int = field(init=False, compare=False, repr=False)
        h: int = field(default=8, kw_only=True)

        def __post_init__(self) -> None:
            object.__setattr__(self, "g", self.a + 1)

    return Thing


def told(run: Callable[[], object]) -> object:
    """What a call returns or raises, as text or number."""
    try:
        return run()
    except (TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {str(error).replace('everything.<locals>.', '')}"


@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize(
    "ask",
    [
        lambda thing: repr(thing(1)),
        lambda thing: repr(thing(1, "x", [2], 3, h=9)),
        lambda thing: thing(1).g,
        lambda thing: thing(1) == thing(1, d=7),
        lambda thing: thing(1) == thing(1, h=7),
        lambda thing: thing(1) != thing(1, "x"),
        lambda thing: thing(1) == (1, "b"),
        lambda thing: hash(thing(1, c=[1])) == hash(thing(1, d=9)),
        lambda thing: hash(thing(1)),
        lambda thing: thing(1).c is thing(1).c,
        lambda thing: repr(replace(thing(1), a=2, h=3)),
        lambda thing: [(f.name, f.init, f.kw_only) for f in fields(thing)],
        lambda thing: is_dataclass(thing),
        lambda thing: thing.__match_args__,
        lambda thing: repr(copy.copy(thing(1, c=[3]))),
        lambda thing: repr(copy.deepcopy(thing(1, c=[3]))),
        lambda thing: dataclasses.asdict(thing(1)),
        lambda thing: thing(),
        lambda thing: thing(1, 2, 3, 4, 5),
        lambda thing: thing(1, z=2),
        lambda thing: setattr(thing(1), "a", 2),
        lambda thing: delattr(thing(1), "a"),
        lambda thing: thing.__init__.__qualname__.split(".")[-2:],
        lambda thing: thing.__doc__,
        lambda thing: hasattr(thing(1), "__dict__"),
    ],
)
def test_everything_is_as_in_the_standard_library(
    ask: Callable[[Any], object], slots: bool
) -> None:
    ours, theirs = (told(lambda d=d: ask(everything(d, slots))) for d in BOTH)  # type: ignore[misc]
    assert ours == theirs


def test_methods_are_compiled_by_their_first_call() -> None:
    thing = everything(lazy_dataclass.dataclass, True)
    before = thing.__init__, thing.__eq__, thing.__hash__
    assert thing(1) == thing(1)
    assert hash(thing(1)) == hash(thing(1))
    after = thing.__init__, thing.__eq__, thing.__hash__
    assert all(a is not b for a, b in zip(before, after, strict=True))
    assert before[0] is not None
    late = object.__new__(thing)
    before[0](late, 5)  # somebody kept the first one
    assert late == thing(5)


def test_subclasses_compare_by_their_own_fields() -> None:
    assert Named(1, [], "a") == Named(1, [2], "a")
    assert Named(1, [], "a") != Named(1, [], "b")
    assert Named(1) != Point(1)
    assert repr(Named(1)) == "Named(x=1, y=[], name='none')"
    with pytest.raises(FrozenInstanceError):
        Named(1).name = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        Point(1).z = 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_bring_all_fields(protocol: int) -> None:
    for thing in (Point(1, [2]), Named(1, [2], "c")):
        again = pickle.loads(pickle.dumps(thing, protocol))
        assert type(again) is type(thing)
        assert repr(again) == repr(thing)
