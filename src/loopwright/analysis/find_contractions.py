"""Contractions in a program: statements that together are one generalised matrix product.

    out[b, i, j] = final( initial[b, i, j]  plus  SUM_p  left[b, i, p] times right[b, p, j] )

What is looked at is the meaning, not the shape of the source: an updating statement on a box, the
chains in which its values flow, the statement that starts each chain and those that take its end.
Any loop order, any place of the first and last statements, scalars as accumulators: all the same.

Loops of `out` found in left and right go to the bundle batch, in right only to j, all others to i
(with stride 0 in left when they do not occur there). Loops of the reduction go to p, whichever of
the factors they occur in. A scalar in a factor is anything that does not vary with the loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from loopwright.analysis.dependences import access_map, dependences, flow_through, statement_between
from loopwright.analysis.loop_ranges import rectangular_ranges
from loopwright.analysis.reductions import (
    ChainLink,
    ReductionChain,
    chain_consumer,
    chain_start,
    loop_order,
    reads_what_it_writes,
    reduction_chain,
)
from loopwright.analysis.update_statements import (
    elements,
    factored_product,
    is_reorderable,
    loop_values,
    operator_and_term,
    update_of,
)
from loopwright.analysis.value_flow import ForwardedProgram, forward_scalars
from loopwright.ir.contraction import ACCUMULATOR, Contraction, LoopRange, Operand
from loopwright.ir.expr import Expr, Load, Var
from loopwright.ir.islkit import affine_map, isl
from loopwright.ir.passed_nan import number_operator
from loopwright.ir.program import (
    Access,
    DeclaredReduction,
    Program,
    Role,
    Statement,
    apply_operator,
)
from loopwright.ir.text import access_text, expr_text
from loopwright.ir.visit import loads, rewrite, substitute
from loopwright.ir.visit import names as names_in
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import computed_once
from loopwright.semirings import identity

__all__ = [
    "explain",
    "find_contractions",
    "whole_contraction",
]


class _Refused(Exception):  # noqa: N818, a verdict and no error
    """Carries the reason why a statement is no contraction."""


def find_contractions(program: Program) -> tuple[Contraction, ...]:
    """The contractions of a program, each to be run as one unit; no statement is in two of them."""
    verdicts = _verdicts(program).values()
    return tuple(verdict for verdict in verdicts if isinstance(verdict, Contraction))


def whole_contraction(program: Program) -> Contraction | None:
    """The contraction that a program as a whole is; None where it is none.

    Most programs have more statements than belong to any of their updates: of these nothing needs
    to be known but which values flow where.
    """
    analyses = _Analyses(forward_scalars(program))
    count = len(analyses.program.statements)
    candidates, _ = _candidates(analyses)
    forms = (form for candidate in candidates for form in _forms(analyses, candidate))
    if not any(len(form.statements) == count for form in forms):
        return None
    found = find_contractions(program)
    is_whole = len(found) == 1 and set(found[0].covers) == {s.name for s in program.statements}
    return found[0] if is_whole else None


def explain(program: Program) -> tuple[str, ...]:
    """One line for each statement: why it is or is not (part of) a contraction."""
    verdicts = _verdicts(program)
    owners = {
        name: verdict.statement
        for verdict in verdicts.values()
        if isinstance(verdict, Contraction)
        for name in verdict.covers
    }
    lines = []
    for statement in program.statements:
        name, verdict = statement.name, verdicts[statement.name]
        if isinstance(verdict, Contraction):
            lines.append(f"{name}: contraction {_description(verdict)}")
        elif name in owners:
            lines.append(f"{name}: part of the contraction {owners[name]}")
        else:
            lines.append(f"{name}: no contraction: {verdict}")
    return tuple(lines)


def _description(found: Contraction) -> str:
    """The product, its operator and loops, in one line."""
    left, right = found.left.value, found.right
    product = left if right is None else apply_operator(found.times, left, right.value)
    parts = (("batch", found.batch), ("i", found.i), ("j", found.j), ("p", found.p))
    bundles = [f"{name} = ({', '.join(x.name for x in loops)})" for name, loops in parts if loops]
    order = "" if not found.p else ", in any order" if found.reassoc else ", in source order"
    named = found.plus if isinstance(found.plus, str) else number_operator(found.plus)
    plus = named or "a user's function"
    text = f"of {expr_text(product)} by {plus} into {access_text(found.out)}"
    return f"{text}: {', '.join(bundles) or 'one element'}{order}"


class _Analyses:
    """Analyses of a program, computed when first asked for."""

    def __init__(self, found: ForwardedProgram) -> None:
        self.program = found.program
        self.absorbed = found.absorbed
        self.flows = _Flows(found.program)

    @computed_once
    def edges(self) -> frozenset[tuple[str, str]]:
        return dependences(self.program).edges()


class _Flows(dict[str, isl.UnionMap]):
    """The flow through each array, computed when first asked for."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program

    def __missing__(self, array: str) -> isl.UnionMap:
        self[array] = flow_through(self.program, array)
        return self[array]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An update statement with its reduction chains, without start and consumers."""

    chain: ReductionChain
    reduction: DeclaredReduction  # declared, or found in the statement's value
    p: tuple[LoopRange, ...]  # loops of the reduction in the order of the SUM
    reassoc: bool


@dataclass(frozen=True, slots=True)
class _Form:
    """A candidate with the statements that start its chains and consume their results."""

    candidate: _Candidate
    start: ChainLink | None
    takers: tuple[ChainLink, ...]

    @property
    def statements(self) -> tuple[Statement, ...]:
        start = (self.start.statement,) if self.start else ()
        takers = (link.statement for link in self.takers)
        return (*start, self.candidate.chain.statement, *takers)


def _verdicts(program: Program) -> dict[str, Contraction | str]:
    """For every statement the contraction it is the update of, or why it is none."""
    analyses = _Analyses(forward_scalars(program))
    verdicts: dict[str, Contraction | str] = {
        name: f"its value is a part of {reader}"
        for reader, names in analyses.absorbed.items()
        for name in names
    }
    candidates, refused = _candidates(analyses)
    verdicts |= refused
    units: list[frozenset[str]] = []
    # A statement without reduction loops may also be the start or the end of another contraction.
    for candidate in sorted(candidates, key=lambda c: not c.p):
        verdict = _verdict(analyses, candidate, units)
        verdicts[candidate.chain.statement.name] = verdict
        if isinstance(verdict, Contraction):
            units.append(frozenset(verdict.covers))
    return {s.name: verdicts[s.name] for s in program.statements}


def _candidates(analyses: _Analyses) -> tuple[list[_Candidate], dict[str, str]]:
    """The statements that may be the update of a contraction, and why the others are not."""
    found: list[_Candidate] = []
    refused: dict[str, str] = {}
    for statement in analyses.program.statements:
        try:
            found.append(_candidate(analyses, statement))
        except _Refused as refusal:
            refused[statement.name] = str(refusal)
    return found, refused


def _candidate(analyses: _Analyses, statement: Statement) -> _Candidate:
    program = analyses.program
    if ACCUMULATOR in (*program.params, *statement.iterators):
        raise _Refused(f"the name '{ACCUMULATOR}' is taken")
    reduction = statement.reduction or _reduction(program, statement)
    ranges = _unless_refused(
        rectangular_ranges(statement.domain, statement.iterators, program.context)
    )
    changed = reads_what_it_writes(program, statement, reduction.term)
    if changed is not None:
        raise _Refused(f"it reads elements of '{changed}' that it also writes")
    flow = analyses.flows[statement.write.array]
    chain = _unless_refused(reduction_chain(program, statement, ranges, flow))
    plus = reduction.plus
    reassoc = is_reorderable(plus, statement.write.dtype, program)
    return _in_order(analyses, _Candidate(chain, reduction, chain.inner, reassoc))


def _reduction(program: Program, statement: Statement) -> DeclaredReduction:
    """The reduction that the value of a statement is, found in its operators."""
    update = update_of(program, statement)
    if update is None:
        raise _Refused("not of the form x = x op e with an associative operator")
    plus, term = operator_and_term(update)
    product = _unless_refused(factored_product(program, term, statement.iterators))
    zero = identity(update.op, statement.write.dtype)
    factors = (product.left,) if product.right is None else (product.left, product.right)
    return DeclaredReduction(plus, product.times, zero, factors)


def _in_order(analyses: _Analyses, candidate: _Candidate) -> _Candidate:
    """The candidate with the reduction loops in source order, all of them increasing."""
    statement = candidate.chain.statement
    order = loop_order(analyses.program, statement) if candidate.p else {}
    if order is None and not candidate.reassoc:
        raise _Refused("the reduction runs in an order that is not one of its loops")
    if not order:
        return candidate
    places = list(order)
    p = tuple(sorted(candidate.p, key=lambda loop: places.index(loop.name)))
    if candidate.reassoc:
        return replace(candidate, p=p)
    mirrored = {
        loop.name: loop.start + loop.stop - 1 - Var(loop.name) for loop in p if order[loop.name] < 0
    }
    factors = tuple(substitute(x, mirrored) for x in candidate.reduction.factors)
    return replace(candidate, p=p, reduction=replace(candidate.reduction, factors=factors))


def _verdict(
    analyses: _Analyses, candidate: _Candidate, units: list[frozenset[str]]
) -> Contraction | str:
    """The largest contraction around a candidate that may run as a unit."""
    taken = frozenset().union(*units)
    first_reason = ""
    for form in _forms(analyses, candidate):
        names = frozenset(statement.name for statement in form.statements)
        if names & taken:
            continue
        try:
            found = _contraction(analyses, form)
            _require_unit(analyses, names, units)
        except _Refused as refusal:
            first_reason = first_reason or str(refusal)
            continue
        return found
    return first_reason or "its statements belong to another contraction"


def _forms(analyses: _Analyses, candidate: _Candidate) -> Iterator[_Form]:
    """A candidate with as many of its neighbouring statements as possible, then with fewer."""
    chain = candidate.chain
    start = chain_start(chain, analyses.flows[chain.statement.write.array])
    if start is not None and loop_values(start.statement.value, start.statement.iterators):
        start = None
    for first in (start, None) if start else (None,):
        takers = _takers(analyses, chain, first)
        for count in range(len(takers), -1, -1):
            yield _Form(candidate, first, takers[:count])


def _takers(
    analyses: _Analyses, chain: ReductionChain, start: ChainLink | None
) -> tuple[ChainLink, ...]:
    """The statements that consume the chains' results one after the other."""
    takers: list[ChainLink] = []
    place = chain.statement.write
    while True:
        link = chain_consumer(chain, analyses.flows, start, takers[-1] if takers else None)
        if link is None or loop_values(link.statement.value, link.statement.iterators):
            return tuple(takers)
        target = _at(link.statement.write, link)
        if target.array == place.array:
            is_over = _element(chain, target).is_equal(_element(chain, place))
        else:
            is_over = analyses.program.array(place.array).role is Role.LOCAL
        if not is_over or link in takers:
            return tuple(takers)
        takers.append(link)
        place = target


def _contraction(analyses: _Analyses, form: _Form) -> Contraction:
    """The contraction of a form, its reads proven to be untouched by its writes."""
    candidate = form.candidate
    chain, reduction = candidate.chain, candidate.reduction
    own = chain.statement.write
    out = _at(form.takers[-1].statement.write, form.takers[-1]) if form.takers else own
    initial = _at_chain(form.start.statement.value, form.start) if form.start else own.load()
    final: Expr = Var(ACCUMULATOR, own.dtype)
    array = own.array
    for link in form.takers:
        final = substitute(_value_taken(link, array), {ACCUMULATOR: final})
        array = link.statement.write.array
    for access in {out, own} if form.start is None else {out}:
        if not _element(chain, access).is_injective():
            raise _Refused(f"several results are stored to one element of '{access.array}'")
    _require_untouched(analyses.program, form, out, (initial, final))
    left, *others = (_operand(factor, chain) for factor in reduction.factors)
    right = others[0] if others else None
    in_left = {name for x in left.access.index for name in names_in(x)}
    in_right = {name for x in right.access.index for name in names_in(x)} if right else set()
    both, only = in_left & in_right, in_right - in_left
    return Contraction(
        statement=chain.statement.name,
        plus=reduction.plus,
        times=reduction.times,
        zero=reduction.zero,
        dtype=own.dtype,
        batch=tuple(loop for loop in chain.outer if loop.name in both),
        i=tuple(loop for loop in chain.outer if loop.name not in in_right),
        j=tuple(loop for loop in chain.outer if loop.name in only),
        p=candidate.p,
        out=out,
        left=left,
        right=right,
        initial=initial,
        final=final,
        reassoc=candidate.reassoc,
        covers=tuple(
            name
            for statement in form.statements
            for name in (*analyses.absorbed.get(statement.name, ()), statement.name)
        ),
        scale=reduction.scale,
        is_declared=chain.statement.reduction is not None,
    )


def _require_untouched(program: Program, form: _Form, out: Access, around: Iterable[Expr]) -> None:
    """Refuse when the contraction may read an element that it has written before.

    The initial and final values may read the element they belong to: out is injective.
    """
    chain, reduction = form.candidate.chain, form.candidate.reduction
    writes = [access_map(program, s, s.write).range() for s in form.statements]
    names = {statement.write.array for statement in form.statements}
    domain = chain.statement.domain.intersect_params(program.context)
    reads = [(x, affine_map(domain, x.array, x.index)) for x in loads(reduction.term)]
    own = [_element(chain, access) for access in (out, chain.statement.write)]
    for load in (x for value in around for x in loads(value)):
        element = _element(chain, Access(load.array, load.index, load.dtype))
        if load.array not in names or not any(
            load.array == m.get_tuple_name(isl.dim_type.out) and element.is_equal(m) for m in own
        ):
            reads.append((load, element))
    for load, read in reads:
        if load.array in names and not all(_are_disjoint(read.range(), w) for w in writes):
            raise _Refused(f"it reads elements of '{load.array}' that it also writes")


def _require_unit(analyses: _Analyses, names: frozenset[str], units: list[frozenset[str]]) -> None:
    if len(names) == len(analyses.program.statements):
        return
    between = statement_between(analyses.edges, [*units, names])
    if between is not None:
        raise _Refused(f"{between} must run between its instances")


_T = TypeVar("_T")


def _unless_refused(found: _T | str) -> _T:
    if isinstance(found, str):
        raise _Refused(found)
    return found


def _operand(value: Expr, chain: ReductionChain) -> Operand:
    # A factor that no loop varies is a scalar, which only a declaration makes a factor.
    (element,) = elements(value, chain.statement.iterators) or loads(value)
    return Operand(Access(element.array, element.index, element.dtype), value)


def _at_chain(expr: Expr, link: ChainLink) -> Expr:
    """An expression of a link's statement in terms of the loops o."""
    return substitute(expr, link.values)


def _at(access: Access, link: ChainLink) -> Access:
    return replace(access, index=tuple(_at_chain(x, link) for x in access.index))


def _element(chain: ReductionChain, access: Access) -> isl.Map:
    """`{ [o] -> A[x] }`, the element of each chain."""
    return affine_map(chain.box, access.array, access.index)


def _value_taken(link: ChainLink, array: str) -> Expr:
    """The value of a link with the load from `array` replaced by the accumulator."""

    def change(node: Expr) -> Expr:
        is_taken = isinstance(node, Load) and node.array == array
        return Var(ACCUMULATOR, node.dtype) if is_taken else node

    return rewrite(_at_chain(link.statement.value, link), change)


def _are_disjoint(read: isl.Set, written: isl.Set) -> bool:
    return read.get_tuple_name() != written.get_tuple_name() or bool(read.is_disjoint(written))
