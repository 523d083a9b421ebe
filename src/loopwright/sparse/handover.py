"""What callers receive: private copies of arrays, or frozen ones that nobody can write.

Conversions share the arrays that source and target hold alike. A caller who writes to one of them
must not change the other, so what is shared is copied, unless it is frozen or sharing is asked for.

    result is       index arrays                                       values
    of scipy        writable, copied where shared                      copied where shared
    a SparseTensor  frozen; copied where shared and not frozen before  copied where shared
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.ir.dtypes import DTYPES, DType
from loopwright.ir.expr import Load, Var
from loopwright.ir.program import Role
from loopwright.runtime.code_memory import keeps_code

from .bridge import as_given, goes_to_scipy, shared_arrays
from .frozen import freeze, is_frozen
from .spf.chunk_plan import is_worth_chunking
from .spf.compile_computation import CompiledComputation, compile_computation
from .spf.computation import Computation, DataSpace, Stmt
from .tensor import SparseTensor

__all__ = ["copied", "frozen_tensor", "handed_out"]

Array = NDArray[Any]
_COUNT = "N"


def handed_out(
    result: SparseTensor, source: SparseTensor, given: object, threads: int, *, copy: bool
) -> Any:
    """The result of a call on `given`, which was read as `source`, in the kind of `given`.

    With `copy`, writing to one of them never changes the other.
    """
    if result is given and not copy:
        return given
    is_ours = not goes_to_scipy(result, given)
    # Arrays that were copied on reading belong to nobody else.
    theirs = _arrays(source) if given is source else shared_arrays(given)

    def own(array: Array) -> Array:
        is_wanted = copy and _shares(array, theirs)
        return copied(array, threads) if is_wanted or not array.flags.writeable else array

    def index(array: Array) -> Array:
        if not is_ours:
            return own(array)
        if is_frozen(array) or (not copy and _shares(array, theirs)):
            return array
        return freeze(own(array))

    values = own(result.values) if copy else result.values
    arrays = {name: index(array) for name, array in result.arrays.items()}
    made = SparseTensor(result.format, result.shape, arrays, result.symbols, values)
    return as_given(made, given)


def frozen_tensor(result: SparseTensor, source: SparseTensor | None = None) -> SparseTensor:
    """The tensor with its index arrays frozen, but for those that it shares with the source.

    All other index arrays must be made for it: nobody else may have them.
    """
    theirs = () if source is None else _arrays(source)
    arrays = {
        name: array if _shares(array, theirs) else freeze(array)
        for name, array in result.arrays.items()
    }
    return SparseTensor(result.format, result.shape, arrays, result.symbols, result.values)


def _arrays(tensor: SparseTensor) -> tuple[Array, ...]:
    return (*tensor.arrays.values(), tensor.values)


def _shares(array: Array, others: tuple[Array, ...]) -> bool:
    """Whether an array lies in memory of others."""
    for other in others:
        if other is array or other.base is array:
            return True
    if array.base is None:  # it owns its memory: others would be itself, or views of it
        return False
    return any(np.may_share_memory(array, other) for other in others)


def copied(array: Array, threads: int = 1) -> Array:
    """A writable copy in memory of its own; long ones are copied by all threads."""
    if threads == 1 or not array.flags.c_contiguous or not is_worth_chunking([array]):
        return array.copy()
    out = np.empty(array.shape, array.dtype)
    word = DTYPES["uint64" if array.nbytes % 8 == 0 else "uint8"]
    source, target = (a.reshape(-1).view(word.numpy) for a in (array, out))
    _copy_code(word).run({"a": source, "out": target}, {_COUNT: len(source)}, threads)
    return out


@keeps_code
@lru_cache(maxsize=2)
def _copy_code(dtype: DType) -> CompiledComputation:
    spaces = (
        DataSpace.of("a", dtype, (_COUNT,), Role.IN),
        DataSpace.of("out", dtype, (_COUNT,), Role.INOUT),
    )
    value = Load("a", (Var("e"),), dtype)
    stmt = Stmt.of("copy", f"{{[e] : 0 <= e < {_COUNT}}}", ("e",), "out(e)", value)
    return compile_computation(Computation("copy", spaces, (stmt,), (_COUNT,)))
