"""Run a conversion: make arrays, call the code of each stage, learn symbols between them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.runtime.scratch import borrow, give_back
from loopwright.sparse.synthesis.parallel import InShares, run_in_shares
from loopwright.sparse.synthesis.stages import Stage
from loopwright.sparse.synthesis.synthesize import FROM, TO, Conversion
from loopwright.sparse.uf import Linear, evaluate

__all__ = ["Memory", "run", "run_stage"]

Array = NDArray[Any]
_WORTH_KEEPING = 1 << 18  # bytes of arrays from which on fresh pages cost more than the search
_MOST_PLACES = 1 << 56  # beyond this NumPy complains of the shape, not of the memory


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
    memory = Memory(conversion.temporary)
    for number, stage in enumerate(conversion.stages):
        shared = conversion.shared[number] if threads > 1 else None
        run_stage(stage, held, known, threads, shared, memory)
    for name, term in conversion.defined:
        known[name] = evaluate(term, known, {})
    format = conversion.inverse.format
    made = {name: held[array] for name, array in conversion.arrays.items()}
    found = {name.removeprefix(TO): known[name] for name in format.counts}
    found |= {name.removeprefix(TO): known[name] for name, _ in format.defined}
    found |= dict(
        zip(conversion.request.target.sizes, (known[s] for s in format.sizes), strict=True)
    )
    give_back(memory.borrowed)
    return made, held[conversion.values], found


@dataclass
class Memory:
    """Makes arrays; those that nobody sees after a conversion lie in memory that is kept."""

    temporary: Collection[str] = ()
    borrowed: list[NDArray[np.uint8]] = field(default_factory=list)

    def array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An array of undefined elements."""
        size = math.prod(shape) * dtype.itemsize
        if size < _WORTH_KEEPING or name not in self.temporary:
            return np.empty(shape, dtype)
        self.borrowed.append(borrow(size))
        return self.borrowed[-1][:size].view(dtype).reshape(shape)


def run_stage(
    stage: Stage,
    held: dict[str, Array],
    known: dict[str, int],
    threads: int,
    shared: InShares | None = None,
    memory: Memory | None = None,
) -> None:
    """Run one stage on arrays and symbols by name; both are added to."""
    memory = memory or Memory()
    for name, term in stage.defined:
        known[name] = evaluate(term, known, {})
    same = stage.same
    if same is not None and evaluate(same.left, known, {}) == evaluate(same.right, known, {}):
        held |= {new: held[old] for new, old in same.arrays}
        return
    if stage.when is not None and evaluate(stage.when, known, {}) < 0:
        return
    for fresh in stage.fresh:
        space = fresh.space
        shape = tuple(_extent(extent, known) for extent in space.shape)
        dtype = space.dtype.numpy
        if fresh.fill is None:
            held[space.name] = memory.array(space.name, shape, dtype)
        elif fresh.fill == 0:
            held[space.name] = np.zeros(shape, dtype)
        else:
            held[space.name] = np.full(shape, fresh.fill, dtype)
    if shared is None or not run_in_shares(shared, held, known, threads):
        code, names = stage.code
        own = {plain: held[name] for name, plain in names.arrays.items() if name in held}
        code.run(own, {plain: known[name] for name, plain in names.symbols.items()})
    for learnt in stage.learnt:
        array = held[learnt.array]
        at = tuple(evaluate(entry, known, {}) for entry in learnt.index)
        # An array without room has counted nothing: a tensor of size 0 in all dimensions.
        known[learnt.symbol] = int(array[at]) if array.size else 0


def _extent(term: Linear, known: Mapping[str, int]) -> int:
    extent = max(evaluate(term, known, {}), 0)
    if extent > _MOST_PLACES:
        raise MemoryError(f"{term} is {extent}, more than any memory holds")
    return extent
