"""Run a conversion: make arrays, call the code of each stage, learn symbols between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.sparse.synthesis.stages import Stage
from loopwright.sparse.synthesis.synthesize import FROM, TO, Conversion
from loopwright.sparse.uf import Linear, evaluate

__all__ = ["run", "run_stage"]

Array = NDArray[Any]


def run(
    conversion: Conversion,
    arrays: Mapping[str, Array],
    values: Array,
    symbols: Mapping[str, int],
    threads: int = 1,
) -> tuple[dict[str, Array], Array, dict[str, int]]:
    """Index arrays, values and symbols of the target; arrays of the source may be among them."""
    sizes = dict(zip(conversion.request.source.sizes, conversion.inverse.format.sizes, strict=True))
    known = {sizes.get(name, FROM + name): value for name, value in symbols.items()}
    held = {FROM + name: array for name, array in arrays.items()} | {FROM + "values": values}
    for stage in conversion.stages:
        run_stage(stage, held, known, threads)
    for name, term in conversion.defined:
        known[name] = evaluate(term, known, {})
    format = conversion.inverse.format
    made = {name: held[array] for name, array in conversion.arrays.items()}
    found = {name.removeprefix(TO): known[name] for name in format.counts}
    found |= {name.removeprefix(TO): known[name] for name, _ in format.defined}
    found |= dict(
        zip(conversion.request.target.sizes, (known[s] for s in format.sizes), strict=True)
    )
    return made, held[conversion.values], found


def run_stage(stage: Stage, held: dict[str, Array], known: dict[str, int], threads: int) -> None:
    """Run one stage on arrays and symbols by name; both are added to."""
    for name, term in stage.defined:
        known[name] = evaluate(term, known, {})
    same = stage.same
    if same is not None and evaluate(same.left, known, {}) == evaluate(same.right, known, {}):
        held |= {new: held[old] for new, old in same.arrays}
        return
    for fresh in stage.fresh:
        space = fresh.space
        shape = tuple(_extent(extent, known) for extent in space.shape)
        dtype = space.dtype.numpy
        if fresh.fill is None:
            held[space.name] = np.empty(shape, dtype)
        elif fresh.fill == 0:
            held[space.name] = np.zeros(shape, dtype)
        else:
            held[space.name] = np.full(shape, fresh.fill, dtype)
    code, names = stage.code
    own = {plain: held[name] for name, plain in names.arrays.items() if name in held}
    code.run(own, {plain: known[name] for name, plain in names.symbols.items()}, threads)
    for learnt in stage.learnt:
        array = held[learnt.array]
        at = tuple(evaluate(entry, known, {}) for entry in learnt.index)
        # An array without room has counted nothing: a tensor of size 0 in all dimensions.
        known[learnt.symbol] = int(array[at]) if array.size else 0


def _extent(term: Linear, known: Mapping[str, int]) -> int:
    return max(evaluate(term, known, {}), 0)
