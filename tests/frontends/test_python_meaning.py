"""Accepted Python: the Program of each kernel gives the results of plain Python, bit by bit."""

import numpy as np
import pytest

from frontends.kernels import assert_same, define

RNG = np.random.default_rng(7)
A = RNG.normal(size=9)
B = RNG.normal(size=(5, 6))
C = RNG.normal(size=(6, 4)).astype(np.float32)
F = RNG.normal(size=9).astype(np.float32)
I32 = RNG.integers(-50, 50, 9, dtype=np.int32)
I8 = RNG.integers(-100, 100, 9, dtype=np.int8)
U8 = RNG.integers(0, 255, 9, dtype=np.uint8)
Z = RNG.normal(size=5) + 1j * RNG.normal(size=5)
FLAGS = np.array([True, False, True, True, False, False, True, False, True])

KERNELS: dict[str, tuple[str, tuple[object, ...]]] = {
    "matrix product, local accumulator": (
        """
        def f(X, Y, out):
            n, m = out.shape
            for i in range(n):
                for j in range(m):
                    s = 0.0
                    for k in range(X.shape[1]):
                        s += X[i, k] * Y[k][j]
                    out[i, j] = s
        """,
        (C.T.copy(), C, np.zeros((4, 4), np.float32)),
    ),
    "branches on data": (
        """
        def f(x, y, count, n):
            best = -1.0
            for i in range(n):
                if x[i] > best:
                    best = x[i]
                    y[i] = best
                elif x[i] < -0.5:
                    y[i] = 7.0
                if i > 0 and x[i - 1] > 0.0:
                    t = x[i - 1] * 2.0
                    y[i - 1] = t + 1.0
                    count[0] += 1
                if x[i] > 0.5:
                    u = 1.0
                else:
                    u = x[i]
                y[i] += u
        """,
        (A, np.zeros(9), np.zeros(1, np.int64), 9),
    ),
    "a loop and branches inside of a branch on data": (
        """
        def f(b, flags):
            for i in range(5):
                if flags[i]:
                    s = 0.0
                    for j in range(6):
                        if b[i, j] > 0.0:
                            s += b[i, j]
                        else:
                            s -= 1.0
                    b[i, 0] = s
                else:
                    b[i, 1] = -1.0
        """,
        (B, FLAGS),
    ),
    "negative step": (
        """
        def f(a, n):
            for i in range(n - 2, -1, -1):
                a[i] = a[i] + a[i + 1]
            for i in range(n - 1, 0, -3):
                a[i] *= 2
        """,
        (A, 9),
    ),
    "triangles and imperfect nests": (
        """
        def f(b):
            '''A docstring.'''
            n = len(b)
            for i in range(n):
                b[i, 0] = 1.0
                for j in range(i):
                    b[i, j + 1] -= b[j, j]
                    for k in range(j, i + 1):
                        b[k, j] += 0.5
                b[i, i] = 2
        """,
        (B,),
    ),
    "if, elif, else, chained comparisons, and, or, not": (
        """
        def f(a, n):
            for i in range(n):
                if 1 < i <= 4 and not i == 3:
                    a[i] = 1
                elif i % 2 == 0 or i // 3 == 2:
                    a[i] = 2
                else:
                    a[i] = 3
                if n > 100:
                    a[0] = 7
        """,
        (A, 9),
    ),
    "conditional expressions that guard": (
        """
        def f(a, b):
            for i in range(9):
                a[i] = (b[i - 1] if i > 0 else 0.0) + (b[i + 1] if i < 8 else 0.0)
                b[i] = b[i - 1] if i > 0 and a[i] > 0 or i == 8 else 1.0
        """,
        (A, F),
    ),
    "aliases of sizes and loop variables": (
        """
        def f(a):
            n = a.shape[0]
            half = n // 2
            for i in range(half):
                j = n - 1 - i
                a[i], a[j] = a[j], a[i]
                j -= 1
                a[j] += 1
        """,
        (A,),
    ),
    "swap, chain and tuple assignment": (
        """
        def f(a):
            for i in range(4):
                a[i] = a[i + 1] = a[i] + a[i + 2]
                x, y = a[i], a[i + 1]
                x, y = y, x + y
                (a[i], a[i + 1]) = y, x
                u = v = 2.5
                a[i] += u * v
        """,
        (A,),
    ),
    "augmented operators on floats": (
        """
        def f(a):
            for i in range(9):
                a[i] += 1
                a[i] -= 0.25
                a[i] *= a[i]
                a[i] /= 3
                a[i] //= 0.125
                a[i] %= 7
                a[i] **= 2
        """,
        (A,),
    ),
    "augmented operators on integers": (
        """
        def f(a):
            for i in range(9):
                a[i] += i
                a[i] *= 3
                a[i] -= 100
                a[i] //= 7
                a[i] %= 11
                a[i] **= 3
                a[i] &= 29
                a[i] |= 64
                a[i] ^= 5
                a[i] /= 2
                a[i] = ~a[i] + -a[i]
        """,
        (I32,),
    ),
    "small integers wrap": (
        """
        def f(a, b):
            for i in range(9):
                a[i] = a[i] * 3 + 1
                b[i] = b[i] - 100
        """,
        (I8, U8),
    ),
    "integer division is exact or a double": (
        """
        def f(a, b, c):
            for i in range(9):
                c[i] = a[i] / 7 + a[i] // -3 + a[i] % 5 + i / 2
                b[i] = a[i] * 0.5
        """,
        (I32, F, A),
    ),
    "python numbers are weak": (
        """
        def f(a, x, n, out):
            for i in range(9):
                out[i] = a[i] * x + n * 0.1 - 1 / 3 + i
        """,
        (F, 0.1, 3, np.zeros(9)),
    ),
    "numpy numbers are strong": (
        """
        def f(a, x, n, out):
            for i in range(9):
                out[i] = a[i] * x + n + np.float32(0.1) * i
        """,
        (F, np.float64(0.1), np.int64(3), np.zeros(9)),
    ),
    "min, max, abs": (
        """
        def f(a, b):
            for i in range(9):
                a[i] = min(a[i], b[i], 0.5) + max(1, a[i], i) + abs(b[i])
                b[i] = np.minimum(a[i], 2) + np.maximum(b[i], -1.0) + np.abs(a[i] - 1)
        """,
        (A, A[::-1].copy()),
    ),
    "bounds with min, max, abs": (
        """
        def f(a, n):
            for i in range(max(0, n - 8), min(n, len(a))):
                for j in range(abs(i - 4), 6):
                    a[j] += i
        """,
        (A, 9),
    ),
    "functions": (
        """
        def f(a, b):
            for i in range(9):
                a[i] = math.sqrt(abs(a[i])) + np.exp(b[i]) + math.floor(a[i]) + np.ceil(b[i])
                b[i] = np.sqrt(np.float32(i)) + np.where(a[i] > 0, a[i], b[i]) + np.square(b[i])
                b[i] += pow(a[i], 2) + math.fabs(b[i]) + float(i) ** 0.5 + math.sqrt(2)
        """,
        (A, F),
    ),
    "conversions": (
        """
        def f(a, k):
            for i in range(9):
                k[i] = int(a[i] * 10) + int(3.7)
                a[i] = np.float32(a[i]) + float(k[i]) + np.int8(i) + bool(k[i])
        """,
        (A, I32),
    ),
    "truncation into integers": (
        "def f(a, k):\n    for i in range(9):\n        k[i] = a[i] * 10\n        k[i] += 0.5\n",
        (A, I32),
    ),
    "booleans": (
        """
        def f(p, a):
            for i in range(9):
                p[i] = a[i] > 0 and not p[i]
                a[i] = (a[i] > 0.5) + (a[i] < 1.0) * 2 + (i > 3) + (i < 5)
                p[i] = p[i] | (i % 2 == 0) ^ (a[i] == 1)
        """,
        (FLAGS, A),
    ),
    "complex numbers": (
        """
        def f(z, a, c):
            for i in range(5):
                a[i] = abs(z[i]) + z[i].real - np.imag(z[i])
                z[i] = z[i] * c + np.conj(z[i]) * 2j + a[i]
        """,
        (Z, A, 1 - 2j),
    ),
    "local scalars live across iterations": (
        """
        def f(a):
            last = 0
            for i in range(9):
                a[i] = a[i] - last
                last = a[i] * 2
            a[0] = last
        """,
        (A,),
    ),
    "a local set in one iteration and read in the next": (
        """
        def f(a):
            for i in range(9):
                a[i] += before if i > 0 else 0.0
                if i > 1:
                    a[i] += before
                before = a[i]
        """,
        (A,),
    ),
    "negative constant subscripts": (
        "def f(b):\n    b[-1, -2] = b[0, -1] + b[-5][0]\n",
        (B,),
    ),
    "size, ndim, len": (
        "def f(b, a):\n    for i in range(len(a)):\n        a[i] = b.size * b.ndim + b.shape[-1]\n",
        (B, A),
    ),
    "returns None": ("def f(a):\n    pass\n    return None\n", (A,)),
    "returns a scalar": (
        "def f(a):\n    s = 0.0\n    for i in range(9):\n        s += a[i]\n    return s\n",
        (F,),
    ),
    "returns expressions": (
        "def f(a, n):\n    s = 0\n    for i in range(9):\n        s += i\n"
        "    return s / n, a, n, 3\n",
        (A, 4),
    ),
    "local arrays": (
        """
        def f(a, n):
            t = np.zeros((n, 3), dtype=np.float32)
            u = np.empty(len(a))
            one = np.ones_like(a)
            for i in range(n):
                u[i] = a[i]
                for j in range(3):
                    t[i, j] += u[i] + j + one[i]
            return t
        """,
        (A, 9),
    ),
    "a rank of zero": (
        "def f(x, a):\n    for i in range(9):\n        x[()] += a[i]\n        a[i] = x * 2\n",
        (np.array(1.5), A),
    ),
    "annotations": ("def f(a: 'array'):\n    x: float\n    y: float = a[0]\n    a[1] = y\n", (A,)),
    "nothing runs": (
        "def f(a):\n    for i in range(3, 3):\n        a[i] = 1\n    if 1 > 2:\n        a[0] = q\n",
        (A,),
    ),
    "names that isl or C would mind": (
        """
        def f(exists, mod, α):
            for min in range(mod):
                for S0 in range(3):
                    exists[min] += α * S0
        """,
        (A, 4, 0.5),
    ),
    "boolean argument": (
        "def f(a, p):\n    if p:\n        a[0] = p\n    a[1] = 1 + p\n",
        (A, True),
    ),
    "constants": (
        "def f(a):\n    a[0] = 2 ** 10 + 7 // 2 - -3 % 5 + (1 if True else 0) + (not 3) + (2 > 1)\n"
        "    a[1] = math.pi * 1e-3 + abs(-2) + min(3, 1) + (True and 4 > 3) + math.inf\n",
        (A,),
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_python_means_what_python_means(name: str) -> None:
    text, args = KERNELS[name]
    assert_same(define(text), *args)


def test_outer_numbers_are_captured() -> None:
    text = "def f(a):\n    for i in range(N):\n        a[i] = a[i] * W + Half.value + SMALL\n"
    half = type("Half", (), {"value": 0.5})
    assert_same(define(text, N=4, W=3, Half=half, SMALL=np.float32(0.1)), A)


def test_an_outer_number_decides_a_branch() -> None:
    text = "def f(a):\n    if FAST:\n        a[0] = 1\n    else:\n        a[0] = unknown(3)\n"
    assert_same(define(text, FAST=True), A)
