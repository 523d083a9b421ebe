"""What whole functions are refused for: place, cause and remedy, all at once."""

from types import FunctionType
from typing import Any

import numpy as np
import pytest

from loopwright.diagnostics import SourceError
from loopwright.frontends.python.fingerprint import argument_types
from loopwright.frontends.python.procedures.read_procedure import read_procedure

A = np.ones((3, 4))
V = np.ones(4)


def unknown_functions(a: Any) -> Any:
    x = np.linalg.inv(a)
    y = np.sort(a)
    return x + y


def other_arrays(a: Any, n: int) -> Any:
    return a[0] if n > 0 else a[1]


def several_arrays(a: Any, n: int) -> Any:
    b = a[0]
    if n > 0:
        b = a[1:]
    return b.sum()


def data_size(v: Any) -> Any:
    return np.zeros(int(v[0]))


def as_condition(a: Any) -> Any:
    if a > 0:
        return 1
    return 0


def recursive(n: int) -> Any:
    return recursive(n - 1)


def to_integers(n: Any) -> None:
    n += 1.5


def too_many(a: Any) -> Any:
    return a[0, 0, 0:]


def a_list(a: Any) -> Any:
    return [a[0], a[1]]


CASES: list[tuple[Any, tuple[Any, ...], list[str]]] = [
    (unknown_functions, (A,), ["LW123", "LW123"]),
    (other_arrays, (A, 1), ["LW116"]),
    (several_arrays, (A, 1), ["LW190"]),
    (data_size, (V,), ["LW180"]),
    (as_condition, (A,), ["LW116"]),
    (recursive, (3,), ["LW195"]),
    (to_integers, (np.ones(3, np.int32),), ["LW191"]),
    (too_many, (A,), ["LW111"]),
    (a_list, (A,), ["LW128"]),
]


def refusal(function: Any, args: tuple[Any, ...]) -> SourceError:
    assert isinstance(function, FunctionType)
    with pytest.raises(SourceError) as caught:
        read_procedure(function, argument_types(args))
    return caught.value


@pytest.mark.parametrize(("function", "args", "codes"), CASES)
def test_codes(function: Any, args: tuple[Any, ...], codes: list[str]) -> None:
    assert [x.code for x in refusal(function, args).diagnostics] == codes


def test_text_of_an_unknown_function() -> None:
    first = unknown_functions.__code__.co_firstlineno + 1
    assert str(refusal(unknown_functions, (A,)).diagnostics[0]) == "\n".join(
        (
            f"{__file__}:{first}:9: error: the function 'np.linalg.inv' is not known [LW123]",
            "    x = np.linalg.inv(a)",
            "        ^^^^^^^^^^^^^^^^",
            "try: functions of arrays: docs/python.md lists them",
        )
    )


def test_text_of_a_recursive_call() -> None:
    first = recursive.__code__.co_firstlineno + 1
    assert str(refusal(recursive, (3,)).diagnostics[0]) == "\n".join(
        (
            f"{__file__}:{first}:12: error: a recursive call cannot be compiled [LW195]",
            "    return recursive(n - 1)",
            "           ^^^^^^^^^^^^^^^^",
            "note: found recursive",
        )
    )


def test_text_of_a_cast() -> None:
    first = to_integers.__code__.co_firstlineno + 1
    assert str(refusal(to_integers, (np.ones(3, np.int32),)).diagnostics[0]) == "\n".join(
        (
            f"{__file__}:{first}:5: error: a result of float64 cannot be cast to int32 [LW191]",
            "    n += 1.5",
            "    ^^^^^^^^",
            "try: x[...] = x op y converts",
        )
    )
