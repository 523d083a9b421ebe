"""A C file to its regions: read, preprocess, outline, parse, translate to trees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from os import PathLike

from loopwright.diagnostics import Collector, Diagnostic, SourceError, Span
from loopwright.frontends.c.arithmetic_types import DataModel
from loopwright.frontends.c.c_expressions import CExpressionReader
from loopwright.frontends.c.c_statements import CStatementReader
from loopwright.frontends.c.file_outline import (
    FunctionTable,
    GlobalSymbols,
    TopLevelItem,
    TranslationUnit,
    outline,
)
from loopwright.frontends.c.initial_values import InitialValue, initial_value_of
from loopwright.frontends.c.preprocessor import Preprocessed, preprocess
from loopwright.frontends.c.region_parser import ParsedRegion, parse_regions
from loopwright.frontends.c.region_scope import FlatArrays, RegionScope, Variable
from loopwright.frontends.c.source_map import (
    PreprocessedText,
    SourceMap,
    SourceText,
    read_text,
    split_lines,
)
from loopwright.frontends.c.storage import Storage, is_kept, storage_of
from loopwright.frontends.c.syntax_tree import (
    ArrayDim,
    Declaration,
    DeclarationStmt,
    assigned_in,
    counters_in,
    used_in,
)
from loopwright.frontends.fresh_names import FreshNames
from loopwright.frontends.refusal import Refusal, Reported
from loopwright.frontends.source_tree import (
    ArrayParam,
    IntParam,
    Local,
    Param,
    ScalarParam,
    SourceTree,
)
from loopwright.frontends.tree_rewrites import eliminate_dead_locals
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr
from loopwright.lazy_dataclass import dataclass

__all__ = ["CFile", "CRegion", "CVariable", "Origin", "VariableKind", "read_c"]


def read_c(
    source: str | bytes | PathLike[str],
    *,
    filename: str | None = None,
    cpp_args: Sequence[str] = (),
    defines: Mapping[str, str | int | None] | None = None,
    compiler: str | None = None,
) -> CFile:
    """Read the regions of a C file.

    `source` is a path, or the text itself: bytes, or a str of several lines. `filename` is the name
    that messages use, and `#include "..."` in text given directly looks in its folder.
    `cpp_args` go to the preprocessor (-D, -U, -I, -include, -std); `defines` are macros by name,
    None for an empty one. `compiler` names the C compiler whose preprocessor runs: by default the
    first of cc, gcc and clang that is installed; "" uses the built-in one, which leaves out system
    headers that it does not find.

    Raises SourceError with every fault of every region. A file without a region is refused too.
    """
    text = read_text(source, filename)
    preprocessed = preprocess(text, cpp_args, defines or {}, compiler)
    lines = split_lines(preprocessed.text)
    items, stray = outline(lines.text)
    unit = _translation_unit(text, lines, items, preprocessed)
    for at in (*stray, *(at for item in items if not item.is_function for at in item.pragmas)):
        hint = "a region is part of the body of one function"
        span = unit.source_map.span((at, at + 1))
        message = "the pragma stands outside a function"
        unit.faults.add(Diagnostic(span, message, "LW130", hint=hint))
    regions: list[CRegion] = []
    for item in items:
        if not item.is_function or not item.pragmas:
            continue
        if item.is_old:
            at = item.pragmas[0]
            message = "the function around the region is defined in the old style"
            hint = "declare its parameters between the parentheses: void f(int n, double a[n])"
            unit.faults.add(
                Diagnostic(unit.source_map.span((at, at + 1)), message, "LW130", hint=hint)
            )
            continue
        try:
            for parsed in parse_regions(unit, item):
                found = _read_region(unit, parsed, len(regions), item.pragmas[0])
                regions += () if found is None else (found,)
        except RecursionError:
            message, hint = "this function is nested too deeply", "split it into smaller ones"
            span = unit.source_map.span((item.body, item.body + 1))
            unit.faults.add(Diagnostic(span, message, "LW132", hint=hint))
    unit.faults.raise_if_any()
    if not regions:
        raise SourceError(_no_region(text))
    return CFile(text.name, text.raw, text.encoding, tuple(regions))


def _translation_unit(
    source: SourceText,
    lines: PreprocessedText,
    items: tuple[TopLevelItem, ...],
    preprocessed: Preprocessed,
) -> TranslationUnit:
    model = DataModel(preprocessed.is_char_signed, preprocessed.long_bits)
    symbols = GlobalSymbols(lines.text, items, model)
    functions = FunctionTable(lines.text, items, symbols, model)
    source_map = SourceMap(source, lines)
    return TranslationUnit(source, lines.text, source_map, model, symbols, functions, Collector())


def _no_region(text: SourceText) -> Diagnostic:
    if text.pragmas:
        span = text.span(text.pragmas[0].line)
        hint = "it stands in a comment or between #if and #endif: move it out"
        return Diagnostic(span, "the pragma is not part of the program", "LW130", hint=hint)
    hint = "write '#pragma scop' before the loops and '#pragma endscop' after them"
    return Diagnostic(text.span(1), "the file has no region", "LW130", hint=hint)


# -- one region ------------------------------------------------------------------------------


def _read_region(
    unit: TranslationUnit, region: ParsedRegion, index: int, first: int
) -> CRegion | None:
    """The tree and the variables of a region; None when something was refused (and reported).

    `first` is where the first region of the function begins.

    Where nothing but subscripts and extents is refused, the region is read with its flat arrays as
    rows: once to find their extents, and again with these. What it is refused for does not change.
    """
    own = replace(unit, faults=Collector())
    found: CRegion | None = None
    try:
        found = _read_once(own, region, index, first, None)
        if found is None and all(fault.code in _OF_PLACES for fault in own.faults):
            found = _read_as_rows(unit, region, index, first)
    finally:
        for fault in own.faults if found is None else ():
            unit.faults.add(fault)
    return found


# Subscripts and extents that are not affine, functions that cannot be inlined for these.
_OF_PLACES = ("LW110", "LW118", "LW137")


def _read_as_rows(
    unit: TranslationUnit, region: ParsedRegion, index: int, first: int
) -> CRegion | None:
    flat = FlatArrays()
    _read_once(replace(unit, faults=Collector()), region, index, first, flat)
    chosen = flat.chosen()
    if not chosen.sizes:
        return None
    return _read_once(replace(unit, faults=Collector()), region, index, first, chosen)


def _read_once(
    unit: TranslationUnit, region: ParsedRegion, index: int, first: int, flat: FlatArrays | None
) -> CRegion | None:
    before = len(unit.faults)
    lasting = _lasting(region)
    assigned, counters = assigned_in(region.body) | set(lasting), counters_in(region.body)
    used = used_in(region.body)
    scope = RegionScope(
        FreshNames(others=unit.functions.identifiers(region.identifiers)),
        assigned,
        counters,
        region.changing,
        untouched={d for d in counters if d.where != "region"},
        hidden=region.declared | {d.name for d in used if d.where != "global"},
        flat=flat,
    )
    read = CExpressionReader(unit, scope)
    order = {d: at for at, d in enumerate(region.head.parameters)}
    for declaration in sorted(used, key=lambda d: order.get(d, len(order))):
        _declare_outer(read, declaration)
    body = CStatementReader(read, unit.source_map).block(region.body)
    facts = _RegionVariables(unit, region, scope, order, lasting, first)
    iterators = [
        iterator
        for iterator in (facts.iterator(d) for d in used if d in counters and d.where != "region")
        if iterator is not None
    ]
    for name, declaration in facts.unknown:
        message = f"the value of '{name}' after the region is not known, and it is used there"
        hint = (
            f"assign '{name}' after the region, or declare it in the loops: for (int {name} = ..."
        )
        unit.faults.add(
            Diagnostic(unit.source_map.span(declaration.at), message, "LW139", hint=hint)
        )
    declarations = tuple(_declared(unit, d) for d in lasting)
    if len(unit.faults) > before:
        return None
    span = unit.source.span(region.first.line)
    name = FreshNames().fresh(region.head.name)
    params, sizes, local = facts.params(), tuple(scope.sizes), facts.locals()
    local = (*local, *scope.temporaries)
    tree = eliminate_dead_locals(SourceTree(name, params, sizes, local, body, None, (), span))
    line = unit.source.lines[region.first.line - 1]
    return CRegion(
        region.head.name,
        index,
        region.first.end,
        region.last.start,
        region.first.start,
        region.last.end,
        line[: len(line) - len(line.lstrip())],
        tuple(p.name for p in region.head.parameters),
        (*facts.variables(p.name for p in (*tree.params, *tree.locals)), *iterators),
        declarations,
        tree,
        span,
    )


def _lasting(region: ParsedRegion) -> tuple[Declaration, ...]:
    """The variables that the region declares and later code uses."""
    statements = (s for s in region.body if isinstance(s, DeclarationStmt))
    return tuple(d for s in statements for d in s.declarations if d.where == "lasting")


def _declared(unit: TranslationUnit, declaration: Declaration) -> str:
    """The C text of a declaration without its value, which the region assigns."""
    kind = declaration.type
    extents = [d.text for d in kind.derivations if isinstance(d, ArrayDim)]
    if kind.element is None or len(extents) < len(kind.derivations):
        message = f"'{declaration.name}' is declared in the region and used after it"
        hint = "declare it before '#pragma scop'"
        span = unit.source_map.span(declaration.at)
        unit.faults.add(Diagnostic(span, message, "LW134", hint=hint))
    element = kind.text if kind.element is None else kind.element.name
    return f"{element} {declaration.name}{''.join(f'[{text}]' for text in extents)};"


def _declare_outer(read: CExpressionReader, declaration: Declaration) -> None:
    """Name a variable from outside the region before the loops get their names.

    A variable that is refused here is refused and reported again where the region uses it.
    """
    scope = read.scope
    is_inner = declaration.where == "region" or declaration in scope.counters
    if is_inner or read.constant_value(declaration) is not None:
        return
    try:
        read.variable(declaration)
    except Refusal:
        scope.refused.discard(declaration)
    except Reported:
        pass


def _origin(declaration: Declaration) -> Origin:
    return Origin.LOCAL if declaration.where == "lasting" else Origin(declaration.where)


class _RegionVariables:
    """The variables of a region as parameters, locals and iterators, with their liveness."""

    def __init__(
        self,
        unit: TranslationUnit,
        region: ParsedRegion,
        scope: RegionScope,
        order: dict[Declaration, int],
        lasting: tuple[Declaration, ...],
        first: int,
    ) -> None:
        self._unit = unit
        self._text = unit.text
        self._source_map = unit.source_map
        self._changing = region.changing
        self._first = first
        self._lasting = lasting
        self._around = region.around
        self._scope = scope
        self._variables = sorted(
            scope.variables.values(), key=lambda v: order.get(v.declaration, len(order))
        )
        self.unknown: list[tuple[str, Declaration]] = []

    def params(self) -> tuple[Param, ...]:
        return tuple(self._param(v) for v in self._variables if not self._is_local(v))

    def locals(self) -> tuple[Local, ...]:
        return tuple(
            Local(v.name, v.ctype.dtype, v.shape, self._source_map.span(v.declaration.at))
            for v in self._variables
            if self._is_local(v)
        )

    def variables(self, names: Iterable[str]) -> tuple[CVariable, ...]:
        by_name = {v.name: v for v in self._variables}
        return tuple(self._described(by_name[name]) for name in names if name in by_name)

    def _param(self, v: Variable) -> Param:
        span = self._source_map.span(v.declaration.at)
        if v.is_integer:
            return IntParam(v.name, span)
        if v.shape or v.declaration in self._scope.assigned:
            return ArrayParam(v.name, v.ctype.dtype, v.shape, span)
        return ScalarParam(v.name, v.ctype.dtype, span)

    def _is_local(self, v: Variable) -> bool:
        """Whether nothing outside the region reads or assigns the variable."""
        declaration = v.declaration
        if declaration.where == "region":
            return True
        is_pointer = "*" in declaration.type.derivations
        is_written = declaration in self._scope.assigned
        is_given = v.is_integer or is_pointer or not is_written
        if is_given or declaration in self._lasting or self._is_shared(declaration):
            return False
        is_set = declaration.where == "parameter" or self._around.is_set_before(declaration.name)
        return not is_set and not self._around.is_used_after(declaration.name)

    def _is_shared(self, declaration: Declaration) -> bool:
        """Whether other functions, or later calls of this one, may read the variable."""
        return declaration.where == "global" or is_kept(declaration)

    def _described(self, v: Variable) -> CVariable:
        declaration = v.declaration
        is_written = declaration in self._scope.assigned or declaration.where == "region"
        kind = (
            VariableKind.ARRAY
            if v.shape
            else VariableKind.INTEGER
            if v.is_integer
            else VariableKind.SCALAR
        )
        return CVariable(
            declaration.name,
            v.name,
            kind,
            _origin(declaration),
            v.ctype.name,
            v.ctype.dtype,
            tuple(d.text if isinstance(d, ArrayDim) else "" for d in declaration.type.derivations),
            v.extents,
            is_written,
            is_written and self._is_live(declaration),
            None,
            self._source_map.span(declaration.at),
            self._init(declaration),
            self._start(declaration),
            () if v.length is None else v.shape,
            storage=self._storage(declaration),
        )

    def _storage(self, declaration: Declaration) -> Storage:
        return storage_of(
            declaration,
            has_address=self._around.has_address(declaration.name),
            is_unchanged=declaration.name not in self._changing,
            # An attribute of types whose elements may be those of arrays of other types.
            is_of_any_type="may_alias" in self._text,
        )

    def _start(self, declaration: Declaration) -> InitialValue | None:
        if not self._init(declaration) or declaration.where == "region":
            return None
        return initial_value_of(self._unit, declaration, self._changing, self._first)

    def _init(self, declaration: Declaration) -> str:
        if declaration.init is None or declaration in self._lasting:
            return ""  # the region itself assigns it
        return " ".join(self._text[slice(*declaration.init.at)].split())

    def _is_live(self, declaration: Declaration) -> bool:
        if declaration.where == "region":
            return False
        is_array = bool(declaration.type.derivations)
        if self._is_shared(declaration) or (is_array and declaration.where == "parameter"):
            return True
        # In a loop around the region, its next execution may read the value.
        repeats = self._around.repeats or "*" in declaration.type.derivations
        return repeats or self._around.is_used_after(declaration.name)

    def iterator(self, declaration: Declaration) -> CVariable | None:
        """A variable from outside the region that is a loop variable inside."""
        element = declaration.type.element
        if element is None or declaration.type.derivations:
            return None  # refused where its loop is read
        placed = self._scope.variables.get(declaration)
        is_read_again = placed is not None and self._around.repeats
        is_live = self._is_shared(declaration) or self._around.is_used_after(declaration.name)
        final = None
        if is_live or is_read_again:
            known = self._scope.known.get(declaration)
            if known is None and declaration not in self._scope.untouched:
                self.unknown.append((declaration.name, declaration))
            final = None if known is None else known.expr
        return CVariable(
            declaration.name,
            "" if placed is None else placed.name,
            VariableKind.ITERATOR,
            _origin(declaration),
            element.name,
            element.dtype,
            (),
            (),
            is_written=True,
            is_live_out=is_live or is_read_again,
            final=final,
            span=self._source_map.span(declaration.at),
            init=self._init(declaration),
            start=self._start(declaration),
            storage=self._storage(declaration),
        )


# -- the result of reading a C file: its regions between `#pragma scop` and `#pragma endscop` -----


class VariableKind(Enum):
    """How a variable is represented in the tree of its region."""

    ARRAY = "array"  # ArrayParam or Local with extents
    SCALAR = "scalar"  # ScalarParam, or ArrayParam or Local of rank 0 where the region writes it
    INTEGER = "integer"  # IntParam: an integer that the region only reads
    ITERATOR = "iterator"  # a loop variable, without storage in the tree


class Origin(Enum):
    """Where a variable is declared."""

    PARAMETER = "parameter"
    GLOBAL = "global"
    LOCAL = "local"  # in the function, outside the region
    REGION = "region"  # inside the region


@dataclass(frozen=True, slots=True)
class CVariable:
    """A C variable that a region uses, and its representation in the tree."""

    name: str  # as C spells it
    tree_name: str  # its Param or Local in the tree; "" for an iterator that has none
    kind: VariableKind
    origin: Origin
    ctype: str  # C text of the element type without qualifiers: "double", "unsigned char"
    dtype: DType
    extents: tuple[str, ...]  # C text of each extent, macros expanded; "" where none is given
    shape: tuple[
        Expr, ...
    ]  # the same as expressions of the tree; an unknown extent is Var of a size
    is_written: bool  # the region may assign it
    is_live_out: bool  # its value after the region may be read
    final: Expr | None  # of a live iterator: its value after the region, over IntParams
    span: Span  # of the declaration
    init: str = ""  # C text of its initial value, macros expanded; "" without one
    start: InitialValue | None = None  # of a scalar: the same as expressions, where they are known
    rows: tuple[Expr, ...] = ()  # of a flat array that the tree has as rows: its extents there
    storage: Storage = Storage()  # where it lies, and what it leads to


@dataclass(frozen=True, slots=True)
class CRegion:
    """One region of one function.

    `source[start:end]` are the lines between the two pragma lines, whole lines only;
    `source[outer_start:outer_end]` are the same with both pragma lines.
    """

    function: str  # name of the enclosing function
    index: int  # position among the regions of the file, from 0
    start: int
    end: int
    outer_start: int
    outer_end: int
    indent: str  # white space before the first pragma
    parameters: tuple[str, ...]  # names of all parameters of the function, used here or not
    variables: tuple[CVariable, ...]  # those the region uses: in the order of tree.params, then
    # locals, then iterators
    declarations: tuple[str, ...]  # C lines, of variables that it declares and later code uses
    tree: SourceTree  # params: parameters in the function's order, then others by first use
    span: Span  # of the line of `#pragma scop`

    def variable(self, name: str) -> CVariable:
        """The variable that C or the tree calls `name`."""
        return next(v for v in self.variables if name in (v.name, v.tree_name))


@dataclass(frozen=True, slots=True)
class CFile:
    """A C source file and its regions, in source order."""

    name: str  # as the user spelled it
    source: bytes
    encoding: str  # "utf-8" or "latin-1": of `source`, and of text put into it
    regions: tuple[CRegion, ...]

    def with_regions(self, texts: Mapping[int, str], *, keep_pragmas: bool = True) -> bytes:
        """The file with new text between the pragmas of the regions of the given indices.

        All other bytes stay as they are. Each text should end in a newline. Without
        `keep_pragmas` the text also takes the place of the two pragma lines.
        """
        parts: list[bytes] = []
        done = 0
        for region in self.regions:
            if region.index not in texts:
                continue
            start, end = region.start, region.end
            if not keep_pragmas:
                start, end = region.outer_start, region.outer_end
            parts += (self.source[done:start], texts[region.index].encode(self.encoding))
            done = end
        return b"".join((*parts, self.source[done:]))
