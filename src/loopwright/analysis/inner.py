"""Inner contractions: three nested loops i, j, p of a larger program that are a matrix product.

    out[i, j] = out[i, j]  plus  left[i, p] times right[p, j]  (plus further products)

for fixed loops outside. What is asked is whether the instances of one execution of the three loops
may run in any order that keeps p rising for every element: see `clash` in places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import islpy as isl

from loopwright.analysis.factors import Product, elements
from loopwright.analysis.places import (
    Place,
    Subscripts,
    clash,
    element_map,
    is_inside,
    own_elements,
    place_at,
    subscripts_of,
)
from loopwright.analysis.site import LOOPS, Member, Site, Sum, products_of, site_of
from loopwright.ir.expr import Cast, Expr, Load, Var
from loopwright.ir.program import Access, Program, Role
from loopwright.ir.visit import rewrite, substitute

__all__ = ["ELEMENT", "Factor", "Inner", "InnerProduct", "inner_contraction"]

# The variable that stands for the element in `Factor.value`; no identifier has a dot.
ELEMENT = "core.element"
# What the kernels combine factors by: operators the machine models have costs for.
_TIMES = frozenset({"add", "sub", "mul", "div", "min", "max", "and", "or", "xor"})


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of a product: an array element, and what is done to it on its way in."""

    load: Load  # as the first statement of the site has it
    value: Expr | None  # over Var(ELEMENT), scalars and the loops outside; None: the element itself
    place: Place
    subscripts: Subscripts


@dataclass(frozen=True, slots=True)
class InnerProduct:
    """`left times right`, or `right times left` where they are swapped."""

    times: str
    left: Factor  # varies with i and p
    right: Factor  # varies with p and j
    swapped: bool  # right is the first factor of times

    @property
    def first(self) -> Factor:
        return self.right if self.swapped else self.left

    @property
    def second(self) -> Factor:
        return self.left if self.swapped else self.right


@dataclass(frozen=True, slots=True)
class Inner:
    """A matrix product made by three nested loops."""

    site: Site
    plus: str
    products: tuple[InnerProduct, ...]
    out: Access  # as the first statement of the site has it
    subscripts: Subscripts  # of out
    is_in_place: bool  # rows of right are rows of out: others' results must not come between

    @property
    def statements(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.site.members)


class _Refused(Exception):  # noqa: N818, a verdict and no error
    """Carries the reason why loops are no inner contraction."""


def inner_contraction(program: Program, tree: isl.Schedule, loops: Sequence[str]) -> Inner | str:
    """The contraction that the loops i, j, p of a schedule tree are, or why they are none."""
    site = site_of(program, tree, loops)
    if isinstance(site, str):
        return site
    try:
        return _inner(program, site, loops)
    except _Refused as refusal:
        return str(refusal)


def _inner(program: Program, site: Site, loops: Sequence[str]) -> Inner:
    """The contraction of the first statement, and the proof that the others are the same one."""
    first, *others = site.members
    statement = program.statement(first.name)
    total = _products(program, first)
    place = place_at(first, statement.write)
    out = _subscripts(site, place)
    _require(out, (True, True, False), place.array, loops)
    products = []
    for product in total.products:
        if product.times not in _TIMES:
            raise _Refused(f"factors are combined by '{product.times}'")
        one, other = (_factor(site, first, value) for value in _sides(product))
        swapped = any(other.subscripts.steps[LOOPS[0]])
        left, right = (other, one) if swapped else (one, other)
        _require(left.subscripts, (True, False, None), left.place.array, loops)
        _require(right.subscripts, (False, True, None), right.place.array, loops)
        products.append(InnerProduct(product.times, left, right, swapped))
    rights = [product.right.place for product in products]
    reads = [place_at(first, x) for x in statement.reads if x != statement.write]
    found = clash(site, place, [x for x in reads if x not in rights], rights)
    if found is not None:
        raise _Refused(found)
    if any(clip.p for clip in site.clips):
        _require_readable(program, site, [product.left.place for product in products])
    is_in_place = any(x.array == place.array for x in rights)
    is_in_place = is_in_place and clash(site, place, reads) is not None
    inner = Inner(site, total.plus, tuple(products), statement.write, out, is_in_place)
    for member in others:
        _require_same(program, inner, place, member)
    return inner


def _require_readable(program: Program, site: Site, places: Sequence[Place]) -> None:
    """Refuse unless left can be read for all rows and steps, also where they do not count."""
    for place in places:
        array = program.array(place.array)
        if array.role in (Role.LOCAL, Role.OUT):
            raise _Refused(f"not all of '{place.array}' is set")
        if not is_inside(site, place):
            raise _Refused(f"'{place.array}' is too small for all rows and steps")


def _products(program: Program, member: Member) -> Sum:
    found = products_of(program, program.statement(member.name), member.moving)
    if isinstance(found, str):
        raise _Refused(found)
    return found


def _sides(product: Product) -> tuple[Expr, Expr]:
    assert product.right is not None
    return product.left, product.right


def _factor(site: Site, member: Member, value: Expr) -> Factor:
    load, hollow = _hollow(member, value)
    place = place_at(member, load)
    return Factor(load, hollow, place, _subscripts(site, place))


def _hollow(member: Member, value: Expr) -> tuple[Load, Expr | None]:
    """The element of a factor, and the factor with a hole in its place."""
    (load,) = elements(value, member.moving)
    # Elements are converted to the type of the sums anyway.
    if value == load or (isinstance(value, Cast) and value.x == load):
        return load, None
    hole = Var(ELEMENT, load.dtype)
    hollow = rewrite(value, lambda x: hole if x == load else x)
    return load, substitute(hollow, member.point)


def _require_same(program: Program, inner: Inner, out: Place, member: Member) -> None:
    """Refuse unless a further statement does at its points what the first one would do there."""
    name = f"{member.name} and {inner.site.members[0].name}"
    statement = program.statement(member.name)
    total = _products(program, member)
    if total.plus != inner.plus or len(total.products) != len(inner.products):
        raise _Refused(f"{name} are different sums")
    pairs: list[tuple[Place, Load | Access]] = [(out, statement.write)]
    for product, known in zip(total.products, inner.products, strict=True):
        if product.times != known.times:
            raise _Refused(f"{name} combine their factors by different operators")
        for value, factor in zip(_sides(product), (known.first, known.second), strict=True):
            load, hollow = _hollow(member, value)
            if hollow != factor.value or load.dtype != factor.load.dtype:
                raise _Refused(f"{name} prepare their factors in different ways")
            pairs.append((factor.place, load))
    for place, access in pairs:
        own = own_elements(program, member, access)
        same = element_map(inner.site, place).intersect_domain(own.domain())
        if place.array != access.array or not own.is_equal(same):
            raise _Refused(f"{name} use different elements of '{access.array}'")


def _subscripts(site: Site, place: Place) -> Subscripts:
    found = subscripts_of(site, place)
    if isinstance(found, str):
        raise _Refused(found)
    return found


def _require(
    found: Subscripts, wanted: Sequence[bool | None], array: str, loops: Sequence[str]
) -> None:
    """Refuse subscripts that vary with other loops than wanted; None: they may or may not."""
    for name, loop, must in zip(LOOPS, loops, wanted, strict=True):
        if must is not None and any(found.steps[name]) != must:
            verb = "does not vary" if must else "varies"
            raise _Refused(f"'{array}' {verb} with loop '{loop}'")
