"""What the analytical planner chooses is right: its forms, blocks and tables, machine by machine.

The machines have caches of a few hundred bytes, so that small sizes already need several blocks.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from backends.compiled import assert_same_bits, compile_nest
from loopwright.ir.check import check_nest
from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.interpret import Memory, interpret_nest
from loopwright.ir.kernel_variant import (
    Algebra,
    ContractionKernel,
    Initial,
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
