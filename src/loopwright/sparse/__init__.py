"""Sparse tensors: formats as descriptors, conversions and kernels synthesised from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

from loopwright.tracebacks import public_edge

if TYPE_CHECKING:
    from loopwright.sparse.bridge import from_scipy, to_scipy
    from loopwright.sparse.convert_tensor import convert
    from loopwright.sparse.executors.add import add
    from loopwright.sparse.executors.fused import convert_einsum, explain_fused
    from loopwright.sparse.executors.sparse_einsum import (
        compile_kernel,
        einsum,
        mttkrp,
        sddmm,
        spmm,
        spmv,
        ttm,
    )
    from loopwright.sparse.explain_conversion import explain
    from loopwright.sparse.format import Format, Padding, declare, index
    from loopwright.sparse.formats import BUILT_IN, find
    from loopwright.sparse.recommend_format import recommend
    from loopwright.sparse.tensor import SparseTensor, from_dense, sparse_tensor
    from loopwright.sparse.tensor_files import read_tensor, write_tensor
    from loopwright.sparse.verify_format import verify

__all__ = [
    "BUILT_IN",
    "Format",
    "Padding",
    "SparseTensor",
    "add",
    "compile_kernel",
    "convert",
    "convert_einsum",
    "declare",
    "einsum",
    "explain",
    "explain_fused",
    "find",
    "from_dense",
    "from_scipy",
    "index",
    "mttkrp",
    "read_tensor",
    "recommend",
    "sddmm",
    "sparse_tensor",
    "spmm",
    "spmv",
    "to_scipy",
    "ttm",
    "verify",
    "write_tensor",
]

# Names load on first use, as those of the package above.
_HOMES = {
    "BUILT_IN": "formats",
    "Format": "format",
    "Padding": "format",
    "SparseTensor": "tensor",
    "add": "executors.add",
    "compile_kernel": "executors.sparse_einsum",
    "convert": "convert_tensor",
    "convert_einsum": "executors.fused",
    "declare": "format",
    "einsum": "executors.sparse_einsum",
    "explain": "explain_conversion",
    "explain_fused": "executors.fused",
    "find": "formats",
    "from_dense": "tensor",
    "from_scipy": "bridge",
    "index": "format",
    "mttkrp": "executors.sparse_einsum",
    "read_tensor": "tensor_files",
    "recommend": "recommend_format",
    "sddmm": "executors.sparse_einsum",
    "sparse_tensor": "tensor",
    "spmm": "executors.sparse_einsum",
    "spmv": "executors.sparse_einsum",
    "to_scipy": "bridge",
    "ttm": "executors.sparse_einsum",
    "verify": "verify_format",
    "write_tensor": "tensor_files",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'loopwright.sparse' has no attribute '{name}'")
    from importlib import import_module  # lazy: only the names in use are loaded

    value = _public(getattr(import_module(f"loopwright.sparse.{home}"), name))
    globals()[name] = value
    return value


def _public(value: Any) -> Any:
    """A public name; the tracebacks of a function's errors end at the user's call."""
    return _edge(value) if isinstance(value, FunctionType) else value


@cache
def _edge(function: Callable[..., Any]) -> Callable[..., Any]:
    edge = public_edge(function)
    edge.__module__ = __name__  # where pickle finds this very function
    return edge


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
