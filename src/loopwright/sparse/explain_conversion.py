"""`explain(source, target)`: how a conversion was found, from descriptors to loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DTYPES, FLOAT64, INT32
from loopwright.lazy_dataclass import dataclass

from .convert_tensor import as_tensor, conversion, with_sortedness
from .format import COORDINATES, SIZES, Format
from .formats import find
from .spf.compile_computation import compile_computation
from .synthesis.conversion import FROM, TO, Conversion, ConversionRequest, synthesize
from .synthesis.definitions import (
    CountArray,
    CountSymbol,
    Definition,
    LastSymbol,
    MaxArray,
    MaxSymbol,
    PermutationArray,
    PointerArray,
    RunningSumArray,
    StoredArray,
)
from .synthesis.entry_order import follows, left_to_sort
from .synthesis.index_widths import made_types
from .synthesis.numbering_strategy import NumberingStrategy
from .synthesis.renaming import rename_format
from .synthesis.stages import Stage
from .transposition import partners
from .uf import Relation, compose, inverse

__all__ = ["Explanation", "explain"]

_BITS = 20  # of a coordinate, where no tensor says how large it is
_MOST_BITS = 63

_STRATEGIES = {
    NumberingStrategy.TABLE: "looked up by its key in a table that is made first",
    NumberingStrategy.CURSOR: "taken from a cursor of its parent",
    NumberingStrategy.RUNNING: "counted on where the keys change",
}


@dataclass(frozen=True)
class Explanation:
    """A conversion with all that led to it; print it."""

    source: Format
    target: Format
    composed: Relation  # tuples of the source -> tuples of the target with the same coordinates
    conversion: Conversion | None  # None where none was found
    failure: UsageError | None = None

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def __repr__(self) -> str:
        return str(self)  # who asks at a prompt wants the text, not its parts

    @property
    def shared(self) -> tuple[str, ...]:
        """The arrays of the target that are those of the source, not copies."""
        if self.conversion is None:
            return ()
        own = [name for name, array in self.conversion.arrays.items() if array.startswith(FROM)]
        return (*own, *(["values"] if self.conversion.values.startswith(FROM) else []))


def explain(source: Any, target: str | Format, *, rank: int = 2) -> Explanation:
    """Tell how tensors of one format become those of another.

    `source` is a tensor as `convert` takes them, or a format by name or as a Format. What cannot be
    converted is explained as far as it goes; `failure` says what is missing.
    """
    if isinstance(source, Format | str):
        given = find(source, source.rank if isinstance(source, Format) else rank)
        wanted = find(target, given.rank)
        request = _request(given, wanted)
    else:
        tensor = with_sortedness(as_tensor(source))
        given, wanted = tensor.format, find(target, tensor.ndim)
        request = None
    found: Conversion | None = None
    failure: UsageError | None = None
    try:
        found = synthesize(request) if request is not None else conversion(tensor, wanted)
    except UsageError as error:
        failure = error
    return Explanation(given, wanted, _composed(given, wanted), found, failure)


def _request(source: Format, target: Format) -> ConversionRequest:
    """A conversion of float64 values and 32-bit counters, of sizes that are large enough."""

    def types(format: Format) -> tuple[Any, ...]:
        return tuple((i.name, DTYPES[i.dtype] if i.dtype else INT32) for i in format.indices)

    rank = source.rank
    bits = (min(_BITS, _MOST_BITS // rank),) * rank
    few = (False,) * rank
    shape = tuple(1 << width for width in bits)
    made = made_types(target, shape, 1 << _BITS, INT32) if target.rank == rank else ()
    return ConversionRequest(source, target, FLOAT64, types(source), made, INT32, bits, few)


def _composed(source: Format, target: Format) -> Relation:
    """{ t -> t' : the maps take t and t' to the same coordinates }"""
    rank = source.rank
    names = COORDINATES[:rank], SIZES[:rank]
    first, second = rename_format(source, FROM, *names), rename_format(target, TO, *names)
    return compose(inverse(second.map), first.map)


def _lines(of: Explanation) -> Iterator[str]:
    yield f"from {of.source}"
    yield f"to {of.target}"
    yield "composed:"
    yield f"  {of.composed}"
    if of.conversion is None:
        yield "no conversion was found:"
        yield from _indented(str(of.failure))
        return
    yield "solved for the target:"
    yield from _indented(str(of.conversion.inverse))
    yield "index arrays and counts:"
    yield from (f"  {_defined(definition)}" for definition in of.conversion.definitions)
    yield "numbers:"
    for name, strategy in of.conversion.strategies:
        yield f"  {name} is {_STRATEGIES[strategy]}"
    yield f"order: {_order(of)}"
    if of.shared:
        yield f"shared with the source: {', '.join(of.shared)}"
    yield _assumed(of.conversion.request)
    both = partners(of.source, of.target)
    if both is not None:
        yield from (str(both), "all others:")
    if of.conversion.pointer is not None:
        yield f"{of.conversion.pointer}, which gives what these stages say:"
    for stage, shared in zip(of.conversion.stages, of.conversion.chunked_stages, strict=True):
        yield from _stage(stage)
        yield f"  {shared}"


def _assumed(request: ConversionRequest) -> str:
    """What of a tensor the code was made for; a tensor given to `explain` has its own."""
    bits = ", ".join(map(str, request.bits))
    return (
        f"code for {request.value} values, {request.counter} counters, coordinates of {bits} bits"
    )


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}" for line in text.splitlines())


def _defined(definition: Definition) -> str:
    match definition:
        case StoredArray(array=array, entries=entries):
            return f"{array}: {' and '.join(map(str, entries))}, for every entry"
        case PointerArray(array=array, level=level):
            return f"{array}: {level} runs from {array}(x) to {array}(x+1) under parent x"
        case CountArray(array=array, level=level):
            return f"{array}: how many numbers {level} has under x"
        case PermutationArray(array=array, inverse=undone, count=count, keys=keys):
            spelled = ", ".join(f"{'-' if key.falls else ''}{key.term}" for key in keys)
            return f"{array}: 0 .. {count}-1 sorted by ({spelled}); {undone} undoes it"
        case RunningSumArray(array=array, first=first, variable=x, step=step):
            return f"{array}: {first}, then {array}({x}+1) = {array}({x}) + {step}"
        case MaxArray(array=array, place=place, value=value, floor=floor):
            return f"{array}: the least with {array}({place}) >= {value}, {floor} at least"
        case CountSymbol(symbol=symbol, level=level):
            return f"{symbol}: how many numbers {level} has"
        case MaxSymbol(symbol=symbol, array=array):
            return f"{symbol}: the largest element of {array}"
        case LastSymbol(symbol=symbol, element=element):
            return f"{symbol}: {element}"


def _order(of: Explanation) -> str:
    wanted, given = of.target.order, of.source.order
    if not wanted:
        return "any will do"
    spelled = f"({', '.join(map(str, wanted))})"
    have = f"({', '.join(map(str, given))})" if given else "none"
    if follows(wanted, given):
        return f"{spelled} is that of the source, nothing is sorted"
    count = left_to_sort(wanted, given)
    keys = ", ".join(map(str, wanted[:count]))
    assert of.conversion is not None
    is_cursor = any(
        strategy is NumberingStrategy.CURSOR for _, strategy in of.conversion.strategies
    ) and bool(given)
    how = "by cursors as entries are met" if is_cursor else "in counting passes"
    return f"{spelled} from {have}: by {keys}, {how}"


def _stage(stage: Stage) -> Iterator[str]:
    yield f"stage {stage.computation.name}:"
    for name, term in stage.defined:
        yield f"  let {name} = {term}"
    for made in stage.fresh:
        fill = "" if made.fill is None else f", all {made.fill}"
        shape = ", ".join(map(str, made.space.shape))
        yield f"  make {made.space.name}[{shape}] of {made.space.dtype}{fill}"
    if stage.reuse is not None:
        pairs = ", ".join(f"{new} is {old}" for new, old in stage.reuse.arrays)
        so = f": {pairs}" if pairs else ""
        yield f"  left out where {stage.reuse.left} = {stage.reuse.right}{so}"
    if stage.when:
        yield f"  only where {stage.condition}"
    text = compile_computation(stage.collapsed or stage.computation).inspect("c")
    yield from _indented(text.replace("void kernel(", f"void {stage.computation.name}(", 1))
    for found in stage.runtime_symbols:
        yield f"  learn {found.symbol} = {found.array}[{', '.join(map(str, found.index))}]"
