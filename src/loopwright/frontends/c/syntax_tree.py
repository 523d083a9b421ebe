"""The syntax tree of a region of C: expressions, statements, declarations, symbols.

Names are resolved while parsing: the name of a variable refers to its declaration, so two variables
of one spelling are two declarations. `at` is the range of a node in the preprocessed text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import TypeAlias

from loopwright.frontends.c.arithmetic_types import CType
from loopwright.frontends.c.lexer import Range
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "UNSUPPORTED_STATEMENTS",
    "ArrayDim",
    "AssignExpr",
    "BinaryExpr",
    "BlockStmt",
    "CallExpr",
    "CastExpr",
    "CharLiteral",
    "Comma",
    "Declaration",
    "DeclarationStmt",
    "Enumerator",
    "ExprStmt",
    "ForStmt",
    "IfStmt",
    "IndexExpr",
    "InitList",
    "Name",
    "NumberLiteral",
    "ReturnStmt",
    "StepExpr",
    "Symbol",
    "SymbolTable",
    "SyntaxExpr",
    "SyntaxStmt",
    "TernaryExpr",
    "TypeName",
    "Typedef",
    "UnaryExpr",
    "UnsupportedExpr",
    "UnsupportedStmt",
    "assigned_in",
    "changed_by",
    "counter_of",
    "counters_in",
    "declarations_in",
    "declared_in",
    "expressions_in",
    "statements_in",
    "used_in",
]


@dataclass(frozen=True, slots=True)
class TypeName:
    """A type: its derivations from the object to the element, [3] then * for `int *a[3]`."""

    element: CType | None  # None for types that are not arithmetic
    text: str  # the element's spelling: "double", "struct point"
    derivations: tuple[ArrayDim | str, ...] = ()  # "*" a pointer, "()" a function
    qualifiers: frozenset[str] = frozenset()  # of the element: const, volatile, static, ...
    own: frozenset[str] = frozenset()  # of a pointer itself: restrict, const, ...

    @property
    def is_scalar(self) -> bool:
        return not self.derivations


@dataclass(frozen=True, slots=True)
class ArrayDim:
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
    """An enumeration constant: `base` (0 if None) plus `offset`."""

    name: str
    base: SyntaxExpr | None
    offset: int


Symbol: TypeAlias = Declaration | Enumerator | Typedef


class SymbolTable:
    """The symbols of nested blocks, innermost last; `outer` finds names that no block declares."""

    def __init__(self, outer: Callable[[str], Symbol | None]) -> None:
        self._outer = outer
        self._blocks: list[dict[str, Symbol]] = [{}]
        self.declared: list[Symbol] = []  # every symbol declared so far, in order

    @property
    def depth(self) -> int:
        return len(self._blocks)

    def find(self, name: str) -> Symbol | None:
        for block in reversed(self._blocks):
            if name in block:
                return block[name]
        return self._outer(name)

    def own(self) -> frozenset[str]:
        """The names that the open blocks declare."""
        return frozenset(name for block in self._blocks for name in block)

    def declare(self, symbol: Symbol) -> None:
        self._blocks[-1][symbol.name] = symbol
        self.declared.append(symbol)

    def open(self) -> None:
        self._blocks.append({})

    def close(self) -> None:
        if len(self._blocks) > 1:  # a brace too many is reported elsewhere
            self._blocks.pop()

    @contextmanager
    def block(self) -> Iterator[None]:
        depth = len(self._blocks)
        self.open()
        try:
            yield
        finally:
            del self._blocks[depth:]


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
    """A name in an expression and what it refers to; None when it is not declared."""

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
class UnsupportedExpr:
    """An expression that is not supported; `what` names it in messages."""

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
    | UnsupportedExpr
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
    """`return expr;`, None without a value; supported in functions that are inlined."""

    expr: SyntaxExpr | None
    at: Range  # of the keyword


@dataclass(frozen=True, slots=True)
class UnsupportedStmt:
    """A statement that is not supported: its keyword, and the statements inside it."""

    word: str
    body: tuple[SyntaxStmt, ...]
    at: Range
    conditions: tuple[SyntaxExpr, ...] = field(default=())


# Keyword -> its name in messages, and what to write instead.
UNSUPPORTED_STATEMENTS: dict[str, tuple[str, str]] = {
    "while": ("a while loop", "use a for loop with affine bounds"),
    "do": ("a do loop", "use a for loop with affine bounds"),
    "switch": ("a switch", "use if and else"),
    "case": ("a case label", "use if and else"),
    "default": ("a default label", "use if and else"),
    "goto": ("a goto", "use loops and ifs"),
    "label": ("a label", "use loops and ifs; put it outside the region"),
    "break": ("a break", "put the condition into the bounds of the loop"),
    "continue": ("a continue", "put the rest of the body into an if"),
    "return": ("a return", "end the region before it"),
    "asm": ("assembly code", "put it outside the region"),
}

SyntaxStmt: TypeAlias = (
    ExprStmt | DeclarationStmt | BlockStmt | ForStmt | IfStmt | ReturnStmt | UnsupportedStmt
)


def statements_in(body: Iterable[SyntaxStmt]) -> Iterator[SyntaxStmt]:
    """Every statement, nested ones included."""
    for statement in body:
        yield statement
        match statement:
            case BlockStmt(body=inner) | UnsupportedStmt(body=inner):
                yield from statements_in(inner)
            case ForStmt(body=one):
                yield from statements_in((one,))
            case IfStmt(body=one, orelse=orelse):
                yield from statements_in((one,) if orelse is None else (one, orelse))
            case ExprStmt() | DeclarationStmt() | ReturnStmt():
                pass


def expressions_in(body: Iterable[SyntaxStmt], deep: bool = True) -> Iterator[SyntaxExpr]:
    """Every expression and subexpression of statements; with `deep`, of nested statements too."""
    for statement in statements_in(body) if deep else body:
        for expr in _direct_expressions(statement):
            yield from _walk_expression(expr)


def _direct_expressions(statement: SyntaxStmt) -> Iterator[SyntaxExpr]:
    match statement:
        case ExprStmt(expr=expr) | ReturnStmt(expr=expr) if expr is not None:
            yield expr
        case DeclarationStmt(declarations=declarations):
            for declaration in declarations:
                if declaration.init is not None and not isinstance(declaration.init, InitList):
                    yield declaration.init
        case ForStmt(init=init, cond=cond, step=step):
            if isinstance(init, DeclarationStmt):
                yield from _direct_expressions(init)
            elif init is not None:
                yield init
            yield from (part for part in (cond, step) if part is not None)
        case IfStmt(cond=cond):
            yield cond
        case UnsupportedStmt(conditions=conditions):
            yield from conditions
        case _:
            return


def _walk_expression(expr: SyntaxExpr) -> Iterator[SyntaxExpr]:
    """An expression and its subexpressions; not recursive, so that any depth is accepted."""
    waiting = [expr]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(_operands(node))


def _operands(expr: SyntaxExpr) -> tuple[SyntaxExpr, ...]:
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
    """The variable of each name in statements that refers to one."""
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


# -- uses and changes of variables ----------------------------------------------------------


def counter_of(loop: ForStmt) -> Declaration | None:
    """The loop variable, if the head of the loop has the form of a counting loop."""
    match loop.init:
        case DeclarationStmt(declarations=(declaration,)):
            return declaration
        case AssignExpr(op="=", target=Name(meaning=Declaration() as declaration)):
            return declaration
        case None:
            return _changed(loop.step)
        case _:
            return None


def _changed(step: SyntaxExpr | None) -> Declaration | None:
    match step:
        case StepExpr(x=Name(meaning=Declaration() as declaration)):
            return declaration
        case AssignExpr(target=Name(meaning=Declaration() as declaration)):
            return declaration
        case _:
            return None


def used_in(body: Iterable[SyntaxStmt]) -> list[Declaration]:
    """Every variable that statements use, in order of first use."""
    return list(dict.fromkeys(declarations_in(body)))


def assigned_in(body: Iterable[SyntaxStmt]) -> frozenset[Declaration]:
    """Every variable or array that statements assign outside of loop heads."""
    statements = list(statements_in(body))
    heads: set[int] = set()
    for statement in statements:
        if isinstance(statement, ForStmt) and counter_of(statement) is not None:
            heads.update(id(part) for part in (statement.init, statement.step))
    found: set[Declaration] = set()
    for expr in expressions_in(statements, deep=False):
        if id(expr) in heads:
            continue
        match expr:
            case AssignExpr(target=target) | StepExpr(x=target):
                is_element = isinstance(target, IndexExpr)
                while isinstance(target, IndexExpr):
                    target = target.base
                match target:
                    case Name(meaning=Declaration() as declaration):
                        if declaration.type.derivations or not is_element:
                            found.add(declaration)
    return frozenset(found)


def counters_in(body: Iterable[SyntaxStmt]) -> frozenset[Declaration]:
    """Every loop variable."""
    loops = (s for s in statements_in(body) if isinstance(s, ForStmt))
    return frozenset(c for c in map(counter_of, loops) if c is not None)


def changed_by(body: Iterable[SyntaxStmt]) -> frozenset[Declaration]:
    """Every variable whose value may differ after the statements."""
    body = list(body)
    return assigned_in(body) | counters_in(body)
