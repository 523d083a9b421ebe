"""The ASCII syntax of terms, sets, relations and rules; their str() writes the same syntax.

    {[n,ii,jj] -> [i,j] : row1(n) = ii && col1(n) = jj && i = ii && j = jj && 0 <= n < NNZ}
    {[ii,d,jj] -> [ND*ii + d]} union {[x] : exists e: (x = 4*e or floor(x/4) = e mod 3)}
    forall x1,x2: x1 < x2 => rowptr(x1) <= rowptr(x2)

A name in a tuple, after `exists` or after `forall` is a variable, a name before a parenthesis a
function, any other a symbolic constant. An entry of a tuple that is a term, or a name that was used
before, stands for a new variable equal to it. P(i)[1] is the second result of P.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import NoReturn, TypeAlias

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.uf.constraints import FALSE, Conj, Constraint, conjoin, fresh
from loopwright.sparse.uf.linear_terms import Sym, Term, TupleVar, UFCall
from loopwright.sparse.uf.relation import IntegerSet, Relation

__all__ = [
    "KEYWORDS",
    "Formula",
    "SetToken",
    "SetTokens",
    "parse_implication",
    "parse_linear",
    "parse_relation",
    "parse_set",
]

KEYWORDS = frozenset(
    {"and", "ceil", "exists", "false", "floor", "forall", "mod", "or", "true", "union"}
)
_TOKEN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_']*)|(?P<number>\d+)"
    r"|(?P<mark>->|=>|&&|\|\||<=|>=|==|!=|[-+*/%=<>()\[\]{},:])|(?P<wrong>\S)|$)"
)
_MOST_PIECES = 256  # conjunctions of a formula; each != and each `or` in a conjunction doubles them
_SPELLED = {"&&": "and", "||": "or", "==": "=", "%": "mod"}


@dataclass(frozen=True, slots=True)
class SetToken:
    """One word of a text; `kind` is name, number, end, or the mark or keyword itself."""

    kind: str
    text: str
    start: int
    end: int


class SetTokens:
    """A text read word by word."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._all = tuple(self._read())

    def _read(self) -> list[SetToken]:
        found: list[SetToken] = []
        place = depth = 0
        while match := _TOKEN.match(self.text, place):
            kind = match.lastgroup
            if kind is None:
                break
            word, (start, place) = match[kind], match.span(kind)
            if kind == "wrong":
                self.fail(
                    SetToken(kind, word, start, place),
                    "a character that has no meaning here",
                    "write names, numbers, + - * ( ) [ ] { } , : and comparisons",
                )
            if kind == "mark" or word in KEYWORDS:
                kind = _SPELLED.get(word, word)
            found.append(SetToken(kind, word, start, place))
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(word, 0)
            if depth > _MOST_DEPTH:
                self.fail(found[-1], f"more than {_MOST_DEPTH} brackets stand around each other")
        found.append(SetToken("end", "", len(self.text.rstrip()), len(self.text.rstrip())))
        return found

    @property
    def next(self) -> SetToken:
        return self._all[self.at]

    def ahead(self, count: int) -> SetToken:
        return self._all[min(self.at + count, len(self._all) - 1)]

    def take(self, *kinds: str) -> SetToken | None:
        """The next word if it is of one of these kinds."""
        token = self.next
        if token.kind not in kinds:
            return None
        self.at += 1
        return token

    def expect(self, kind: str, what: str) -> SetToken:
        """The next word, which must be of this kind."""
        return self.take(kind) or self.fail(self.next, f"expected {what}")

    def fail(self, token: SetToken, message: str, hint: str = "") -> NoReturn:
        """Refuse the text, with carets under a word."""
        before = self.text[: token.start]
        line = self.text.split("\n")[before.count("\n")]
        column = len(before) - (before.rfind("\n") + 1)
        carets = " " * column + "^" * max(1, token.end - token.start)
        found = f"'{token.text}'" if token.text else "the end of the text"
        raise UsageError(f"{message}\n    {line}\n    {carets}", found, hint)


_MOST_DEPTH = 100  # of brackets: the reader calls itself three times for each
Formula: TypeAlias = tuple[Conj, ...]  # a disjunction

_COMPARISONS: dict[str, Callable[[Term, Term], tuple[Constraint, ...]]] = {
    "=": lambda x, y: (Constraint.eq(x, y),),
    "<=": lambda x, y: (Constraint.le(x, y),),
    "<": lambda x, y: (Constraint.lt(x, y),),
    ">=": lambda x, y: (Constraint.ge(x, y),),
    ">": lambda x, y: (Constraint.gt(x, y),),
    "!=": lambda x, y: (Constraint.lt(x, y), Constraint.gt(x, y)),
}
_OPERATORS = (*_COMPARISONS, "+", "-", "*", "mod", "/")


def parse_linear(text: str, variables: Iterable[str] = ()) -> Term:
    """The term that `text` spells; names not in `variables` are symbolic constants."""
    reader = _Reader(SetTokens(text), set(variables))
    term = reader.term()
    reader.finish()
    return term


def parse_set(text: str) -> IntegerSet:
    """The set that `text` spells, such as {[x] : 0 <= x < NNZ}."""
    relation = _parsed(text, has_outputs=False)
    return IntegerSet(relation.inputs, relation.conjs)


def parse_relation(text: str) -> Relation:
    """The relation that `text` spells, such as {[n,ii] -> [i] : row(n) = ii && i = ii}."""
    return _parsed(text, has_outputs=True)


def parse_implication(text: str) -> tuple[tuple[str, ...], Formula, Formula]:
    """The variables, premise and conclusion of `forall x,y: premise => conclusion`.

    The quantifier and the premise may be left out: `rowptr(0) = 0`.
    """
    reader = _Reader(SetTokens(text), set())
    variables: tuple[str, ...] = ()
    if reader.tokens.take("forall"):
        variables = reader.names()
        reader.tokens.expect(":", "':' after the variables, as in 'forall x,y: x < y => ...'")
        reader.scope |= set(variables)
    conclusion = reader.disjunction()
    premise: Formula = (Conj(),)
    if reader.tokens.take("=>"):
        premise, conclusion = conclusion, reader.disjunction()
    reader.finish()
    return variables, premise, conclusion


def _parsed(text: str, *, has_outputs: bool) -> Relation:
    """One or more bracketed pieces, in the variables of the first."""
    tokens = SetTokens(text)
    pieces = [_Reader(tokens, set()).piece(has_outputs=has_outputs)]
    first = pieces[0]
    while sign := tokens.take("union"):
        piece = _Reader(tokens, set()).piece(has_outputs=has_outputs)
        if (len(piece.inputs), len(piece.outputs)) != (len(first.inputs), len(first.outputs)):
            tokens.fail(sign, "the two sides of a union have tuples of different lengths")
        pieces.append(_renamed(piece, first))
    if tokens.next.kind != "end":
        tokens.fail(tokens.next, "expected the end of the text", "join several with 'union'")
    return first.with_conjs(conj for piece in pieces for conj in piece.conjs)


def _renamed(piece: Relation, first: Relation) -> Relation:
    """`piece` with the tuples of `first`; bound variables are renamed apart."""
    names = dict(zip(piece.variables, first.variables, strict=True))
    conjs = []
    for conj in piece.conjs:
        taken = {*first.variables, *conj.symbols, *(set(conj.exists) - set(first.variables))}
        away: dict[str, str] = {}
        for name in conj.exists:
            if name in first.variables:
                away[name] = fresh(name, taken)
                taken.add(away[name])
        conjs.append(conj.rename({**names, **away}))
    return first.with_conjs(conjs)


@dataclass
class _Reader:
    """Reads one text by recursive descent; `scope` holds the variables known so far."""

    tokens: SetTokens
    scope: set[str]
    equal: list[Constraint] = field(default_factory=list)  # of entries of tuples

    def finish(self) -> None:
        if self.tokens.next.kind != "end":
            self.tokens.fail(self.tokens.next, "expected the end of the text")

    # -- sets and relations ------------------------------------------------------------------

    def piece(self, *, has_outputs: bool) -> Relation:
        """{ [..] -> [..] : formula } or { [..] : formula }"""
        self.tokens.expect("{", "'{', as in {[i] : 0 <= i < N}")
        start = self.tokens.at
        # All tuples are read twice: a term in one may use a name that a later one brings in.
        inputs, outputs = self._skim(has_outputs=has_outputs)
        self.tokens.at = start
        ins = self._tuple(inputs)
        if has_outputs:
            self.tokens.expect("->", "'->' and a second tuple")
        outs = self._tuple(outputs) if has_outputs else ()
        formula = self.disjunction() if self.tokens.take(":") else (Conj(),)
        self.tokens.expect("}", "'}', 'and' or 'or'")
        return Relation(ins, outs, tuple(conj.conjoined(self.equal) for conj in formula))

    def _skim(self, *, has_outputs: bool) -> tuple[list[str | None], list[str | None]]:
        """The new variable of each entry of both tuples, None where a term stands."""
        inputs = self._entries()
        if not has_outputs:
            if self.tokens.next.kind == "->":
                self.tokens.fail(self.tokens.next, "a relation where a set is needed")
            return inputs, []
        if self.tokens.next.kind in (":", "}"):
            self.tokens.fail(self.tokens.next, "a set where a relation is needed, with '->'")
        self.tokens.expect("->", "'->' and a second tuple")
        return inputs, self._entries()

    def _entries(self) -> list[str | None]:
        self.tokens.expect("[", "a tuple, as in [i,j]")
        found: list[str | None] = []
        while self.tokens.next.kind != "]":
            name, after = self.tokens.next, self.tokens.ahead(1)
            is_new = name.kind == "name" and after.kind in (",", "]")
            found.append(name.text if is_new and name.text not in self.scope else None)
            if found[-1] is not None:
                self.scope.add(name.text)
            depth = 0
            while depth or self.tokens.next.kind not in (",", "]"):
                if self.tokens.next.kind in ("end", "{", "}", ":"):
                    self.tokens.fail(self.tokens.next, "expected ',' or ']' in the tuple")
                depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(self.tokens.next.kind, 0)
                self.tokens.at += 1
            if not self.tokens.take(","):
                break
        self.tokens.expect("]", "',' or ']'")
        return found

    def _tuple(self, entries: list[str | None]) -> tuple[str, ...]:
        self.tokens.expect("[", "a tuple")
        names: list[str] = []
        for at, entry in enumerate(entries):
            if at:
                self.tokens.expect(",", "',' or ']'")
            if entry is not None:
                self.tokens.at += 1
                names.append(entry)
                continue
            single = self.tokens.next.text if self.tokens.next.kind == "name" else "o"
            term = self.term()
            is_name = isinstance(term.atom, TupleVar)
            names.append(fresh(single if is_name else f"o{at}", self.scope | self._all_names()))
            self.scope.add(names[-1])
            self.equal.append(Constraint.eq(TupleVar(names[-1]), term))
        self.tokens.expect("]", "',' or ']'")
        return tuple(names)

    def _all_names(self) -> set[str]:
        """Every word of the text: a new variable must be none of the symbolic constants."""
        found, at = set(), self.tokens.at
        self.tokens.at = 0
        while self.tokens.next.kind != "end":
            found.add(self.tokens.next.text)
            self.tokens.at += 1
        self.tokens.at = at
        return found

    # -- formulas ----------------------------------------------------------------------------

    def disjunction(self) -> Formula:
        found = list(self.conjunction())
        while self.tokens.take("or"):
            found += self.conjunction()
        return tuple(found)

    def conjunction(self) -> Formula:
        place = self.tokens.next
        parts = [self.unit()]
        while self.tokens.take("and"):
            parts.append(self.unit())
        # What is one conjunction, as nearly everything is, is put in canonical form once.
        plain = [part[0] for part in parts if len(part) == 1 and not part[0].exists]
        found: Formula = (Conj.of(c for conj in plain for c in conj.constraints),)
        self._require_few(math.prod(map(len, parts)), place)
        for part in parts:
            if len(part) != 1 or part[0].exists:
                found = tuple(conjoin(x, y) for x in found for y in part)
        return found

    def _require_few(self, pieces: int, place: SetToken) -> None:
        if pieces > _MOST_PIECES:
            self.tokens.fail(
                place,
                f"a condition of more than {_MOST_PIECES} pieces",
                "every != is two pieces, and conditions joined by `and` multiply theirs",
            )

    def unit(self) -> Formula:
        tokens = self.tokens
        if tokens.take("true"):
            return (Conj(),)
        if tokens.take("false"):
            return (Conj((FALSE,)),)
        if tokens.take("exists"):
            return self._existing()
        if tokens.next.kind == "(" and not self._is_term():
            tokens.take("(")
            found = self.disjunction()
            tokens.expect(")", "')'")
            return found
        return self.chain()

    def _existing(self) -> Formula:
        place = self.tokens.next
        names = self.names()
        for name in names:
            if name in self.scope:
                self.tokens.fail(place, f"the variable '{name}' has a meaning already", "rename it")
        self.tokens.expect(":", "':' after the variables, as in 'exists e: x = 2*e'")
        self.scope |= set(names)
        found = self.disjunction()
        self.scope -= set(names)
        return tuple(Conj.of(conj.constraints, (*conj.exists, *names)) for conj in found)

    def names(self) -> tuple[str, ...]:
        found = [self.tokens.expect("name", "the name of a variable").text]
        while self.tokens.take(","):
            found.append(self.tokens.expect("name", "the name of a variable").text)
        return tuple(found)

    def _is_term(self) -> bool:
        """Whether the parenthesis that comes next belongs to a term."""
        depth, at = 0, 0
        while True:
            kind = self.tokens.ahead(at).kind
            depth += {"(": 1, ")": -1}.get(kind, 0)
            at += 1
            if depth == 0 or kind == "end":
                return self.tokens.ahead(at).kind in _OPERATORS

    def chain(self) -> Formula:
        """x <= y < z: every comparison of adjacent terms holds."""
        place = self.tokens.next
        left = self.term()
        if self.tokens.next.kind not in _COMPARISONS:
            self.tokens.fail(self.tokens.next, "expected a comparison: = != < <= > or >=")
        found: list[tuple[Constraint, ...]] = [()]
        while sign := self.tokens.take(*_COMPARISONS):
            right = self.term()
            cases = _COMPARISONS[sign.kind](left, right)
            self._require_few(len(found) * len(cases), place)
            found = [(*known, case) for known in found for case in cases]
            left = right
        return tuple(map(Conj.of, found))

    # -- terms -------------------------------------------------------------------------------

    def term(self) -> Term:
        found = self.product()
        while sign := self.tokens.take("+", "-"):
            found = found + self.product() if sign.kind == "+" else found - self.product()
        return found

    def product(self) -> Term:
        found = self.factor()
        while sign := self.tokens.take("*", "mod", "/"):
            if sign.kind == "/":
                self.tokens.fail(
                    sign, "a quotient must be rounded", "write floor(x/4) or ceil(x/4)"
                )
            other = self.factor()
            found = found * other if sign.kind == "*" else self._checked(sign, found, other)
        return found

    def factor(self) -> Term:
        tokens = self.tokens
        if tokens.take("-"):
            is_negative = True
            while tokens.take("-"):
                is_negative = not is_negative
            return -self.factor() if is_negative else self.factor()
        if tokens.take("("):
            found = self.term()
            tokens.expect(")", "')'")
            return found
        if sign := tokens.take("floor", "ceil"):
            return self._rounded(sign)
        if number := tokens.take("number"):
            return Term.of(int(number.text))
        name = tokens.expect("name", "a term")
        if tokens.take("("):
            return Term.of(self._call(name.text))
        return Term.of(TupleVar(name.text) if name.text in self.scope else Sym(name.text))

    def _call(self, name: str) -> UFCall:
        args: list[Term] = []
        while self.tokens.next.kind != ")":
            args.append(self.term())
            if not self.tokens.take(","):
                break
        self.tokens.expect(")", "',' or ')'")
        result = 0
        if self.tokens.take("["):
            result = int(self.tokens.expect("number", "the number of a result").text)
            self.tokens.expect("]", "']'")
        return UFCall(name, tuple(args), result)

    def _rounded(self, sign: SetToken) -> Term:
        """floor(x/y) and ceil(x/y) = -floor(-x/y)"""
        self.tokens.expect("(", "'('")
        x = self.factor()
        while self.tokens.take("*"):
            x = x * self.factor()
        self.tokens.expect("/", "'/' and a divisor; put a sum in parentheses")
        by = self.factor()
        self.tokens.expect(")", "')'; put a divisor with several terms in parentheses")
        if sign.kind == "floor":
            return self._checked(sign, x, by)
        return -self._checked(sign, -x, by)

    def _checked(self, sign: SetToken, x: Term, by: Term) -> Term:
        try:
            return x % by if sign.kind == "mod" else x.floor(by)
        except UsageError as error:
            return self.tokens.fail(sign, error.message, error.hint)
