"""The schedule of a new kernel is what its loops do, for every algorithm and threads."""

import math
import random
from dataclasses import replace

import pytest

from loopwright.diagnostics import IllegalStep
from loopwright.frontends.einsum_syntax import EinsumSubscripts, parse_subscripts
from loopwright.frontends.einsum_tree import contraction_tree
from loopwright.frontends.extract import program_of
from loopwright.ir.contraction_shape import ContractionShape, Dim
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.kernel_variant import Algebra, Algorithm, Initial, KernelVariant
from loopwright.ir.loops import For, LoopNest, Mark
from loopwright.ir.machine import Machine, ParallelCost
from loopwright.ir.schedule import Schedule
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.machines.host import host
from loopwright.pipeline import contraction_schedule
from loopwright.planner.contraction_plans.analytical import Choice, choose

THREADS = (1, 2, 3, 4)
DOUBLE = DTYPES["float64"]
# Loop variables of the nests of `lower`, and the bundle that each goes through.
BUNDLES = {"g": "batch", "ic": "i", "ir": "i", "jc": "j"}

# Subscripts, sizes by letter, the algorithm, and what several threads share out.
CASES = (
    ("ik,kj->ij", {"i": 64, "j": 64, "k": 64}, Algorithm.PRODUCT, "i j"),
    ("ki,jk->ij", {"i": 64, "j": 2, "k": 64}, Algorithm.PRODUCT, "i j"),
    ("bik,bkj->bij", {"b": 12, "i": 9, "j": 9, "k": 9}, Algorithm.PRODUCT, "batch"),
    ("jk,ki->ij", {"i": 600, "j": 3, "k": 40}, Algorithm.PRODUCT, "i j"),
    ("ik,k->i", {"i": 64, "k": 512}, Algorithm.ROWS, "i"),
    ("k,ik->i", {"i": 64, "k": 512}, Algorithm.ROWS, "j"),
    ("bk,bk->b", {"b": 64, "k": 512}, Algorithm.ROWS, "batch"),
    ("ik->i", {"i": 64, "k": 512}, Algorithm.ROWS, "i"),
    (",ik->i", {"i": 64, "k": 512}, Algorithm.ROWS, "j"),
    ("i,i->", {"i": 512}, Algorithm.ROWS, ""),
    ("k,->", {"k": 512}, Algorithm.ROWS, ""),
    ("ki,k->i", {"i": 512, "k": 64}, Algorithm.COLUMNS, "i"),
    ("k,ki->i", {"i": 512, "k": 64}, Algorithm.COLUMNS, "j"),
    ("ki->i", {"i": 512, "k": 64}, Algorithm.COLUMNS, "i"),
    ("bki,bk->bi", {"b": 64, "i": 64, "k": 64}, Algorithm.COLUMNS, "batch"),
    ("ef,da->adfe", {"a": 8, "d": 9, "e": 10, "f": 11}, Algorithm.ELEMENTS, "elements"),
    ("eha->eah", {"a": 20, "e": 21, "h": 22}, Algorithm.ELEMENTS, "elements"),
    ("ba,ab->ab", {"a": 50, "b": 60}, Algorithm.ELEMENTS, "elements"),
    ("ba,->ab", {"a": 50, "b": 60}, Algorithm.ELEMENTS, "elements"),
    ("ik,kj->ij", {"i": 64, "j": 64, "k": 1}, Algorithm.ELEMENTS, "elements"),
    ("a,->a", {"a": 1}, Algorithm.ELEMENTS, ""),
)


def eager(machine: Machine) -> Machine:
    """A machine whose threads cost nothing, so that small work is shared out too."""
    return replace(machine, parallel_cost=ParallelCost(0.0, 0.0))


def shape_of(names: EinsumSubscripts, sizes: dict[str, int]) -> ContractionShape:
    """The loops of an einsum over row-major operands."""
    left = names.operands[0]
    right = names.operands[1] if len(names.operands) > 1 else ""
    strides = [
        {c: math.prod(sizes[x] for x in term[at + 1 :]) for at, c in enumerate(term)}
        for term in (left, right, names.out)
    ]
    bundles: dict[str, list[Dim]] = {"batch": [], "i": [], "j": [], "p": []}
    for c in sorted({*left, *right}):
        where = "p" if c not in names.out else "batch" if c in left and c in right else ""
        dim = Dim(sizes[c], *(found.get(c, 0) for found in strides))
        bundles[where or ("i" if c in left else "j")].append(dim)
    return ContractionShape(*map(tuple, bundles.values()))


def algebra_of(names: EinsumSubscripts) -> Algebra:
    times = "mul" if len(names.operands) > 1 else "first"
    types = {"left": DOUBLE, "right": DOUBLE, "out": DOUBLE, "accumulator": DOUBLE}
    return Algebra(
        plus="add",
        times=times,
        zero=0.0,
        initial=Initial.ZERO,
        scaled=False,
        **types,
    )


def names_of(text: str) -> EinsumSubscripts:
    return parse_subscripts(text, tuple(map(len, text.split("->")[0].split(","))))


def shared_out(nest: LoopNest) -> set[str]:
    """The bundles whose loops the threads of a nest share, as the variant names them."""
    marked = {s.var for s in statements(nest.body) if isinstance(s, For) if s.mark is Mark.PARALLEL}
    return {BUNDLES[name] for name in marked & BUNDLES.keys()}


def schedule_of(names: EinsumSubscripts, choice: Choice, *, reassoc: bool) -> Schedule:
    tree = contraction_tree(names, choice.kernel.algebra)
    return contraction_schedule(program_of(tree, reassoc=reassoc), choice)


def bundle_of(variant: KernelVariant) -> str:
    """What a variant shares out, by the names of the program."""
    if variant.algorithm is Algorithm.ELEMENTS and variant.parallel != "none":
        return "elements"
    turned = {"i": "j", "j": "i"} if variant.swapped else {}
    return "" if variant.parallel == "none" else turned.get(variant.parallel, variant.parallel)


def proven(text: str, sizes: dict[str, int], threads: int, *, reassoc: bool = True) -> Choice:
    """The choice for an einsum, after a check that its nest shares out what its schedule says."""
    names = names_of(text)
    shape, machine = shape_of(names, sizes), eager(host())
    choice = choose(shape, algebra_of(names), machine, threads, reassoc=reassoc)
    schedule = schedule_of(names, choice, reassoc=reassoc)
    (scheduled,) = schedule.contractions
    assert scheduled.variants == (choice.variant,)
    told = {choice.variant.parallel} - {"none"}
    assert shared_out(lower_schedule(schedule)) == told
    assert bool(told) == (choice.threads > 1)
    return choice


@pytest.mark.drawn(4)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(("text", "sizes", "kind", "bundle"), CASES)
def test_every_kind(
    text: str, sizes: dict[str, int], kind: Algorithm, bundle: str, threads: int
) -> None:
    choice = proven(text, sizes, threads)
    assert choice.variant.algorithm is kind
    # Which side of a product is shared out is the machine's affair.
    assert bundle_of(choice.variant) in (bundle.split() if threads > 1 and bundle else [""])


@pytest.mark.drawn(4)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(("text", "sizes"), [(case[0], case[1]) for case in CASES])
def test_sums_in_their_order(text: str, sizes: dict[str, int], threads: int) -> None:
    choice = proven(text, sizes, threads, reassoc=False)
    assert choice.variant.algorithm is not Algorithm.ROWS
    assert not choice.variant.apart


def test_another_order_of_sums_is_told() -> None:
    """A plan for a program that allows another order is no plan for one that does not."""
    names = names_of("ik,k->i")
    shape = shape_of(names, {"i": 64, "k": 512})
    free = choose(shape, algebra_of(names), host(), 1, reassoc=True)
    with pytest.raises(IllegalStep, match="keeps its order without reassoc"):
        schedule_of(names, free, reassoc=False)


@pytest.mark.parametrize("threads", [2, 3])
def test_random_forms(threads: int) -> None:
    random_ = random.Random(threads)
    for _ in range(60):
        text, sizes = random_einsum(random_, count=random_.randint(1, 2))
        proven(text, sizes, threads, reassoc=random_.random() < 0.7)


def random_einsum(random_: random.Random, *, count: int) -> tuple[str, dict[str, int]]:
    """Subscripts of `count` operands over up to six letters, and a size for each letter."""
    letters = "abcdef"[: random_.randint(1, 6)]
    sizes = {c: random_.choice((1, 2, 3, 7, 16)) for c in letters}
    terms = [
        "".join(random_.sample(letters, random_.randint(0, len(letters)))) for _ in range(count)
    ]
    if not any(terms):
        terms[0] = letters
    used = sorted({*"".join(terms)})
    out = "".join(random_.sample(used, random_.randint(0, len(used))))
    return f"{','.join(terms)}->{out}", sizes
