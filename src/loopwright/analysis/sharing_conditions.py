"""Conditions on subscripts under which one thread of a block uses an array element.

An access reaches the element F J + f of its array in the instance J. Within a block, the thread of
an instance is a function of some of its iterators; T_s has their unit vectors as rows. Then

    Theorem 1   rank F = rank [F; T_s]  (T_s ker F = 0): each element is used, through this access,
                by one thread only.
    Theorem 2   and where each other access of the array has the same (F, f), or reaches none of
                these elements in the block: each element is used by one thread only.
    Remark 2    the same, where the others have the same F, the rows of T_s are rows of F, and the
                offsets agree in those rows.

N. A. Likhoded, M. A. Paliashchuk, Conditions for privatizing the elements of arrays by computing
threads, J. Belarus. State Univ. Math. Inform. 3 (2018) 59-67. These tests are quick and say "cannot
tell" where they do not apply; `sharing` decides exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from fractions import Fraction
from math import gcd, lcm

from loopwright.analysis.relations import translation
from loopwright.analysis.thread_mapping import ThreadMapping, statements_of
from loopwright.ir.islkit import affine, affine_map, isl, pieces_in
from loopwright.ir.program import Access, Program, Statement
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "AffineAccess",
    "Answer",
    "BlockAccess",
    "Verdict",
    "affine_access",
    "block_accesses",
    "has_one_thread",
    "is_private",
    "kernel_basis",
    "rank",
    "satisfies_rank_condition",
    "shared_axes",
]

Matrix = tuple[tuple[int, ...], ...]

_IN, _OUT, _PARAM = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.param


class Answer(Enum):
    """What a test that need not decide says."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer, and the condition that gives it."""

    answer: Answer
    rule: str


@dataclass(frozen=True, slots=True)
class AffineAccess:
    """The subscripts F J + f of an access."""

    matrix: Matrix  # F: a row for each subscript, a column for each iterator
    offset: tuple[tuple[tuple[str, int], ...], ...]  # f: coefficients of parameters; of "" 1


@dataclass(frozen=True, slots=True)
class BlockAccess:
    """An access of a statement, in the instances of one block of a kernel."""

    statement: Statement
    access: Access
    is_write: bool
    elements: isl.Map  # [params, block coordinates] -> { S[i] -> A[e] : S[i] is in the block }
    threads: isl.Map  # { S[i] -> [thread coordinates] }
    affine: AffineAccess | None  # None where the subscripts are not one affine function
    # None where the thread is not one function of the iterators.
    thread_loops: (
        tuple[tuple[int, ...], ...] | None
    )  # by axis: iterators that decide; None: unclear

    @property
    def array(self) -> str:
        return self.access.array

    @property
    def thread_rows(self) -> Matrix | None:
        """T_s: the unit vectors of the iterators that decide the thread within a block."""
        if self.thread_loops is None:
            return None
        used = sorted({k for loops in self.thread_loops for k in loops})
        return tuple(_unit(k, len(self.statement.iterators)) for k in used)


def block_accesses(
    program: Program, mapping: ThreadMapping, where: isl.Set | None = None
) -> tuple[BlockAccess, ...]:
    """Every access in a kernel's blocks, those of a statement in textual order, its write first."""
    instances = mapping.instances(where)
    found: list[BlockAccess] = []
    for statement in statements_of(program, mapping):
        inside = instances[statement.name]
        threads = mapping.thread_of(statement.name)
        loops = _thread_loops(threads)
        for at, access in enumerate((statement.write, *statement.reads)):
            elements = affine_map(statement.domain, access.array, access.index)
            elements = elements.intersect_domain(inside)
            form = affine_access(statement, access)
            found.append(BlockAccess(statement, access, at == 0, elements, threads, form, loops))
    return tuple(found)


def affine_access(statement: Statement, access: Access) -> AffineAccess | None:
    """F and f of an access; None where a subscript has divisions or several pieces."""
    rows: list[tuple[int, ...]] = []
    offset: list[tuple[tuple[str, int], ...]] = []
    space = statement.domain.get_space()
    for entry in access.index:
        pieces = [piece for _, piece in pieces_in(affine(entry, space))]
        if len(pieces) != 1 or pieces[0].involves_locals():
            return None
        (function,) = pieces
        count = range(len(statement.iterators))
        rows.append(tuple(function.get_coefficient_val(_IN, k).to_python() for k in count))
        terms = [
            (function.get_dim_name(_PARAM, k) or "", function.get_coefficient_val(_PARAM, k))
            for k in range(function.dim(_PARAM))
        ]
        terms.append(("", function.get_constant_val()))
        offset.append(tuple((n, v.to_python()) for n, v in sorted(terms) if not v.is_zero()))
    return AffineAccess(tuple(rows), tuple(offset))


def _thread_loops(threads: isl.Map) -> tuple[tuple[int, ...], ...] | None:
    """By axis, the iterators that a thread coordinate depends on within a block."""
    if not threads.is_single_valued():
        return None
    pieces = pieces_in(isl.PwMultiAff.from_map(threads).coalesce())
    if len(pieces) != 1:
        return None
    function = pieces[0][1]
    outputs = [function.get_at(k) for k in range(threads.dim(_OUT))]
    inputs = range(threads.dim(_IN))
    return tuple(tuple(k for k in inputs if out.involves_dims(_IN, k, 1)) for out in outputs)


# -- matrices of integers -------------------------------------------------------------------------


def _unit(at: int, size: int) -> tuple[int, ...]:
    return tuple(int(k == at) for k in range(size))


def _reduced(matrix: Sequence[Sequence[int]]) -> tuple[list[list[Fraction]], list[int]]:
    """The rows of the reduced echelon form that are not zero, and the columns of their pivots."""
    rows = [[Fraction(value) for value in row] for row in matrix]
    pivots: list[int] = []
    for column in range(len(rows[0]) if rows else 0):
        done = len(pivots)
        found = next((k for k in range(done, len(rows)) if rows[k][column]), None)
        if found is None:
            continue
        rows[done], rows[found] = rows[found], rows[done]
        rows[done] = [value / rows[done][column] for value in rows[done]]
        for k, row in enumerate(rows):
            if k != done and row[column]:
                factor = row[column]
                rows[k] = [a - factor * b for a, b in zip(row, rows[done], strict=True)]
        pivots.append(column)
    return rows[: len(pivots)], pivots


def rank(matrix: Sequence[Sequence[int]]) -> int:
    """The rank of an integer matrix."""
    return len(_reduced(matrix)[1])


def kernel_basis(matrix: Sequence[Sequence[int]], columns: int) -> Matrix:
    """Primitive integer vectors that span { u : matrix u = 0 }; `columns` is the length of u."""
    rows, pivots = _reduced(matrix)
    found: list[tuple[int, ...]] = []
    for free in (k for k in range(columns) if k not in pivots):
        vector = [Fraction(int(k == free)) for k in range(columns)]
        for row, pivot in zip(rows, pivots, strict=True):
            vector[pivot] = -row[free]
        scale = lcm(*(value.denominator for value in vector))
        whole = [int(value * scale) for value in vector]
        found.append(tuple(value // gcd(*whole) for value in whole))
    return tuple(found)


def satisfies_rank_condition(matrix: Matrix, thread_rows: Matrix) -> bool:
    """Condition (2) of Theorem 1: rank F = rank [F; T_s]."""
    return rank(matrix) == rank((*matrix, *thread_rows))


def shared_axes(access: BlockAccess, axes: Sequence[str]) -> tuple[str, ...] | None:
    """The axes along which T_s ker F is not zero: where threads may share what `access` reaches.

    A superset of the axes along which they do; None where F or T_s is not known.
    """
    if access.affine is None or access.thread_loops is None:
        return None
    basis = kernel_basis(access.affine.matrix, len(access.statement.iterators))
    pairs = zip(axes, access.thread_loops, strict=True)
    return tuple(axis for axis, loops in pairs if any(u[k] for u in basis for k in loops))


# -- the conditions -------------------------------------------------------------------------------


def has_one_thread(access: BlockAccess) -> Verdict:
    """Theorem 1: whether one thread of each block uses each element through this access.

    Where the ranks differ the answer is no if two instances of a block whose distance is a basis
    vector of ker F have different threads. Blocks too small for such a pair, and r_2 = r, are what
    the theorem leaves open.
    """
    rows = access.thread_rows
    if access.affine is None or rows is None:
        return Verdict(Answer.UNKNOWN, "subscripts or threads are piecewise")
    if satisfies_rank_condition(access.affine.matrix, rows):
        return Verdict(Answer.YES, "Theorem 1")
    columns = len(access.statement.iterators)
    for vector in kernel_basis(access.affine.matrix, columns):
        if any(row[k] and vector[k] for row in rows for k in range(columns)) and _separates(
            access, vector
        ):
            return Verdict(Answer.NO, "Theorem 1")
    return Verdict(Answer.UNKNOWN, "the ranks differ")


def _separates(access: BlockAccess, vector: Sequence[int]) -> bool:
    """Whether instances J and J + vector of one block have different threads."""
    instances = access.elements.domain()
    moved = translation(instances.get_space(), vector)
    pairs = moved.intersect_domain(instances).intersect_range(instances)
    meeting = pairs.apply_domain(access.threads).apply_range(access.threads)
    return not meeting.is_subset(isl.Map.identity(meeting.get_space()))


def is_private(access: BlockAccess, accesses: Iterable[BlockAccess]) -> Verdict:
    """Theorem 2 and Remark 2: whether one thread of each block uses each element of `access`.

    `accesses` are those of the block; the ones of the same array count, each by any condition.
    """
    alone = has_one_thread(access)
    if alone.answer is not Answer.YES:
        return alone
    rules: set[str] = set()
    for other in accesses:
        if other.array != access.array or other is access:
            continue
        rule = _agreement(access, other)
        if rule is None:
            return Verdict(Answer.UNKNOWN, f"another access of '{access.array}' may interfere")
        rules.add(rule)
    return Verdict(Answer.YES, "Remark 2" if "Remark 2" in rules else "Theorem 2")


def _agreement(access: BlockAccess, other: BlockAccess) -> str | None:
    """The condition by which another access uses no element of `access` in another thread."""
    rows = access.thread_rows
    if access.affine is not None and other.affine is not None and rows is not None:
        one, two = access.affine, other.affine
        if one.matrix == two.matrix and _same_threads(access, other):
            if one.offset == two.offset:
                return "Theorem 2"
            pairs = list(zip(one.matrix, one.offset, two.offset, strict=True))
            if all(any(row == m and f == g for m, f, g in pairs) for row in rows):
                return "Remark 2"
    return "Theorem 2" if _boxes_are_disjoint(access.elements, other.elements) else None


def _same_threads(access: BlockAccess, other: BlockAccess) -> bool:
    """Whether equal iteration vectors of two statements have the same thread."""
    if access.statement is other.statement:
        return True
    if access.thread_loops is None or access.thread_loops != other.thread_loops:
        return False
    name = access.statement.name
    renamed = other.threads.set_tuple_name(_IN, name)
    if renamed.dim(_IN) != access.threads.dim(_IN):
        return False
    one, two = (
        pieces_in(isl.PwMultiAff.from_map(threads).coalesce())[0][1]
        for threads in (access.threads, renamed)
    )
    return bool(one.plain_is_equal(two))


def _boxes_are_disjoint(first: isl.Map, second: isl.Map) -> bool:
    """Whether the ranges of some subscript in two accesses have no value in common.

    The boxes around the images F(V_b), with the block coordinates as parameters.
    """
    for at in range(first.dim(_OUT)):
        one, two = (_subscript(elements, at) for elements in (first, second))
        if one.intersect(two).is_empty():
            return True
    return False


def _subscript(elements: isl.Map, at: int) -> isl.Set:
    """The values of one subscript."""
    kept = elements.project_out(_OUT, at + 1, elements.dim(_OUT) - at - 1)
    return kept.project_out(_OUT, 0, at).range()
