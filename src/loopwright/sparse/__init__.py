"""Sparse tensors: formats as descriptors, conversions and kernels synthesised from them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from loopwright.tracebacks import public_edge

if TYPE_CHECKING:
    from loopwright.sparse.bridge import from_scipy, to_scipy
    from loopwright.sparse.convert import convert
    from loopwright.sparse.explain import explain
    from loopwright.sparse.format import Format, Padding, declare, index
    from loopwright.sparse.formats import BUILT_IN, find
    from loopwright.sparse.kernels.add import add
    from loopwright.sparse.kernels.einsum import compile_kernel, einsum
    from loopwright.sparse.kernels.fused import convert_einsum, explain_fused
    from loopwright.sparse.kernels.products import mttkrp, sddmm, spmm, spmv, ttm
    from loopwright.sparse.recommend import recommend
    from loopwright.sparse.storage import read_tensor, write_tensor
    from loopwright.sparse.tensor import SparseTensor, from_dense, sparse_tensor
    from loopwright.sparse.verify import verify

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
    "add": "kernels.add",
    "compile_kernel": "kernels.einsum",
    "convert": "convert",
    "convert_einsum": "kernels.fused",
    "declare": "format",
    "einsum": "kernels.einsum",
    "explain": "explain",
    "explain_fused": "kernels.fused",
    "find": "formats",
    "from_dense": "tensor",
    "from_scipy": "bridge",
    "index": "format",
    "mttkrp": "kernels.products",
    "read_tensor": "storage",
    "recommend": "recommend",
    "sddmm": "kernels.products",
    "sparse_tensor": "tensor",
    "spmm": "kernels.products",
    "spmv": "kernels.products",
    "to_scipy": "bridge",
    "ttm": "kernels.products",
    "verify": "verify",
    "write_tensor": "storage",
}


class _Package(ModuleType):
    """This package: a function keeps its name when the file of the same name is loaded."""

    def __setattr__(self, name: str, value: Any) -> None:
        # Whoever imports loopwright.sparse.convert makes Python store that file here as `convert`.
        if isinstance(value, ModuleType) and _HOMES.get(name) == name:
            value = _public(getattr(value, name))
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


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
