"""networkx's own tests on our backend: the child process, and the table of what it did.

    python tests/outside/networkx_suite.py [--fallback] [--all] [pytest arguments]

Without fallback a test that calls a function which we do not have is an expected failure of
networkx's making. With `--fallback` these functions are networkx's own, so that such tests go on to
their end; ours never fall back, which the column "refused" shows. `--all` takes the whole suite.
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.metadata import entry_points
from pathlib import Path

if __name__ == "__main__":  # the folder of our tests, which the test run has on its path
    sys.path.insert(0, str(Path(__file__).parents[1]))

from outside.suites import Outcome, installed_tests, run_suite

FILES = (
    "algorithms/centrality/tests/test_closeness_centrality.py",
    "algorithms/centrality/tests/test_harmonic_centrality.py",
    "algorithms/shortest_paths/tests/test_dense.py",
    "algorithms/shortest_paths/tests/test_dense_numpy.py",
    "algorithms/shortest_paths/tests/test_generic.py",
    "algorithms/shortest_paths/tests/test_unweighted.py",
    "algorithms/shortest_paths/tests/test_weighted.py",
    "algorithms/tests/test_dag.py",
    "algorithms/tests/test_distance_measures.py",
    "algorithms/tests/test_efficiency.py",
    "algorithms/tests/test_wiener.py",
    "algorithms/traversal/tests/test_bfs.py",
    "algorithms/traversal/tests/test_edgebfs.py",
    "tests/test_relabel.py",
)
MORE = (
    "algorithms/approximation/tests/test_distance_measures.py",
    "algorithms/bipartite/tests/test_centrality.py",
    "algorithms/bipartite/tests/test_matching.py",
    "algorithms/centrality/tests/test_current_flow_closeness.py",
    "algorithms/centrality/tests/test_group.py",
    "algorithms/tests/test_smallworld.py",
    "generators/tests/test_classic.py",
    "generators/tests/test_cographs.py",
    "generators/tests/test_geometric.py",
    "generators/tests/test_small.py",
)
ENTRY_POINTS = """\
[networkx.backends]
loopwright = loopwright.integrations.networkx_backend.interface
[networkx.backend_info]
loopwright = _loopwright_networkx:get_info
"""


def path_with_backend(folder: Path) -> str:
    """PYTHONPATH for a child process whose networkx knows the backend."""
    if not entry_points(group="networkx.backends", name="loopwright"):
        # A source tree that was not installed since the entry points were added.
        told = folder / "loopwright_entry_points-0.dist-info"
        told.mkdir(exist_ok=True)
        (told / "METADATA").write_text("Name: loopwright-entry-points\nVersion: 0\n", "utf-8")
        (told / "entry_points.txt").write_text(ENTRY_POINTS, "utf-8")
    source = Path(__file__).parents[2] / "src"
    given = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(filter(None, [str(folder), str(source), given]))


def run_networkx_suite(
    folder: Path, *arguments: str, files: tuple[str, ...] = FILES, fallback: bool = False
) -> Outcome:
    """Run test files of the installed networkx with our backend."""
    changed = {
        "PYTHONPATH": path_with_backend(folder),
        "NETWORKX_TEST_BACKEND": "loopwright",
        "NETWORKX_FALLBACK_TO_NX": "1" if fallback else "",
    }
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        found = installed_tests("networkx", *files)
        return run_suite(found, "outside_networkx", folder, *arguments)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def table(outcome: Outcome) -> str:
    """The calls of each function, and the tests that made them."""
    from _loopwright_networkx import FUNCTIONS

    lines = [f"{'function':42}{'calls':>7}{'refused':>9}{'passed':>8}{'failed':>8}{'xfailed':>9}"]
    for name in sorted(FUNCTIONS):
        calls = outcome.calls
        counts = [calls.get(f"{name} tests {x}", 0) for x in ("passed", "failed", "xfailed")]
        refused = calls.get(f"{name} refused", 0)
        lines.append(
            f"{name:42}{calls.get(name, 0):7}{refused:9}{counts[0]:8}{counts[1]:8}{counts[2]:9}"
        )
    ends = ", ".join(f"{outcome.count(x)} {x}" for x in ("passed", "failed", "skipped"))
    lines.append(f"tests: {ends} (expected failures of networkx count as skipped)")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    import networkx

    fallback, every = "--fallback" in arguments, "--all" in arguments
    rest = [x for x in arguments if x not in ("--fallback", "--all")]
    files = ("",) if every else (*FILES, *MORE)
    with tempfile.TemporaryDirectory() as folder:
        outcome = run_networkx_suite(Path(folder), *rest, files=files, fallback=fallback)
    print(f"networkx {networkx.__version__}, fallback {'on' if fallback else 'off'}")
    print(table(outcome))
    for test, error in outcome.errors.items():
        print(f"failed: {test}: {error}")
    return int(bool(outcome.errors))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
