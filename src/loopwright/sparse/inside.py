"""Fast looks at index arrays: what generated code relies on not to leave its arrays.

`check` tells all that is wrong with a tensor; this module only makes sure that every index lies in
its range, every pointer ascends and every rule holds, in about one read of each array for each of
them, before code runs on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import INT64, DType, dtype_of
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Var
from loopwright.ir.program import Role

from .check import check
from .format import Format, Index
from .room import reads_inside
from .rules import rules_hold
from .spf.compile import CompiledComputation, compile_computation
from .spf.computation import Computation, DataSpace, Stmt
from .synthesis.source import loop_facts
from .tensor import SparseTensor
from .uf import Call, Linear, atoms, evaluate, symbols
from .uf import Var as Name

__all__ = ["ascent", "require_inside"]

_COUNT = "N"


def require_inside(tensor: SparseTensor) -> None:
    """Raise UsageError that names the place unless code may be run on a tensor.

    The whole check tells what is wrong; it is asked only when something is.
    """
    is_inside = _is_inside(tensor)
    kept = rules_hold(tensor) if is_inside else False
    is_open = _is_nested(tensor.format) or not reads_inside(tensor.format)
    if kept is False or (kept is None and is_open):
        check(tensor)
    if not is_inside:
        raise UsageError(f"the index arrays of this {tensor.format.name} leave their ranges")


@lru_cache(maxsize=256)
def _is_nested(format: Format) -> bool:
    """Whether places are read that index arrays add up to: ranges alone do not bound those."""
    inner = (a for call in (*format.map.calls, *format.access.calls) for a in call.args)
    places = (c.term for conj in format.access.conjs for c in conj.constraints)
    return any(isinstance(x, Call) for term in (*inner, *places) for x in atoms(term))


def _is_inside(tensor: SparseTensor) -> bool:
    format = tensor.format
    for index in format.indices:
        array = tensor.arrays[index.name]
        if array.ndim != index.rank or array.dtype.kind not in "iu":
            return False
        if array.shape != tuple(evaluate(e, tensor.symbols, {}) for e in index.extents):
            return False
        if not array.size:
            continue
        low, high = limits(array) if index.pad is None else _limits_inside(index, tensor)
        (name,) = index.range.variables
        values = {**tensor.symbols, name: 0}
        for conj in index.range.conjs:
            for constraint in conj.constraints:
                factor = constraint.term.coefficient(Name(name))
                rest = evaluate(constraint.term.without(Name(name)), values, {})
                if low <= high and factor * (low if factor > 0 else high) + rest < 0:
                    return False
        if index.monotone and index.rank == 1 and not _ascends(array, index.is_strict):
            return False
    for rule in format.rules:
        if not rule.variables and not _holds(rule.conclusion[0], tensor):
            return False
    return len(tensor.values) == evaluate(format.places, tensor.symbols, {})


def _holds(conj: Any, tensor: SparseTensor) -> bool:
    for constraint in conj.constraints:
        value = evaluate(constraint.term, tensor.symbols, tensor.arrays)
        if (value != 0) if constraint.is_equality else (value < 0):
            return False
    return True


def _ascends(array: NDArray[Any], is_strict: bool) -> bool:
    descents, repetitions = ascent([array])
    return descents == 0 and not (is_strict and repetitions)


def limits(array: NDArray[Any]) -> tuple[int, int]:
    """The least and the largest element of an array that has some, in one read."""
    if not array.flags.c_contiguous:
        return int(array.min()), int(array.max())
    out = np.empty(2, array.dtype)
    flat = array.reshape(-1)
    out[:] = flat[0]
    _limits_code(dtype_of(array.dtype)).run({"a": flat, "out": out}, {_COUNT: flat.size})
    return int(out[0]), int(out[1])


def _limits_inside(index: Index, tensor: SparseTensor) -> tuple[int, int]:
    """The least and the largest element of a padded array in its domain, where it has no padding.

    The arrays that bound the domain come before it and have been found to lie in their ranges.
    """
    names = (index.name, *(call.name for conj in index.domain.conjs for call in conj.calls))
    arrays = {name: np.ascontiguousarray(tensor.arrays[name]) for name in dict.fromkeys(names)}
    dtypes = tuple(dtype_of(array.dtype) for array in arrays.values())
    info = np.iinfo(arrays[index.name].dtype)
    out = np.array([info.max, info.min], arrays[index.name].dtype)
    code = _inside_code(tensor.format, index, dtypes)
    code.run(arrays | {"out": out}, {s: tensor.symbols[s] for s in code.computation.symbols})
    return int(out[0]), int(out[1])


def ascent(arrays: Sequence[NDArray[Any]]) -> tuple[int, int]:
    """How often a list of tuples descends, and how often it repeats, from one to the next."""
    count = len(arrays[0])
    if count < 2:
        return 0, 0
    plain = [np.ascontiguousarray(array) for array in arrays]
    out = np.zeros(2, np.int64)
    code = _ascent_code(tuple(dtype_of(array.dtype) for array in plain))
    code.run({f"a{k}": array for k, array in enumerate(plain)} | {"out": out}, {_COUNT: count})
    return int(out[0]), int(out[1])


@lru_cache(maxsize=32)
def _limits_code(dtype: DType) -> CompiledComputation:
    spaces = (
        DataSpace.of("a", dtype, (_COUNT,), Role.IN),
        DataSpace.of("out", dtype, (2,), Role.INOUT),
    )
    value = Load("a", (Var("e"),), dtype)
    domain = f"{{[e] : 0 <= e < {_COUNT}}}"
    statements = tuple(
        Stmt.of(
            op, domain, ("e", at), f"out({at})", Binary(op, Load("out", (Const(at),), dtype), value)
        )
        for at, op in enumerate(("min", "max"))
    )
    return compile_computation(Computation("limits", spaces, tuple(statements), (_COUNT,)))


@lru_cache(maxsize=32)
def _inside_code(format: Format, index: Index, dtypes: tuple[DType, ...]) -> CompiledComputation:
    """The least and the largest element over the domain of an index array."""
    bounding = (call.name for conj in index.domain.conjs for call in conj.calls)
    names = tuple(dict.fromkeys((index.name, *bounding)))
    spaces = [
        DataSpace(name, dtype, format.index(name).extents, Role.IN)
        for name, dtype in zip(names, dtypes, strict=True)
    ]
    spaces.append(DataSpace.of("out", dtypes[0], (2,), Role.INOUT))
    times = tuple(Linear.of(Name(v)) for v in index.domain.variables)
    value = Load(index.name, tuple(map(Var, index.domain.variables)), dtypes[0])
    statements = tuple(
        Stmt(
            op,
            index.domain,
            (*times, Linear.of(at)),
            "out",
            (Linear.of(at),),
            Binary(op, Load("out", (Const(at),), dtypes[0]), value),
        )
        for at, op in enumerate(("min", "max"))
    )
    wanted = {s for stmt in statements for s in stmt.domain.symbols}
    wanted |= {s for space in spaces for extent in space.shape for s in symbols(extent)}
    facts = loop_facts(format)
    return compile_computation(
        Computation("inside", tuple(spaces), statements, tuple(sorted(wanted)), facts)
    )


@lru_cache(maxsize=64)
def _ascent_code(dtypes: tuple[DType, ...]) -> CompiledComputation:
    """Counts of e with a(e) > a(e+1) and of e with a(e) = a(e+1), tuples compared in order."""
    spaces = [DataSpace.of(f"a{k}", dtype, (_COUNT,), Role.IN) for k, dtype in enumerate(dtypes)]
    spaces.append(DataSpace.of("out", INT64, (2,), Role.INOUT))
    descends: Expr | None = None
    equal: Expr | None = None
    for k, dtype in enumerate(dtypes):
        here, there = (Load(f"a{k}", (Var("e") + step,), dtype) for step in (0, 1))
        less: Expr = Binary("gt", here, there)
        same: Expr = Binary("eq", here, there)
        descends = less if equal is None or descends is None else _or(descends, _and(equal, less))
        equal = same if equal is None else _and(equal, same)
    assert descends is not None, "a tuple has entries"
    assert equal is not None
    statements = []
    for at, test in enumerate((descends, equal)):
        more = Load("out", (Const(at),), INT64) + Cast(test, INT64)
        domain = f"{{[e] : 0 <= e < {_COUNT}-1}}"
        statements.append(Stmt.of(f"count{at}", domain, ("e", at), f"out({at})", more))
    return compile_computation(Computation("ascent", tuple(spaces), tuple(statements), (_COUNT,)))


def _and(x: Expr, y: Expr) -> Expr:
    return Binary("and", x, y)


def _or(x: Expr, y: Expr) -> Expr:
    return Binary("or", x, y)
