"""`verify(format)`: whether a descriptor is sound, shown claim by claim.

Each claim (`verify_claims`) is proved for all sizes where isl or z3 can; small storages are
examined in any case (`verify_search`), because what they refute needs no proof and can be shown;
and all small patterns are converted to the format and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import Enum
from itertools import product
from math import prod
from time import thread_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass

from .bounds_proof import find_out_of_bounds
from .convert_tensor import converted
from .format import Format
from .format_symbols import fixed_symbols
from .formats import find
from .invariants import facts_of
from .synthesis.inverse import determines
from .tensor import SparseTensor, from_dense, same
from .uf import Atom, Term, UFCall, replace_atoms
from .validate_tensor import is_in_order
from .verify_claims import Claim, claims_of, has_z3, plain_witness, proved_by_isl, proved_by_z3
from .verify_search import CounterExample, Search, search, tie

__all__ = ["Obligation", "Status", "Trips", "Verification", "round_trips", "verify"]

_MOST_CELLS = 9
_MOST_PATTERNS = 700


@dataclass(frozen=True)
class Trips:
    """How many patterns came through, and the first that did not."""

    count: int
    side: int
    fault: CounterExample | None = None
    obstacle: str = ""  # why no conversion was made

    @property
    def text(self) -> str:
        return f"{self.count} patterns with sides up to {self.side}, there and back"


def round_trips(format: Format, side: int) -> Trips:
    """Convert all small patterns to a format and back; every invariant is checked in between."""
    count = 0
    for whole in _patterns(format.rank, side):
        source = replace(from_dense(whole), format=_plain(format.rank))
        try:
            there = converted(source, format, 1)
        except UsageError as error:
            return Trips(count, side, obstacle=str(error).splitlines()[0])
        fault = _fault(whole, source, there)
        if fault is not None:
            return Trips(count, side, fault)
        count += 1
    return Trips(count, side)


def _plain(rank: int) -> Format:
    """Sorted coordinates, none twice: what the entries of an array are."""
    return replace(find("scoo", rank), is_unique=True)


def _patterns(rank: int, side: int) -> Iterator[NDArray[Any]]:
    """Arrays of all shapes up to a side, with every choice of their elements other than 0."""
    shapes = sorted(product(range(1, side + 1), repeat=rank), key=lambda s: (prod(s), s))
    count = 0
    for shape in shapes:
        cells = prod(shape)
        if cells > _MOST_CELLS:
            return
        for chosen in product((False, True), repeat=cells):
            yield (np.arange(1.0, cells + 1) * np.array(chosen)).reshape(shape)
            count += 1
            if count >= _MOST_PATTERNS:
                return


def _fault(whole: NDArray[Any], source: SparseTensor, there: SparseTensor) -> CounterExample | None:
    try:
        there.check()
        read = there.to_dense()
    except UsageError as error:
        return _example(_broken(there), there, f"{whole.tolist()}: {str(error).splitlines()[0]}")
    if not np.array_equal(read, whole):
        return _example("stored", there, f"{whole.tolist()} reads as {read.tolist()}")
    if not same(converted(there, source.format, 1), source):
        return _example("stored", there, f"{whole.tolist()} does not come back")
    return None


def _broken(tensor: SparseTensor) -> str:
    """Whether it is the order of the entries that a tensor has wrong, or something else."""
    try:
        return "stored" if is_in_order(tensor) else "order"
    except UsageError:
        return "stored"


def _example(claim: str, tensor: SparseTensor, text: str) -> CounterExample:
    return CounterExample(claim, tensor.shape, tensor.symbols, tensor.arrays, (), text)


class Status(Enum):
    """How far an obligation has been met."""

    PROVED = "proved"  # for all sizes
    CHECKED = "checked"  # for all that is small
    DECLARED = "declared"  # nothing is claimed, so there is nothing to show
    OPEN = "open"  # neither shown nor refuted
    FAILED = "FAILED"


@dataclass(frozen=True)
class Obligation:
    """One claim about a descriptor and what became of it."""

    name: str
    sentence: str
    status: Status
    how: str
    seconds: float
    example: CounterExample | None = None  # of what is wrong, where it failed
    hint: str = ""

    def __str__(self) -> str:
        line = f"{self.status.value:<9}{self.sentence} ({self.how}, {self.seconds * 1e3:.0f} ms)"
        if self.example is None:
            return line
        shown = [f"    {row}" for row in str(self.example).splitlines()]
        return "\n".join([line, *shown, f"    try: {self.hint}"])


@dataclass(frozen=True)
class Verification:
    """The report on a descriptor."""

    format: Format
    obligations: tuple[Obligation, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing failed; what was checked only on small tensors counts as met."""
        return not self.failures

    @property
    def failures(self) -> tuple[Obligation, ...]:
        return tuple(found for found in self.obligations if found.status is Status.FAILED)

    def obligation(self, name: str) -> Obligation:
        """The obligation called `name`."""
        for found in self.obligations:
            if found.name == name:
                return found
        names = ", ".join(found.name for found in self.obligations)
        raise UsageError(f"no obligation is called '{name}'", hint=f"one of {names}")

    def require(self) -> Verification:
        """Return the report, or raise a UsageError with the first failure and its example."""
        for failed in self.failures:
            shown = failed.how if failed.example is None else str(failed.example)
            raise UsageError(
                f"the descriptor of {self.format.name} is wrong: {failed.sentence} does not hold",
                found="; ".join(shown.splitlines()),
                hint=failed.hint,
            )
        return self

    def __str__(self) -> str:
        verdict = "sound" if self.is_sound else "WRONG"
        return "\n".join([f"{self.format.name}: {verdict}", *map(str, self.obligations)])

    def __repr__(self) -> str:
        return str(self)  # who asks at a prompt wants the report, not its parts


def verify(format: str | Format, *, rank: int | None = None, side: int = 3) -> Verification:
    """Show that a descriptor is sound, or why it is not, with a storage that proves it wrong.

    `format` is a name, for tensors of `rank` dimensions, or a Format; `side` is the largest extent
    of the tensors that are converted there and back.
    """
    if isinstance(format, Format):
        rank = format.rank
    found = find(format, 2 if rank is None else rank)
    start = thread_time()
    searched = search(found)
    took = thread_time() - start
    claims = {claim.name: claim for claim in claims_of(found)}
    met = [
        _judged(claim, found, searched, side) for claim in claims.values() if claim.name != "order"
    ]
    if not found.is_unique:
        sentence = "coordinates may repeat"
        met.append(Obligation("injective", sentence, Status.DECLARED, "is_unique=False", 0.0))
    met.append(_total(found))
    if found.padding is None:
        met.append(_reached(searched, took))
    is_safe = all(obligation.status is not Status.FAILED for obligation in met)
    start = thread_time()
    trips = round_trips(found, side) if is_safe else Trips(0, side, obstacle="claims above fail")
    took = thread_time() - start
    met.append(_ordered(claims.get("order"), found, trips))
    met.append(_stored(trips, took))
    return Verification(found, tuple(met))


def _judged(claim: Claim, format: Format, searched: Search, side: int) -> Obligation:
    start = thread_time()
    example = searched.found.get(claim.name)
    if example is not None:
        status, how = Status.FAILED, "a storage satisfies every invariant and refutes this"
    elif claim.obstacle:
        status, how = Status.OPEN, claim.obstacle
    else:
        status, how = _proof(claim, format)
        if status is Status.OPEN and claim.name == "bounds":
            example = _out_of_bounds_example(format, side)
            how = f"coordinates of shapes with sides up to {side}"
            status = Status.CHECKED if example is None else Status.FAILED
        elif status is Status.OPEN:
            example = _affine_example(claim, format)
            status = Status.CHECKED if searched.storages else Status.OPEN
            status = status if example is None else Status.FAILED
            how = searched.text
    seconds = thread_time() - start
    return Obligation(claim.name, claim.sentence, status, how, seconds, example, claim.hint)


def _out_of_bounds_example(format: Format, side: int) -> CounterExample | None:
    found = find_out_of_bounds(format, side)
    if found is None:
        return None
    symbols = fixed_symbols(format, found.shape)
    point = dict(zip(format.coordinates, found.at, strict=True))
    return CounterExample("bounds", found.shape, symbols, {}, (point,), found.text)


def _affine_example(claim: Claim, format: Format) -> CounterExample | None:
    """Sizes and a tuple that break a claim whatever stands in the index arrays."""
    found = plain_witness(claim)
    if found is None:
        return None
    sizes = tuple(found.get(name, 1) for name in format.sizes)
    symbols = {k: v for k, v in found.items() if k in (*format.sizes, *format.counts)}
    point = {k: v for k, v in found.items() if k not in symbols}
    text = f"{claim.sentence}: not here, whatever the index arrays hold"
    return CounterExample(claim.name, sizes, symbols, {}, (point,), text)


def _proof(claim: Claim, format: Format) -> tuple[Status, str]:
    if claim.is_on_sight:
        return Status.PROVED, "by equalities"
    if proved_by_isl(claim, format):
        return Status.PROVED, "by isl"
    if has_z3() and proved_by_z3(claim.cases, facts_of(format)):
        return Status.PROVED, "by z3"
    return Status.OPEN, "no proof was found"


def _total(format: Format) -> Obligation:
    """Whether the order distinguishes all coordinates."""
    start = thread_time()
    name, sentence = "total", "the order distinguishes coordinates, or ties are declared"
    hint = "name further keys until no two coordinates agree in all"
    if not format.order:
        return Obligation(name, sentence, Status.DECLARED, "any order", 0.0)
    if determines(map(_undone(format), format.order), format.coordinates):
        status, how, example = Status.PROVED, "by the form of the keys", None
    elif not format.is_unique:
        status, how, example = Status.DECLARED, "coordinates may repeat", None
    else:
        pair = tie(format)
        status, how, example = Status.OPEN, "its keys use index arrays", None
        if pair is not None:
            status, how = Status.FAILED, f"{pair[0]} and {pair[1]} have equal keys"
            points = tuple(dict(zip(format.coordinates, at, strict=True)) for at in pair)
            example = CounterExample(name, (), {}, {}, points, "their keys are equal")
    return Obligation(name, sentence, status, how, thread_time() - start, example, hint)


def _undone(format: Format) -> Callable[[Term], Term]:
    """Keys without the bijections in them: those distinguish what their arguments do."""
    inverses = {index.inverse for index in format.indices if index.inverse}

    def change(atom: Atom) -> Term | None:
        return atom.args[0] if isinstance(atom, UFCall) and atom.name in inverses else None

    return lambda key: replace_atoms(key, change)


def _reached(searched: Search, seconds: float) -> Obligation:
    example = searched.found.get("reached")
    status = Status.CHECKED if example is None else Status.FAILED
    hint = "bound the ranges of index arrays as the map does, and give the ends of pointers"
    sentence = "every place of the values is reached"
    return Obligation("reached", sentence, status, searched.text, seconds, example, hint)


def _ordered(claim: Claim | None, format: Format, trips: Trips) -> Obligation:
    """An order that does not follow from other invariants is one itself: it must be possible."""
    start = thread_time()
    if claim is None:
        return Obligation("order", "entries stand in any order", Status.DECLARED, "order=()", 0.0)
    example = trips.fault if trips.fault is not None and trips.fault.claim == "order" else None
    if example is not None:
        status, how = Status.FAILED, "a tensor cannot be stored in this order"
    else:
        status, how = _proof(claim, format)
        if status is Status.OPEN and not trips.obstacle:
            status, how = Status.CHECKED, f"an invariant of its own, {trips.text}"
    seconds = thread_time() - start
    return Obligation("order", claim.sentence, status, how, seconds, example, claim.hint)


def _stored(trips: Trips, seconds: float) -> Obligation:
    sentence = "every small tensor can be stored and read back"
    hint = "check the map for the entry that was lost"
    if trips.obstacle:
        return Obligation("stored", sentence, Status.OPEN, trips.obstacle, seconds)
    is_lost = trips.fault is not None and trips.fault.claim == "stored"
    status = Status.FAILED if is_lost else Status.CHECKED
    example = trips.fault if is_lost else None
    return Obligation("stored", sentence, status, trips.text, seconds, example, hint)
