"""The matrix product as plain Python loops, in each of the six orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["ORDERS"]


def ijk(A: Any, B: Any, C: Any) -> None:
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]


def ikj(A: Any, B: Any, C: Any) -> None:
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            for j in range(B.shape[1]):
                C[i, j] += A[i, k] * B[k, j]


def jik(A: Any, B: Any, C: Any) -> None:
    for j in range(B.shape[1]):
        for i in range(A.shape[0]):
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]


def jki(A: Any, B: Any, C: Any) -> None:
    for j in range(B.shape[1]):
        for k in range(A.shape[1]):
            for i in range(A.shape[0]):
                C[i, j] += A[i, k] * B[k, j]


def kij(A: Any, B: Any, C: Any) -> None:
    for k in range(A.shape[1]):
        for i in range(A.shape[0]):
            for j in range(B.shape[1]):
                C[i, j] += A[i, k] * B[k, j]


def kji(A: Any, B: Any, C: Any) -> None:
    for k in range(A.shape[1]):
        for j in range(B.shape[1]):
            for i in range(A.shape[0]):
                C[i, j] += A[i, k] * B[k, j]


ORDERS: dict[str, Callable[[Any, Any, Any], None]] = {
    function.__name__: function for function in (ijk, ikj, jik, jki, kij, kji)
}
