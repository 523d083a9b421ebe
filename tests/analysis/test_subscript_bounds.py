"""In-bounds conditions: exact sets, cheap tests, and the text of each violation."""

import itertools
import textwrap

import islpy as isl
import numpy as np
import pytest

from frontends.kernels import bind, compiled, define
from loopwright.analysis.subscript_bounds import (
    bounds_violation,
    evaluate,
    find_violation,
    predicate,
)
from loopwright.diagnostics import InternalError
from loopwright.ir.interpret import interpret_program
from loopwright.ir.program import Program, Role

A = np.zeros(4)
B = np.zeros((4, 4))


def program_of(text: str, *args: object) -> Program:
    return compiled(define(text, "k.py"), *args)[1]


SAFE = {
    "all sizes": """
        def f(A):
            for i in range(len(A)):
                A[i] = A[len(A) - 1 - i]
        """,
    "guarded": """
        def f(A):
            for i in range(len(A)):
                A[i] = (A[i - 1] if i > 0 else 0.0) + (A[i + 1] if i + 1 < len(A) else 0.0)
        """,
    "strided": """
        def f(A):
            for i in range(0, len(A) - 1, 2):
                A[i] = A[i + 1]
        """,
    "local arrays": """
        def f(A):
            t = np.zeros(A.shape)
            for i in range(len(A)):
                A[i] = t[i]
        """,
    "locals": """
        def f(A):
            for i in range(len(A)):
                x = A[i]
                if i > 0:
                    A[i] = x + before
                before = x
        """,
}


@pytest.mark.parametrize("name", SAFE)
def test_safe_for_all_sizes(name: str) -> None:
    program = program_of(SAFE[name], A)
    assert bounds_violation(program).is_empty()


def test_condition_of_a_matrix_product() -> None:
    text = """
    def f(C, A, B):
        for i in range(C.shape[0]):
            for j in range(C.shape[1]):
                for k in range(A.shape[1]):
                    C[i, j] += A[i, k] * B[k, j]
    """
    program = program_of(text, B, B, B)
    expected = isl.Set(
        "[C_0, C_1, A_0, A_1, B_0, B_1] -> { : A_0 >= C_0 and B_0 >= A_1 and B_1 >= C_1;"
        " : C_0 = 0; : C_1 = 0; : A_1 = 0 }"
    ).intersect(program.context)
    assert bounds_violation(program).is_equal(program.context.subtract(expected))


UNSAFE = {
    "shift": """
        def f(A, n):
            for i in range(n):
                A[i + 1] = 1
        """,
    "below": """
        def f(A, n):
            for i in range(3):
                A[i - n] = 1
        """,
    "stride": """
        def f(A, n):
            for i in range(n, 0, -3):
                A[i] = A[i // 2]
        """,
    "last": "def f(A, n):\n    A[-2] = n\n",
    "parity": """
        def f(A, n):
            for i in range(n):
                if (i + n) % 3 == 1:
                    A[2 * i] = 1
        """,
    "unset": """
        def f(A, n):
            for i in range(n):
                x = 1.0
                x = x + i
            A[0] = x
        """,
    "unset in a branch": """
        def f(A, n):
            if n > 2:
                x = A[0]
            A[1] = x
        """,
    "unset result": """
        def f(A, n):
            for i in range(2, n):
                x = A[i]
            return x
        """,
    "negative extent": """
        def f(A, n):
            t = np.zeros(n - 1)
            for i in range(min(1, n - 1)):
                A[i] = t[i]
        """,
}


@pytest.mark.parametrize("name", UNSAFE)
def test_violation_is_exact(name: str) -> None:
    """For every small size, the interpreter fails exactly where the set says so."""
    function = define(UNSAFE[name])
    tree, program = compiled(function, A, 1)
    violated = predicate(bounds_violation(program))
    for size, n in itertools.product(range(6), range(-2, 7)):
        arrays, params = bind(tree, (np.zeros(size), n))
        arrays |= {a.name: np.array(np.nan) for a in program.arrays if a.role is Role.OUT}
        assert violated(params) == fails(program, arrays, params), params
        assert violated(params) == (find_violation(program, params) is not None), params
        assert violated(params) == evaluate(bounds_violation(program), params), params


def fails(program: Program, arrays: dict[str, np.ndarray], params: dict[str, int]) -> bool:
    """Whether Python would raise an exception, as far as the interpreter tells."""
    try:
        interpret_program(program, arrays, params)
    except (InternalError, ValueError):  # an undefined read or wrong place; a negative extent
        return True
    return any(np.isnan(arrays[a.name]) for a in program.arrays if a.role is Role.OUT)


def violation(text: str, args: tuple[object, ...], **params: int) -> str:
    found = find_violation(program_of(textwrap.dedent(text), *args), params)
    assert found is not None
    return str(found)


def test_text_of_an_access_beyond_the_end() -> None:
    text = """
    def f(C, B):
        for i in range(len(C)):
            for k in range(i, len(C)):
                C[i] += B[k, i]
    """
    assert violation(text, (A, B), C_0=5, B_0=3, B_1=5) == (
        "k.py:4:13: error: subscript 1 of 'B' is outside the array [LW112]\n"
        "    C[i] += B[k, i]\n"
        "    ^^^^^^^^^^^^^^^\n"
        "note: found B[3, 0] in B of shape (3, 5), at i = 0, k = 3"
    )


def test_text_of_an_access_below_zero() -> None:
    text = "def f(A, n):\n    for i in range(n):\n        A[i - 1] = i\n"
    assert violation(text, (A, 3), A_0=4, n=3) == (
        "k.py:3:9: error: subscript 1 of 'A' is outside the array [LW112]\n"
        "    A[i - 1] = i\n"
        "    ^^^^^^^^^^^^\n"
        "note: found A[-1] in A of shape (4), at i = 0\n"
        "try: only a constant subscript below zero counts from the end"
    )


def test_text_of_an_unset_scalar() -> None:
    text = "def f(A, n):\n    for i in range(n):\n        x = A[0]\n    A[0] = x\n"
    assert violation(text, (A, 3), A_0=4, n=0) == (
        "k.py:4:5: error: 'x' is used before it is assigned [LW108]\n    A[0] = x\n    ^^^^^^^^"
    )


def test_text_of_an_unset_result() -> None:
    text = "def f(A, n):\n    for i in range(n):\n        x = A[0]\n    return x\n"
    assert violation(text, (A, 3), A_0=4, n=0) == (
        "k.py:3:9: error: 'x' is returned before it is assigned [LW108]\n    x = A[0]\n    ^^^^^^^^"
    )


def test_text_of_a_negative_extent() -> None:
    text = "def f(A, n):\n    t = np.ones((3, n - 1))\n    A[0] = t[0, 0] if n > 1 else 0.0\n"
    assert violation(text, (A, 3), A_0=4, n=-1) == (
        "k.py:2:5: error: the local array 't' has a negative extent [LW117]\n"
        "    t = np.ones((3, n - 1))\n"
        "    ^^^^^^^^^^^^^^^^^^^^^^^\n"
        "note: found shape (3, -2)"
    )
