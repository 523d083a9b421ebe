"""Dataflow graphs as pictures: inputs at the left, statements in their loops, results at the right.

Statements stand below each other in order of execution, so that loops are boxes inside boxes. A
data space stands beside the statements that touch it. Dependences carried by loops are dashed arcs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from loopwright.ir.program import Role
from loopwright.sparse.spf.dataflow import Carried, Cluster, Dataflow, DataNode, Flow
from loopwright.sparse.spf.dataflow_dot import flow_label

__all__ = ["svg_text"]

_ROW, _HEIGHT, _PAD = 62, 36, 14  # distances of statements, height of boxes, space inside loops
_CHARACTER = 6.2  # width of a character of 10 pixels
_GAP = 120  # between columns
_FILL = {Role.IN: "#dbe9f6", Role.OUT: "#fde3cf", Role.INOUT: "#fde3cf", Role.LOCAL: "#eeeeee"}


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


def _names(cluster: Cluster) -> Iterator[str]:
    for part in cluster.parts:
        if isinstance(part, str):
            yield part
        else:
            yield from _names(part)


def _edge(flow: Flow, statement: _Box, data: _Box) -> str:
    is_left = data.x < statement.x
    ends = [
        (data.right if is_left else data.left, data.y),
        (statement.left if is_left else statement.right, statement.y),
    ]
    if flow.is_write:
        ends.reverse()
    # Reads and writes of one space start apart.
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


def _arc(edge: Carried, places: Mapping[str, _Box]) -> str:
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
