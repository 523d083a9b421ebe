"""What is proven of a new kernel is what its loops do, for every kind of form and threads."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest

import loopwright as lw
from loopwright.calls.proof import prove_einsum
from loopwright.diagnostics import IllegalStep
from loopwright.frontends.einsum_syntax import EinsumSubscripts, parse_subscripts
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.form import Initial, Kind
from loopwright.ir.loops import For, LoopNest, Mark
from loopwright.ir.machine import Machine, ParallelCost
from loopwright.ir.visit import statements
from loopwright.lower.lower_contraction import lower_contraction
from loopwright.machines.host import host
from loopwright.planner.analytical import Algebra, Choice, choose
from loopwright.planner.contraction_shape import ContractionShape, Dim

THREADS = (1, 2, 3, 4)
DOUBLE = DTYPES["float64"]
# Loop variables of the nests of `lower`, and the bundle that each goes through.
BUNDLES = {"g": "batch", "ic": "i", "ir": "i", "jc": "j"}

# Subscripts, sizes by letter, the kind of form, and what several threads share out.
FORMS = (
    ("ik,kj->ij", {"i": 64, "j": 64, "k": 64}, Kind.PRODUCT, "i j"),
    ("ki,jk->ij", {"i": 64, "j": 2, "k": 64}, Kind.PRODUCT, "i j"),
    ("bik,bkj->bij", {"b": 12, "i": 9, "j": 9, "k": 9}, Kind.PRODUCT, "batch"),
    ("jk,ki->ij", {"i": 600, "j": 3, "k": 40}, Kind.PRODUCT, "i j"),
    ("ik,k->i", {"i": 64, "k": 512}, Kind.ROWS, "i"),
    ("k,ik->i", {"i": 64, "k": 512}, Kind.ROWS, "j"),
    ("bk,bk->b", {"b": 64, "k": 512}, Kind.ROWS, "batch"),
    ("ik->i", {"i": 64, "k": 512}, Kind.ROWS, "i"),
    (",ik->i", {"i": 64, "k": 512}, Kind.ROWS, "i"),
    ("i,i->", {"i": 512}, Kind.ROWS, ""),
    ("k,->", {"k": 512}, Kind.ROWS, ""),
    ("ki,k->i", {"i": 512, "k": 64}, Kind.COLUMNS, "i"),
    ("k,ki->i", {"i": 512, "k": 64}, Kind.COLUMNS, "j"),
    ("ki->i", {"i": 512, "k": 64}, Kind.COLUMNS, "i"),
    ("bki,bk->bi", {"b": 64, "i": 64, "k": 64}, Kind.COLUMNS, "batch"),
    ("ef,da->adfe", {"a": 8, "d": 9, "e": 10, "f": 11}, Kind.ELEMENTS, "elements"),
    ("eha->eah", {"a": 20, "e": 21, "h": 22}, Kind.ELEMENTS, "elements"),
    ("ba,ab->ab", {"a": 50, "b": 60}, Kind.ELEMENTS, "elements"),
    ("ba,->ab", {"a": 50, "b": 60}, Kind.ELEMENTS, "elements"),
    ("ik,kj->ij", {"i": 64, "j": 64, "k": 1}, Kind.ELEMENTS, "elements"),
    ("a,->a", {"a": 1}, Kind.ELEMENTS, ""),
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


def algebra_of(names: EinsumSubscripts, *, reassoc: bool) -> Algebra:
    times = "mul" if len(names.operands) > 1 else "first"
    types = {"left": DOUBLE, "right": DOUBLE, "out": DOUBLE, "accumulator": DOUBLE}
    return Algebra(
        plus="add",
        times=times,
        zero=0.0,
        initial=Initial.ZERO,
        scaled=False,
        reassoc=reassoc,
        **types,
    )


def names_of(text: str) -> EinsumSubscripts:
    return parse_subscripts(text, tuple(map(len, text.split("->")[0].split(","))))


def shared_out(nest: LoopNest) -> set[str]:
    """The bundles whose loops the threads of a nest share, as the form names them."""
    marked = {s.var for s in statements(nest.body) if isinstance(s, For) if s.mark is Mark.PARALLEL}
    return {BUNDLES[name] for name in marked & BUNDLES.keys()}


def proven(text: str, sizes: dict[str, int], threads: int, *, reassoc: bool = True) -> Choice:
    """The choice for an einsum, after a check that the proven plan shares out what the nest does.

    Which operand the plan calls left is its own affair: i and j count as one.
    """
    names = names_of(text)
    algebra = algebra_of(names, reassoc=reassoc)
    choice = choose(shape_of(names, sizes), algebra, eager(host()), threads)
    (core,) = prove_einsum(names, algebra, choice).cores
    runs = shared_out(lower_contraction(choice.form, "kernel"))
    if choice.form.kind is Kind.ELEMENTS:
        runs = {"elements"} if runs else set()
    told = set() if core.parallel is None else {core.parallel}
    sides = {"i": "side", "j": "side"}
    assert {sides.get(x, x) for x in told} == {sides.get(x, x) for x in runs}
    assert bool(told) == (choice.threads > 1)
    return choice


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(("text", "sizes", "kind", "bundle"), FORMS)
def test_every_kind(
    text: str, sizes: dict[str, int], kind: Kind, bundle: str, threads: int
) -> None:
    choice = proven(text, sizes, threads)
    assert choice.form.kind is kind
    names = names_of(text)
    (core,) = prove_einsum(names, algebra_of(names, reassoc=True), choice).cores
    # Which side of a product is shared out is the machine's affair.
    assert (core.parallel or "") in (bundle.split() if threads > 1 and bundle else [""])


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(("text", "sizes"), [(form[0], form[1]) for form in FORMS])
def test_sums_in_their_order(text: str, sizes: dict[str, int], threads: int) -> None:
    choice = proven(text, sizes, threads, reassoc=False)
    assert choice.form.kind is not Kind.ROWS
    assert not choice.form.apart


def test_another_order_of_sums_is_told() -> None:
    """A plan for a program that allows another order is no plan for one that does not."""
    names = names_of("ik,k->i")
    shape = shape_of(names, {"i": 64, "k": 512})
    free = choose(shape, algebra_of(names, reassoc=True), host(), 1)
    with pytest.raises(IllegalStep, match="keeps its order without reassoc"):
        prove_einsum(names, algebra_of(names, reassoc=False), free)


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


def test_random_einsums_on_two_threads() -> None:
    """Whole calls: whatever is large enough to be shared out gives what NumPy gives."""
    random_, numbers = random.Random(10), np.random.default_rng(10)
    for _ in range(40):
        text, sizes = random_einsum(random_, count=random_.randint(1, 3))
        terms = text.split("->")[0].split(",")
        operands = [numbers.integers(-4, 5, [sizes[c] for c in term]) for term in terms]
        found = lw.einsum(text, *operands, threads=2)
        np.testing.assert_array_equal(found, np.einsum(text, *operands), err_msg=f"{text} {sizes}")


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("ef,da->adfe", {"a": 20, "d": 21, "e": 22, "f": 23}),
        ("eha->eah", {"a": 60, "e": 61, "h": 62}),
        ("ab,cd,ef->abcdef", dict.fromkeys("abcdef", 8)),
        ("ik,kj->ij", {"i": 700, "j": 700, "k": 1}),
        (",abc->ab", {"a": 50, "b": 50, "c": 50}),
    ],
)
@pytest.mark.parametrize("threads", THREADS)
def test_shared_out_calls(text: str, sizes: dict[str, int], threads: int) -> None:
    terms = text.split("->")[0].split(",")
    numbers = np.random.default_rng(1)
    operands = [numbers.integers(-4, 5, [sizes[c] for c in term]) * 1.0 for term in terms]
    out = np.empty([sizes[c] for c in text.split("->")[1]])
    lw.einsum(text, *operands, out=out, threads=threads)
    np.testing.assert_array_equal(out, np.einsum(text, *operands))


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("ik,k->i", {"i": 64, "k": 512}),
        ("ki,k->i", {"i": 512, "k": 64}),
        ("bik,bk->bi", {"b": 3, "i": 64, "k": 512}),
        ("ikl,kl->i", {"i": 64, "k": 8, "l": 64}),
        ("ik,->i", {"i": 64, "k": 512}),
    ],
)
def test_either_operand_may_come_first(text: str, sizes: dict[str, int]) -> None:
    terms, out = text.split("->")
    turned = f"{','.join(reversed(terms.split(',')))}->{out}"
    one, other = (proven(x, sizes, 1).form for x in (text, turned))
    assert replace(one, swapped=False) == replace(other, swapped=False)
