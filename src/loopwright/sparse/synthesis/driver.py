"""The driver of a conversion: Python code, compiled once, that allocates and runs its stages.

    def written(arrays, values, symbols, lend):     # csr to csc, by one thread
        x0 = arrays['rowptr']
        x1 = arrays['col']
        x2 = symbols['NR']
        ...
        n = x3+1
        if not 0 <= n <= most:
            n = checked_extent(n, 'NC+1')
        x5 = zeros(n, d0)                           # in a try: a MemoryError names the array
        c0.alone(x0, x1, x5, x3, x2, x4)
        ...

Small tensors are converted in the time that dictionary lookups take, so there are none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError
from loopwright.ir.program import Role
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.synthesis.stages import FreshArray, Stage
from loopwright.sparse.uf import Term
from loopwright.sparse.uf.evaluate_terms import Spell, python_expression, python_function

__all__ = [
    "ConversionResult",
    "ConversionSignature",
    "Epilogue",
    "Prologue",
    "StageStep",
    "prologue_and_epilogue",
    "single_thread_driver",
    "stage_steps",
]

Array: TypeAlias = NDArray[Any]
Lend: TypeAlias = Callable[[tuple[int, ...], np.dtype[Any]], Array]
_WORTH_KEEPING = 1 << 18  # bytes of arrays from which on fresh pages cost more than the search
_MOST_PLACES = 1 << 56  # beyond this NumPy complains of the shape, not of the memory


@dataclass(frozen=True)
class ConversionSignature:
    """What a conversion is given and what it gives, under the names of its stages."""

    given_arrays: Mapping[str, str]  # -> expressions in `arrays`, `values` and `symbols`
    given_symbols: Mapping[str, str]
    defined: tuple[tuple[str, Term], ...]  # symbols that get a value after the last stage
    arrays: Mapping[str, str]  # index array of the target -> array of the stages
    values: str
    symbols: Mapping[str, str]  # symbol of the target -> symbol of the stages


ConversionResult: TypeAlias = tuple[
    dict[str, Array], Array, dict[str, int]
]  # arrays, values, symbols
Prologue: TypeAlias = Callable[..., tuple[dict[str, Array], dict[str, int]]]
Epilogue: TypeAlias = Callable[[dict[str, Array], dict[str, int]], ConversionResult]


@dataclass(frozen=True)
class StageStep:
    """One stage on arrays and symbols by name; both are added to."""

    # Makes arrays and symbols; False where the stage is left out.
    prepare: Callable[[dict[str, Array], dict[str, int], Lend], bool]
    call: Callable[[dict[str, Array], dict[str, int]], None]  # its code, on one thread
    read_symbols: Callable[[dict[str, Array], dict[str, int]], None]


def single_thread_driver(
    stages: Sequence[Stage], signature: ConversionSignature, temporary: frozenset[str]
) -> Callable[..., ConversionResult]:
    """All stages by one thread: f(arrays, values, symbols, lend)."""
    local: dict[str, str] = {}

    def array(name: str) -> str:
        return local.setdefault(f"array {name}", f"x{len(local)}")

    def symbol(name: str) -> str:
        return local.setdefault(f"symbol {name}", f"x{len(local)}")

    writer = _Writer(array, symbol, temporary)
    body = [line for stage in stages for line in writer.stage(stage)]
    body += writer.last(signature)
    # Arrays and symbols that no stage reads are not fetched.
    head = [f"{array(n)} = {x}" for n, x in signature.given_arrays.items() if f"array {n}" in local]
    head += [
        f"{symbol(n)} = {x}" for n, x in signature.given_symbols.items() if f"symbol {n}" in local
    ]
    return python_function((*_GIVEN, "lend"), [*head, *body], writer.names)


def prologue_and_epilogue(signature: ConversionSignature) -> tuple[Prologue, Epilogue]:
    """The code before and after the stages of a conversion that runs them one by one."""
    given = (signature.given_arrays, signature.given_symbols)
    held, known = (", ".join(f"{n!r}: {x}" for n, x in part.items()) for part in given)
    writer = _Writer(*_BY_NAME)
    first = python_function(_GIVEN, [f"return {{{held}}}, {{{known}}}"], {})
    return first, python_function(_BOTH, writer.last(signature), writer.names)


def stage_steps(
    stages: Sequence[Stage], temporary: frozenset[str] = frozenset()
) -> tuple[StageStep, ...]:
    """A step per stage, so that other code may run between them."""
    writer = _Writer(*_BY_NAME, temporary)
    found = []
    for stage in stages:
        prepare = [*writer.before(stage, ["return False"]), *writer.fresh(stage), "return True"]
        read_symbols = [*writer.symbol_lines(stage), "return None"]
        parts = (prepare, (*_BOTH, "lend")), ([writer.call(stage)], _BOTH), (read_symbols, _BOTH)
        found.append(
            StageStep(*(python_function(names, body, writer.names) for body, names in parts))
        )
    return tuple(found)


_GIVEN = ("arrays", "values", "symbols")
_BOTH = ("held", "known")
_BY_NAME: tuple[Spell, Spell] = (lambda name: f"held[{name!r}]", lambda name: f"known[{name!r}]")


@dataclass
class _Writer:
    """Lines of Python for stages; `names` are what these lines use."""

    array: Spell
    symbol: Spell
    temporary: frozenset[str] = frozenset()
    names: dict[str, Any] = field(
        default_factory=lambda: {
            "empty": np.empty,
            "zeros": np.zeros,
            "most": _MOST_PLACES,
            "checked_extent": _checked_extent,
            "memory_error": _memory_error,
            "outside": _outside,
            "too_few": _too_few,
        }
    )

    def term(self, term: Term) -> str:
        return python_expression(term, self.symbol, self.names)

    def last(self, signature: ConversionSignature) -> list[str]:
        """Symbols that follow at the end, and what is returned."""
        made = ", ".join(f"{name!r}: {self.array(own)}" for name, own in signature.arrays.items())
        known = ", ".join(
            f"{name!r}: {self.symbol(own)}" for name, own in signature.symbols.items()
        )
        return [
            *(f"{self.symbol(name)} = {self.term(term)}" for name, term in signature.defined),
            f"return {{{made}}}, {self.array(signature.values)}, {{{known}}}",
        ]

    def stage(self, stage: Stage) -> list[str]:
        """All of a stage, where the lines of the next may follow."""
        inner = [
            *self.fresh(stage),
            self.call(stage),
            *self.symbol_lines(stage),
        ]
        return self.before(stage, [], inner)

    def before(self, stage: Stage, left_out: Sequence[str], inner: Sequence[str] = ()) -> list[str]:
        """Symbols, and `inner` where the stage is not left out; `left_out` elsewhere."""
        lines = [f"{self.symbol(name)} = {self.term(term)}" for name, term in stage.defined]
        tests: list[tuple[str, list[str]]] = []
        if stage.reuse is not None:
            new = ", ".join(self.array(name) for name, _ in stage.reuse.arrays)
            old = ", ".join(self.array(name) for _, name in stage.reuse.arrays)
            taken = [f"{new} = {old}"] if new else ["pass"]
            equal = f"{self.term(stage.reuse.left)} == {self.term(stage.reuse.right)}"
            tests.append((equal, [*taken, *left_out]))
        if stage.when:
            test = " or ".join(f"{self.term(term)} < 0" for term in stage.when)
            tests.append((test, [*left_out] or ["pass"]))
        for word, (test, then) in zip(("if", "elif"), tests, strict=False):
            lines += [f"{word} {test}:", *_indented(then)]
        return [
            *lines,
            *(["else:", *_indented(inner)] if tests and inner else inner),
        ]

    def fresh(self, stage: Stage) -> list[str]:
        """Make the arrays of a stage; extents below 0 are 0."""
        lines, names = [], dict[Term, str]()
        for extent in dict.fromkeys(extent for made in stage.fresh for extent in made.space.shape):
            if extent.is_constant:
                names[extent] = str(max(extent.constant, 0))
                continue
            n = names[extent] = f"n{len(names)}"
            lines += [f"{n} = {self.term(extent)}", f"if not 0 <= {n} <= most:"]
            lines.append(f"    {n} = checked_extent({n}, {str(extent)!r})")
        return [*lines, *(line for made in stage.fresh for line in self._made(made, names))]

    def _made(self, made: FreshArray, names: Mapping[Term, str]) -> list[str]:
        space, lines = made.space, list[str]()
        extents = [names[extent] for extent in space.shape]
        shape = extents[0] if len(extents) == 1 else f"({', '.join(extents)})"
        dtype = self._name("d", space.dtype.numpy)
        value = f"{'zeros' if made.fill == 0 else 'empty'}({shape}, {dtype})"
        least = -(-_WORTH_KEEPING // space.dtype.numpy.itemsize)
        is_small = all(extent.isdecimal() for extent in extents) and _product(extents) < least
        if made.fill is None and space.name in self.temporary and not is_small:
            whole = f"({', '.join(extents)},)"
            value += f" if {'*'.join(extents)} < {least} else lend({whole}, {dtype})"
        own = self.array(space.name)
        size = f"{'*'.join(extents) or '1'}, {dtype}"
        lines += ["try:", f"    {own} = {value}", "except MemoryError as error:"]
        lines.append(f"    raise memory_error({space.name!r}, {size}) from error")
        return [*lines, f"{own}.fill({made.fill})"] if made.fill else lines

    def call(self, stage: Stage) -> str:
        """Run the code; it is compiled when a call comes to it, which many stages never see."""
        spaces = stage.computation.spaces
        given = [self.array(space.name) for space in spaces if space.role is not Role.LOCAL]
        given += map(self.symbol, stage.computation.symbols)
        return f"{self._name('c', _Later(stage))}.alone({', '.join(given)})"

    def symbol_lines(self, stage: Stage) -> Iterator[str]:
        """Read the elements that symbols get their values from."""
        for found in stage.runtime_symbols:
            symbol, array = self.symbol(found.symbol), self.array(found.array)
            at = ", ".join(map(self.term, found.index))
            # An array without room has counted nothing: a tensor of size 0 in all dimensions.
            line = f"{symbol} = {array}.item({at}) if {array}.size else 0"
            if not found.is_claimed:
                yield line
                continue
            own = ", ".join(map(str, found.index))
            fault = f"{found.symbol!r}, {found.array!r}, {own!r}, {array}"
            yield from ("try:", f"    {line}", "except IndexError:")
            yield f"    raise outside({fault}) from None"
            yield f"if {array}.size and {symbol} < {array}.item(-1):"
            yield f"    raise too_few({fault})"

    def _name(self, letter: str, meant: Any) -> str:
        """The name of a thing; one that is there already keeps its name."""
        for name, known in self.names.items():
            if name[0] == letter and known is meant:
                return name
        name = f"{letter}{len(self.names)}"
        self.names[name] = meant
        return name


class _Later:
    """The code of a stage, written down when it is first called."""

    __slots__ = ("_stage", "alone")

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.alone: Callable[..., None] = self._first

    def _first(self, *given: Any) -> None:
        code, _ = self._stage.code
        code.alone(*given)
        self.alone = code.alone


def _product(numbers: Iterable[str]) -> int:
    return math.prod(map(int, numbers))


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _memory_error(name: str, places: int, dtype: np.dtype[Any]) -> MemoryError:
    """The error for an array that memory does not hold, in words that name it."""
    size = places * dtype.itemsize
    return MemoryError(f"{size / 2**30:.1f} GiB for {places} x {dtype} of '{_own_name(name)}'")


def _own_name(name: str) -> str:
    """The name in the descriptor: arrays and symbols of the target have `to_` before theirs."""
    return name.removeprefix("to_")


def _outside(symbol: str, name: str, index: str, array: Array) -> UsageError:
    """The error for a count that an invariant takes from outside an array."""
    return UsageError(
        f"an invariant says that {_own_name(symbol)} is {_own_name(name)}({index}), "
        f"which is outside the array",
        found=f"an array of shape {array.shape}",
        hint="the last element of the array is the number of entries",
    )


def _too_few(symbol: str, name: str, index: str, array: Array) -> UsageError:
    """The error for a count that an invariant takes from an element that is not the largest."""
    return UsageError(
        f"an invariant says that {_own_name(symbol)} is {_own_name(name)}({index}), "
        f"which is less than the last element of the array",
        found=f"{array.item(-1)} at its end",
        hint="the last element of the array is the number of entries",
    )


def _checked_extent(extent: int, term: str) -> int:
    """The extent of an array that is negative or too large."""
    if extent > _MOST_PLACES:
        raise MemoryError(f"{term} is {extent}, more than any memory holds")
    return max(extent, 0)
