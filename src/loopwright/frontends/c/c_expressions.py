"""C expressions to typed values.

Each refusal is reported at its node and reading goes on, so that one run reports all errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from loopwright.diagnostics import Collector, Diagnostic, Span
from loopwright.frontends.affine_check import (
    PRODUCT,
    not_affine,
    why_no_affine_condition,
    why_not_affine,
    why_not_piecewise,
)
from loopwright.frontends.c import libm_calls
from loopwright.frontends.c.arithmetic_types import (
    INT,
    LONG_DOUBLE,
    CValue,
    character,
    constant,
    convert,
    data,
    index,
    number,
    truth,
)
from loopwright.frontends.c.file_outline import TranslationUnit
from loopwright.frontends.c.inline_expansion import Inliner
from loopwright.frontends.c.lexer import Range
from loopwright.frontends.c.operators import binary, by_cases, choose, logical, unary
from loopwright.frontends.c.region_scope import (
    Alias,
    FlatArrays,
    RegionScope,
    Variable,
    declare_variable,
    may_be_flat,
)
from loopwright.frontends.c.syntax_tree import (
    AssignExpr,
    BinaryExpr,
    CallExpr,
    CastExpr,
    CharLiteral,
    Comma,
    Declaration,
    Enumerator,
    IndexExpr,
    Name,
    NumberLiteral,
    StepExpr,
    SyntaxExpr,
    TernaryExpr,
    UnaryExpr,
    UnsupportedExpr,
)
from loopwright.frontends.flat_rows import size_factors, split_rows
from loopwright.frontends.refusal import Refusal, Reported, did_you_mean, wrong_rank
from loopwright.frontends.source_tree import Assign, Local
from loopwright.ir.dtypes import BOOL, INT64, DType
from loopwright.ir.expr import COMPARISONS, Binary, Cast, Const, Expr, Load, Select, Var
from loopwright.ir.program import Access
from loopwright.ir.visit import children, loads, walk
from loopwright.memo import IdentityMap

__all__ = ["POINTERS", "CExpressionReader", "why_unusable"]

_MOST_MESSAGE = 200
_MOST_PLACE = 200  # nodes of an affine value that is remembered for a variable
_MOST_CASES = 8  # conditional expressions of one subscript
_FEWER = "part the loop at the borders"
_MOST_COPIED = 6  # nodes of a value that is copied to each of its uses
_MOST_NODES = 10_000  # of one value; truncating division and fmin copy their operands
_MOST_DEPTH = 150  # of nested operators; later stages recurse over the same depth
_AFFINE = (
    "sums of loop variables, integer parameters and constants, times constants; also / and % by"
    " constants, and cond ? a : b"
)
_ROWS = "a subscript for each dimension: A[i][j] of an array A[m][n] instead of A[i*n + j]"
POINTERS = "name the array and write its subscripts: A[i][j]"


class CExpressionReader:
    """Reads the expressions of one region."""

    def __init__(self, unit: TranslationUnit, scope: RegionScope) -> None:
        self._text = unit.text
        self._source_map = unit.source_map
        self._faults = unit.faults
        self._depth = 0
        self._size = _ExpressionSizes()
        self._functions = unit.functions
        self._guards = 0  # number of affine conditions around the expression being read
        # Assignments to temporaries that the statement being read needs computed before it.
        self.pending: list[Assign] = []
        self._inline = Inliner(self, unit.functions)
        self.scope = scope
        self.model = unit.model

    # -- entry points -----------------------------------------------------------------------

    def report(self, refusal: Refusal, at: Range) -> None:
        """Report a refusal at a range of the text."""
        span = self._source_map.span(at)
        message = refusal.message
        if len(message) > _MOST_MESSAGE:  # names in the source may have any length
            message = message[: _MOST_MESSAGE - 3] + "..."
        self._faults.add(Diagnostic(span, message, refusal.code, refusal.found, refusal.hint))

    @contextmanager
    def separate_faults(self) -> Iterator[Collector]:
        """Collect the faults reported meanwhile apart from the others."""
        before, self._faults = self._faults, Collector()
        try:
            yield self._faults
        finally:
            self._faults = before

    @contextmanager
    def guarded(self, cond: Expr) -> Iterator[None]:
        """Read an expression under a condition; no temporary is hoisted out of an affine one."""
        is_guard = any(_is_affine_comparison(part) for part in walk(cond))
        self._guards += is_guard
        try:
            yield
        finally:
            self._guards -= is_guard

    def computed_once(self, name: str, value: CValue, at: Range) -> CValue:
        """The value, held in a temporary if it is large and no affine condition guards it."""
        is_small = self._size.of(value.expr) <= _MOST_COPIED
        if is_small or self._guards or value.is_index or value.is_truth:
            return value
        expr, span = data(value), self._source_map.span(at)
        held = self.temporary(name, expr.dtype, span)
        self.pending.append(Assign(Access(held.array, (), expr.dtype), expr, span))
        return CValue(held, value.ctype)

    def temporary(self, name: str, dtype: DType, span: Span) -> Load:
        """A new scalar of the region."""
        unique = self.scope.names.fresh(name)
        self.scope.temporaries.append(Local(unique, dtype, (), span))
        return Load(unique, (), dtype)

    def is_short(self, value: CValue) -> bool:
        """Whether a value is small enough to be remembered for a variable."""
        return self._size.of(value.expr) <= _MOST_PLACE

    def try_value(self, node: SyntaxExpr) -> CValue | None:
        """The value of `node`; None when it was refused (and reported)."""
        try:
            return self._value(node)
        except Refusal as refusal:
            self.report(refusal, node.at)
        except Reported:
            pass
        return None

    def need(self, *nodes: SyntaxExpr) -> list[CValue]:
        """The values of all nodes. Raises Reported if any was refused, after reading them all."""
        found = [self.try_value(node) for node in nodes]
        values = [value for value in found if value is not None]
        if len(values) < len(found):
            raise Reported
        return values

    def source_text(self, node: SyntaxExpr) -> str:
        """The text of `node`, macros expanded."""
        text = " ".join(self._text[slice(*node.at)].split())
        return text if len(text) <= 60 else text[:57] + "..."

    def affine(self, node: SyntaxExpr, code: str, what: str) -> Expr:
        """The value of `node` as an affine integer expression; `what` names its use."""
        (value,) = self.need(node)
        return self.as_affine(value, node, code, what)

    def as_affine(self, value: CValue, node: SyntaxExpr, code: str, what: str) -> Expr:
        """The affine expression of a value that was read before."""
        try:
            return self._plain(value, node, code, what)
        except Refusal as refusal:
            self.report(refusal, node.at)
            raise Reported from None

    def _plain(self, value: CValue, node: SyntaxExpr, code: str, what: str) -> Expr:
        if value.ctype.is_floating:
            found = f"{self.source_text(node)}, a value of type '{value.ctype}'"
            raise Refusal("LW114", f"{what} is not an integer", found=found)
        if value.is_truth and isinstance(value.expr, Const):
            value = convert(value, INT, self.scope.prove)
        if value.is_index and code == "LW110" and why_not_piecewise(value.expr) is None:
            by_case = by_cases(value.expr, self.scope.prove)
            if sum(isinstance(part, Select) for part in walk(by_case)) > _MOST_CASES:
                raise Refusal(code, f"{what} has more than {_MOST_CASES} cases", hint=_FEWER)
            return by_case
        if value.is_index and why_not_affine(value.expr) is None:
            return value.expr
        reason = why_unusable(value.expr)
        match value.expr:
            case Binary(op="add") if code == "LW110" and reason == PRODUCT:
                hint = _ROWS
            case _:
                hint = _AFFINE
        raise not_affine(code, what, self.source_text(node), reason, hint)

    def condition(self, node: SyntaxExpr) -> Expr:
        """`node` as a boolean expression."""
        match node:
            case BinaryExpr(op="&&" | "||" as op, x=x, y=y):
                left = self._try_condition(x)
                with self.guarded(Const(True, BOOL) if left is None else left):
                    right = self._try_condition(y)
                if left is None or right is None:
                    raise Reported
                return logical(op, left, right)
            case _:
                return truth(*self.need(node))

    def _try_condition(self, node: SyntaxExpr) -> Expr | None:
        try:
            return self.condition(node)
        except Refusal as refusal:
            self.report(refusal, node.at)
        except Reported:
            pass
        return None

    def access(self, node: IndexExpr) -> tuple[Access, Variable]:
        """The array element `A[i][j]`."""
        entries: list[SyntaxExpr] = []
        base: SyntaxExpr = node
        while isinstance(base, IndexExpr):
            entries.insert(0, base.index)
            base = base.base
        part = self._array(base)
        variable = part.variable
        if not variable.shape:
            message = f"'{variable.declaration.name}' is no array"
            raise Refusal("LW115", message, hint="only arrays have subscripts")
        if len(entries) + len(part.prefix) != len(variable.extents):
            rank = len(variable.extents) - len(part.prefix)
            for entry in entries:
                self.try_value(entry)
            raise wrong_rank(variable.declaration.name, rank, len(entries))
        if self.scope.flat is not None and may_be_flat(variable.declaration) and not part.prefix:
            index = self._rows(self.scope.flat, part, entries[0])
            return Access(variable.name, index, variable.ctype.dtype), variable
        found: list[Expr] = []
        for entry in entries:
            try:
                found.append(self.affine(entry, "LW110", "the subscript"))
            except Reported:
                continue
        if len(found) < len(entries):
            raise Reported
        index = (*part.prefix, part.offset + found[0], *found[1:])
        return Access(variable.name, index, variable.ctype.dtype), variable

    def _rows(self, flat: FlatArrays, part: Alias, entry: SyntaxExpr) -> tuple[Expr, ...]:
        """The subscripts of `entry` in an array that is flat in C."""
        (value,) = self.need(entry)
        declaration, place = part.variable.declaration, part.offset + value.expr
        # Products of unsigned ints wrap around in memory; those of 64 bits wrap as addresses do.
        is_exact = not value.ctype.is_unsigned or value.ctype.dtype.bits == INT64.bits
        is_place = value.is_index and is_exact
        if is_place and flat.is_looking:
            integers = {v.name for v in self.scope.variables.values() if v.is_integer}
            is_product = why_not_piecewise(place) is not None
            factors = size_factors(place, integers) if is_product else ()
            flat.note(declaration, place, factors, self.scope.proofs())
            return (Const(0),)  # the region is read once more with what was found
        if declaration not in flat.sizes:
            return (part.offset + self.as_affine(value, entry, "LW110", "the subscript"),)
        sizes = flat.sizes[declaration]
        found = split_rows(place, sizes, self.scope.prove) if is_place else None
        if found is None:
            raise Refusal("LW110", "the subscript is not proved to stay in its row")
        places = [index(entry, value.ctype) for entry in found]
        return tuple(self._plain(place, entry, "LW110", "the subscript") for place in places)

    def length(self, node: SyntaxExpr) -> Expr | None:
        """The extent of a flat array, a polynomial of sizes; None where it is anything else."""
        value = self.try_value(node)
        return value.expr if value is not None and value.is_index else None

    def array_part(self, node: SyntaxExpr) -> Alias:
        """The array or row that an argument of a function denotes: A, A[i], &A[i][j], A + i."""
        match node:
            case Name():
                return self._array(node)
            case UnaryExpr(op="&", x=IndexExpr(base=base, index=entry)):
                return self._moved(self.array_part(base), entry)
            case IndexExpr(base=base, index=entry):
                part = self._moved(self.array_part(base), entry)
                if len(part.prefix) + 1 >= len(part.variable.extents):
                    raise Refusal(
                        "LW137", "a number is passed for an array", self.source_text(node)
                    )
                return Alias(part.variable, (*part.prefix, part.offset), Const(0))
            case BinaryExpr(op="+", x=base, y=entry):
                return self._moved(self.array_part(base), entry)
            case CastExpr(type=kind, x=base) if kind.element is not None and kind.derivations:
                part = self.array_part(base)
                if kind.element == part.variable.ctype and kind.derivations == ("*",):
                    return part
        raise Refusal("LW137", "this is no array or row of one", self.source_text(node), POINTERS)

    def _moved(self, part: Alias, entry: SyntaxExpr) -> Alias:
        moved = part.offset + self.affine(entry, "LW110", "the subscript")
        return Alias(part.variable, part.prefix, moved)

    def _array(self, base: SyntaxExpr) -> Alias:
        match base:
            case Name(meaning=Declaration() as declaration):
                if declaration in self.scope.aliases:
                    return self.scope.aliases[declaration]
                return Alias(self.variable(declaration), (), Const(0))
            case Name(name=name):
                raise self._unknown(name)
            case UnsupportedExpr() | UnaryExpr() | CallExpr() | CastExpr():
                self.need(base)
        raise Refusal(
            "LW115", "only named arrays have subscripts", self.source_text(base), POINTERS
        )

    def variable(self, declaration: Declaration) -> Variable:
        """The tree's variable for one of C; its extents are read at its first use."""
        scope = self.scope
        if declaration in scope.refused:
            raise Reported
        if declaration not in scope.variables:
            self._check_visible(declaration)
            scope.refused.add(declaration)
            scope.variables[declaration] = declare_variable(
                scope, declaration, self.extent, self.length
            )
            scope.refused.remove(declaration)
        return scope.variables[declaration]

    def _check_visible(self, declaration: Declaration) -> None:
        """Refuse a variable of an inlined function that is not visible in the region."""
        if not self._inline.active:
            return
        name = declaration.name
        if declaration.where in ("inlined", "parameter"):
            raise Refusal("LW137", f"'{name}' is used before it has a value")
        if name in self.scope.hidden:
            message = f"the function uses '{name}' of the file, and the caller another '{name}'"
            raise Refusal("LW137", message, hint="rename one of them")

    def extent(self, node: SyntaxExpr, what: str) -> Expr:
        """An extent as an affine expression; `what` names it."""
        return self.affine(node, "LW118", what)

    # -- expressions ------------------------------------------------------------------------

    def _value(self, node: SyntaxExpr) -> CValue:
        value = self._raw(node)
        if value.ctype == LONG_DOUBLE:
            raise Refusal("LW134", "'long double' is not supported", hint="use double: drop the L")
        return value

    def _raw(self, node: SyntaxExpr) -> CValue:
        self._depth += 1
        try:
            if self._depth > _MOST_DEPTH:
                hint = "split it into several statements"
                raise Refusal("LW132", "this is nested too deeply", hint=hint)
            value = self._read(node)
            if self._size.depth_of(value.expr) > _MOST_DEPTH:
                hint = "put parts of it into variables first"
                raise Refusal("LW132", "this expression becomes nested too deeply", hint=hint)
            if self._size.of(value.expr) > _MOST_NODES:
                hint = "put parts of it into variables first"
                raise Refusal("LW132", "this expression becomes too large", hint=hint)
            return value
        finally:
            self._depth -= 1

    def _read(self, node: SyntaxExpr) -> CValue:
        prove = self.scope.prove
        match node:
            case NumberLiteral(text=text):
                return number(text, self.model)
            case CharLiteral(text=text):
                return character(text, self.model)
            case Name():
                return self._name(node)
            case IndexExpr():
                access, variable = self.access(node)
                return CValue(access.load(), variable.ctype)
            case CallExpr():
                return self._call(node)
            case UnaryExpr(op="*" | "&" as op):
                word = "a pointer is followed" if op == "*" else "an address is taken"
                raise Refusal("LW135", word, hint=POINTERS)
            case UnaryExpr(op="!", x=x):
                return unary("!", CValue(self.condition(x), INT), prove)
            case UnaryExpr(op=op, x=x):
                (value,) = self.need(x)
                return unary(op, value, prove)
            case BinaryExpr(op="&&" | "||"):
                return CValue(self.condition(node), INT)
            case BinaryExpr(op=op, x=x, y=y):
                left, right = self.need(x, y)
                return binary(op, left, right, prove)
            case TernaryExpr(cond=test, x=x, y=y):
                return self._choose(test, x, y)
            case CastExpr():
                return self._cast(node)
            case AssignExpr() | StepExpr():
                message = "a variable is changed inside an expression"
                raise Refusal("LW136", message, hint="make it a statement of its own")
            case Comma():
                hint = "write one statement after another"
                raise Refusal("LW136", "a comma inside an expression cannot be compiled", hint=hint)
            case UnsupportedExpr(what=what):
                code = "LW134" if "structure" in what else "LW132"
                hint = "use arrays of numbers" if code == "LW134" else ""
                raise Refusal(code, f"{what} cannot be compiled", hint=hint)

    def _choose(self, test: SyntaxExpr, x: SyntaxExpr, y: SyntaxExpr) -> CValue:
        cond = self._try_condition(test)
        with self.guarded(Const(True, BOOL) if cond is None else cond):
            left, right = self.try_value(x), self.try_value(y)
        if cond is None or left is None or right is None:
            raise Reported
        return choose(cond, left, right, self.scope.prove)

    def _cast(self, node: CastExpr) -> CValue:
        kind = node.type
        if kind.derivations:
            raise Refusal("LW135", "a conversion to a pointer cannot be compiled", hint=POINTERS)
        try:
            value = self._raw(node.x)
        except Refusal as refusal:
            self.report(refusal, node.x.at)
            raise Reported from None
        if kind.element is None:
            raise Refusal("LW134", f"the type '{kind.text}' is not supported")
        return convert(value, kind.element, self.scope.prove)

    def _call(self, node: CallExpr) -> CValue:
        name = node.function.name if isinstance(node.function, Name) else "this"
        if self._functions.defines(name):
            return self._inline.value(node, name)
        if not libm_calls.is_known(name):
            for arg in node.args:
                if not isinstance(arg, Name | UnsupportedExpr | UnaryExpr):
                    self.try_value(arg)  # a name may be an array: no error of its own
            message = f"the function '{name}' is not known to be pure, and has no body here"
            if name.removeprefix("__builtin_") in ("lgamma", "lgammaf"):
                message = f"the function '{name}' sets the variable signgam of the C library"
            raise Refusal("LW137", message, hint=f"accepted are {libm_calls.ACCEPTED}")
        args = (
            ()
            if name.startswith("__builtin_") and not libm_calls.takes_arguments(name)
            else node.args
        )
        long = self.model.spelled(["long"])
        assert long is not None
        return libm_calls.call(name, self.need(*args), long, self.scope.prove)

    # -- names ------------------------------------------------------------------------------

    def _name(self, node: Name) -> CValue:
        match node.meaning:
            case Enumerator(base=base, offset=offset):
                start = self.need(base)[0] if base is not None else constant(0)
                return binary("+", start, constant(offset), self.scope.prove)
            case Declaration() as declaration:
                return self.read(declaration)
        raise self._unknown(node.name)

    def read(self, declaration: Declaration) -> CValue:
        """The value of a bare variable."""
        scope = self.scope
        if declaration in scope.loops:
            ctype = declaration.type.element
            assert ctype is not None
            return index(Var(scope.loops[declaration]), ctype)
        if declaration in scope.known:
            return scope.known[declaration]
        is_counter = declaration in scope.counters
        if is_counter and declaration not in scope.untouched:
            raise Refusal(
                "LW107",
                f"the value of the loop variable '{declaration.name}' is not known here",
                hint="compute it from the bounds of the loop, or use a variable of its own",
            )
        fixed = self.constant_value(declaration)
        if fixed is not None:
            return fixed
        variable = self.variable(declaration)
        if variable.shape:
            message = f"the array '{declaration.name}' is used as a whole"
            raise Refusal("LW115", message, hint="write its subscripts")
        if variable.is_integer:
            return index(Var(variable.name), variable.ctype)
        return CValue(Load(variable.name, (), variable.ctype.dtype), variable.ctype)

    def constant_value(self, declaration: Declaration) -> CValue | None:
        """The value of a constant such as `const int n = 10;`; None for other variables."""
        kind, init = declaration.type, declaration.init
        is_constant = (
            "const" in kind.qualifiers
            and kind.is_scalar
            and declaration.where not in ("region", "lasting")
        )
        if not is_constant or kind.element is None or kind.element.is_floating:
            return None
        match init:
            case NumberLiteral() | CharLiteral() | BinaryExpr() | UnaryExpr() | CastExpr():
                pass
            case _:
                return None
        refused = set(self.scope.refused)
        try:
            # Outside the region any C is allowed: what is no constant here is a variable.
            with self.separate_faults():
                value = convert(self._value(init), kind.element, self.scope.prove)
        except (Refusal, Reported):
            self.scope.refused &= refused
            return None
        return value if isinstance(value.expr, Const) else None

    def _unknown(self, name: str) -> Refusal:
        known = [variable.declaration.name for variable in self.scope.variables.values()]
        hint = did_you_mean(name, known, "declare it before the region")
        return Refusal("LW102", f"the name '{name}' is not declared", hint=hint)


def _is_affine_comparison(part: Expr) -> bool:
    is_comparison = isinstance(part, Binary) and part.op in COMPARISONS
    return is_comparison and why_no_affine_condition(part) is None


def why_unusable(expr: Expr) -> str:
    """The reason why a value cannot be a bound, a subscript or an affine condition."""
    found = loads(expr)
    if any(load.index for load in found):
        return "which depends on an array element"
    if found:
        return f"which depends on '{found[0].array}', known only at run time"
    if any(_is_division(x) for x in walk(expr)):
        return "a division by something other than a constant"
    if any(isinstance(x, Cast) and x.dtype.kind == "u" and x.x.dtype == INT64 for x in walk(expr)):
        return "unsigned arithmetic that may wrap around below zero"
    if any(isinstance(x, Cast) and x.dtype.is_float for x in walk(expr)):
        return "which is computed in floating point"
    reason = why_no_affine_condition(expr) if expr.dtype == BOOL else why_not_affine(expr)
    return reason or "a value of another type"


def _is_division(expr: Expr) -> bool:
    match expr:
        case Binary(op="floordiv" | "mod", y=y):
            return not isinstance(y, Const)
        case _:
            return False


class _ExpressionSizes:
    """Sizes and depths of expressions, memoised by object since expressions share parts."""

    def __init__(self) -> None:
        self._known: IdentityMap[Expr, tuple[int, int]] = IdentityMap()

    def of(self, expr: Expr) -> int:
        """The number of nodes of `expr` as a tree."""
        return self._measure(expr)[0]

    def depth_of(self, expr: Expr) -> int:
        """The height of `expr` as a tree."""
        return self._measure(expr)[1]

    def _measure(self, expr: Expr) -> tuple[int, int]:
        found = self._known.get(expr)
        if found is None:
            parts = [self._measure(part) for part in children(expr)]
            total = 1 + sum(size for size, _ in parts)
            depth = 1 + max((depth for _, depth in parts), default=0)
            found = self._known[expr] = total, depth
        return found
