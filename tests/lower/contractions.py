"""Small contractions built by hand: a kernel, operands in a chosen layout, and what comes out.

Numbers are small and whole, so that every sum and product is exact in every dtype: results must
then be equal bit by bit, whatever the order of the sums.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from backends.compiled import assert_same_bits, compile_nest
from loopwright.ir.check import check_nest
from loopwright.ir.contraction_shape import ContractionShape, Dim, offsets
from loopwright.ir.dtypes import DTYPES, DType
from loopwright.ir.evaluate import Given, compile_expr, quiet
from loopwright.ir.expr import Binary, Expr, Var
from loopwright.ir.interpret import Memory, interpret_nest
from loopwright.ir.kernel_variant import (
    Algebra,
    Algorithm,
    ContractionKernel,
    Initial,
    KernelVariant,
    Packing,
)
from loopwright.ir.loops import LoopNest, Space
from loopwright.kernels import thread_pool
from loopwright.lower.contraction_nests.contraction_kernel import lower_contraction
from loopwright.semirings import identity

ALPHA, BETA = 2, 3


@dataclass(frozen=True)
class Layout:
    """Where the elements of one operand lie."""

    axes: str  # bundles it has, from the slowest to the fastest in memory, such as "gpi"
    flips: str = ""  # axes that run backwards
    gaps: int = 1  # elements from one to the next along the fastest axis


@dataclass(frozen=True)
class Problem:
    """Sizes of the loops of each bundle, and the layouts of the operands."""

    extents: Mapping[str, tuple[int, ...]]  # bundle letter -> extents of its loops
    left: Layout
    right: Layout
    out: Layout
    blocks: tuple[int, int, int] = (0, 0, 0)  # mc, nc, kc; 0: one block

    def size(self, bundle: str) -> int:
        return math.prod(self.extents[bundle])


@dataclass
class Made:
    """Arrays of a problem as the kernel sees them, and as plain arrays with axes g, i, j, p."""

    instance: ContractionShape
    arrays: dict[str, np.ndarray]
    plain: dict[str, np.ndarray] = field(default_factory=dict)


def letters(bundle: str, extents: Sequence[int]) -> list[str]:
    return [f"{bundle}{k}" for k in range(len(extents))]


def operand(
    problem: Problem, name: str, dtype: DType, random: np.random.Generator
) -> tuple[np.ndarray, dict[str, int]]:
    """An array with one axis per loop, in logical order, and its stride along each loop."""
    layout: Layout = getattr(problem, name)
    order = [x for b in layout.axes for x in letters(b, problem.extents[b])]
    extents = {x: problem.extents[x[0]][int(x[1:])] for x in order}
    shape = [extents[x] for x in order]
    low = 0 if dtype.kind in "ub" else -3
    numbers = random.integers(low, 2 if dtype.kind == "b" else 4, shape)
    if dtype.is_complex:
        numbers = numbers + 1j * random.integers(-3, 4, shape)
    memory = np.zeros([*shape[:-1], shape[-1] * layout.gaps] if shape else (), dtype.name)
    view = memory[..., :: layout.gaps] if shape else memory
    view[...] = numbers
    logical = [x for b in "gijp" if b in layout.axes for x in letters(b, problem.extents[b])]
    view = view.transpose([order.index(x) for x in logical])
    flips = tuple(slice(None, None, -1 if x[0] in layout.flips else 1) for x in logical)
    view = view[flips]
    steps = {x: s // view.itemsize for x, s in zip(logical, view.strides, strict=True)}
    return view, steps


def make(problem: Problem, kernel: ContractionKernel, seed: int) -> Made:
    random = np.random.default_rng(seed)
    types = {"left": kernel.left, "right": kernel.right, "out": kernel.algebra.out}
    arrays, steps, plain = {}, {}, {}
    for name, dtype in types.items():
        arrays[name], steps[name] = operand(problem, name, dtype, random)
        has = getattr(problem, name).axes
        plain[name] = arrays[name].reshape([problem.size(b) if b in has else 1 for b in "gijp"])
    bundles = [
        tuple(
            Dim(extent, *(steps[name].get(x, 0) for name in types))
            for x, extent in zip(letters(b, problem.extents[b]), problem.extents[b], strict=True)
        )
        for b in "gijp"
    ]
    if kernel.algebra.scaled:
        arrays["alpha"] = np.array(ALPHA, kernel.algebra.accumulator.name)
    if kernel.algebra.initial is Initial.SCALED:
        arrays["beta"] = np.array(BETA, kernel.algebra.accumulator.name)
    return Made(ContractionShape(*bundles), arrays, plain)


def launch(
    kernel: ContractionKernel, made: Made, problem: Problem
) -> tuple[dict[str, int], np.ndarray]:
    """Values of the launch and the offset tables, for whatever names the nest asks for.

    A bundle without a table gets its strides instead: see `offset_of`.
    """
    instance = made.instance
    bundles = dict(zip("gijp", (instance.batch, instance.i, instance.j, instance.p), strict=True))
    values = dict(zip("GMNK", instance.sizes, strict=True))
    mc, nc, kc = (block or 1 << 20 for block in problem.blocks)
    values |= {"mc": mc, "nc": nc, "kc": kc}
    values["right_step"] = instance.p[0].right if len(instance.p) == 1 else 0
    values |= {"left_v": 1 << 20, "right_v": 2}
    parts, at = [], 0
    tables = {
        f"{name}_{b}": offsets(bundles[b], name)
        for name, b in itertools.product(("left", "right", "out"), "gijp")
    }
    tables["left_w"] = walk(kernel.variant.left_packing, "left", instance.i, instance.p, mc, kc)
    tables["right_w"] = walk(kernel.variant.right_packing, "right", instance.j, instance.p, nc, kc)
    for name, part in tables.items():
        values[name], at = at, at + len(part)
        parts.append(part)
    values |= dict.fromkeys(("left_first", "right_first", "out_first"), 0)
    for (b, dims), name in itertools.product(bundles.items(), ("left", "right", "out")):
        if b not in kernel.variant.strided:
            continue
        values[f"{name}_{b}"] = getattr(dims[0], name) if dims else 0
        for k, dim in enumerate(dims[1:], 1):
            values |= {f"{b}{k}": dim.extent, f"{name}_{b}{k}": getattr(dim, name)}
    if kernel.variant.algorithm is Algorithm.ELEMENTS:
        inner = instance.j[0] if instance.j else Dim(1, 0, 0, 1)
        values |= {"left_j": inner.left, "right_j": inner.right, "out_j": inner.out}
    return values, np.concatenate(parts)


def walk(
    packing: Packing, name: str, tile: tuple[Dim, ...], p: tuple[Dim, ...], block: int, kc: int
) -> np.ndarray:
    """The indices of every block by rising address."""
    dims, size = (tile, block) if packing is Packing.WALK_TILE else (p, kc)
    places = offsets(dims, name)
    parts = [np.argsort(places[k : k + size], kind="stable") for k in range(0, len(places), size)]
    return np.concatenate(parts)


def operator(op: str | Expr, dtype: DType) -> np.ufunc:
    """An operator of a kernel on arrays, by the interpreter's rules for single numbers."""
    x, y = Var("x", dtype), Var("y", dtype)
    if op == "first":
        return lambda a, b: np.broadcast_arrays(a, b)[0]
    code = compile_expr(Binary(op, x, y) if isinstance(op, str) else op)

    def one(a: np.generic, b: np.generic) -> np.generic:
        return code(Given({"x": a, "y": b}, {}))

    whole = np.frompyfunc(one, 2, 1)

    def apply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = (np.asarray(v, dtype.name) for v in np.broadcast_arrays(a, b))
        # frompyfunc hands out Python numbers; NumPy scalars carry the dtype.
        boxed = [np.array([*v.reshape(-1), None], object)[:-1] for v in (a, b)]
        with quiet():
            return whole(*boxed).astype(dtype.name).reshape(a.shape)

    return apply


def expected(kernel: ContractionKernel, made: Made) -> np.ndarray:
    """The result by definition: one step of p after the other, in the accumulator's type."""
    dtype, initial = kernel.algebra.accumulator, kernel.algebra.initial
    plus, times = operator(kernel.algebra.plus, dtype), operator(kernel.algebra.times, dtype)
    left, right, old = (made.plain[name] for name in ("left", "right", "out"))
    left, right = (v.astype(dtype.name) for v in (left, right))
    old = old[..., 0].astype(dtype.name)
    with quiet():
        total = np.full(old.shape, kernel.algebra.zero, dtype.name)
        if initial is not Initial.ZERO:
            total = old * (
                dtype.numpy.type(BETA) if kernel.algebra.initial is Initial.SCALED else 1
            )
        for p in range(max(left.shape[3], right.shape[3])):
            x, y = (v[..., min(p, v.shape[3] - 1)] for v in (left, right))
            product = times(y, x) if kernel.variant.swapped else times(x, y)
            if kernel.algebra.scaled:
                product = product * dtype.numpy.type(ALPHA)
            # Where nothing is summed nothing is added to zero: a product of -0.0 stays.
            alone = (
                kernel.variant.algorithm is Algorithm.ELEMENTS
                and kernel.algebra.initial is Initial.ZERO
            )
            total = np.broadcast_to(product, old.shape) if alone else plus(total, product)
        return total.astype(kernel.algebra.out.name)


def check_kernel(
    kernel: ContractionKernel, problems: Sequence[Problem], compiled: bool = True
) -> LoopNest:
    """The nest of a kernel is valid, free of races and right; so is its compiled code."""
    nest = lower_contraction(kernel, "f")
    check_nest(nest)
    teams = (1,) if kernel.variant.parallel == "none" else (1, 2, 3)
    code = compile_nest(nest) if compiled else None
    for seed, problem in enumerate(problems):
        made = make(problem, kernel, seed)
        values, table = launch(kernel, made, problem)
        values = {name: values[name] for name in nest.scalars}
        right = expected(kernel, made)
        for threads in teams[:2][-1:]:  # two threads where it can be, to see races
            arrays = fresh(made)
            memory = {name: Memory.of(_ranked(a)) for name, a in arrays.items()}
            interpret_nest(nest, {**memory, "table": table}, values, threads=threads, seed=seed)
            assert_same_bits(plain(arrays["out"], right), right, (kernel, problem, threads))
        if code is None:
            continue
        for threads in teams:
            arrays = fresh(made)
            bound = code.bind(values, table, threads, thread_pool)
            bound(*(arrays[b.name] for b in nest.buffers if b.space is Space.GLOBAL))
            assert_same_bits(plain(arrays["out"], right), right, (kernel, problem, threads))
    return nest


def _ranked(array: np.ndarray) -> np.ndarray:
    return array.reshape(1) if array.ndim == 0 else array


def plain(out: np.ndarray, like: np.ndarray) -> np.ndarray:
    return out.reshape(like.shape)


def fresh(made: Made) -> dict[str, np.ndarray]:
    """The arrays with a copy of out that lies in memory as out does."""
    out = made.arrays["out"]
    memory = Memory.of(_ranked(out))
    copy = memory.data.copy()[memory.base :]
    return {**made.arrays, "out": np.lib.stride_tricks.as_strided(copy, out.shape, out.strides)}


@dataclass(frozen=True)
class Ring:
    """Operators and types of a kernel."""

    plus: str | Expr
    times: str | Expr
    left: str
    right: str
    out: str
    accumulator: str

    @property
    def zero(self) -> bool | int | float | complex:
        name = self.plus if isinstance(self.plus, str) else "max"
        return identity(name, DTYPES[self.accumulator])


def ring(plus: str | Expr, times: str | Expr, *types: str) -> Ring:
    """One type for all, or those of left, right, out and the accumulator."""
    return Ring(plus, times, *(types if len(types) == 4 else types * 4))


_ALGEBRA = frozenset({"initial", "scaled"})


def kernel_of(
    algorithm: Algorithm, ring: Ring, tile: tuple[int, int, int], **changes: object
) -> ContractionKernel:
    """A plain kernel with some decisions changed; the types of `ring` are as it sees them.

    Offsets are looked up in tables, which serve any problem.
    """
    left, right = DTYPES[ring.left], DTYPES[ring.right]
    if changes.get("swapped"):
        left, right = right, left
    given: dict[str, object] = {"initial": Initial.ZERO, "scaled": False, **changes}
    algebra = Algebra(
        ring.plus,
        ring.times,
        ring.zero,
        left,
        right,
        DTYPES[ring.out],
        DTYPES[ring.accumulator],
        **{name: given.pop(name) for name in _ALGEBRA},  # type: ignore[arg-type]
    )
    usual = {"left_packing": Packing.ANY, "right_packing": Packing.ANY, "strided": ""}
    return ContractionKernel(algebra, KernelVariant(algorithm, *tile, **{**usual, **given}))  # type: ignore[arg-type]


def pairwise(choices: Mapping[str, Sequence[object]], seed: int = 0) -> Iterator[dict[str, object]]:
    """Few combinations in which every pair of choices of two names occurs."""
    random = np.random.default_rng(seed)
    names = list(choices)
    open_pairs = {
        (a, x, b, y)
        for a, b in itertools.combinations(range(len(names)), 2)
        for x in range(len(choices[names[a]]))
        for y in range(len(choices[names[b]]))
    }

    def covered(row: Sequence[int]) -> set[tuple[int, int, int, int]]:
        pairs = itertools.combinations(range(len(names)), 2)
        return {(a, row[a], b, row[b]) for a, b in pairs} & open_pairs

    while open_pairs:
        first = min(open_pairs)
        tries = []
        for _ in range(30):
            row = [int(random.integers(len(choices[name]))) for name in names]
            row[first[0]], row[first[2]] = first[1], first[3]
            tries.append(row)
        best = max(tries, key=lambda row: len(covered(row)))
        open_pairs -= covered(best)
        yield {name: choices[name][k] for name, k in zip(names, best, strict=True)}
