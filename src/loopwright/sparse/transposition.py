"""Transposition of compressed formats: a symmetric pattern keeps its index arrays.

Two formats are partners where each is compressed along the dimension in which the other stores
indices, as csr and csc are, whatever their names: descriptors decide. If (i, j) is stored exactly
where (j, i) is, the index arrays of the columns are those of the rows, and the values at (i, j) and
(j, i) are swapped. Row i meets its partners in rows j < i, and those of row j are met in the order
in which they stand there, so that a cursor per row finds them:

    for i:  for k of row i, until col(k) >= i:
                j = col(k);  p = cur(j);  cur(j) = p + 1
                out(k) = values(p);  out(p) = values(k)
            cur(i) = k, or k + 1 if col(k) = i, whose value stays

The pass proves what it relies on. Let every p have held col(p) = i, every row ascend strictly up
to its diagonal, pointers ascend from 0 to the number of entries, and let every cursor have ended
where its row does. Then each entry behind a diagonal was met once, by an entry of a later row: rows
ascend throughout, every index is in range, and the pattern is symmetric. In any other case `wrong`
is set, `out` is meaningless, and the tensor is converted as any other. Nothing outside the arrays
is accessed whatever they hold: columns are read as unsigned, the loop over k stays among the
entries, p is at most the last of them.

With several chunks of rows a pair belongs to the chunk of j. Pairs that chunk u finds to belong to
an earlier chunk wait: when all are done, each chunk visits the rows of later ones up to the last
with such an entry, so that every cursor moves as it does in one pass.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import BOOL, INT64, DType, dtype_of
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Var
from loopwright.ir.loops import Mark
from loopwright.ir.program import Role
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.code_memory import keeps_code
from loopwright.runtime.scratch import Loan

from .format import Format, Index
from .format import index as declare_index
from .spf.chunk_plan import LEAST
from .spf.compile_computation import CompiledComputation, compile_computation
from .spf.computation import Computation, DataSpace, Entry, Stmt
from .synthesis.entry_iterator import defined_by, plain_iterator
from .synthesis.index_widths import counter_type, index_type
from .tensor import SparseTensor
from .uf import (
    Constraint,
    Formula,
    IntegerSet,
    Sym,
    Term,
    TupleVar,
    UFCall,
    parse_implication,
    substitute,
)
from .uf.axioms import Facts, parse_rules

__all__ = [
    "LEAST_ENTRIES",
    "Compressed",
    "Partners",
    "compressed",
    "exchanged",
    "pairing",
    "partners",
    "shared_pairing",
    "transposed",
]

# Lets the loop over a row end at its diagonal. Where it does not hold, the pass finds out.
_RULE = "forall x,k: 0<=x<N && ptr(x)<=k<ptr(x+1)-1 => col(k)<col(k+1)"
_NO, _I, _K, _ENTRIES = Const(False, BOOL), Var("i"), Var("k"), Var("NNZ")


@keeps_code
@lru_cache(maxsize=64)
def pairing(pointer: DType, index: DType, value: DType) -> CompiledComputation:
    """The pass over rows FIRST .. STOP-1 of N by one thread; those before have been visited.

    With STOP = N all is proven. Before that only what was met is; with PROBE = 1 the entries of
    the rows so far are tested for that, for else an upper triangle would not be noticed.
    """
    code = _Code(pointer, index, value)
    stop, begun = Var("STOP"), "0<=i<STOP && i<N"
    code.once("wrong", (0,), "wrong()", _NO)
    code.rows((1,), "{[i] : FIRST<=i<STOP && 0<=i<N}")
    code.ends((2,), f"{{[i] : {begun} && STOP=N}}")
    unmet = Binary("lt", code.at("cur", _I), code.at("ptr", _I + 1))
    column = code.at("col", Cast(code.inside(code.at("cur", _I)), INT64))
    is_here = code.or_wrong(Binary("lt", Cast(column, INT64), stop))
    missed = f"{{[i] : {begun} && STOP<N && PROBE=1}}"
    code.add("missed", missed, (3, "i"), "wrong()", is_here, unmet)
    code.once("tell", (4,), "bad(0)", code.scalar("wrong"))
    spaces = (DataSpace.of("bad", BOOL, (1,), Role.INOUT),)
    return code.compiled("pairs", spaces, ("FIRST", "STOP", "N", "NNZ", "PROBE"))


@keeps_code
@lru_cache(maxsize=64)
def shared_pairing(pointer: DType, index: DType, value: DType) -> CompiledComputation:
    """The pass over all rows in SHARES chunks, of which chunk t has rows cut(t) .. cut(t+1)-1."""
    code = _Code(pointer, index, value)
    share = "0<=t<SHARES"
    each, t = f"{{[t] : {share}}}", Var("t")
    first = code.at("cut", t)
    code.add("wrong", each, (0, "t", 0), "wrong()", _NO)
    code.add("none", each, (0, "t", 1), "last(t)", first)
    rows = f"{{[t,i] : {share} && cut(t)<=i<cut(t+1) && 0<=i<N}}"
    code.rows((0, "t", 2), rows, first)
    code.add("bad", each, (0, "t", 4), "bad(t)", code.scalar("wrong"))
    waiting = (
        f"{{[t,u,i,k] : {share} && t<u<SHARES && cut(u)<=i<last(u) && 0<=i<N"
        " && ptr(i)<=k<ptr(i+1) && 0<=k<NNZ && col(k)<cut(t+1)}"
    )
    column = Cast(code.at("col", _K), INT64)
    times: tuple[Entry, ...] = (1, "t", 1, "u", "i", "k")
    code.add("again", each, (1, "t", 0), "wrong()", code.at("bad", t))
    code.pair(waiting, times, Binary("ge", column, first), _K, "k")
    code.ends((1, "t", 2), rows)
    code.add("tell", each, (1, "t", 4), "bad(t)", code.scalar("wrong"))
    spaces = (
        DataSpace.of("cut", INT64, ("SHARES+1",), Role.IN),
        DataSpace.of("last", INT64, ("SHARES",), Role.INOUT),
        DataSpace.of("bad", BOOL, ("SHARES",), Role.INOUT),
    )
    return code.compiled("shared_pairs", spaces, ("N", "NNZ", "SHARES"), is_parallel=True)


class _Code:
    """Collects statements; pointers and columns are read as natural numbers."""

    def __init__(self, pointer: DType, index: DType, value: DType) -> None:
        self.pointer, self.index, self.value = pointer, index, value
        self.arrays = {"ptr": pointer, "cur": pointer, "col": index, "values": value, "out": value}
        self.arrays |= {"cut": INT64, "last": INT64, "bad": BOOL}
        self.scalars = {"j": index, "p": pointer, "entry": pointer, "before": INT64}
        self.scalars |= {"wrong": BOOL, "here": BOOL}
        self.body: list[Stmt] = []

    def at(self, name: str, place: Expr) -> Expr:
        return Load(name, (place,), self.arrays[name])

    def scalar(self, name: str) -> Expr:
        return Load(name, (), self.scalars[name])

    def number(self, name: str) -> Expr:
        return Cast(self.scalar(name), INT64)

    def or_wrong(self, found: Expr) -> Expr:
        return Binary("or", self.scalar("wrong"), found)

    def add(
        self,
        name: str,
        domain: str,
        times: tuple[Entry, ...],
        target: str,
        value: Expr,
        guard: Expr | None = None,
    ) -> None:
        self.body.append(Stmt.of(f"{name}_{len(self.body)}", domain, times, target, value, guard))

    def once(self, name: str, times: tuple[Entry, ...], target: str, value: Expr) -> None:
        self.add(name, "{[] : 0<=0}", times, target, value)

    def inside(self, place: Expr) -> Expr:
        """A place, clamped to the last one."""
        return Binary("min", place, Cast(_ENTRIES - 1, self.pointer))

    def rows(self, phase: tuple[Entry, ...], rows: str, first: Expr | None = None) -> None:
        """The rows of a domain; pairs with rows before `first` wait, in rows before `last`.

        `entry` is k, or where the loop over k has ended: in the type of pointers it is a subscript
        that costs no addition of its own.
        """
        pairs = rows.replace("i]", "i,k]").replace(
            "}", " && ptr(i)<=k<ptr(i+1) && 0<=k<NNZ && col(k)<i}"
        )
        times, own, column = (*phase, "i"), Cast(_I, self.index), Cast(self.at("col", _K), INT64)
        inner = (*times, 2, "k")
        start = self.at("ptr", _I)
        if self.pointer.bits == 64:
            start = Cast(Cast(start, INT64).max(0), self.pointer)
        self.add("start", rows, (*times, 0), "entry()", start)
        self.add("none", rows, (*times, 1), "before()", Const(-1))
        falls = Binary("ge", self.scalar("before"), column)
        self.add("falls", pairs, (*inner, 0), "wrong()", self.or_wrong(falls))
        self.add("before", pairs, (*inner, 1), "before()", column)
        is_own = None
        if first is not None:
            is_own = Binary("ge", column, first)
            self.add("waits", pairs, (*inner, 2), "last(t)", _I + 1, Binary("lt", column, first))
        self.pair(pairs, inner, is_own, self.number("entry"), "entry()")
        self.add("next", pairs, (*inner, 20), "entry()", Cast(_K + 1, self.pointer))
        k, end = self.scalar("entry"), self.at("ptr", _I + 1)
        is_left = Binary("lt", k, Binary("min", end, Cast(_ENTRIES, self.pointer)))
        is_diagonal = Binary("eq", self.at("col", self.number("entry")), own)
        self.add("no", rows, (*times, 3), "here()", _NO)
        self.add("here", rows, (*times, 4), "here()", is_diagonal, is_left)
        kept = self.at("values", self.number("entry"))
        self.add("keep", rows, (*times, 5), "out(entry())", kept, self.scalar("here"))
        behind = k + Cast(self.scalar("here"), self.pointer)
        self.add("behind", rows, (*times, 6), "cur(i)", behind)

    def pair(
        self, pairs: str, times: tuple[Entry, ...], guard: Expr | None, entry: Expr, spelled: str
    ) -> None:
        """An entry before the diagonal and its partner."""
        own = Cast(_I, self.index)
        column: Expr = self.at("col", _K)
        if self.index.bits == 64:
            # As an index a column is signed: what reads as negative was found not to ascend.
            column = Binary("min", column, own)
        partner = self.inside(self.at("cur", self.number("j")))
        place = self.number("p")
        is_other = Binary("ne", self.at("col", place), own)
        steps = (
            ("j()", column),
            ("p()", partner),
            ("wrong()", self.or_wrong(is_other)),
            ("cur(j())", self.scalar("p") + Const(1, self.pointer)),
            (f"out({spelled})", self.at("values", place)),
            ("out(p())", self.at("values", entry)),
        )
        for number, (target, value) in enumerate(steps):
            self.add("pair", pairs, (*times, 10 + number), target, value, guard)

    def ends(self, phase: tuple[Entry, ...], rows: str) -> None:
        """Pointers ascend, and every cursor has come to the end of its row."""
        begin, end = self.at("ptr", _I), self.at("ptr", _I + 1)
        fails = Binary("or", Binary("gt", begin, end), Binary("ne", self.at("cur", _I), end))
        self.add("ends", rows, (*phase, "i"), "wrong()", self.or_wrong(fails))

    def compiled(
        self,
        name: str,
        more: tuple[DataSpace, ...],
        symbols: tuple[str, ...],
        *,
        is_parallel: bool = False,
    ) -> CompiledComputation:
        spaces = [
            DataSpace.of("ptr", self.pointer, ("N+1",), Role.IN),
            DataSpace.of("col", self.index, ("NNZ",), Role.IN),
            DataSpace.of("values", self.value, ("NNZ",), Role.IN),
            DataSpace.of("out", self.value, ("NNZ",), Role.INOUT),
            DataSpace.of("cur", self.pointer, ("N",), Role.INOUT),
            *more,
            *(DataSpace.of(s, dtype, (), Role.LOCAL) for s, dtype in self.scalars.items()),
        ]
        marks = tuple((stmt.name, 1, Mark.PARALLEL) for stmt in self.body) if is_parallel else ()
        facts = Facts((), parse_rules(_RULE))
        return compile_computation(
            Computation(name, tuple(spaces), tuple(self.body), symbols, facts, marks)
        )


Array = NDArray[Any]

LEAST_ENTRIES = 1 << 14  # fewer are converted in no time, without more code to compile
_PROBE = 1 << 10  # entries of the first rows, in which most other patterns show themselves
_TURN = 1 << 19  # entries after which it is time to ask whether the pattern is one
_WORDS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


@dataclass(frozen=True)
class Partners:
    """Index arrays of two formats that are each other's with rows and columns exchanged."""

    pointers: tuple[str, str]  # of source and target
    indices: tuple[str, str]

    def __str__(self) -> str:
        same = " and ".join(f"{new} is {old}" for old, new in (self.pointers, self.indices))
        return (
            f"of {LEAST_ENTRIES} entries or more in a square of symmetric pattern {same}, "
            "and values change places in pairs"
        )


@lru_cache(maxsize=256)
def partners(source: Format, target: Format) -> Partners | None:
    """How two formats correspond, if one is the other with rows and columns exchanged."""
    one, other = compressed(source), compressed(target)
    if one is None or other is None or one.major == other.major:
        return None
    return Partners((one.pointer, other.pointer), (one.index, other.index))


@dataclass(frozen=True)
class Compressed:
    """A format with a pointer for each coordinate of one dimension, and indices of the other."""

    major: int
    pointer: str
    index: str


@lru_cache(maxsize=256)
def compressed(format: Format) -> Compressed | None:
    """What makes a format compressed rows or columns: its tuples are x, k and what these tell.

    0 <= x < S,  ptr(x) <= k < ptr(x+1), in all each k once;  the coordinates are x and index(k),
    which ascend in that order, no two alike;  k is the place of the value.
    """
    is_plain = format.is_unique and format.padding is None and not format.defined
    if not is_plain or (format.rank, len(format.indices), len(format.counts)) != (2, 2, 1):
        return None
    iterator = plain_iterator(format)
    if iterator is None:
        return None
    number, count = iterator.numbering, Term.of(Sym(format.counts[0]))
    if number is None or iterator.place != number.number or number.total != count:
        return None
    k, x = number.number, Term.of(TupleVar(iterator.domain.variables[0]))
    told = defined_by(str(k), iterator.domain)
    where = [substitute(iterator.coordinates[c], told) for c in format.coordinates]
    for major, (pointer, index) in product((0, 1), permutations(format.indices)):
        order = tuple(Term.of(TupleVar(format.coordinates[d])) for d in (major, 1 - major))
        lies = (where[major], where[1 - major], format.order, format.places)
        wanted = (x, Term.of(UFCall(index.name, (k,))), order, count)
        begins = Constraint.ge(k, Term.of(UFCall(pointer.name, (x,))))
        is_there = lies == wanted and begins in iterator.domain.conjs[0].constraints
        if is_there and _is_all(format, pointer, index, major):
            return Compressed(major, pointer.name, index.name)
    return None


def _is_all(format: Format, pointer: Index, index: Index, major: int) -> bool:
    """Whether a compressed format has just those invariants, which the exchange proves."""
    size, other, count = format.sizes[major], format.sizes[1 - major], format.counts[0]
    promised = (
        declare_index(
            pointer.name,
            f"{{[x] : 0<=x<={size}}}",
            f"{{[y] : 0<=y<={count}}}",
            monotone="increasing",
        ),
        declare_index(index.name, f"{{[x] : 0<=x<{count}}}", f"{{[y] : 0<=y<{other}}}"),
    )
    ptr, at = pointer.name, index.name
    invariants = (
        f"{ptr}(0) = 0",
        f"{ptr}({size}) = {count}",
        f"forall x,k: 0<=x<{size} && {ptr}(x)<=k<{ptr}(x+1)-1 => {at}(k)<{at}(k+1)",
        f"forall k,x: 0<=x<{size} && {ptr}(x)<=k<{ptr}(x+1)-1 => {at}(k)<{at}(k+1)",
    )
    known = {_plain(*parse_implication(text)) for text in invariants}
    return all(
        (given.extents, given.monotone, given.inverse, given.pad, _plain_set(given.domain))
        == (said.extents, said.monotone, said.inverse, said.pad, _plain_set(said.domain))
        and _plain_set(given.range) == _plain_set(said.range)
        for given, said in zip((pointer, index), promised, strict=True)
    ) and all(_plain(r.variables, r.premise, r.conclusion) in known for r in format.invariants)


def _plain_set(of: IntegerSet) -> tuple[Formula, ...]:
    return _plain(of.variables, of.conjs)


def _plain(variables: tuple[str, ...], *parts: Formula) -> tuple[Formula, ...]:
    """Formulas with their variables called by their numbers."""
    names = {name: f"w{at}" for at, name in enumerate(variables)}
    return tuple(tuple(conj.rename(names) for conj in part) for part in parts)


def transposed(tensor: SparseTensor, target: Format, threads: int = 1) -> SparseTensor | None:
    """The tensor in a format with rows and columns exchanged, if its pattern is symmetric.

    Index arrays are shared with it. None of any other tensor, also of one that is faulty.
    """
    if len(tensor.values) < LEAST_ENTRIES:
        return None
    found = partners(tensor.format, target)
    return None if found is None else exchanged(tensor, target, found, threads)


def exchanged(
    tensor: SparseTensor, target: Format, found: Partners, threads: int = 1
) -> SparseTensor | None:
    """The same for a tensor with any number of entries."""
    given = _given(tensor, target, found)
    if given is None or not _may_be_symmetric(given):
        return None
    out = np.empty(len(given.values), given.words.dtype)
    memory = Loan()
    try:
        block = memory.lend((tensor.shape[0] * given.pointer.itemsize,), np.dtype(np.uint8))
        is_symmetric = _run(given, out, block, threads)
    finally:
        memory.give_back()
    if not is_symmetric:
        return None
    size, count = tensor.shape[0], len(out)
    symbols = {target.counts[0]: count, target.sizes[0]: size, target.sizes[1]: size}
    shared = {found.pointers[1]: given.pointer, found.indices[1]: given.index}
    return SparseTensor(target, tensor.shape, shared, symbols, out.view(given.values.dtype))


@dataclass(frozen=True, slots=True)
class _Given:
    """Arrays that code may be run on; their contents have not been validated."""

    pointer: Array
    index: Array
    values: Array

    @property
    def words(self) -> Array:
        """The values as they are moved: types of one width share code."""
        word = _WORDS.get(self.values.itemsize)
        return self.values if word is None else self.values.view(word)

    def arrays(self, out: Array, block: Array) -> dict[str, Array]:
        """Arrays of the code, indices as natural numbers; cursors lie in a block of bytes."""
        pointer, index = (a.view(_WORDS[a.itemsize]) for a in (self.pointer, self.index))
        cursors = block[: block.size - block.size % pointer.itemsize].view(pointer.dtype)
        return {"ptr": pointer, "col": index, "values": self.words, "out": out, "cur": cursors}


def _given(tensor: SparseTensor, target: Format, found: Partners) -> _Given | None:
    """The arrays of a square tensor, if their types and lengths are those of its partner."""
    values, size = tensor.values, tensor.shape[0]
    pointer, index = tensor.arrays[found.pointers[0]], tensor.arrays[found.indices[0]]
    count = len(values)
    if tensor.shape != (size, size) or not size or not count or values.ndim != 1:
        return None
    if pointer.shape != (size + 1,) or index.shape != (count,):
        return None
    of, symbols = tensor.format, tensor.symbols
    stated = [symbols.get(name) for name in (*of.sizes, *of.counts)]
    if stated != [size, size, count] or not _is_known(values.dtype):
        return None
    counter = counter_type(tensor.shape, count)
    wanted = (
        index_type(target.index(names[1]), counter) for names in (found.pointers, found.indices)
    )
    if [pointer.dtype, index.dtype] != [dtype.numpy for dtype in wanted]:
        return None
    if pointer[0] != 0 or pointer[-1] != count or size > 1 << (8 * index.itemsize - 1):
        return None
    return _Given(*(np.ascontiguousarray(array) for array in (pointer, index, values)))


@lru_cache(maxsize=64)
def _is_known(dtype: np.dtype[Any]) -> bool:
    try:
        dtype_of(dtype)
    except (KeyError, UsageError):
        return False  # refused where all types are
    return True


def _may_be_symmetric(given: _Given) -> bool:
    """Whether the first rows of a tensor with many entries leave that open."""
    pointer, count = given.pointer, len(given.values)
    if count <= 8 * _PROBE:
        return True
    rows = _reached(pointer, _PROBE)
    # The rest is left out, as if the tensor had one more row and no more entries.
    entries = int(pointer[rows])
    if not 0 < entries <= count:
        return False
    if entries > count // 4:
        return True  # one of them is long
    arrays = given.arrays(
        np.empty(entries, given.words.dtype), np.empty(rows * pointer.itemsize, np.uint8)
    )
    bad = arrays["bad"] = np.empty(1, np.bool_)
    known = {"FIRST": 0, "STOP": rows, "N": rows + 1, "NNZ": entries, "PROBE": 1}
    pairing(*_types(arrays)).run(arrays, known)
    return not bad[0]


def _run(given: _Given, out: Array, block: Array, threads: int) -> bool:
    """Swap the values; whether the pattern proved to be symmetric."""
    arrays = given.arrays(out, block)
    size, count = len(given.pointer) - 1, len(out)
    types, known = _types(arrays), {"N": size, "NNZ": count}
    chunks = min(threads, count // LEAST)
    bad = arrays["bad"] = np.empty(max(chunks, 1), np.bool_)
    if chunks < 2:
        code, first = pairing(*types), 0
        for entries in range(_TURN, count + _TURN, _TURN):
            stop = size if entries >= count else max(first, _reached(given.pointer, entries))
            code.run(arrays, {"FIRST": first, "STOP": stop, "PROBE": 0, **known})
            if bad[0] or stop == size:
                break
            first = stop
        return not bad[0]
    inner = [_reached(given.pointer, count * t // chunks) for t in range(1, chunks)]
    # Faulty pointers give cuts in any order.
    arrays["cut"] = np.maximum.accumulate(np.array([0, *inner, size], np.int64))
    arrays["last"] = np.empty(chunks, np.int64)
    shared_pairing(*types).run(arrays, {**known, "SHARES": chunks}, threads)
    return not bad.any()


def _types(arrays: dict[str, Array]) -> tuple[DType, ...]:
    return tuple(dtype_of(arrays[name].dtype) for name in ("ptr", "col", "values"))


def _reached(pointer: Array, entries: int) -> int:
    """The first row before which there are so many entries."""
    wanted = pointer.dtype.type(entries)  # for a number of another type all would be converted
    return min(int(pointer.searchsorted(wanted)), len(pointer) - 1)
