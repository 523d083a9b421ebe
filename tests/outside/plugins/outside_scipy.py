"""A pytest plugin for a child process: conversions and products of scipy.sparse are ours.

`tocsr, tocsc, tocoo, todia, tobsr` of every class become `lw.sparse.convert`, and what `@` calls
for a dense vector or matrix becomes `lw.sparse.spmv` and `lw.sparse.spmm`. scipy still answers

- where nothing is converted (`tocsr` of a csr gives the same object, or its copy),
- one-dimensional and n-dimensional arrays: those conversions and products are scipy's own notions,
- dtypes we do not have (object, longdouble), and operands of a product that are no plain arrays,
- blocks that do not divide the shape, which scipy refuses and we pad,
- products of two sparse operands, which we do not have,
- calls that our own code makes on the way in and out.

`CALLS` counts what ours answered, by method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.sparse import _base, _bsr, _compressed, _coo, _csc, _csr, _dia, _dok, _lil
from scipy.sparse._spfuncs import estimate_blocksize

import loopwright as lw
from loopwright.ir.dtypes import DTYPES
from outside_record import CALLS

CLASSES = (
    _base._spbase, _compressed._cs_matrix, _bsr._bsr_base, _coo._coo_base, _csc._csc_base,
    _csr._csr_base, _dia._dia_base, _dok._dok_base, _lil._lil_base,
)  # fmt: skip
FORMATS = {"tocsr": "csr", "tocsc": "csc", "tocoo": "coo", "todia": "dia"}
PRODUCTS = {"_matmul_vector": lw.sparse.spmv, "_matmul_multivector": lw.sparse.spmm}

_is_ours = False  # whether a replaced call is under way


@contextmanager
def _ours(name: str) -> Iterator[None]:
    """Count a call, and let the calls made inside it go to scipy."""
    global _is_ours
    _is_ours = True
    try:
        yield
    finally:
        _is_ours = False
    CALLS[name] += 1


def _is_known(matrix: Any) -> bool:
    return not _is_ours and matrix.ndim == 2 and str(matrix.dtype) in DTYPES


def _conversion(name: str, theirs: Callable[..., Any]) -> Callable[..., Any]:
    def convert(self: Any, copy: bool = False) -> Any:
        if not _is_known(self) or self.format == FORMATS[name]:
            return theirs(self, copy=copy)
        with _ours(name):
            # Of scipy's conversions only tocoo may share arrays with its source.
            return lw.sparse.convert(self, FORMATS[name], copy=copy or name != "tocoo")

    return convert


def _to_blocks(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def convert(self: Any, blocksize: tuple[int, int] | None = None, copy: bool = False) -> Any:
        if not _is_known(self) or (self.format == "bsr" and blocksize in (None, self.blocksize)):
            return theirs(self, blocksize=blocksize, copy=copy)
        rows, columns = blocksize or estimate_blocksize(self)
        if rows < 1 or columns < 1 or self.shape[0] % rows or self.shape[1] % columns:
            return theirs(self, blocksize=blocksize, copy=copy)
        with _ours("tobsr"):
            return lw.sparse.convert(self, f"bcsr({rows},{columns})", copy=True)

    return convert


def _product(name: str, theirs: Callable[..., Any]) -> Callable[..., Any]:
    def multiply(self: Any, other: Any) -> Any:
        is_plain = type(other) is np.ndarray and str(other.dtype) in DTYPES and other.ndim <= 2
        if not _is_known(self) or not is_plain:
            return theirs(self, other)
        with _ours("@"):
            return PRODUCTS[name](self, other)

    return multiply


def pytest_configure() -> None:
    for kind in CLASSES:
        for name, theirs in list(vars(kind).items()):
            if name in FORMATS:
                setattr(kind, name, _conversion(name, theirs))
            elif name == "tobsr":
                setattr(kind, name, _to_blocks(theirs))
            elif name in PRODUCTS:
                setattr(kind, name, _product(name, theirs))
