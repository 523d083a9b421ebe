"""Dataflow graphs: what they hold, and that their texts and pictures are sound."""

from itertools import combinations
from xml.etree import ElementTree

from loopwright.sparse.spf.dataflow import CarriedEdge, Cluster, Flow, dataflow, dot_text, svg_text
from loopwright.sparse.spf.rescheduling import fuse
from spf_assembly import CLEAR, ROW_SUM, assembly, computation

FUSED = fuse(computation(CLEAR, ROW_SUM), "clear", "row_sum", 1)


def test_imperfect_nest_is_clusters_in_each_other() -> None:
    graph = dataflow(FUSED)
    assert graph.root == Cluster("", (Cluster("i", ("clear", Cluster("k", ("row_sum",)))),))
    assert [node.name for node in graph.statements] == ["clear", "row_sum"]


def test_reads_and_writes_are_counted() -> None:
    graph = dataflow(FUSED)
    assert graph.flows == (
        Flow("clear", "y", True, 1),
        Flow("row_sum", "ptr", False, 0, by_domain=2),
        Flow("row_sum", "val", False, 1),
        Flow("row_sum", "y", False, 1),
        Flow("row_sum", "y", True, 1),
    )


def test_carried_dependences() -> None:
    assert dataflow(FUSED).carried == (CarriedEdge("row_sum", "row_sum", 2, ("y",)),)


def test_dot() -> None:
    assert dot_text(dataflow(FUSED)) == (
        'digraph "made" {\n'
        '  node [fontname="monospace", fontsize=10];\n'
        '  "data ptr" [label="ptr[N+1]: int32", shape=box, style="filled,rounded", '
        'fillcolor="#dbe9f6"];\n'
        '  "data val" [label="val[K]: float64", shape=box, style="filled,rounded", '
        'fillcolor="#dbe9f6"];\n'
        '  "data y" [label="y[N]: float64", shape=box, style="filled,rounded", '
        'fillcolor="#fde3cf"];\n'
        "  subgraph cluster_1 {\n"
        '    label="for i";\n'
        f'    "clear" [label="clear\\n{CLEAR.domain}", shape=ellipse];\n'
        "    subgraph cluster_2 {\n"
        '      label="for k";\n'
        f'      "row_sum" [label="row_sum\\n{ROW_SUM.domain}", shape=ellipse];\n'
        "    }\n"
        "  }\n"
        '  "clear" -> "data y" [label="1"];\n'
        '  "data ptr" -> "row_sum" [label="2 (domain)"];\n'
        '  "data val" -> "row_sum" [label="1"];\n'
        '  "data y" -> "row_sum" [label="1"];\n'
        '  "row_sum" -> "data y" [label="1"];\n'
        '  "row_sum" -> "row_sum" [style=dashed, constraint=false, color="#b03030", '
        'label="loop 2: y"];\n'
        "}\n"
    )


def boxes(picture: ElementTree.Element, path: str) -> list[tuple[float, float, float, float]]:
    found = []
    for rect in picture.findall(path):
        x, y, width, height = (float(rect.attrib[k]) for k in ("x", "y", "width", "height"))
        found.append((x, y, x + width, y + height))
    return found


def test_picture_is_sound() -> None:
    """Nodes lie apart and inside the picture, loops lie apart or inside each other."""
    name = "{http://www.w3.org/2000/svg}"
    for made in (FUSED, assembly(), fuse(assembly(), "prefix", "copy", 1)):
        text = svg_text(dataflow(made))
        assert text == svg_text(dataflow(made))
        picture = ElementTree.fromstring(text)
        size = float(picture.attrib["width"]), float(picture.attrib["height"])
        nodes, loops = boxes(picture, f"{name}g/{name}rect"), boxes(picture, f"{name}rect")
        assert len(nodes) == len(made.spaces) + len(made.statements)
        for x0, y0, x1, y1 in (*nodes, *loops):
            assert x0 >= 0
            assert y0 >= 0
            assert x1 <= size[0]
            assert y1 <= size[1]
        for one, other in combinations(nodes, 2):
            assert is_apart(one, other)
        for one, other in combinations(loops, 2):
            assert is_apart(one, other) or is_inside(one, other) or is_inside(other, one)
        for loop in loops:
            assert all(is_apart(loop, node) or is_inside(node, loop) for node in nodes)


def is_apart(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def is_inside(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] >= other[0] and one[1] >= other[1] and one[2] <= other[2] and one[3] <= other[3]
