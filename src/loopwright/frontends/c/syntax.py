"""The syntax of the part of C that is read: expressions, statements, declarations.

Names are resolved while parsing: a name that stands for an object points at its declaration, so two
variables of one spelling are two declarations. `at` is the range of preprocessed text that a node
was read from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from loopwright.frontends.c.types import CType

__all__ = [
    "AssignExpr",
    "BinaryExpr",
    "BlockStmt",
    "CallExpr",
    "CastExpr",
    "CharLiteral",
    "Comma",
    "Declaration",
    "DeclarationStmt",
    "Dim",
    "Enumerator",
    "ExprStmt",
    "ForStmt",
    "IfStmt",
    "IndexExpr",
    "InitList",
    "Name",
    "NumberLiteral",
    "Range",
    "RefusedExpr",
    "RefusedStmt",
    "ReturnStmt",
    "StepExpr",
    "SyntaxExpr",
    "SyntaxStmt",
    "TernaryExpr",
    "TypeName",
    "Typedef",
    "UnaryExpr",
    "declarations_in",
    "declared_in",
    "expressions_in",
    "statements_in",
]

Range: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type: derivations from the object outwards to its element, as `int *a[3]` is [3] then *."""

    element: CType | None  # None: a type we have no numbers of
    text: str  # the element's spelling: "double", "struct point"
    derivations: tuple[Dim | str, ...] = ()  # "*" a pointer, "()" a function
    qualifiers: frozenset[str] = frozenset()  # of the element: const, volatile, static, ...

    @property
    def is_scalar(self) -> bool:
        return not self.derivations


@dataclass(frozen=True, slots=True)
class Dim:
    """One pair of brackets of a declaration."""

    extent: SyntaxExpr | None  # None for `[]` and `[*]`
    text: str  # as written, macros expanded


@dataclass(frozen=True, slots=True, eq=False)
class Declaration:
    """A declared object; compared by identity."""

    name: str
    type: TypeName
    init: SyntaxExpr | InitList | None
    at: Range
    # "parameter", "global", "local", "lasting" (in a region, used after it), "region", "inlined"
    where: str


@dataclass(frozen=True, slots=True, eq=False)
class Typedef:
    """A name for a type."""

    name: str
    type: TypeName


@dataclass(frozen=True, slots=True, eq=False)
class Enumerator:
    """A constant of an enum: `base` (0 without one) and how many it comes after it."""

    name: str
    base: SyntaxExpr | None
    offset: int


@dataclass(frozen=True, slots=True)
class NumberLiteral:
    text: str
    at: Range


@dataclass(frozen=True, slots=True)
class CharLiteral:
    text: str
    at: Range


@dataclass(frozen=True, slots=True)
class Name:
    """A name in an expression and what it was found to stand for; None when nothing is known."""

    name: str
    meaning: Declaration | Enumerator | None
    at: Range


@dataclass(frozen=True, slots=True)
class IndexExpr:
    """`base[index]`."""

    base: SyntaxExpr
    index: SyntaxExpr
    at: Range


@dataclass(frozen=True, slots=True)
class CallExpr:
    function: SyntaxExpr
    args: tuple[SyntaxExpr, ...]
    at: Range


@dataclass(frozen=True, slots=True)
class UnaryExpr:
    """`op x` for + - ! ~ * &."""

    op: str
    x: SyntaxExpr
    at: Range


@dataclass(frozen=True, slots=True)
class StepExpr:
    """`x++`, `++x`, `x--`, `--x`."""

    op: str  # "++" or "--"
    x: SyntaxExpr
    at: Range


@dataclass(frozen=True, slots=True)
class BinaryExpr:
    op: str
    x: SyntaxExpr
    y: SyntaxExpr
    at: Range


@dataclass(frozen=True, slots=True)
class AssignExpr:
    """`target op value`, op among = += -= and so on."""

    op: str
    target: SyntaxExpr
    value: SyntaxExpr
    at: Range


@dataclass(frozen=True, slots=True)
class TernaryExpr:
    cond: SyntaxExpr
    x: SyntaxExpr
    y: SyntaxExpr
    at: Range


@dataclass(frozen=True, slots=True)
class CastExpr:
    type: TypeName
    x: SyntaxExpr
    at: Range


@dataclass(frozen=True, slots=True)
class Comma:
    """`x, y`."""

    parts: tuple[SyntaxExpr, ...]
    at: Range


@dataclass(frozen=True, slots=True)
class RefusedExpr:
    """An expression of C that has no meaning here, in words."""

    what: str
    at: Range


SyntaxExpr: TypeAlias = (
    NumberLiteral
    | CharLiteral
    | Name
    | IndexExpr
    | CallExpr
    | UnaryExpr
    | StepExpr
    | BinaryExpr
    | AssignExpr
    | TernaryExpr
    | CastExpr
    | Comma
    | RefusedExpr
)


@dataclass(frozen=True, slots=True)
class InitList:
    """`{...}` after `=`; `is_zero` when it is `{}`, `{0}` or `{0.0}`."""

    is_zero: bool
    at: Range


@dataclass(frozen=True, slots=True)
class ExprStmt:
    """An expression statement; None is the empty statement."""

    expr: SyntaxExpr | None
    at: Range


@dataclass(frozen=True, slots=True)
class DeclarationStmt:
    declarations: tuple[Declaration, ...]
    at: Range


@dataclass(frozen=True, slots=True)
class BlockStmt:
    body: tuple[SyntaxStmt, ...]
    at: Range


@dataclass(frozen=True, slots=True)
class ForStmt:
    init: DeclarationStmt | SyntaxExpr | None
    cond: SyntaxExpr | None
    step: SyntaxExpr | None
    body: SyntaxStmt
    at: Range
    head: Range  # from `for` to the closing parenthesis


@dataclass(frozen=True, slots=True)
class IfStmt:
    cond: SyntaxExpr
    body: SyntaxStmt
    orelse: SyntaxStmt | None
    at: Range


@dataclass(frozen=True, slots=True)
class ReturnStmt:
    """`return expr;`; None without a value. It has a meaning in functions that are inlined."""

    expr: SyntaxExpr | None
    at: Range  # of the keyword


@dataclass(frozen=True, slots=True)
class RefusedStmt:
    """A statement of C that has no meaning here: its keyword, and statements inside it."""

    word: str
    body: tuple[SyntaxStmt, ...]
    at: Range
    conditions: tuple[SyntaxExpr, ...] = field(default=())


SyntaxStmt: TypeAlias = (
    ExprStmt | DeclarationStmt | BlockStmt | ForStmt | IfStmt | ReturnStmt | RefusedStmt
)


def statements_in(body: Iterable[SyntaxStmt]) -> Iterator[SyntaxStmt]:
    """Every statement, those inside others included."""
    for statement in body:
        yield statement
        match statement:
            case BlockStmt(body=inner) | RefusedStmt(body=inner):
                yield from statements_in(inner)
            case ForStmt(body=one):
                yield from statements_in((one,))
            case IfStmt(body=one, orelse=orelse):
                yield from statements_in((one,) if orelse is None else (one, orelse))
            case ExprStmt() | DeclarationStmt() | ReturnStmt():
                pass


def expressions_in(body: Iterable[SyntaxStmt], deep: bool = True) -> Iterator[SyntaxExpr]:
    """Every expression in statements, parts included; `deep`: also of statements inside them."""
    for statement in statements_in(body) if deep else body:
        for expr in _direct(statement):
            yield from _walk(expr)


def _direct(statement: SyntaxStmt) -> Iterator[SyntaxExpr]:
    match statement:
        case ExprStmt(expr=expr) | ReturnStmt(expr=expr) if expr is not None:
            yield expr
        case DeclarationStmt(declarations=declarations):
            for declaration in declarations:
                if declaration.init is not None and not isinstance(declaration.init, InitList):
                    yield declaration.init
        case ForStmt(init=init, cond=cond, step=step):
            if isinstance(init, DeclarationStmt):
                yield from _direct(init)
            elif init is not None:
                yield init
            yield from (part for part in (cond, step) if part is not None)
        case IfStmt(cond=cond):
            yield cond
        case RefusedStmt(conditions=conditions):
            yield from conditions
        case _:
            return


def _walk(expr: SyntaxExpr) -> Iterator[SyntaxExpr]:
    """An expression and its parts; with a stack of its own, so any depth will do."""
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(_parts(node))


def _parts(expr: SyntaxExpr) -> tuple[SyntaxExpr, ...]:
    match expr:
        case IndexExpr(base=base, index=index):
            return base, index
        case CallExpr(function=function, args=args):
            return (function, *args)
        case UnaryExpr(x=x) | StepExpr(x=x) | CastExpr(x=x):
            return (x,)
        case BinaryExpr(x=x, y=y):
            return x, y
        case AssignExpr(target=target, value=value):
            return target, value
        case TernaryExpr(cond=cond, x=x, y=y):
            return cond, x, y
        case Comma(parts=parts):
            return parts
        case _:
            return ()


def declarations_in(body: Iterable[SyntaxStmt]) -> Iterator[Declaration]:
    """The variable of every mention of one in statements."""
    for expr in expressions_in(body):
        if isinstance(expr, Name) and isinstance(expr.meaning, Declaration):
            yield expr.meaning


def declared_in(body: Iterable[SyntaxStmt]) -> Iterator[Declaration]:
    """Every variable that statements declare."""
    for statement in statements_in(body):
        match statement:
            case DeclarationStmt(declarations=declarations):
                yield from declarations
            case ForStmt(init=DeclarationStmt(declarations=declarations)):
                yield from declarations
