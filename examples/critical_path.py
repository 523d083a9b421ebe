"""The critical path of a project plan: longest paths in an acyclic graph, and a chart.

Run it with `python examples/critical_path.py [PICTURE.svg]`. An edge from i to j says that j cannot
start before i has ended; its weight is the duration of i.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import loopwright as lw

# Task: days, and the tasks that it waits for.
PLAN: dict[str, tuple[float, tuple[str, ...]]] = {
    "permit": (10, ()),
    "ground": (6, ("permit",)),
    "foundation": (8, ("ground",)),
    "order steel": (21, ("permit",)),
    "frame": (12, ("foundation", "order steel")),
    "roof": (7, ("frame",)),
    "walls": (9, ("frame",)),
    "wiring": (6, ("walls",)),
    "plumbing": (8, ("walls",)),
    "windows": (5, ("walls", "roof")),
    "plaster": (6, ("wiring", "plumbing", "windows")),
    "hand over": (1, ("plaster", "roof")),
}


def main(picture: str | None = None) -> None:
    """Earliest and latest starts, the critical path, and what a plan with a circle gives."""
    tasks = list(PLAN)
    number = {task: k for k, task in enumerate(tasks)}
    days = np.array([PLAN[task][0] for task in tasks])
    weights = np.full((len(tasks), len(tasks)), -np.inf)
    for task, (_, needed) in PLAN.items():
        for other in needed:
            weights[number[other], number[task]] = days[number[other]]
    plan = lw.paths.longest(weights, predecessors=True)
    earliest = plan.distances.max(axis=0)
    end = int(np.argmax(earliest + days))
    length = earliest[end] + days[end]
    slack = earliest[end] - plan.distances[:, end] - earliest
    start = int(np.argmax(plan.distances[:, end]))
    path = plan.path(start, end)
    print(f"the project takes {length:g} days")
    print("critical path: " + " -> ".join(tasks[k] for k in path))
    for k, task in enumerate(tasks):
        late = "critical" if slack[k] == 0 else f"{slack[k]:g} days to spare"
        print(f"  {task:12s} starts on day {earliest[k]:g}, {late}")
    weights[number["roof"], number["permit"]] = 7
    try:
        lw.paths.longest(weights)
    except lw.paths.CycleError as error:
        print("with a circle: " + " -> ".join(tasks[k] for k in error.cycle))
    place = Path(picture or Path(tempfile.mkdtemp()) / "critical_path.svg")
    place.write_text(_chart(tasks, earliest, days, set(path)), encoding="utf-8")
    print(f"drawn in {place.name}")


def _chart(tasks: list[str], earliest: np.ndarray, days: np.ndarray, critical: set[int]) -> str:
    """One bar for each task at its earliest start, the critical ones red."""
    height, scale, left = 24, 8, 110
    parts = []
    for k, task in enumerate(tasks):
        top = k * height
        at = f'x="{left + earliest[k] * scale:g}" width="{days[k] * scale:g}"'
        colour = "firebrick" if k in critical else "steelblue"
        parts.append(f'<rect {at} y="{top + 3}" height="{height - 6}" fill="{colour}"/>')
        parts.append(f'<text x="4" y="{top + 17}" font-size="13">{task}</text>')
    width = left + (earliest + days).max() * scale + 10
    size = f'width="{width:g}" height="{len(tasks) * height}"'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{body}\n</svg>\n'


if __name__ == "__main__":
    main(*sys.argv[1:2])
