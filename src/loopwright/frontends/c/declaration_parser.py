"""Declarations of C: types, declarators, the head of a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from loopwright.frontends.c.cursor import Environment, Meaning, SyntaxFault
from loopwright.frontends.c.expression_parser import ExpressionParser
from loopwright.frontends.c.syntax import (
    Declaration,
    Dim,
    Enumerator,
    InitList,
    SyntaxExpr,
    Typedef,
    TypeName,
)
from loopwright.frontends.c.tokens import Token
from loopwright.frontends.c.types import INT, Model

__all__ = ["DeclarationParser", "FunctionHead"]

# Other spellings of one word, as headers of compilers use them.
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
    result: TypeName | None = None  # what it returns; None when that is not understood


class _Declarator(NamedTuple):
    name: Token | None
    derivations: tuple[Dim | str, ...]


class DeclarationParser(ExpressionParser):
    """Reads declarations; `model` says what C leaves open about the types."""

    def __init__(self, text: str, tokens: list[Token], names: Environment, model: Model) -> None:
        super().__init__(tokens, names)
        self._text = text
        self._model = model

    # -- types ------------------------------------------------------------------------------

    def is_type(self, ahead: int = 0) -> bool:
        token = self.peek(ahead)
        if token.kind != "name":
            return False
        return token.text in _BEGIN or self._named(token.text) is not None

    def _named(self, name: str) -> TypeName | None:
        """The type that a name stands for."""
        meaning = self.names.find(name)
        if meaning is None:
            known = self._model.named(name)
            return None if known is None else TypeName(known, name)
        return meaning.type if isinstance(meaning, Typedef) else None

    def type_name(self) -> TypeName:
        base = self._specifiers()
        return _derived(base, self._declarator())

    def _specifiers(self) -> TypeName:
        """The words before the first declarator."""
        words: list[str] = []
        qualifiers: set[str] = set()
        named: TypeName | None = None
        while self.token.kind == "name":
            text = _SPELLINGS.get(self.token.text, self.token.text)
            if text in _QUALIFIERS or text in _STORAGE:
                qualifiers.add(self._spelled())
            elif text in _NUMBERS or text in _OTHERS:
                words.append(self._spelled())
            elif text in _TAGGED:
                named = self._tagged()
            elif text in _TYPEOF:
                self.advance()
                self.skip_brackets()
                named = TypeName(None, "typeof")
            elif text in _WITH_PARENTHESES:
                self._attribute()
            elif text == "__extension__":
                self.advance()
            elif named is None and not words and self._named(text) is not None:
                named = self._named(self.advance().text)
            else:
                break
        if named is not None:
            return replace(named, qualifiers=named.qualifiers | qualifiers)
        if not words and not qualifiers:
            raise self.fault("a type is missing")
        element = self._model.spelled(words) if words else INT
        text = element.name if element is not None else " ".join(words)
        return TypeName(element, text, (), frozenset(qualifiers))

    def _spelled(self) -> str:
        text = self.advance().text
        return _SPELLINGS.get(text, text)

    def _attribute(self) -> None:
        self.advance()
        while self.token.text in ("volatile", "__volatile__", "goto"):
            self.advance()
        if self.token.text == "(":
            self.skip_brackets()

    def _attributes(self) -> None:
        while self.token.text in _WITH_PARENTHESES:
            self._attribute()

    def _tagged(self) -> TypeName:
        word = self.advance().text
        self._attributes()
        tag = self.advance().text if self.token.kind == "name" else ""
        text = f"{word} {tag}".strip()
        if self.token.text == "{":
            if word == "enum":
                self._enumerators()
            else:
                self.skip_brackets()
        self._attributes()
        return TypeName(INT, "int") if word == "enum" else TypeName(None, text)

    def _enumerators(self) -> None:
        self.advance()
        base: SyntaxExpr | None = None
        offset = 0
        while not self.accept("}"):
            name = self.advance()
            if name.kind != "name":
                raise self.fault("a name is missing in the enum")
            self._attributes()
            if self.accept("="):
                base, offset = self.conditional(), 0
            self.names.declare(Enumerator(name.text, base, offset))
            offset += 1
            if not self.accept(",") and self.token.text != "}":
                raise self.fault("',' is missing in the enum")

    # -- declarators ------------------------------------------------------------------------

    def _declarator(self) -> _Declarator:
        with self.nested():
            pointers = 0
            while self.accept("*"):
                pointers += 1
                while self.token.text in _QUALIFIERS or self.token.text in _SPELLINGS:
                    self.advance()
            self._attributes()
            inner = _Declarator(None, ())
            if self.token.text == "(" and self._is_inner_declarator():
                self.advance()
                inner = self._declarator()
                self.expect(")", "after a declarator in parentheses")
            elif self.token.kind == "name" and self.token.text not in _BEGIN:
                inner = _Declarator(self.advance(), ())
            suffixes: list[Dim | str] = []
            while self.token.text in ("[", "("):
                if self.token.text == "(":
                    self.skip_brackets()
                    suffixes.append("()")
                else:
                    suffixes.append(self._brackets())
            self._attributes()
            return _Declarator(inner.name, (*inner.derivations, *suffixes, *("*",) * pointers))

    def _is_inner_declarator(self) -> bool:
        after = self.peek(1)
        return after.text in ("*", "(", "[") or (after.kind == "name" and not self.is_type(1))

    def _brackets(self) -> Dim:
        self.advance()
        while self.token.text in ("static", *_QUALIFIERS, *_SPELLINGS):
            self.advance()
        if self.token.text == "*" and self.peek(1).text == "]":
            self.advance()
        if self.accept("]"):
            return Dim(None, "")
        extent = self.assignment()
        self.expect("]", "after an extent")
        return Dim(extent, " ".join(self._text[slice(*extent.at)].split()))

    # -- declarations -----------------------------------------------------------------------

    def declaration(self, where: Callable[[str], str]) -> list[Meaning]:
        """A declaration up to and with its semicolon; every name is declared as it is read.

        `where` tells for a name what it is declared in.
        """
        base = self._specifiers()
        found: list[Meaning] = []
        while self.token.text != ";":
            declarator = self._declarator()
            name = declarator.name
            if name is None:
                raise self.fault("a name is missing in the declaration")
            kind = _derived(base, declarator)
            if "typedef" in base.qualifiers:
                plain = replace(kind, qualifiers=kind.qualifiers - {"typedef"})
                meaning: Meaning = Typedef(name.text, plain)
            else:
                init = self._initialiser() if self.accept("=") else None
                meaning = Declaration(
                    name.text, kind, init, (name.start, name.end), where(name.text)
                )
            self.names.declare(meaning)
            found.append(meaning)
            if not self.accept(",") and self.token.text != ";":
                raise self.fault(f"';' is missing after the declaration of '{name.text}'")
        self.advance()
        return found

    def _initialiser(self) -> SyntaxExpr | InitList:
        if self.token.text != "{":
            return self.assignment()
        first = self.place
        start = self.token.start
        end = self.skip_brackets().end
        held = [self.peek(at - self.place).text for at in range(first, self.place)]
        return InitList(_ZEROS.issuperset(held), (start, end))

    def function_head(self) -> FunctionHead:
        """The head of a function definition; its parameters are declared in the open block.

        The head is the last `name(...)` before the body, whatever stands before it.
        """
        result = self._result()
        name: Token | None = None
        parentheses = start = self.place
        while self.token.kind != "end" and self.token.text != "{":
            if self.token.text != "(":
                self.advance()
                continue
            before = self.peek(-1) if self.place > start else self.token
            at = self.place
            is_named = before.kind == "name" and before.text not in _WITH_PARENTHESES
            if before.text == ")" and self.peek(-2).kind == "name":  # (name)(...)
                before, is_named = self.peek(-2), True
            self.skip_brackets()
            if is_named:
                name, parentheses = before, at
        if name is None:
            raise self.fault("the head of the function is not understood")
        self.place = parentheses + 1
        parameters: list[Declaration] = []
        if self.token.text == "void" and self.peek(1).text == ")":
            self.advance()
        while self.token.text != ")":
            if self.accept("..."):
                break
            parameters.append(self._parameter())
            if not self.accept(","):
                break
        self.expect(")", "after the parameters")
        return FunctionHead(name.text, tuple(parameters), result)

    def _result(self) -> TypeName | None:
        """The type before the name of a function; the place stays where it is."""
        before = self.place
        try:
            base = self._specifiers()
            return replace(base, derivations=("*",)) if self.token.text == "*" else base
        except SyntaxFault:
            return None
        finally:
            self.place = before

    def _parameter(self) -> Declaration:
        if self.is_type():
            base = self._specifiers()
        elif self.token.kind == "name" and (
            self.peek(1).kind == "name" or self.peek(1).text == "*"
        ):
            base = TypeName(None, self.advance().text)  # of a header that is not read
        else:
            hint = "write the type of every parameter inside the parentheses"
            raise self.fault("the type of the parameter is missing", hint)
        declarator = self._declarator()
        name = declarator.name or self.token
        text = declarator.name.text if declarator.name else ""
        at = (name.start, name.end)
        found = Declaration(text, _derived(base, declarator), None, at, "parameter")
        self.names.declare(found)
        return found


def _derived(base: TypeName, declarator: _Declarator) -> TypeName:
    return replace(base, derivations=(*declarator.derivations, *base.derivations))
