"""EinsumCall: one call of einsum, its arguments checked and converted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from loopwright import semirings
from loopwright.diagnostics import DtypeError, PathError, UsageError, WrongTypeError
from loopwright.frontends.einsum_syntax import EinsumSubscripts, sublist_subscripts
from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.dtypes import DTYPES, DType, dtype_of
from loopwright.ir.expr import Var
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.ir.machine import Machine
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.array_arguments import Array, as_operand, element_strides

if TYPE_CHECKING:
    from loopwright.transform.plan import Plan

__all__ = [
    "GREEDY",
    "EinsumCall",
    "Groups",
    "NumpyOptions",
    "Path",
    "Scaling",
    "WithShape",
    "algebra_of",
    "as_operands",
    "check_scaling",
    "checked_groups",
    "checked_path",
    "contraction_shape",
    "extents_of",
    "from_text_or_lists",
    "is_one",
    "is_value",
    "memory_order",
    "no_single_contraction",
    "plain_number",
    "read_options",
    "types_of",
]


@dataclass(frozen=True, slots=True)
class Scaling:
    """out = beta * out plus alpha * products; kept apart from the operands' algebra."""

    alpha: Any = 1
    beta: Any = 0

    @property
    def initial(self) -> Initial:
        if isinstance(self.beta, int | float | complex) and self.beta in (0, 1):
            return Initial.OUT if self.beta else Initial.ZERO
        return Initial.SCALED


@dataclass(frozen=True, slots=True, eq=False)
class EinsumCall:
    """`out = beta * out plus alpha * products` of the arrays, over a semiring."""

    names: EinsumSubscripts
    arrays: tuple[Array, ...]
    out: Array  # has the result's dtype
    ring: semirings.Semiring
    accumulator: DType
    scaling: Scaling
    threads: int
    machine: Machine
    plan: Plan | None = None  # of the user; None: what the model decides

    @property
    def algebra(self) -> Algebra:
        """What is computed, of one or two operands."""
        dtypes = [dtype_of(a.dtype) for a in self.arrays]
        out = dtype_of(self.out.dtype)
        return algebra_of(self.ring, dtypes, out, self.accumulator, self.scaling)

    @property
    def shape(self) -> ContractionShape:
        """The loops of the bundles, of one or two operands."""
        layouts = [(a.shape, element_strides(a)) for a in (*self.arrays, self.out)]
        return contraction_shape(self.names, extents_of(self.names, self.arrays), layouts)


def algebra_of(
    ring: semirings.Semiring,
    operands: Sequence[DType],
    out: DType,
    accumulator: DType,
    scaling: Scaling,
) -> Algebra:
    """What is computed of one or two operands of these types."""
    times = ring.times_on(accumulator)
    is_unary = len(operands) == 1
    return Algebra(
        _operator(ring.plus, ring, accumulator, plus=True),
        "first" if is_unary else _operator(times, ring, accumulator, plus=False),
        ring.zero(accumulator),
        operands[0],
        operands[-1],
        out,
        accumulator,
        scaling.initial,
        not is_one(scaling.alpha),
    )


def contraction_shape(
    names: EinsumSubscripts,
    extents: dict[str, int],
    layouts: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
) -> ContractionShape:
    """The loops of the bundles, of one or two operands and out: extents and strides of each.

    A repeated letter walks along a diagonal, size 1 stands still.
    """
    left = names.operands[0]
    right = names.operands[-1] if len(names.operands) > 1 else ""
    terms = (left, layouts[0]), (right, layouts[-2]), (names.out, layouts[-1])
    strides = [_letter_strides(term, layout, extents) for term, layout in terms]
    bundles: dict[str, list[Dim]] = {"batch": [], "i": [], "j": [], "p": []}
    for c, extent in extents.items():
        dim = Dim(extent, *(s.get(c, 0) for s in strides))
        if c not in names.out:
            bundle = "p"
        elif c in left and c in right:
            bundle = "batch"
        else:
            bundle = "i" if c in left else "j"
        bundles[bundle].append(dim)
    batch, i, j, p = (tuple(dims) for dims in bundles.values())
    return ContractionShape(batch, i, j, p)


def _operator(operator: Any, ring: semirings.Semiring, dtype: DType, *, plus: bool) -> Any:
    """The name of a known operator; the traced expression of a user's function."""
    if isinstance(operator, str):
        return operator
    make = ring.plus_expr if plus else ring.times_expr
    return make(dtype, Var("x", dtype), Var("y", dtype))


def is_one(value: Any) -> bool:
    return isinstance(value, int | float | complex) and value == 1


def _letter_strides(
    term: str, layout: tuple[tuple[int, ...], tuple[int, ...]], extents: dict[str, int]
) -> dict[str, int]:
    found: dict[str, int] = {}
    for c, extent, stride in zip(term, *layout, strict=False):
        moves = stride if extent == extents[c] else 0
        found[c] = found.get(c, 0) + moves
    return found


class WithShape(Protocol):
    """An array, wherever it lies."""

    @property
    def shape(self) -> tuple[int, ...]: ...


def extents_of(names: EinsumSubscripts, arrays: Sequence[WithShape]) -> dict[str, int]:
    """Size of every letter; a size of 1 broadcasts."""
    found: dict[str, int] = {}
    where: dict[str, int] = {}
    for number, (term, array) in enumerate(zip(names.operands, arrays, strict=True), 1):
        here = dict(zip(term, array.shape, strict=True))
        for c, extent in zip(term, array.shape, strict=True):
            known = found.get(c, 1)
            if here[c] != extent:
                raise UsageError(
                    f"einsum '{names.text}': index '{c}' has two sizes",
                    found=f"{extent} and {here[c]} in operand {number}",
                    hint="a diagonal of equal sizes",
                )
            if extent != known and extent != 1 and known != 1:
                raise UsageError(
                    f"einsum '{names.text}': index '{c}' has two sizes",
                    found=f"{known} in operand {where[c]}, {extent} in operand {number}",
                    hint="operands that agree, or a size of 1",
                )
            if c not in found or extent != 1:
                found[c], where[c] = extent, number
    return found


# -- the keywords that `einsum` shares with numpy.einsum: optimize, dtype, order and casting ------


Groups: TypeAlias = tuple[tuple[int, ...], ...]  # positions that meet, as in numpy.einsum_path

_SEARCHES = ("greedy", "optimal")
Finder: TypeAlias = Callable[[list[frozenset[str]], frozenset[str], dict[str, int], None], Any]
_HINT = "True, False, 'greedy', 'optimal', (name, elements), a path, or an optimizer of opt_einsum"

_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")
_ORDERS = "CFAK"


@dataclass(frozen=True, slots=True)
class Path:
    """Which order is asked for."""

    search: str = "greedy"  # one of _SEARCHES
    limit: int | None = None  # elements of an intermediate result
    groups: Groups | None = None  # an explicit path, in the place of a search
    finder: Finder | None = None  # finds one, called as opt_einsum calls its optimizers


GREEDY = Path()


@dataclass(frozen=True, slots=True)
class NumpyOptions:
    """What numpy.einsum's keywords ask for, checked."""

    path: Path
    dtype: np.dtype[Any] | None = None  # of the calculation and its result; None: promoted
    order: str = "K"  # memory order of a fresh result, one of _ORDERS
    casting: str | None = None  # None: safe for operands, same_kind for out

    @property
    def are_default(self) -> bool:
        """Whether a call with them computes and lays out its result as one without them."""
        return self.dtype is None and self.order == "K" and self.casting is None


def read_options(optimize: Any, dtype: Any, order: Any, casting: Any) -> NumpyOptions:
    """Check the keywords of a call."""
    if casting is not None and casting not in _CASTINGS:
        raise UsageError("unknown casting", found=repr(casting)[:60], hint=", ".join(_CASTINGS))
    chosen = "K" if order is None else order
    if not isinstance(chosen, str):
        raise WrongTypeError("order must be a letter", found=repr(order)[:60], hint="C, F, A or K")
    if len(chosen) != 1 or chosen.upper() not in _ORDERS:
        raise UsageError("unknown order", found=repr(order)[:60], hint="C, F, A or K")
    try:
        found = None if dtype is None else np.dtype(dtype)
    except TypeError:
        raise DtypeError("dtype is no dtype", found=repr(dtype)[:60]) from None
    return NumpyOptions(checked_path(optimize), found, chosen.upper(), casting)


def checked_path(optimize: Any) -> Path:
    """What numpy.einsum's `optimize` asks for; nothing, False and True ask for the greedy order."""
    if optimize is None or isinstance(optimize, bool):
        return GREEDY
    if isinstance(optimize, str):
        return _named_path(optimize)
    if callable(optimize):
        return Path(finder=optimize)
    if not isinstance(optimize, list | tuple) or not optimize:
        raise WrongTypeError("optimize is no path", found=repr(optimize)[:60], hint=_HINT)
    first, *rest = optimize
    if first == "einsum_path":
        return Path(groups=checked_groups(rest))
    if isinstance(first, list | tuple):
        return Path(groups=checked_groups(optimize))
    if isinstance(first, str) and len(rest) == 1 and isinstance(rest[0], int | float):
        return Path(_search(first), int(rest[0]))
    raise WrongTypeError("optimize is no path", found=repr(optimize)[:60], hint=_HINT)


def _named_path(name: str) -> Path:
    """A search of ours by its name, or one of opt_einsum where that is installed."""
    if name in _SEARCHES:
        return Path(name)
    try:
        from opt_einsum.paths import get_path_fn  # lazy: an extra that few calls need

        return Path(finder=get_path_fn(name))
    except (ImportError, KeyError):
        return Path(_search(name))  # tells which names there are


def _search(name: str) -> str:
    if name not in _SEARCHES:
        raise UsageError("optimize names no search", found=repr(name)[:60], hint=_HINT)
    return name


def checked_groups(groups: Iterable[Any]) -> Groups:
    """An explicit path: that of opt_einsum, or of numpy.einsum_path without its first element."""
    return tuple(map(_group, groups))


def _group(group: Any) -> tuple[int, ...]:
    """One step of an explicit path: the positions of the operands that meet."""
    is_group = isinstance(group, list | tuple) and len(group) > 0
    if not is_group or not all(isinstance(x, int | np.integer) and x >= 0 for x in group):
        hint = "tuples of positions, counted from 0 as in numpy.einsum_path"
        raise WrongTypeError("a path holds groups", found=repr(group)[:60], hint=hint)
    if len(set(group)) < len(group):
        raise PathError("a path takes an operand twice", found=repr(tuple(group))[:60])
    return tuple(map(int, group))


def as_operands(operands: Sequence[Any], options: NumpyOptions) -> tuple[Array, ...]:
    """The operands as arrays that kernels can read, converted to `dtype` where that loses values.

    Kernels convert what they load, so an operand that `dtype` can hold is left as it is.
    """
    names = [f"operand {number}" for number in range(1, len(operands) + 1)]
    if options.dtype is None:
        return tuple(map(as_operand, operands, names))
    dtype_of(options.dtype)
    return tuple(
        as_operand(_converted(value, name, options.dtype, options.casting or "safe"), name)
        for value, name in zip(operands, names, strict=True)
    )


def _converted(value: Any, name: str, dtype: np.dtype[Any], casting: Any) -> Any:
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    _check_cast(array.dtype, dtype, casting, name)
    return array if np.can_cast(array.dtype, dtype, "safe") else array.astype(dtype)


def _check_castings(
    operands: Sequence[np.dtype[Any]], result: DType, options: NumpyOptions
) -> None:
    """Refuse operands that the rule does not let become `result`."""
    if options.casting is not None and options.dtype is None:
        for number, dtype in enumerate(operands, 1):
            _check_cast(dtype, result.numpy, options.casting, f"operand {number}")


def _check_cast(source: np.dtype[Any], target: np.dtype[Any], casting: Any, name: str) -> None:
    if not np.can_cast(source, target, casting):
        raise DtypeError(
            f"{name} has dtype {source}, which does not become {target} by the rule '{casting}'",
            hint="another casting= or dtype=",
        )


def no_single_contraction(text: str, count: int) -> UsageError:
    """What is told of a plan for a call that is no contraction of one or two operands."""
    return UsageError(
        "a plan is for one contraction of one or two operands, none of them empty",
        found=f"einsum '{text}' of {count}",
        hint="einsum_path tells the pairs of more operands",
    )


def memory_order(arrays: tuple[Array, ...], order: str) -> Any:
    """C or F for a fresh result; K, which promises nothing for sums of products, is C."""
    if order == "A":
        return "F" if all(a.flags.f_contiguous for a in arrays) else "C"
    return "F" if order == "F" else "C"


# -- the factors alpha and beta of a call: plain numbers that the sums can hold -------------------


Number: TypeAlias = bool | int | float | complex


def plain_number(value: Any, what: str) -> Number:
    """`value` as a number of Python; NumPy's scalars and arrays of rank 0 stand for theirs."""
    if isinstance(value, np.generic | np.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, bool | int | float | complex):
        raise UsageError(f"{what} must be a number", found=repr(value))
    return value


def is_value(number: Number, dtype: DType) -> bool:
    """Whether a number can be written in `dtype`, up to rounding."""
    if isinstance(number, complex):
        return dtype.is_complex
    if not (dtype.is_integer or dtype.kind == "b"):
        return True
    if isinstance(number, float) and not number.is_integer():
        return False
    limits = np.iinfo(dtype.name) if dtype.is_integer else None
    low, high = (0, 1) if limits is None else (limits.min, limits.max)
    return bool(low <= number <= high)


# -- types, and subscripts as lists ----------------------------------------------------------------


def types_of(
    ring: semirings.Semiring,
    operands: Sequence[np.dtype[Any]],
    accum_dtype: Any,
    out: np.dtype[Any] | None,
    asked: NumpyOptions,
) -> tuple[DType, DType]:
    """Dtypes of the result and of the accumulators; a wider out widens both, as with NumPy."""
    promoted = dtype_of(np.result_type(*operands) if asked.dtype is None else asked.dtype)
    if asked.dtype is None and out is not None and np.can_cast(promoted.numpy, out, "safe"):
        promoted = DTYPES.get(out.name, promoted)
    _check_castings(operands, promoted, asked)
    if accum_dtype is not None and asked.dtype is not None:
        raise UsageError("dtype and accum_dtype exclude each other", hint="dtype=, as in NumPy")
    if accum_dtype is not None:
        wide = dtype_of(accum_dtype)
        if not np.can_cast(promoted.numpy, wide.numpy, "same_kind"):
            raise UsageError(f"accum_dtype {wide} cannot hold products of {promoted}")
        promoted = accumulator = wide
    else:
        accumulator = _default_accumulator(promoted)
    ring.check_dtype(accumulator)
    return promoted, accumulator


def _default_accumulator(dtype: DType) -> DType:
    """NumPy sums float16 in float32; every other type in itself."""
    return DTYPES["float32"] if dtype.name == "float16" else dtype


def check_scaling(
    ring: semirings.Semiring, scaling: Scaling, out: Any | None, accumulator: DType
) -> None:
    if scaling.initial is not Initial.ZERO and out is None:
        raise UsageError("accumulate and beta need the array they add to", hint="pass out=")
    scales = not is_one(scaling.alpha) or scaling.initial is Initial.SCALED
    if scales and ring.name != "plus_times":
        raise UsageError(
            f"alpha and beta scale sums of products, not semiring '{ring.name}'",
            hint="leave alpha 1 and beta 0 or 1",
        )
    for what, number in (("alpha", scaling.alpha), ("beta", scaling.beta)):
        if not is_value(number, accumulator):
            raise UsageError(
                f"{what} is no value of {accumulator}, the type of the sums",
                found=repr(number),
                hint="an accum_dtype that holds it",
            )


def from_text_or_lists(first: Any, others: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """Subscripts in bytes, or einsum(op0, sublist0, op1, sublist1, ..., [sublistout])."""
    if isinstance(first, bytes):
        return first.decode("ascii", "replace"), others
    arguments = (first, *others)
    pairs, rest = divmod(len(arguments), 2)
    if not pairs:
        return "", ()
    operands = arguments[0 : 2 * pairs : 2]
    lists = [*arguments[1 : 2 * pairs : 2], *arguments[2 * pairs :]]
    for found in lists:
        if not isinstance(found, Sequence | np.ndarray):
            raise WrongTypeError(
                "einsum takes a string of subscripts, or arrays and index lists in turn",
                found=f"{type(found).__name__} in the place of an index list",
                hint="einsum('ij,jk->ik', a, b), or einsum(a, [0, 1], b, [1, 2], [0, 2])",
            )
    return sublist_subscripts(lists[:pairs], lists[-1] if rest else None), operands
