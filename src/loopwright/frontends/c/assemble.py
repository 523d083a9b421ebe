"""The syntax of a region to its CRegion: the tree, and what became of every variable."""

from __future__ import annotations

from collections.abc import Iterable

from loopwright.diagnostics import Collector, Diagnostic
from loopwright.frontends.c.expressions import ExpressionReader
from loopwright.frontends.c.function import ParsedRegion
from loopwright.frontends.c.functions import Functions
from loopwright.frontends.c.places import Places
from loopwright.frontends.c.refusal import Refusal, Reported
from loopwright.frontends.c.region import CRegion, CVariable, Kind, Origin
from loopwright.frontends.c.scope import Naming, Scope, Variable
from loopwright.frontends.c.statements import StatementReader
from loopwright.frontends.c.syntax import Declaration, DeclarationStmt, Dim
from loopwright.frontends.c.text import SourceText
from loopwright.frontends.c.types import Model
from loopwright.frontends.c.uses import assigned_in, counters_in, used_in
from loopwright.frontends.rewrite import drop_unused
from loopwright.frontends.tree import ArrayParam, IntParam, Local, Param, ScalarParam, SourceTree

__all__ = ["assemble"]


def assemble(
    region: ParsedRegion,
    index: int,
    source: SourceText,
    text: str,
    places: Places,
    model: Model,
    faults: Collector,
    functions: Functions,
) -> CRegion | None:
    """Read a region; None when something was refused (and reported)."""
    before = len(faults)
    lasting = _lasting(region)
    assigned, counters = assigned_in(region.body) | set(lasting), counters_in(region.body)
    used = used_in(region.body)
    scope = Scope(
        Naming(functions.identifiers(region.identifiers)),
        assigned,
        counters,
        region.changing,
        untouched={d for d in counters if d.where != "region"},
        hidden=region.declared | {d.name for d in used if d.where != "global"},
    )
    read = ExpressionReader(text, places, scope, model, faults, functions)
    order = {d: at for at, d in enumerate(region.head.parameters)}
    for declaration in sorted(used, key=lambda d: order.get(d, len(order))):
        _place(read, declaration)
    body = StatementReader(read, places).block(region.body)
    facts = _Facts(region, scope, places, order, text, lasting)
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
        faults.add(Diagnostic(places.span(declaration.at), message, "LW139", hint=hint))
    declarations = tuple(_declared(d, places, faults) for d in lasting)
    if len(faults) > before:
        return None
    span = source.span(region.first.line)
    name = Naming(()).fresh(region.head.name)
    params, sizes, local = facts.params(), tuple(scope.sizes), facts.locals()
    local = (*local, *scope.temporaries)
    tree = drop_unused(SourceTree(name, params, sizes, local, body, None, (), span))
    line = source.lines[region.first.line - 1]
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
    """What the region declares for code behind it as well."""
    statements = (s for s in region.body if isinstance(s, DeclarationStmt))
    return tuple(d for s in statements for d in s.declarations if d.where == "lasting")


def _declared(declaration: Declaration, places: Places, faults: Collector) -> str:
    """The declaration without its value, which is an assignment of the region."""
    kind = declaration.type
    extents = [d.text for d in kind.derivations if isinstance(d, Dim)]
    if kind.element is None or len(extents) < len(kind.derivations):
        message = f"'{declaration.name}' is declared in the region and used after it"
        hint = "declare it before '#pragma scop'"
        faults.add(Diagnostic(places.span(declaration.at), message, "LW134", hint=hint))
    element = kind.text if kind.element is None else kind.element.name
    return f"{element} {declaration.name}{''.join(f'[{text}]' for text in extents)};"


def _is_kept(declaration: Declaration) -> bool:
    """Whether a variable keeps its value from call to call, or others see it."""
    return bool(declaration.type.qualifiers & {"static", "extern", "_Thread_local"})


def _place(read: ExpressionReader, declaration: Declaration) -> None:
    """Give a variable from outside its name before the loops take theirs.

    What is refused here is refused again where the region uses it, and told there.
    """
    scope = read.scope
    is_inner = declaration.where == "region" or declaration in scope.counters
    if is_inner or read.fixed(declaration) is not None:
        return
    try:
        read.variable(declaration)
    except Refusal:
        scope.refused.discard(declaration)
    except Reported:
        pass


def _origin(declaration: Declaration) -> Origin:
    return Origin.LOCAL if declaration.where == "lasting" else Origin(declaration.where)


class _Facts:
    """What the variables of a region are to the function around it."""

    def __init__(
        self,
        region: ParsedRegion,
        scope: Scope,
        places: Places,
        order: dict[Declaration, int],
        text: str,
        lasting: tuple[Declaration, ...],
    ) -> None:
        self._text = text
        self._lasting = lasting
        self._around = region.around
        self._scope = scope
        self._places = places
        self._variables = sorted(
            scope.variables.values(), key=lambda v: order.get(v.declaration, len(order))
        )
        self.unknown: list[tuple[str, Declaration]] = []

    def params(self) -> tuple[Param, ...]:
        return tuple(self._param(v) for v in self._variables if not self._is_local(v))

    def locals(self) -> tuple[Local, ...]:
        return tuple(
            Local(v.name, v.ctype.dtype, v.shape, self._places.span(v.declaration.at))
            for v in self._variables
            if self._is_local(v)
        )

    def variables(self, names: Iterable[str]) -> tuple[CVariable, ...]:
        by_name = {v.name: v for v in self._variables}
        return tuple(self._described(by_name[name]) for name in names if name in by_name)

    def _param(self, v: Variable) -> Param:
        span = self._places.span(v.declaration.at)
        if v.is_integer:
            return IntParam(v.name, span)
        if v.shape or v.declaration in self._scope.assigned:
            return ArrayParam(v.name, v.ctype.dtype, v.shape, span)
        return ScalarParam(v.name, v.ctype.dtype, span)

    def _is_local(self, v: Variable) -> bool:
        """Whether nothing outside the region sees or sets the variable."""
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
        """Whether other functions, or later calls of this one, see the variable."""
        return declaration.where == "global" or _is_kept(declaration)

    def _described(self, v: Variable) -> CVariable:
        declaration = v.declaration
        is_written = declaration in self._scope.assigned or declaration.where == "region"
        kind = Kind.ARRAY if v.shape else Kind.INTEGER if v.is_integer else Kind.SCALAR
        return CVariable(
            declaration.name,
            v.name,
            kind,
            _origin(declaration),
            v.ctype.name,
            v.ctype.dtype,
            tuple(d.text if isinstance(d, Dim) else "" for d in declaration.type.derivations),
            v.shape,
            is_written,
            is_written and self._is_live(declaration),
            None,
            self._places.span(declaration.at),
            self._init(declaration),
        )

    def _init(self, declaration: Declaration) -> str:
        if declaration.init is None or declaration in self._lasting:
            return ""  # the region itself sets it
        return " ".join(self._text[slice(*declaration.init.at)].split())

    def _is_live(self, declaration: Declaration) -> bool:
        if declaration.where == "region":
            return False
        is_array = bool(declaration.type.derivations)
        if self._is_shared(declaration) or (is_array and declaration.where == "parameter"):
            return True
        # In a loop around the region its next run may read what this one leaves.
        repeats = self._around.repeats or "*" in declaration.type.derivations
        return repeats or self._around.is_used_after(declaration.name)

    def iterator(self, declaration: Declaration) -> CVariable | None:
        """A variable from outside that counts loops of the region."""
        element = declaration.type.element
        if element is None or declaration.type.derivations:
            return None  # refused where its loop begins
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
            Kind.ITERATOR,
            _origin(declaration),
            element.name,
            element.dtype,
            (),
            (),
            is_written=True,
            is_live_out=is_live or is_read_again,
            final=final,
            span=self._places.span(declaration.at),
            init=self._init(declaration),
        )
