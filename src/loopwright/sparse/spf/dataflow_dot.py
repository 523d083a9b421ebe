"""Dataflow graphs as text for Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from loopwright.ir.program import Role
from loopwright.sparse.spf.dataflow import Cluster, Dataflow, Flow

__all__ = ["dot_text", "flow_label"]

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
