"""The polyhedral dataflow graph of a computation, and its rendering as DOT and SVG.

Statements that share loops stand in clusters, one inside the other as the loops are; a cluster with
statements beside another cluster is an imperfect nest. Dependences that a loop carries are edges
of their own between statements. In the SVG inputs stand at the left, statements in their loops in
the middle, in order of execution, and results at the right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from loopwright.ir.program import Role
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.spf.array_dependences import SpaceAccess, accesses, dependences
from loopwright.sparse.spf.computation import Computation, Stmt
from loopwright.sparse.uf import Term

__all__ = [
    "CarriedEdge",
    "Cluster",
    "DataNode",
    "Dataflow",
    "Flow",
    "StatementNode",
    "dataflow",
    "dot_text",
    "flow_label",
    "svg_text",
]


@dataclass(frozen=True)
class StatementNode:
    """A statement and its domain."""

    name: str
    domain: str


@dataclass(frozen=True)
class DataNode:
    """A data space."""

    name: str
    label: str  # with extents and dtype
    role: Role


@dataclass(frozen=True)
class Flow:
    """Elements that one instance of a statement reads or writes."""

    statement: str
    space: str
    is_write: bool
    count: int  # different elements of the value and its place
    by_domain: int = 0  # different elements that decide which instances there are


@dataclass(frozen=True)
class CarriedEdge:
    """Dependences between two statements that a loop carries from iteration to iteration."""

    source: str
    target: str
    loop: int  # of the source, from 1
    spaces: tuple[str, ...]


@dataclass(frozen=True)
class Cluster:
    """A loop with what stands in it, in order; the outermost one is no loop."""

    loop: str  # what the loop runs over
    parts: tuple[Cluster | str, ...]  # inner loops, and names of statements


@dataclass(frozen=True)
class Dataflow:
    """The graph of one computation."""

    name: str
    statements: tuple[StatementNode, ...]  # in order of execution
    spaces: tuple[DataNode, ...]
    flows: tuple[Flow, ...]
    carried: tuple[CarriedEdge, ...]
    root: Cluster


def dataflow(computation: Computation) -> Dataflow:
    """The graph of a computation; equal computations have equal graphs."""
    root = Cluster("", tuple(_clusters(computation.statements, 0)))
    order = list(_names(root))
    return Dataflow(
        computation.name,
        tuple(StatementNode(name, str(computation.statement(name).domain)) for name in order),
        tuple(
            DataNode(s.name, _label(s.name, s.shape, s.dtype), s.role) for s in computation.spaces
        ),
        tuple(flow for name in order for flow in _flows(computation, computation.statement(name))),
        tuple(_carried(computation)),
        root,
    )


def _label(name: str, shape: Sequence[Term], dtype: object) -> str:
    return f"{name}[{', '.join(map(str, shape))}]: {dtype}"


def _flows(computation: Computation, stmt: Stmt) -> Iterator[Flow]:
    found = accesses(stmt)
    for space in computation.spaces:
        own = [access for access in found if access.space == space.name]
        reads = [access for access in own if not access.is_write]
        if reads:
            decides = _different(access for access in reads if access.entries is not None)
            plain = _different(access for access in reads if access.entries is None)
            yield Flow(stmt.name, space.name, False, plain, decides)
        if any(access.is_write for access in own):
            yield Flow(stmt.name, space.name, True, 1)


def _different(found: Iterator[SpaceAccess]) -> int:
    return len({access.index for access in found})


def _carried(computation: Computation) -> Iterator[CarriedEdge]:
    groups: dict[tuple[str, str, int], dict[str, None]] = {}
    for found in dependences(computation):
        if found.loop is not None:
            key = (found.source, found.target, found.loop)
            groups.setdefault(key, {})[found.space] = None
    for (source, target, loop), spaces in groups.items():
        yield CarriedEdge(source, target, loop, tuple(spaces))


def _clusters(statements: Sequence[Stmt], place: int) -> Iterator[Cluster | str]:
    """Statements with equal times so far, as loops and single statements in order."""
    groups: dict[tuple[bool, int], list[Stmt]] = {}
    for stmt in statements:
        entry = stmt.schedule[place] if place < len(stmt.schedule) else Term.of(0)
        # A loop at this place is shared by all that have one; constants are distinguished.
        key = (not entry.is_constant, entry.constant if entry.is_constant else 0)
        groups.setdefault(key, []).append(stmt)
    for (is_loop, _), inside in sorted(groups.items(), key=lambda group: group[0]):
        if not is_loop and all(len(stmt.schedule) <= place for stmt in inside):
            yield from (stmt.name for stmt in inside)
        elif is_loop:
            over = dict.fromkeys(str(stmt.schedule[place]) for stmt in inside)
            yield Cluster(", ".join(over), tuple(_clusters(inside, place + 1)))
        else:
            yield from _clusters(inside, place + 1)


def _names(cluster: Cluster) -> Iterator[str]:
    for part in cluster.parts:
        if isinstance(part, Cluster):
            yield from _names(part)
        else:
            yield part


_FILL = {Role.IN: "#dbe9f6", Role.OUT: "#fde3cf", Role.INOUT: "#fde3cf", Role.LOCAL: "#eeeeee"}


def dot_text(graph: Dataflow) -> str:
    """The graph in the DOT language; equal graphs give equal texts."""
    lines = [f"digraph {_quoted(graph.name)} {{", '  node [fontname="monospace", fontsize=10];']
    lines += [
        f"  {_quoted('data ' + node.name)} [label={_quoted(node.label)}, shape=box, "
        f'style="filled,rounded", fillcolor="{_FILL[node.role]}"];'
        for node in graph.spaces
    ]
    domains = {node.name: node.domain for node in graph.statements}
    lines += _parts(graph.root, domains, "  ", [0])
    for flow in graph.flows:
        ends = _quoted("data " + flow.space), _quoted(flow.statement)
        first, last = reversed(ends) if flow.is_write else ends
        lines.append(f"  {first} -> {last} [label={_quoted(flow_label(flow))}];")
    lines += [
        f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [style=dashed, constraint=false, "
        f'color="#b03030", label={_quoted(f"loop {edge.loop}: " + ", ".join(edge.spaces))}];'
        for edge in graph.carried
    ]
    return "\n".join([*lines, "}", ""])


def flow_label(flow: Flow) -> str:
    """How many elements an instance touches; those read by the domain are marked."""
    counts = [str(flow.count)] if flow.count else []
    return " + ".join([*counts, *([f"{flow.by_domain} (domain)"] if flow.by_domain else [])])


def _parts(
    cluster: Cluster, domains: dict[str, str], indent: str, number: list[int]
) -> Iterator[str]:
    for part in cluster.parts:
        if isinstance(part, str):
            label = _quoted(f"{part}\n{domains[part]}")
            yield f"{indent}{_quoted(part)} [label={label}, shape=ellipse];"
            continue
        number[0] += 1
        yield f"{indent}subgraph cluster_{number[0]} {{"
        yield f"{indent}  label={_quoted(f'for {part.loop}')};"
        yield from _parts(part, domains, indent + "  ", number)
        yield f"{indent}}}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


_ROW, _HEIGHT, _PAD = 62, 36, 14  # distances of statements, height of boxes, space inside loops
_CHARACTER = 6.2  # width of a character of 10 pixels
_GAP = 120  # between columns


@dataclass(frozen=True)
class _Box:
    """A rectangle by its middle and size."""

    x: float
    y: float
    width: float
    height: float = _HEIGHT

    @property
    def left(self) -> float:
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        return self.x + self.width / 2


def svg_text(graph: Dataflow) -> str:
    """The graph as an SVG document; equal graphs give equal texts."""
    depth = _depth(graph.root)
    sides = _columns(graph)
    widths = [max((_width(n.label) for n in side), default=0.0) for side in sides]
    middle = max((_width(s.name) for s in graph.statements), default=0.0) + 2 * _PAD * depth
    centre = 20 + widths[0] + _GAP + middle / 2
    rows = _rows(graph.root)
    places = {name: _Box(centre, y, _width(name)) for name, y in rows.items()}
    data: dict[str, _Box] = {}
    for side, x in zip(
        sides, (20 + widths[0] / 2, centre + middle / 2 + _GAP + widths[1] / 2), strict=True
    ):
        data |= _spread(side, graph.flows, places, x)
    bottom = max((box.y for box in (*places.values(), *data.values())), default=0.0) + 60
    width = 40 + sum(widths) + 2 * _GAP + middle
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{bottom:.0f}" '
        'font-family="monospace" font-size="10">',
        '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z"/></marker></defs>',
        *_loops(graph.root, rows, centre, middle / 2),
        *(_edge(flow, places[flow.statement], data[flow.space]) for flow in graph.flows),
        *(_arc(edge, places) for edge in graph.carried),
        *(
            _node(places[s.name], s.name, "#ffffff", _HEIGHT / 2, s.domain)
            for s in graph.statements
        ),
        *(_node(data[n.name], n.label, _FILL[n.role], 4, n.role.value) for n in graph.spaces),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _width(text: str) -> float:
    return len(text) * _CHARACTER + 20


def _depth(cluster: Cluster) -> int:
    return max((1 + _depth(part) for part in cluster.parts if isinstance(part, Cluster)), default=0)


def _columns(graph: Dataflow) -> tuple[list[DataNode], list[DataNode]]:
    left = [node for node in graph.spaces if node.role is Role.IN]
    return left, [node for node in graph.spaces if node.role is not Role.IN]


def _rows(root: Cluster) -> dict[str, float]:
    """The height of each statement; a loop needs room for its name above what it holds."""
    found: dict[str, float] = {}

    def visit(cluster: Cluster, y: float) -> float:
        for part in cluster.parts:
            if isinstance(part, str):
                found[part] = y + _HEIGHT / 2
                y += _ROW
            else:
                y = visit(part, y + 2 * _PAD) + _PAD
        return y

    visit(root, 30)
    return found


def _spread(
    nodes: Sequence[DataNode], flows: Sequence[Flow], places: Mapping[str, _Box], x: float
) -> dict[str, _Box]:
    """Data beside the statements that touch it, at least one row from each other."""

    def wish(node: DataNode) -> float:
        heights = [places[flow.statement].y for flow in flows if flow.space == node.name]
        return sum(heights) / len(heights) if heights else 0.0

    found: dict[str, _Box] = {}
    y = 30 + _HEIGHT / 2 - _ROW
    for node in sorted(nodes, key=lambda node: (wish(node), node.name)):
        y = max(y + _ROW, wish(node))
        found[node.name] = _Box(x, y, _width(node.label))
    return found


def _loops(cluster: Cluster, rows: Mapping[str, float], x: float, half: float) -> Iterator[str]:
    for part in cluster.parts:
        if isinstance(part, str):
            continue
        above, below = _reach(part)
        names = list(_names(part))
        top = rows[names[0]] - _HEIGHT / 2 - above
        bottom = rows[names[-1]] + _HEIGHT / 2 + below
        yield (
            f'<rect x="{x - half:.1f}" y="{top:.1f}" width="{2 * half:.1f}" '
            f'height="{bottom - top:.1f}" fill="none" stroke="#999999" rx="3"/>'
        )
        yield f'<text x="{x - half + 5:.1f}" y="{top + 11:.1f}">{escape(f"for {part.loop}")}</text>'
        yield from _loops(part, rows, x, half - _PAD)


def _reach(cluster: Cluster) -> tuple[float, float]:
    """How far a loop's box stands above its first and below its last statement."""
    first, last = cluster.parts[0], cluster.parts[-1]
    above = 2 * _PAD + (_reach(first)[0] if isinstance(first, Cluster) else 0) - _PAD / 2
    below = _PAD / 2 + (_reach(last)[1] if isinstance(last, Cluster) else 0)
    return above, below


def _edge(flow: Flow, statement: _Box, data: _Box) -> str:
    is_left = data.x < statement.x
    ends = [
        (data.right if is_left else data.left, data.y),
        (statement.left if is_left else statement.right, statement.y),
    ]
    if flow.is_write:
        ends.reverse()
    # Edges for reads and for writes of one space are drawn side by side.
    shift = 5 if flow.is_write else -5
    (x0, y0), (x1, y1) = ends
    bend = (x0 + x1) / 2
    label = flow_label(flow)
    path = f"M{x0:.1f},{y0 + shift:.1f} C{bend:.1f},{y0 + shift:.1f} {bend:.1f},{y1 + shift:.1f} "
    path += f"{x1:.1f},{y1 + shift:.1f}"
    text_y = (y0 + y1) / 2 + shift - 3
    return (
        f'<path d="{path}" fill="none" stroke="#444444" marker-end="url(#end)"/>'
        f'<text x="{bend:.1f}" y="{text_y:.1f}" fill="#444444">{escape(label)}</text>'
    )


def _arc(edge: CarriedEdge, places: Mapping[str, _Box]) -> str:
    """A dashed arc at the left of the statements."""
    source, target = places[edge.source], places[edge.target]
    x0, x1 = source.left + 10, target.left + 10
    y0, y1 = source.y + _HEIGHT / 2, target.y - _HEIGHT / 2
    reach = min(x0, x1) - 30
    title = f"loop {edge.loop} carries {', '.join(edge.spaces)}"
    return (
        f'<path d="M{x0:.1f},{y0:.1f} C{reach:.1f},{y0 + 20:.1f} {reach:.1f},{y1 - 20:.1f} '
        f'{x1:.1f},{y1:.1f}" fill="none" stroke="#b03030" stroke-dasharray="4 3" '
        f'marker-end="url(#end)"><title>{escape(title)}</title></path>'
    )


def _node(box: _Box, label: str, fill: str, corner: float, title: str) -> str:
    return (
        f'<g><title>{escape(title)}</title><rect x="{box.left:.1f}" '
        f'y="{box.y - box.height / 2:.1f}" width="{box.width:.1f}" height="{box.height}" '
        f'rx="{corner:.0f}" fill="{fill}" stroke="#333333"/>'
        f'<text x="{box.x:.1f}" y="{box.y + 3.5:.1f}" text-anchor="middle">'
        f"{escape(label)}</text></g>"
    )
