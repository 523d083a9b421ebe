"""Inner contractions: three nested loops i, j, p of a larger program that are a matrix product.

    out[i, j] = out[i, j]  plus  left[i, p] times right[p, j]  (plus further products)

for fixed values of the loops outside. The proof is that the instances of one execution of the nest
may run in any order in which p rises for every element of out (`reordering_conflict`).
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.analysis.product_nest import (
    NestStatement,
    ProductNest,
    SumOfProducts,
    accessed_elements,
    affine_subscripts,
    element_index,
    element_map,
    is_inside,
    product_nest,
    reordering_conflict,
    sum_of_products,
)
from loopwright.analysis.update_statements import FactoredProduct, elements
from loopwright.ir.contraction import (
    ELEMENT,
    LOOP_I,
    LOOPS,
    AffineSubscripts,
    ElementIndex,
    Factor,
    InnerContraction,
    InnerProduct,
)
from loopwright.ir.expr import Cast, Expr, Load, Var
from loopwright.ir.islkit import isl
from loopwright.ir.program import Access, Program, Role
from loopwright.ir.visit import rewrite, substitute

__all__ = ["inner_contraction"]

# What the kernels combine factors by: operators the machine models have costs for.
_TIMES = frozenset({"add", "sub", "mul", "div", "min", "max", "and", "or", "xor"})


class _Refused(Exception):  # noqa: N818, a verdict and no error
    """Carries the reason why loops are no inner contraction."""


def inner_contraction(
    program: Program, tree: isl.Schedule, loops: Sequence[str]
) -> InnerContraction | str:
    """The contraction that the loops i, j, p of a schedule tree compute, or why they do not."""
    nest = product_nest(program, tree, loops)
    if isinstance(nest, str):
        return nest
    try:
        return _inner(program, nest, loops)
    except _Refused as refusal:
        return str(refusal)


def _inner(program: Program, nest: ProductNest, loops: Sequence[str]) -> InnerContraction:
    """The contraction of the first statement, and the proof that the others are the same one."""
    first, *others = nest.statements
    statement = program.statement(first.name)
    total = _products(program, first)
    element = element_index(first, statement.write)
    out = _subscripts(nest, element)
    _require(out, (True, True, False), element.array, loops)
    products = []
    for product in total.products:
        if product.times not in _TIMES:
            raise _Refused(f"factors are combined by '{product.times}'")
        one, other = (_factor(nest, first, value) for value in _sides(product))
        swapped = any(other.subscripts.steps[LOOP_I])
        left, right = (other, one) if swapped else (one, other)
        _require(left.subscripts, (True, False, None), left.element.array, loops)
        _require(right.subscripts, (False, True, None), right.element.array, loops)
        products.append(InnerProduct(product.times, left, right, swapped))
    rights = [product.right.element for product in products]
    reads = [element_index(first, x) for x in statement.reads if x != statement.write]
    found = reordering_conflict(nest, element, [x for x in reads if x not in rights], rights)
    if found is not None:
        raise _Refused(found)
    if any(guard.p for guard in nest.guards):
        _require_readable(program, nest, [product.left.element for product in products])
    is_in_place = any(x.array == element.array for x in rights)
    is_in_place = is_in_place and reordering_conflict(nest, element, reads) is not None
    inner = InnerContraction(
        tuple(member.name for member in nest.statements),
        nest.outer,
        nest.ranges,
        nest.guards,
        total.plus,
        total.zero,
        tuple(products),
        statement.write,
        out,
        is_in_place,
    )
    for member in others:
        _require_same(program, nest, inner, element, member)
    return inner


def _require_readable(program: Program, nest: ProductNest, read: Sequence[ElementIndex]) -> None:
    """Refuse unless the left operand can be read at every (i, p), guards aside."""
    for element in read:
        array = program.array(element.array)
        if array.role in (Role.LOCAL, Role.OUT):
            raise _Refused(f"not all of '{element.array}' is set")
        if not is_inside(nest, element):
            raise _Refused(f"'{element.array}' is too small for all rows and steps")


def _products(program: Program, member: NestStatement) -> SumOfProducts:
    found = sum_of_products(program, program.statement(member.name), member.moving)
    if isinstance(found, str):
        raise _Refused(found)
    return found


def _sides(product: FactoredProduct) -> tuple[Expr, Expr]:
    assert product.right is not None
    return product.left, product.right


def _factor(nest: ProductNest, member: NestStatement, value: Expr) -> Factor:
    load, hollow = _hollow(member, value)
    element = element_index(member, load)
    return Factor(load, hollow, element, _subscripts(nest, element))


def _hollow(member: NestStatement, value: Expr) -> tuple[Load, Expr | None]:
    """The array element of a factor, and the factor as a function of Var(ELEMENT)."""
    (load,) = elements(value, member.moving)
    # Elements are converted to the type of the sums anyway.
    if value == load or (isinstance(value, Cast) and value.x == load):
        return load, None
    hole = Var(ELEMENT, load.dtype)
    hollow = rewrite(value, lambda x: hole if x == load else x)
    return load, substitute(hollow, member.point)


def _require_same(
    program: Program,
    nest: ProductNest,
    inner: InnerContraction,
    out: ElementIndex,
    member: NestStatement,
) -> None:
    """Refuse unless a further statement computes at its points what the first one would."""
    name = f"{member.name} and {inner.statements[0]}"
    statement = program.statement(member.name)
    total = _products(program, member)
    if total.plus != inner.plus or len(total.products) != len(inner.products):
        raise _Refused(f"{name} are different sums")
    pairs: list[tuple[ElementIndex, Load | Access]] = [(out, statement.write)]
    for product, known in zip(total.products, inner.products, strict=True):
        if product.times != known.times:
            raise _Refused(f"{name} combine their factors by different operators")
        for value, factor in zip(_sides(product), (known.first, known.second), strict=True):
            load, hollow = _hollow(member, value)
            if hollow != factor.value or load.dtype != factor.load.dtype:
                raise _Refused(f"{name} prepare their factors in different ways")
            pairs.append((factor.element, load))
    for element, access in pairs:
        own = accessed_elements(program, member, access)
        same = element_map(nest, element).intersect_domain(own.domain())
        if element.array != access.array or not own.is_equal(same):
            raise _Refused(f"{name} use different elements of '{access.array}'")


def _subscripts(nest: ProductNest, element: ElementIndex) -> AffineSubscripts:
    found = affine_subscripts(nest, element)
    if isinstance(found, str):
        raise _Refused(found)
    return found


def _require(
    found: AffineSubscripts, wanted: Sequence[bool | None], array: str, loops: Sequence[str]
) -> None:
    """Refuse subscripts that vary with other loops than wanted; None: they may or may not."""
    for name, loop, must in zip(LOOPS, loops, wanted, strict=True):
        if must is not None and any(found.steps[name]) != must:
            verb = "does not vary" if must else "varies"
            raise _Refused(f"'{array}' {verb} with loop '{loop}'")
