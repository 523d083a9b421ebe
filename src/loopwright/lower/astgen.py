"""Schedule -> the loops that isl generates for it, read from isl's syntax tree.

Every band carries an isl mark with its name while the syntax tree is generated, so each generated
loop knows the band it came from, also where isl splits a band into several loops or drops a loop
of one iteration. No callback into Python is needed: the arguments of a user node already are the
statement's iterators as functions of the loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import combinations

from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Const, Expr, Var
from loopwright.ir.islkit import (
    GaveUp,
    context,
    is_intricate,
    isl,
    map_nodes,
    maps_in,
    pieces_in,
    sets_in,
    with_option,
)
from loopwright.ir.loops import Block, For, If, LoopNest, Mark, Stmt, Store
from loopwright.ir.program import Statement
from loopwright.ir.schedule import Schedule, ScheduledContraction
from loopwright.ir.schedule_tree import band_name, band_node, band_nodes, bands_around, is_band
from loopwright.ir.visit import fresh_name, substitute
from loopwright.ir.visit import names as names_in
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.ast_expressions import arguments_of, read_expr
from loopwright.lower.buffers import (
    allocate_private,
    allocate_shared,
    argument_buffers,
    scalar_names,
)
from loopwright.lower.build import seq
from loopwright.lower.contraction_nests.contraction_nest import placeholder
from loopwright.lower.left_out_loops import only_value, parts_of_band, statements_below
from loopwright.lower.linear_forms import add_constant, normal
from loopwright.lower.mesh_nests.stage_boxes import BoxStaging

__all__ = ["GeneratedLoops", "generate_loops"]

_PREFIX = "core."  # of the names of placeholders; no statement has a dot in its name
_MOST_LOOPS = 32  # around a statement; isl's work grows with their fourth power
_MOST_EXCLUSIVE = 8  # statements of one loop that are compared in pairs


@dataclass(frozen=True, slots=True)
class GeneratedLoops:
    """A nest with the loops that isl generated, before any pass, and what its names stand for."""

    nest: LoopNest  # marks VECTOR and UNROLL ask for lanes and copies: extents are any
    variables: Mapping[str, str]  # band name -> loop variable; a band without a loop has none
    contractions: Mapping[str, ScheduledContraction]  # by their placeholders
    rings: Sequence[str] = ()  # memory of two boxes of a mapped loop


def generate_loops(schedule: Schedule) -> GeneratedLoops:
    """The loops of a schedule as isl generates them, inside the memory of local arrays."""
    program = schedule.program
    build = isl.AstBuild.from_context(program.context)
    _require_simple(schedule.tree)
    tree, contractions = _with_placeholders(schedule)
    is_grouped = bool(schedule.private) or schedule.is_for_device or schedule.mesh is not None
    keeps_values = bool(schedule.boxes or schedule.staged or schedule.joined)
    marked, repeats = _with_marks(schedule, tree), dict[str, str]()
    if keeps_values:
        marked, repeats = _without_repeats(marked)
    ast = _ast(build, marked, is_grouped=is_grouped, keeps_values=keeps_values)
    staging = BoxStaging(schedule)
    reader = _Reader(schedule, contractions, staging, repeats)
    body = reader.statement(ast)
    for array, loop in reversed(schedule.private):
        around = frozenset(reader.variables.get(name, "") for name in _path(schedule.tree, loop))
        body = allocate_private(program.array(array), around, body)
    body = allocate_shared(schedule, body)
    buffers, scalars = argument_buffers(program), scalar_names(program)
    nest = LoopNest(
        program.name, buffers, scalars, body, leave_to_llvm=True, reassoc=program.reassoc
    )
    return GeneratedLoops(nest, reader.variables, contractions, staging.rings)


def _require_simple(tree: isl.Schedule) -> None:
    """Raise GaveUp for what isl does not write down in time, and no quota would end.

    Those are nests of very many loops, and tiles of loops that run under many conditions on
    remainders: isl would look for the tiles that have something to run.
    """
    deepest = max((one.dim(isl.dim_type.set) for one in sets_in(tree.get_domain())), default=0)
    if deepest > _MOST_LOOPS:
        raise GaveUp(f"{deepest} loops around a statement are more than {_MOST_LOOPS}")
    if not any(map(is_intricate, sets_in(tree.get_domain()))):
        return
    for node in band_nodes(tree):
        if any(x.dim(isl.dim_type.div) for f in _times(node).values() for _, x in pieces_in(f)):
            raise GaveUp(f"the loop '{band_name(node)}' is cut under many conditions on remainders")


def _with_placeholders(schedule: Schedule) -> tuple[isl.Schedule, dict[str, ScheduledContraction]]:
    """The tree with the loops of each contraction replaced by a statement, and who they are.

    The statement `core.k[o]` runs where the loops i, j, p of the k-th one had something to run for
    the values o of the loops around them.
    """
    tree = schedule.tree
    contractions: dict[str, ScheduledContraction] = {}
    for number, scheduled in enumerate(schedule.contractions):
        name = f"{_PREFIX}{number}"
        outermost = next(node for node in band_nodes(tree) if band_name(node) in scheduled.loops)
        node = outermost.group(isl.Id(name, context=context()))
        tree = node.parent().cut().get_schedule()
        contractions[name] = scheduled
    return tree, contractions


def _holds_placeholder(node: isl.ScheduleNode) -> bool:
    """Whether instances of a contraction reach a node."""
    names = (part.get_tuple_name() or "" for part in sets_in(node.get_domain()))
    return any(name.startswith(_PREFIX) for name in names)


def _ast(
    build: isl.AstBuild, tree: isl.Schedule, *, is_grouped: bool, keeps_values: bool
) -> isl.AstNode:
    """isl's syntax tree for a schedule tree.

    isl may generate a loop for each statement where none has an iteration after one of another.
    Iterations with private arrays, and blocks of threads, must stay in one loop: then the tree
    `is_grouped`. isl may also count 0, 1, 2 where a loop has the values 0, 32, 64; where the tree
    `keeps_values`, somebody has written expressions over these.
    """

    def written() -> isl.AstNode:
        name = "ast_build_group_coscheduled"
        return with_option(name, int(is_grouped), lambda: build.node_from_schedule(tree))

    return with_option("ast_build_scale_strides", int(not keeps_values), written)


def _with_marks(schedule: Schedule, tree: isl.Schedule) -> isl.Schedule:
    """`tree` with a mark of its name above each band, and options for isl.

    Outer loops stay one loop each, with guards inside: that keeps the text small and parallel
    loops whole. Innermost loops are isl's choice, but for two kinds that are separated into loops
    without guards: vector loops, whose lanes would need masks, and loops of statements that
    exclude one another, as the interior and the borders of a subscript do
    (`piecewise_subscripts`). A loop with private arrays stays one: its body is where they are
    allocated. Of private scalars each of several loops may have its own: an innermost loop whose
    iterations have gaps is as many loops as it has stretches, unless threads share it.
    """
    types = isl.ast_loop_type
    owners = {loop for _, loop in schedule.private}
    whole = {loop for array, loop in schedule.private if schedule.program.array(array).rank} | {
        one.loop for box in schedule.boxes for one in (box, box.panel) if one is not None
    }

    def visit(node: isl.ScheduleNode) -> isl.ScheduleNode:
        if not is_band(node):
            return node
        name = band_name(node)
        # Marks stand above the bands below already: the tree is visited bottom up.
        is_innermost = next(band_nodes(node.child(0)), None) is None
        is_split = is_innermost and not _holds_placeholder(
            node
        )  # a contraction is written out once
        kind = types.default if is_split else types.atomic
        is_apart = is_split and schedule.mark(name) is not Mark.PARALLEL and name not in whole
        is_owner = name in owners | whole and not (is_apart and _has_stretches(node))
        if is_owner or schedule.mark(name) in (Mark.BLOCK, Mark.THREAD):
            kind = types.atomic
        elif schedule.mark(name) is Mark.VECTOR or (is_split and _has_exclusive(node)):
            kind = types.separate
        node = node.band_member_set_ast_loop_type(0, kind)
        return node.insert_mark(isl.Id(name, context=context()))

    return map_nodes(tree, visit)


def _without_repeats(tree: isl.Schedule) -> tuple[isl.Schedule, dict[str, str]]:
    """`tree` without bands that repeat one around them, and which ones these repeat.

    Tiles of the size of the tiles around them have one iteration. isl finds that out too, for a
    third of its time on a product with tiles on three levels. The marks of such bands stay.
    """
    repeats: dict[str, str] = {}

    def visit(node: isl.ScheduleNode) -> isl.ScheduleNode:
        if not is_band(node):
            return node
        own = _times(node)
        for around in bands_around(node):
            times = _times(around)
            if all(name in times and times[name].plain_is_equal(own[name]) for name in own):
                repeats[band_name(node)] = band_name(around)
                return node.delete()
        return node

    return map_nodes(tree, visit), repeats


def _times(band: isl.ScheduleNode) -> dict[str, isl.PwAff]:
    """The values that a band gives to the instances of each statement."""
    times = band.band_get_partial_schedule().get_at(0).get_pw_aff_list()
    parts = [times.get_at(k) for k in range(times.n_pw_aff())]
    return {part.get_tuple_id(isl.dim_type.in_).get_name(): part for part in parts}


def _has_exclusive(band: isl.ScheduleNode) -> bool:
    """Whether some two statements of an innermost loop never run in the same iteration."""
    times = band.child(0).get_prefix_schedule_relation().intersect_domain(band.get_domain())
    iterations = [one.range().reset_tuple_id() for one in maps_in(times)]
    if not 1 < len(iterations) <= _MOST_EXCLUSIVE:
        return False
    return any(x.is_disjoint(y) for x, y in combinations(iterations, 2))


def _has_stretches(band: isl.ScheduleNode) -> bool:
    """Whether all statements of an innermost loop run in the same iterations, with gaps between."""
    times = band.child(0).get_prefix_schedule_relation().intersect_domain(band.get_domain())
    iterations = [one.range().reset_tuple_id() for one in maps_in(times)]
    has_gaps = bool(iterations) and iterations[0].n_basic_set() > 1
    return has_gaps and all(other.is_equal(iterations[0]) for other in iterations)


def _path(tree: isl.Schedule, loop: str) -> tuple[str, ...]:
    """The band `loop` and the bands around it, innermost first."""
    return (loop, *map(band_name, bands_around(band_node(tree, loop))))


@dataclass(slots=True)
class _Reader:
    """Reads isl's syntax tree; `values` maps isl's iterators to our expressions."""

    schedule: Schedule
    contractions: Mapping[str, ScheduledContraction]
    staging: BoxStaging
    repeats: Mapping[str, str]  # bands that the tree has no more -> the ones they repeat
    values: dict[str, Expr] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)  # band name -> loop variable
    places: dict[str, Expr] = field(default_factory=dict)  # band name -> its value here
    known: tuple[Expr, ...] = ()  # conditions that hold here: loops and guards around

    def statement(self, node: isl.AstNode, loop: str = "") -> Stmt:
        """`node` as a statement; `loop` is the band of the nearest mark above."""
        match isl.ast_node_type(node.get_type()).name:
            case "mark":
                return self._marked(node.mark_get_node(), node.mark_get_id().get_name())
            case "block":
                parts = node.block_get_children()
                children = [parts.get_at(k) for k in range(parts.n_ast_node())]
                return Block(tuple(self.statement(child, loop) for child in children))
            case "if_":
                return self._branches(node, self.statement, loop)
            case "for_":
                return self._loop(node, loop)
            case "user":
                called, *point = arguments_of(node.user_get_expr())
                name = called.id_get_id().get_name()
                values = [self.expr(entry) for entry in point]
                if name in self.contractions:
                    return placeholder(name, self.contractions[name].inner, values)
                statement = self.schedule.program.statement(name)
                return self.staging.renamed(_instance(statement, values), statement, values)
        raise InternalError("isl made a syntax node we do not know", node.to_C_str())

    def _marked(self, node: isl.AstNode, loop: str) -> Stmt:
        """What stands under the mark of a band, of which isl may have left out the loop."""
        self.places.pop(loop, None)
        repeated = self.places.get(self.repeats.get(loop, loop))
        if repeated is not None:
            return self._iteration([node], loop, repeated)
        if self.staging.concerns(loop):
            parts = list(parts_of_band(node))
            bare = [part for part in parts if not _is_loop(part)]
            inside = frozenset[str]().union(*map(statements_below, bare))
            if bare and (len(bare) < len(parts) or self._value(loop, inside) is None):
                return self._apart(node, loop)
        body = self.statement(node, loop)
        if loop in self.places:
            return body
        return self.staging.inside(loop, body, self.places, self.known, None)

    def _apart(self, node: isl.AstNode, loop: str) -> Stmt:
        """What stands under the mark of a band that has loops for some statements only.

        What stands beside them is an iteration of its own for each value that it has of the band.
        """
        match isl.ast_node_type(node.get_type()).name:
            case "for_":
                return self._loop(node, loop)
            case "if_":
                return self._branches(node, self._apart, loop)
            case "block":
                parts = node.block_get_children()
                groups: list[tuple[Expr | None, list[isl.AstNode]]] = []
                for k in range(parts.n_ast_node()):
                    child = parts.get_at(k)
                    is_bare = not any(map(_is_loop, parts_of_band(child)))
                    value = self._value(loop, statements_below(child)) if is_bare else None
                    if value is not None and groups and groups[-1][0] == value:
                        groups[-1][1].append(child)
                    else:
                        groups.append((value, [child]))
                return Block(tuple(
                    self._apart(children[0], loop) if value is None
                    else self._iteration(children, loop, value)
                    for value, children in groups
                ))  # fmt: skip
        value = self._value(loop, statements_below(node))
        if value is None:
            raise InternalError("isl left out a loop of several iterations", node.to_C_str())
        return self._iteration([node], loop, value)

    def _iteration(self, nodes: Sequence[isl.AstNode], loop: str, value: Expr) -> Stmt:
        """The one iteration that stands for a loop that isl has left out."""
        self.places[loop] = value
        body = seq(*(self.statement(node, loop) for node in nodes))
        return self.staging.inside(loop, body, self.places, self.known, None)

    def _value(self, loop: str, statements: frozenset[str]) -> Expr | None:
        """The value of a loop for some statements here; None where it has several."""
        found = only_value(self.schedule, loop, statements)
        if found is None:
            return None
        names, value = found
        values: dict[str, Expr] = {}
        for around, name in names.items():
            if around != loop and name in names_in(value):
                place = self.places.get(around)
                if place is None:
                    place = self._value(around, statements)
                if place is None:
                    return None
                values[name] = place
        return normal(substitute(value, values))

    def _branches(
        self, node: isl.AstNode, read: Callable[[isl.AstNode, str], Stmt], loop: str
    ) -> Stmt:
        cond, around = self.expr(node.if_get_cond()), self.known
        self.known = (*around, cond)
        then = read(node.if_get_then_node(), loop)
        self.known = around
        has_else = node.if_has_else_node()
        return If(cond, then, read(node.if_get_else_node(), loop) if has_else else None)

    def _taken(self) -> set[str]:
        program = self.schedule.program
        return {array.name for array in program.arrays} | set(scalar_names(program))

    def _loop(self, node: isl.AstNode, loop: str) -> Stmt:
        iterator = node.for_get_iterator().id_get_id().get_name()
        start = self.expr(node.for_get_init())
        if node.for_is_degenerate():
            self.values[iterator] = self.places[loop] = start
            body = self.statement(node.for_get_body())
            return self.staging.inside(loop, body, self.places, self.known, None)
        var = self._variable(loop)
        self.values[iterator] = self.places[loop] = Var(var)
        stop = _stop(self.expr(node.for_get_cond()), var)
        step = self.expr(node.for_get_inc())
        around = self.known
        self.known = (*around, *_iterations(Var(var), start, stop, step))
        body = self.statement(node.for_get_body())
        mark, axis = self.schedule.mark(loop), self.schedule.axis(loop)
        made = For(var, start, stop, body, step, mark, axis=axis)
        whole = self.staging.inside(loop, body, self.places, self.known, made)
        self.known = around
        return whole

    def _variable(self, loop: str) -> str:
        """The variable of a band: its name, unless an argument of the nest is called so."""
        if loop not in self.variables:
            taken = self._taken() | set(self.variables.values())
            self.variables[loop] = fresh_name(loop, taken)
        return self.variables[loop]

    def expr(self, node: isl.AstExpr) -> Expr:
        """An integer or boolean expression of isl's."""
        return read_expr(node, self.values)


def _is_loop(node: isl.AstNode) -> bool:
    return bool(isl.ast_node_type(node.get_type()).name == "for_")


def _iterations(var: Var, start: Expr, stop: Expr, step: Expr) -> tuple[Expr, ...]:
    """The conditions that a loop variable meets inside of its loop."""
    found: list[Expr] = [Binary("ge", var, start), Binary("lt", var, stop)]
    if step != Const(1):
        found.append(Binary("eq", Binary("mod", var - start, step), Const(0)))
    return tuple(found)


def _instance(statement: Statement, point: Sequence[Expr]) -> Store:
    """The store of the instance of a statement whose iterators have the values `point`."""
    assert len(point) == len(statement.iterators), f"{statement.name} at {point}"
    values = dict(zip(statement.iterators, point, strict=True))
    index = tuple(substitute(entry, values) for entry in statement.write.index)
    value = substitute(statement.value, values)
    return Store(statement.write.array, index, value, statement.name)


def _stop(cond: Expr, var: str) -> Expr:
    """The exclusive upper bound that the condition of a loop over `var` sets."""
    match cond:
        case Binary(op="lt", x=Var(name=name), y=bound) if name == var:
            return bound
        case Binary(op="le", x=Var(name=name), y=bound) if name == var:
            return add_constant(bound, 1)
        case Binary(op="and", x=x, y=y) if x.dtype != INT64:
            return _stop(x, var).min(_stop(y, var))
    raise InternalError("isl made a loop condition we do not know", str(cond))
