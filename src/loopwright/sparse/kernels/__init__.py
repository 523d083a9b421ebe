"""Executors: dense statements composed with the map of a sparse format, as compiled loops."""

from loopwright.sparse.kernels.add import add
from loopwright.sparse.kernels.einsum import compile_kernel, einsum
from loopwright.sparse.kernels.products import mttkrp, sddmm, spmm, spmv, ttm

__all__ = ["add", "compile_kernel", "einsum", "mttkrp", "sddmm", "spmm", "spmv", "ttm"]
