"""What the analytical planner chooses is right: its forms, blocks and tables, machine by machine.

The machines have caches of a few hundred bytes, so that small sizes already need several blocks.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from backends.compiled import assert_same_bits, compile_nest
from drawn import HUNTS
from loopwright.ir.check import check_nest
from loopwright.ir.contraction_shape import ContractionShape, Dim, offsets
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.interpret import Memory, interpret_nest
from loopwright.ir.kernel_variant import (
    Algebra,
    Algorithm,
    ContractionKernel,
    Initial,
    Packing,
    steps_in_run,
)
from loopwright.ir.loops import Space
from loopwright.ir.machine import Machine, ParallelCost
from loopwright.kernels import thread_pool
from loopwright.lower.contraction_nests.contraction_kernel import lower_contraction
from loopwright.lower.contraction_nests.launch import launch
from loopwright.machines.load import load_machine
from loopwright.planner.contraction_plans.analytical import choose
from lower.contractions import ALPHA, BETA, Made, Ring, expected, fresh, ring


def tiny(name: str) -> Machine:
    """A machine with almost no cache, on which threads cost nothing."""
    machine = load_machine(name)
    sizes = (512, 2048, 8192)
    caches = tuple(replace(c, size=s) for c, s in zip(machine.caches, sizes, strict=False))
    return replace(machine, caches=caches, parallel_cost=ParallelCost(base=0, per_thread=0))


MACHINES = ["neoverse-n1", "zen3", "skylake-avx512", "core-e5450", "power8"]
RINGS = {
    "float64": ring("add", "mul", "float64"),
    "float32": ring("add", "mul", "float32"),
    "float16": ring("add", "mul", "float16", "float16", "float16", "float32"),
    "int8": ring("add", "mul", "int8", "int8", "int32", "int32"),
    "int32": ring("min", "add", "int32"),
    "complex64": ring("add", "mul", "complex64"),
    "mixed": ring("add", "mul", "int16", "float32", "float64", "float64"),
}

# Subscripts with the order of the axes in memory and the sizes of the letters.
SHAPES: dict[str, tuple[str, dict[str, int]]] = {
    "matrices": ("ik,kj->ij", {"i": 13, "j": 19, "k": 21}),
    "left transposed": ("ki,kj->ij", {"i": 9, "j": 17, "k": 23}),
    "right transposed": ("ik,jk->ij", {"i": 7, "j": 18, "k": 22}),
    "out transposed": ("ik,kj->ji", {"i": 17, "j": 6, "k": 13}),
    "two reductions, one short": ("iab,abj->ij", {"i": 9, "a": 5, "b": 8, "j": 11}),
    "reductions apart": ("aib,bja->ij", {"i": 8, "a": 3, "b": 16, "j": 9}),
    "four by four": ("abcd,cdef->abef", dict(zip("abcdef", (3, 4, 2, 8, 3, 8), strict=True))),
    "scattered": ("efbad,cf->abcde", dict(zip("abcdef", (2, 3, 5, 2, 3, 4), strict=True))),
    "batch": ("gik,gkj->gij", {"g": 3, "i": 5, "j": 9, "k": 7}),
    "rows": ("ik,k->i", {"i": 11, "k": 37}),
    "rows of tensors": ("iab,ab->i", {"i": 5, "a": 3, "b": 16}),
    "columns": ("k,kj->j", {"j": 53, "k": 9}),
    "columns of tensors": ("k,akb->ab", {"a": 3, "b": 16, "k": 5}),
    "dot": ("k,k->", {"k": 101}),
    "outer": ("i,j->ij", {"i": 7, "j": 21}),
    "elements": ("ij,ji->ij", {"i": 6, "j": 13}),
    "short": ("ik,kj->ij", {"i": 2, "j": 2, "k": 2}),
}


def problem(
    subscripts: str, sizes: dict[str, int], algebra: Ring, seed: int, whole: bool = False
) -> tuple[ContractionShape, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The instance of an einsum on contiguous arrays, and those arrays; then with axes g i j p.

    `whole`: integers from the whole range of their type, the extreme ones more often than others.
    """
    terms = subscripts.replace("->", ",").split(",")
    names = ("left", "right", "out")
    random = np.random.default_rng(seed)
    arrays, steps = {}, {}
    for name, term in zip(names, terms, strict=True):
        shape = [sizes[c] for c in term]
        numbers = random.integers(-3, 4, shape).astype(getattr(algebra, name))
        if whole:
            limits = np.iinfo(numbers.dtype)
            drawn = random.integers(limits.min, limits.max, shape, endpoint=True)
            extreme = np.where(random.random(shape) < 0.5, limits.min, limits.max)
            numbers = np.where(random.random(shape) < 0.5, extreme, drawn).astype(numbers.dtype)
        arrays[name] = numbers
        steps[name] = {c: s // numbers.itemsize for c, s in zip(term, numbers.strides, strict=True)}
    left, right, out = terms
    bundles: dict[str, str] = {"g": "", "i": "", "j": "", "p": ""}
    for c in sizes:
        place = "p" if c not in out else "g" if c in left and c in right else "ij"[c not in left]
        bundles[place] += c
    dims = [
        tuple(Dim(sizes[c], *(steps[name].get(c, 0) for name in names)) for c in bundles[b])
        for b in "gijp"
    ]
    plain = {}
    for name, term in zip(names, terms, strict=True):
        order = [c for b in "gijp" for c in bundles[b] if c in term]
        view = arrays[name].transpose([term.index(c) for c in order])
        plain[name] = view.reshape(
            [math.prod(sizes[c] for c in bundles[b] if c in term) for b in "gijp"]
        )
    return ContractionShape(*dims), arrays, plain


def check_plan(
    machine: Machine,
    shape: str,
    algebra: Ring,
    threads: int,
    initial: Initial,
    scaled: bool,
    whole: bool = False,
) -> ContractionKernel:
    instance, arrays, plain = problem(*SHAPES[shape], algebra, len(shape), whole)
    types = [DTYPES[getattr(algebra, x)] for x in ("left", "right", "out", "accumulator")]
    wanted = Algebra(algebra.plus, algebra.times, algebra.zero, *types, initial, scaled)
    choice = choose(instance, wanted, machine, threads, reassoc=True)
    kernel = choice.kernel
    assert choice.threads <= threads
    nest = lower_contraction(kernel, "f")
    check_nest(nest)
    # The result by definition, in the order the instance had before it was arranged.
    given = replace(kernel, variant=replace(kernel.variant, swapped=False))
    right = expected(given, Made(instance, arrays, plain))
    order = np.empty_like(plain["out"])[..., 0]
    assert order.shape == right.shape

    def made() -> dict[str, np.ndarray]:
        found = fresh(Made(instance, arrays))
        if choice.shape.swapped:
            found["left"], found["right"] = found["right"], found["left"]
        if scaled:
            found["alpha"] = np.array(ALPHA, algebra.accumulator)
        if initial is Initial.SCALED:
            found["beta"] = np.array(BETA, algebra.accumulator)
        return found

    def assert_right(found: dict[str, np.ndarray]) -> None:
        out = found["out"]
        plain_out = Made(instance, {**arrays, "out": out})
        terms = SHAPES[shape][0].split("->")
        logical = result_view(terms, SHAPES[shape][1], plain_out.arrays["out"])
        assert_same_bits(logical.reshape(right.shape), right, (machine.name, kernel))

    launched = launch(choice.variant, choice.blocks, choice.shape)
    values = {name: launched.values[name] for name in nest.scalars}
    found = made()
    memory = {k: Memory.of(v.reshape(1) if v.ndim == 0 else v) for k, v in found.items()}
    team = choice.threads if kernel.variant.parallel != "none" else 1
    interpret_nest(nest, {**memory, "table": launched.table}, values, threads=team)
    assert_right(found)
    if machine.vector_bytes > 32:
        return kernel  # the interpreter has shown it; such vectors take long to compile here
    code = compile_nest(nest)
    found = made()
    bound = code.bind(values, launched.table, team, thread_pool)
    bound(*(found[b.name] for b in nest.buffers if b.space is Space.GLOBAL))
    assert_right(found)
    return kernel


def result_view(terms: list[str], sizes: dict[str, int], out: np.ndarray) -> np.ndarray:
    """The result with the letters of batch first, then those of left, then those of right."""
    (left, right), result = terms[0].split(","), terms[1]
    order = [c for c in sizes if c in result and c in left and c in right]
    order += [c for c in sizes if c in result and c in left and c not in right]
    order += [c for c in sizes if c in result and c not in left]
    return out.transpose([result.index(c) for c in order])


CASES = [
    (machine, shape, algebra)
    for number, shape in enumerate(SHAPES)
    for machine, algebra in (
        (MACHINES[(number + k) % 5], list(RINGS)[(number + 2 * k) % len(RINGS)]) for k in range(2)
    )
]


@pytest.mark.drawn(12)
@pytest.mark.parametrize(("machine", "shape", "algebra"), CASES)
def test_planned_forms(machine: str, shape: str, algebra: str) -> None:
    number = CASES.index((machine, shape, algebra))
    sums = RINGS[algebra].times == "mul"
    check_plan(
        tiny(machine),
        shape,
        RINGS[algebra],
        threads=1 + number % 3,
        initial=list(Initial)[number % (3 if sums else 2)],
        scaled=sums and number % 4 == 3,
    )


# The usual run takes every second one: of each kind some.
NARROW = [
    ("sapphirerapids", ("int8", "int8"), 4),
    ("sapphirerapids", ("uint8", "uint8"), 4),
    ("sapphirerapids", ("int8", "uint8"), 4),
    ("sapphirerapids", ("int16", "uint8"), 2),
    ("alderlake", ("uint8", "uint8"), 4),
    ("zen3", ("int8", "int8"), 2),
    ("zen3", ("uint8", "int8"), 2),
    ("neoverse-n1", ("uint8", "uint8"), 4),
    ("core-e5450", ("int16", "int16"), 2),
    ("neoverse-n1", ("uint8", "int8"), 1),
    ("neoverse-n1", ("int8", "int8"), 4),
    ("power8", ("int8", "int8"), 1),
    ("zen4", ("uint16", "uint16"), 1),
]


@pytest.mark.drawn(5)
@pytest.mark.parametrize(("machine", "types", "group"), NARROW)
def test_narrow_integers(machine: str, types: tuple[str, str], group: int) -> None:
    """Extreme numbers in sums that wrap, several steps at once where the machine can."""
    shape = "right transposed" if types[0] == "int8" else "two reductions, one short"
    algebra = ring("add", "mul", *types, "int32", "int32")
    kernel = check_plan(tiny(machine), shape, algebra, 1, Initial.OUT, False, whole=True)
    assert kernel.variant.group == group
    flips = machine in ("sapphirerapids", "alderlake") and types[0] == types[1]
    assert kernel.variant.flipped == flips


def test_the_cases_reach_every_kind() -> None:
    kinds = set()
    for machine, shape, algebra in CASES:
        instance, _, _ = problem(*SHAPES[shape], RINGS[algebra], 0)
        types = [
            DTYPES[getattr(RINGS[algebra], x)] for x in ("left", "right", "out", "accumulator")
        ]
        wanted = Algebra("add", "mul", 0, *types, Initial.ZERO, False)
        kinds.add(choose(instance, wanted, tiny(machine), 2, reassoc=True).kernel.variant.algorithm)
    assert kinds == set(Algorithm)


WHOLE = ["neoverse-n1", "zen3", "skylake-avx512", "sapphirerapids", "power8"]
TENSORS = [
    # Loops whose runs are a few vectors long, and reductions of several blocks.
    "aib,bja->ij",
    "bai,abj->ij",
    "iab,jab->ij",
    "kcd,kef->cdef",
    "akb,cdk->abcd",
    "dke,fka->dfea",
]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("machine", WHOLE)
@pytest.mark.parametrize("subscripts", TENSORS)
def test_vectors_of_packing_stay_in_their_runs(machine: str, subscripts: str) -> None:
    """Wherever a block begins, the elements that packing reads as one vector are neighbours."""
    random = np.random.default_rng(len(machine))
    for algebra in RINGS.values():
        for _ in range(12 if HUNTS else 4):
            sizes = {c: int(random.choice([3, 5, 8, 16, 24, 48, 80, 112])) for c in "abcdef"}
            sizes |= {c: int(random.choice([37, 96, 310])) for c in "ij"}
            sizes["k"] = int(random.choice([5, 200, 1000]))
            used = {c: n for c, n in sizes.items() if c in subscripts}
            check_runs(load_machine(machine), subscripts, used, algebra)


def check_runs(machine: Machine, subscripts: str, sizes: dict[str, int], algebra: Ring) -> None:
    terms = subscripts.replace("->", ",").split(",")
    steps = []
    for term in terms:
        strides = np.cumprod([1, *(sizes[c] for c in reversed(term))])[:-1][::-1]
        steps.append(dict(zip(term, map(int, strides), strict=True)))
    bundles: dict[str, list[Dim]] = {"g": [], "i": [], "j": [], "p": []}
    for c in sizes:
        place = "p" if c not in terms[2] else "i" if c in terms[0] else "j"
        bundles[place].append(Dim(sizes[c], *(s.get(c, 0) for s in steps)))
    types = [DTYPES[getattr(algebra, x)] for x in ("left", "right", "out", "accumulator")]
    wanted = Algebra(algebra.plus, algebra.times, algebra.zero, *types, Initial.ZERO, False)
    choice = choose(
        ContractionShape(*map(tuple, bundles.values())), wanted, machine, 1, reassoc=True
    )
    kernel, values = choice.kernel, launch(choice.variant, choice.blocks, choice.shape).values
    if kernel.variant.algorithm is not Algorithm.PRODUCT:
        return
    found = choice.shape
    sides = (
        ("left", kernel.variant.left_packing, found.i, values["mc"], kernel.variant.rows),
        ("right", kernel.variant.right_packing, found.j, values["nc"], kernel.variant.columns),
    )
    for name, packing, tile, block, width in sides:
        if packing is Packing.ALONG_P:
            run = steps_in_run(kernel.variant.lanes, kernel.variant.group)
            starts = vector_starts(values["K"], values["kc"], values["kc"], run)
            assert are_runs(offsets(found.p, name), starts, run), (kernel, sizes)
        if packing in (Packing.ALONG_TILE, Packing.BY_PANEL, Packing.BY_TILE):
            run = min(width, kernel.variant.lanes * kernel.variant.group)
            starts = vector_starts(math.prod(d.extent for d in tile), block, width, run)
            assert are_runs(offsets(tile, name), starts, run), (kernel, sizes)


def vector_starts(total: int, block: int, width: int, run: int) -> list[int]:
    """First elements of the vectors in all whole panels of `width` of all blocks."""
    return [
        panel + at
        for start in range(0, total, block)
        for panel in range(start, min(start + block, total), width)
        for at in range(0, min(width, min(start + block, total) - panel) - run + 1, run)
    ]


def are_runs(places: np.ndarray, starts: list[int], run: int) -> bool:
    return all(places[s + run - 1] - places[s] == run - 1 for s in starts)
