"""Declarations of C: types, declarators, the head of a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from loopwright.frontends.c.arithmetic_types import (
    INT,
    CValue,
    DataModel,
    character,
    convert,
    data,
    number,
    truth,
)
from loopwright.frontends.c.expression_parser import ExpressionParser
from loopwright.frontends.c.lexer import CToken, SyntaxFault, TokenStream, tokenize
from loopwright.frontends.c.operators import binary, choose, unary
from loopwright.frontends.c.syntax_tree import (
    ArrayDim,
    BinaryExpr,
    CastExpr,
    CharLiteral,
    Declaration,
    Enumerator,
    InitList,
    NumberLiteral,
    Symbol,
    SymbolTable,
    SyntaxExpr,
    TernaryExpr,
    Typedef,
    TypeName,
    UnaryExpr,
)
from loopwright.frontends.refusal import Refusal
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Const, Expr
from loopwright.lazy_dataclass import dataclass

__all__ = ["Constant", "DeclarationParser", "FunctionHead", "constant_of"]

# Alternative spellings of keywords, as used in headers of compilers.
_SPELLINGS = {
    "__restrict": "restrict",
    "__restrict__": "restrict",
    "__const": "const",
    "__const__": "const",
    "__volatile": "volatile",
    "__volatile__": "volatile",
    "__inline": "inline",
    "__inline__": "inline",
    "__signed": "signed",
    "__signed__": "signed",
    "__thread": "_Thread_local",
    "__complex__": "_Complex",
}
_QUALIFIERS = ("const", "volatile", "restrict", "_Atomic", "_Nonnull", "_Nullable")
_STORAGE = (
    "typedef",
    "static",
    "extern",
    "register",
    "auto",
    "inline",
    "_Noreturn",
    "_Thread_local",
)
_NUMBERS = ("signed", "unsigned", "char", "short", "int", "long", "float", "double", "_Bool")
_OTHERS = (
    "void", "_Complex", "_Imaginary", "__int128", "_Float16", "_Float32", "_Float64", "_Float128",
    "__float128", "__fp16", "__bf16", "__builtin_va_list", "__auto_type",
)  # fmt: skip
_TAGGED = ("struct", "union", "enum")
_WITH_PARENTHESES = (
    "__attribute__", "__attribute", "__declspec", "_Alignas", "__asm__", "__asm", "asm",
)  # fmt: skip
_TYPEOF = ("typeof", "__typeof__", "__typeof", "typeof_unqual")
_BEGIN = frozenset((
    *_QUALIFIERS, *_STORAGE, *_NUMBERS, *_OTHERS, *_TAGGED, *_TYPEOF, *_SPELLINGS,
    "__attribute__", "_Alignas", "__extension__",
))  # fmt: skip
_ZEROS = frozenset("{}0,") | {"0.0", "0.", "0.0f", "0.f"}


@dataclass(frozen=True, slots=True)
class FunctionHead:
    """The head of a function definition."""

    name: str
    parameters: tuple[Declaration, ...]
    result: TypeName | None = None  # its return type; None when that cannot be parsed


class _Declarator(NamedTuple):
    name: CToken | None
    derivations: tuple[ArrayDim | str, ...]
    own: frozenset[str] = frozenset()  # qualifiers of what is declared, where it is a pointer


class DeclarationParser:
    """Parses the declarations of a stream of tokens; `model` gives the widths of C's types."""

    def __init__(
        self, text: str, tokens: Sequence[CToken], symbols: SymbolTable, model: DataModel
    ) -> None:
        self.tokens = TokenStream(tokens)
        self.symbols = symbols
        self.expressions = ExpressionParser(self.tokens, symbols, self)
        self._text = text
        self._model = model

    # -- types ------------------------------------------------------------------------------

    def is_type(self, ahead: int = 0) -> bool:
        token = self.tokens.peek(ahead)
        if token.kind != "name":
            return False
        return token.text in _BEGIN or self._named(token.text) is not None

    def _named(self, name: str) -> TypeName | None:
        """The type that a name denotes; None for other names."""
        meaning = self.symbols.find(name)
        if meaning is None:
            known = self._model.named(name)
            return None if known is None else TypeName(known, name)
        return meaning.type if isinstance(meaning, Typedef) else None

    def type_name(self) -> TypeName:
        base = self._specifiers()
        return _derived(base, self._declarator())

    def _specifiers(self) -> TypeName:
        """The declaration specifiers: everything before the first declarator."""
        words: list[str] = []
        qualifiers: set[str] = set()
        named: TypeName | None = None
        while self.tokens.token.kind == "name":
            text = _SPELLINGS.get(self.tokens.token.text, self.tokens.token.text)
            if text in _QUALIFIERS or text in _STORAGE:
                qualifiers.add(self._spelled())
            elif text in _NUMBERS or text in _OTHERS:
                words.append(self._spelled())
            elif text in _TAGGED:
                named = self._tagged()
            elif text in _TYPEOF:
                self.tokens.advance()
                self.tokens.skip_brackets()
                named = TypeName(None, "typeof")
            elif text in _WITH_PARENTHESES:
                self._attribute()
            elif text == "__extension__":
                self.tokens.advance()
            elif named is None and not words and self._named(text) is not None:
                named = self._named(self.tokens.advance().text)
            else:
                break
        if named is not None:
            return replace(named, qualifiers=named.qualifiers | qualifiers)
        if not words and not qualifiers:
            raise self.tokens.fault("a type is missing")
        element = self._model.spelled(words) if words else INT
        text = element.name if element is not None else " ".join(words)
        return TypeName(element, text, (), frozenset(qualifiers))

    def _spelled(self) -> str:
        text = self.tokens.advance().text
        return _SPELLINGS.get(text, text)

    def _attribute(self) -> None:
        self.tokens.advance()
        while self.tokens.token.text in ("volatile", "__volatile__", "goto"):
            self.tokens.advance()
        if self.tokens.token.text == "(":
            self.tokens.skip_brackets()

    def _attributes(self) -> None:
        while self.tokens.token.text in _WITH_PARENTHESES:
            self._attribute()

    def _tagged(self) -> TypeName:
        word = self.tokens.advance().text
        self._attributes()
        tag = self.tokens.advance().text if self.tokens.token.kind == "name" else ""
        text = f"{word} {tag}".strip()
        if self.tokens.token.text == "{":
            if word == "enum":
                self._enumerators()
            else:
                self.tokens.skip_brackets()
        self._attributes()
        return TypeName(INT, "int") if word == "enum" else TypeName(None, text)

    def _enumerators(self) -> None:
        self.tokens.advance()
        base: SyntaxExpr | None = None
        offset = 0
        while not self.tokens.accept("}"):
            name = self.tokens.advance()
            if name.kind != "name":
                raise self.tokens.fault("a name is missing in the enum")
            self._attributes()
            if self.tokens.accept("="):
                base, offset = self.expressions.conditional(), 0
            self.symbols.declare(Enumerator(name.text, base, offset))
            offset += 1
            if not self.tokens.accept(",") and self.tokens.token.text != "}":
                raise self.tokens.fault("',' is missing in the enum")

    # -- declarators ------------------------------------------------------------------------

    def _declarator(self) -> _Declarator:
        with self.tokens.nested():
            pointers, own = 0, frozenset[str]()
            while self.tokens.accept("*"):
                pointers += 1
                own = self._pointer_qualifiers()
            self._attributes()
            inner = _Declarator(None, ())
            if self.tokens.token.text == "(" and self._is_inner_declarator():
                self.tokens.advance()
                inner = self._declarator()
                self.tokens.expect(")", "after a declarator in parentheses")
            elif self.tokens.token.kind == "name" and self.tokens.token.text not in _BEGIN:
                inner = _Declarator(self.tokens.advance(), ())
            suffixes: list[ArrayDim | str] = []
            while self.tokens.token.text in ("[", "("):
                if self.tokens.token.text == "(":
                    self.tokens.skip_brackets()
                    suffixes.append("()")
                    continue
                dim, found = self._brackets()
                own = own if suffixes else found
                suffixes.append(dim)
            self._attributes()
            derivations = (*inner.derivations, *suffixes, *("*",) * pointers)
            return _Declarator(inner.name, derivations, inner.own if inner.derivations else own)

    def _pointer_qualifiers(self) -> frozenset[str]:
        """The qualifiers behind a `*` or a bracket."""
        found: set[str] = set()
        while self.tokens.token.text in _QUALIFIERS or self.tokens.token.text in _SPELLINGS:
            found.add(self._spelled())
        return frozenset(found)

    def _is_inner_declarator(self) -> bool:
        after = self.tokens.peek(1)
        return after.text in ("*", "(", "[") or (after.kind == "name" and not self.is_type(1))

    def _brackets(self) -> tuple[ArrayDim, frozenset[str]]:
        """A dimension, and the qualifiers of the pointer that a parameter of such a type is."""
        self.tokens.advance()
        own = self._pointer_qualifiers()
        while self.tokens.accept("static"):
            own |= self._pointer_qualifiers()
        if self.tokens.token.text == "*" and self.tokens.peek(1).text == "]":
            self.tokens.advance()
        if self.tokens.accept("]"):
            return ArrayDim(None, ""), own
        extent = self.expressions.assignment()
        self.tokens.expect("]", "after an extent")
        return ArrayDim(extent, " ".join(self._text[slice(*extent.at)].split())), own

    # -- declarations -----------------------------------------------------------------------

    def declaration(self, where: Callable[[str], str]) -> list[Symbol]:
        """A declaration with its semicolon; each name is declared as it is parsed.

        `where` gives the `Declaration.where` of a name.
        """
        base = self._specifiers()
        found: list[Symbol] = []
        while self.tokens.token.text != ";":
            declarator = self._declarator()
            name = declarator.name
            if name is None:
                raise self.tokens.fault("a name is missing in the declaration")
            kind = _derived(base, declarator)
            if "typedef" in base.qualifiers:
                plain = replace(kind, qualifiers=kind.qualifiers - {"typedef"})
                meaning: Symbol = Typedef(name.text, plain)
            else:
                init = self._initialiser() if self.tokens.accept("=") else None
                meaning = Declaration(
                    name.text, kind, init, (name.start, name.end), where(name.text)
                )
            self.symbols.declare(meaning)
            found.append(meaning)
            if not self.tokens.accept(",") and self.tokens.token.text != ";":
                raise self.tokens.fault(f"';' is missing after the declaration of '{name.text}'")
        self.tokens.advance()
        return found

    def _initialiser(self) -> SyntaxExpr | InitList:
        if self.tokens.token.text != "{":
            return self.expressions.assignment()
        first = self.tokens.position
        start = self.tokens.token.start
        end = self.tokens.skip_brackets().end
        held = [
            self.tokens.peek(at - self.tokens.position).text
            for at in range(first, self.tokens.position)
        ]
        return InitList(_ZEROS.issuperset(held), (start, end))

    def function_head(self, body: int) -> FunctionHead:
        """The head of a function whose body begins at offset `body`, which becomes the next token.

        The head is the last `name(...)` before the body, whatever stands before it. Its parameters
        are declared in the open block.
        """
        result = self._result()
        name: CToken | None = None
        parentheses = start = self.tokens.position
        while self.tokens.token.kind != "end" and self.tokens.token.text != "{":
            if self.tokens.token.text != "(":
                self.tokens.advance()
                continue
            before = self.tokens.peek(-1) if self.tokens.position > start else self.tokens.token
            at = self.tokens.position
            is_named = before.kind == "name" and before.text not in _WITH_PARENTHESES
            if before.text == ")" and self.tokens.peek(-2).kind == "name":  # (name)(...)
                before, is_named = self.tokens.peek(-2), True
            self.tokens.skip_brackets()
            if is_named:
                name, parentheses = before, at
        if name is None:
            raise self.tokens.fault("the head of the function is not understood")
        self.tokens.position = parentheses + 1
        parameters: list[Declaration] = []
        if self.tokens.token.text == "void" and self.tokens.peek(1).text == ")":
            self.tokens.advance()
        while self.tokens.token.text != ")":
            if self.tokens.accept("..."):
                break
            parameters.append(self._parameter())
            if not self.tokens.accept(","):
                break
        self.tokens.expect(")", "after the parameters")
        while self.tokens.token.start < body and self.tokens.token.kind != "end":
            self.tokens.advance()  # attributes
        return FunctionHead(name.text, tuple(parameters), result)

    def _result(self) -> TypeName | None:
        """The return type of the function that follows; the position does not change."""
        before = self.tokens.position
        try:
            base = self._specifiers()
            return replace(base, derivations=("*",)) if self.tokens.token.text == "*" else base
        except SyntaxFault:
            return None
        finally:
            self.tokens.position = before

    def _parameter(self) -> Declaration:
        if self.is_type():
            base = self._specifiers()
        elif self.tokens.token.kind == "name" and (
            self.tokens.peek(1).kind == "name" or self.tokens.peek(1).text == "*"
        ):
            base = TypeName(
                None, self.tokens.advance().text
            )  # a type of a header that was left out
        else:
            hint = "write the type of every parameter inside the parentheses"
            raise self.tokens.fault("the type of the parameter is missing", hint)
        declarator = self._declarator()
        name = declarator.name or self.tokens.token
        text = declarator.name.text if declarator.name else ""
        at = (name.start, name.end)
        found = Declaration(text, _derived(base, declarator), None, at, "parameter")
        self.symbols.declare(found)
        return found


def _derived(base: TypeName, declarator: _Declarator) -> TypeName:
    if not declarator.derivations:
        # `vec restrict x`, where vec is a pointer: the qualifier is of x.
        return replace(base, own=base.own | (base.qualifiers & {"restrict"}))
    derivations = (*declarator.derivations, *base.derivations)
    return replace(base, derivations=derivations, own=declarator.own)


# -- constant initializers of C variables: `2 * 3`, `{4.0 / 9, 1.0 / 9}` --------------------------


Constant: TypeAlias = "int | float | list[Constant]"


def constant_of(text: str, model: DataModel | None = None) -> Constant | None:
    """The number or the nested lists of numbers that a C text denotes; None for any other text.

    Arithmetic is C's: integer quotients are truncated, floating values are rounded to their type.
    """
    parser = DeclarationParser(text, list(tokenize(text)), SymbolTable(lambda _: None), DataModel())
    try:
        found = _item(parser, model or DataModel())
    except (SyntaxFault, Refusal):
        return None
    return found if parser.tokens.token.kind == "end" else None


def _item(parser: DeclarationParser, model: DataModel) -> Constant:
    if not parser.tokens.accept("{"):
        return _number(parser.expressions.conditional(), model)
    found: list[Constant] = []
    while not parser.tokens.accept("}"):
        with parser.tokens.nested():
            found.append(_item(parser, model))
        if not parser.tokens.accept(",") and parser.tokens.token.text != "}":
            raise parser.tokens.fault("',' is missing")
    return found


def _number(node: SyntaxExpr, model: DataModel) -> int | float:
    result: int | float = evaluate(data(_value(node, model)), {}).item()
    return result


def _value(node: SyntaxExpr, model: DataModel) -> CValue:
    match node:
        case NumberLiteral(text=text):
            return number(text, model)
        case CharLiteral(text=text):
            return character(text, model)
        case UnaryExpr(op="+" | "-" | "~" | "!" as op, x=x):
            return unary(op, _value(x, model), _prove)
        case BinaryExpr(op=op, x=x, y=y) if op not in ("&&", "||"):
            return binary(op, _value(x, model), _value(y, model), _prove)
        case TernaryExpr(cond=cond, x=x, y=y):
            return choose(truth(_value(cond, model)), _value(x, model), _value(y, model), _prove)
        case CastExpr(type=kind, x=x) if kind.element is not None and not kind.derivations:
            return convert(_value(x, model), kind.element, _prove)
    raise Refusal("LW151", "this is no constant")


def _prove(wanted: Expr) -> bool:
    """Whether a condition on constants holds."""
    return isinstance(wanted, Const) and bool(wanted.value)
