"""Values of a symmetric pattern change places in pairs: compressed rows become compressed columns.

Where (i, j) is stored exactly if (j, i) is, the index arrays of the columns are those of the rows,
and the value at (i, j) is the one at (j, i) afterwards. Row i meets its partners in rows j < i, and
those of row j are met in the order in which they stand there, so that a cursor per row finds them:

    for i:  for k of row i, until col(k) >= i:
                j = col(k);  p = cur(j);  cur(j) = p + 1
                out(k) = values(p);  out(p) = values(k)
            cur(i) = k, or k + 1 if col(k) = i, whose value stays

The pass proves what it relies on. Let every p have held col(p) = i, every row ascend strictly up
to its diagonal, pointers ascend from 0 to the number of entries, and let every cursor have ended
where its row does. Then each entry behind a diagonal was met once, by an entry of a later row: rows
ascend throughout, every index lies inside, and the pattern is symmetric. In any other case `wrong`
is set, and `out` means nothing. Nothing outside the arrays is touched whatever they hold: columns
are read as natural numbers, the loop over k stays among the entries, p is at most the last of them.

In shares of rows a pair belongs to the share of j. What share u finds to belong to one before it
waits: when all are done, each share goes over the rows of later ones up to the last with such an
entry, and every cursor moves as it does in one pass.
"""

from __future__ import annotations

from functools import lru_cache

from loopwright.ir.dtypes import BOOL, INT64, DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Var
from loopwright.ir.loops import Mark
from loopwright.ir.program import Role

from .spf.compile import CompiledComputation, compile_computation
from .spf.computation import Computation, DataSpace, Entry, Stmt
from .uf.facts import Facts, parse_rules

__all__ = ["pairing", "shared_pairing"]

# Lets the loop over a row end at its diagonal. Where it does not hold, the pass finds out.
_RULE = "forall x,k: 0<=x<N && ptr(x)<=k<ptr(x+1)-1 => col(k)<col(k+1)"
_NO, _I, _K, _ENTRIES = Const(False, BOOL), Var("i"), Var("k"), Var("NNZ")


@lru_cache(maxsize=64)
def pairing(pointer: DType, index: DType, value: DType) -> CompiledComputation:
    """The pass over rows FIRST .. STOP-1 of N by one thread; those before have been visited.

    With STOP = N all is proven. Before that only what was met is; with PROBE = 1 the entries of the
    rows so far are asked whether they were, for else an upper triangle would not be noticed.
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


@lru_cache(maxsize=64)
def shared_pairing(pointer: DType, index: DType, value: DType) -> CompiledComputation:
    """The pass over all rows in SHARES shares, of which share t has rows cut(t) .. cut(t+1)-1."""
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
        """A place, or the last one where it lies behind that."""
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
