"""Whether the iterations of a loop are independent, as `prange` claims.

Two accesses of an array, one of them a write, are compared in each dimension: subscripts with the
same multiple of the loop's variable never meet in two iterations; subscripts without it that are
equal meet in all of them; those that differ by a constant meet that many iterations apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopwright.frontends.python.procedures.extents import difference
from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.procedure import (
    AllocateArray,
    ArrayView,
    BindView,
    CheckThat,
    Choose,
    ComputeArray,
    DefineName,
    EndlessLoop,
    LeavableBlock,
    LeaveLoop,
    MultiplyMatrices,
    ProcedureArray,
    ProcedureStmt,
    RangeLoop,
    ReduceArray,
    ReturnNow,
    SetElement,
)
from loopwright.ir.visit import linear_terms, loads, names, substitute
from loopwright.lazy_dataclass import dataclass

__all__ = ["ClaimVerdict", "judge_claim"]


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """What is known of a claim; neither proven nor refuted: it stays open."""

    is_proven: bool = False
    conflict: str = ""  # of two iterations, in words: the claim is wrong
    reason: str = ""  # why it stays open


@dataclass(frozen=True, slots=True)
class _Access:
    array: str
    index: tuple[Expr | None, ...]  # None: not known
    is_write: bool
    is_certain: bool  # in every iteration


def judge_claim(
    loop: RangeLoop, views: Mapping[str, ArrayView], arrays: Mapping[str, ProcedureArray]
) -> ClaimVerdict:
    """Whether iterations of a loop touch what others write; views and arrays by name."""
    accesses = _Accesses(views, arrays)
    accesses.block(loop.body, is_certain=True)
    found = [x for x in accesses.found if x.array not in accesses.own]
    reason = accesses.reason
    for k, one in enumerate(found):
        for other in found[k:]:
            if one.array != other.array or not (one.is_write or other.is_write):
                continue
            if not arrays[one.array].rank:
                reason = reason or "a number is handed from one iteration to the next"
                continue
            apart = _distance(loop.var, one, other, accesses.inner)
            if apart == 0:
                continue
            is_certain = one.is_certain and other.is_certain and not accesses.reason
            pace = abs(int(loop.step.value.real)) if isinstance(loop.step, Const) else 0
            if apart is None or not is_certain or not pace:
                reason = reason or f"iterations may meet in '{one.array}'"
            elif apart % pace == 0:
                does = "write" if one.is_write and other.is_write else "write and read"
                text = f"iterations i and i + {apart} {does} the same element of '{one.array}'"
                return ClaimVerdict(conflict=text)
    return ClaimVerdict(reason=reason) if reason else ClaimVerdict(is_proven=True)


def _distance(var: str, one: _Access, other: _Access, inner: set[str]) -> int | None:
    """How many iterations lie between two that meet; 0: none ever meet; None: not known.

    Accesses that are the same element in all iterations meet one iteration apart.
    """
    is_known, distances = True, set()
    for x, y in zip(one.index, other.index, strict=True):
        if x is None or y is None:
            is_known = False
            continue
        by, again = linear_terms(x, 1).get(Var(var), 0), linear_terms(y, 1).get(Var(var), 0)
        rest = difference(_without(x, var), _without(y, var))
        deep = names(rest) | _deep_names(x, var) | _deep_names(y, var)
        if by != again or deep & inner or not isinstance(rest, Const) or var in deep:
            is_known = False
            continue
        if (names(_without(x, var)) | names(_without(y, var))) & inner:
            is_known = False  # an inner index: any value
            continue
        gap = int(rest.value.real)
        if by == 0:
            if gap:
                return 0
            continue
        if gap % by:
            return 0
        distances.add(abs(gap // by))
    if 0 in distances or len(distances) > 1:
        return 0
    if not is_known:
        return None
    return distances.pop() if distances else 1


def _without(expr: Expr, var: str) -> Expr:
    return substitute(expr, {var: Const(0)})


def _deep_names(expr: Expr, var: str) -> set[str]:
    """The loop's variable where it stands inside of a term that is not linear."""
    terms = (t for t in linear_terms(expr, 1) if t is not None and not isinstance(t, Var | Const))
    return {var} & set().union(*map(names, terms))


class _Accesses:
    """The accesses of a loop's body."""

    def __init__(
        self, views: Mapping[str, ArrayView], arrays: Mapping[str, ProcedureArray]
    ) -> None:
        self._views, self._arrays = dict(views), arrays
        self._values: dict[str, Expr] = {}  # what names stand for
        self.found: list[_Access] = []
        self.own: set[str] = set()  # arrays that an iteration makes
        self.inner: set[str] = set()  # names that have several values in an iteration
        self.reason = ""

    def block(self, body: Sequence[ProcedureStmt], *, is_certain: bool) -> None:
        for stmt in body:
            self.statement(stmt, is_certain)

    def statement(self, stmt: ProcedureStmt, is_certain: bool) -> None:
        match stmt:
            case DefineName(name=name, value=value):
                self.read(value, is_certain)
                if loads(value):
                    self.inner.add(name)
                else:
                    self._values[name] = value
            case BindView(view=view):
                self._views[view.name] = view
            case AllocateArray(array=array):
                self.own.add(array.name)
            case SetElement(array=name, index=index, value=value):
                self.read(value, is_certain)
                self._add(name, index, True, is_certain)
            case ComputeArray(target=name, value=value):
                self.read(value, is_certain)
                self._whole(name, True, is_certain)
            case ReduceArray(target=name, value=value):
                self.read(value, is_certain)
                self._whole(name, True, is_certain)
            case MultiplyMatrices(target=name, left=left, right=right):
                for factor in (left, right):
                    self._whole(factor, False, is_certain)
                self._whole(name, True, is_certain)
            case RangeLoop(var=var, body=body):
                self.inner.add(var)
                self.block(body, is_certain=False)
            case EndlessLoop(body=body):
                self.block(body, is_certain=False)
            case Choose(cond=cond, body=body, orelse=orelse):
                self.read(cond, is_certain)
                self.block(body, is_certain=False)
                self.block(orelse, is_certain=False)
            case LeavableBlock(body=body):
                self.block(body, is_certain=False)
            case CheckThat(cond=cond):
                self.read(cond, is_certain)
            case LeaveLoop() | ReturnNow():
                self.reason = "an iteration may end the loop"
            case _:
                pass

    def read(self, expr: Expr, is_certain: bool) -> None:
        for load in loads(expr):
            if load.index:
                self._add(load.array, load.index, False, is_certain)
            else:
                self._whole(load.array, False, is_certain)

    def _whole(self, name: str, is_write: bool, is_certain: bool) -> None:
        """An access of all elements of an array or view."""
        view = self._views.get(name)
        if view is None:
            self._add(name, (None,) * self._arrays[name].rank, is_write, is_certain)
            return
        index: list[Expr | None] = list(view.start)
        for axis in view.axes:
            for dimension, _ in axis.steps:
                index[dimension] = None
        self._add(view.base, index, is_write, is_certain)

    def _add(
        self, name: str, index: Sequence[Expr | None], is_write: bool, is_certain: bool
    ) -> None:
        plain = tuple(None if x is None or loads(x) else self._plain(x) for x in index)
        self.found.append(_Access(name, plain, is_write, is_certain))

    def _plain(self, expr: Expr) -> Expr:
        """The expression without names that the body defines."""
        while names(expr) & self._values.keys():
            expr = substitute(expr, self._values)
        return expr
