"""What every test runs under: fixed hypothesis examples, a cache of its run, all checks on."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from drawn import HUNTS, in_turn, turn_of_day
from loopwright import options

# A slow or shared machine must not decide whether a test passes.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", UNTIMED, derandomize=True, max_examples=20, database=None)
settings.register_profile("hunt", UNTIMED, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Which cases are drawn: others every day. Workers of one run have to agree.
TURN = int(os.environ.setdefault("DRAW", str(turn_of_day())))

# A compiler keeps most of what it makes: at Python's own thresholds a tenth of a run goes by
# looking for garbage among a million objects that stay.
gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True, scope="session")
def _own_options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Start from no options but five: cache and records of the run, checks, strictness, no races.

    Workers of one run share the cache, as processes do anywhere. The variables themselves are set,
    so that child processes started by a test obey too. Children keep the bytecode of modules, even
    where Python is told to write none: hundreds of them import the package, and to compile it anew
    takes longer than the rest of their start.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(options.PREFIX):
                patch.delenv(name)
        base = tmp_path_factory.getbasetemp()
        of_run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
        patch.setenv(options.variable("cache_dir"), str(of_run / "cache"))
        patch.setenv(options.variable("data_dir"), str(of_run / "data"))
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.setenv(options.variable("check"), "1")
        patch.setenv(options.variable("strict"), "1")
        patch.setenv(options.variable("race"), "0")  # what is tested must not hang on the clock
        options.reload()
        yield
    options.reload()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--matrices", metavar="DIR", help="directory of .mtx.gz and .tns.gz files")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "drawn(one_in): the usual run takes a part of the cases")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to other commits what is not drawn, unless somebody asks for tests by name."""
    is_named = any("::" in word for word in config.args)
    if HUNTS or is_named or config.option.keyword or config.getoption("lf", default=False):
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("drawn") is not None:
            cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    left: set[pytest.Item] = set()
    for every in cases.values():
        mark = every[0].get_closest_marker("drawn")
        assert mark is not None
        left |= set(every) - set(in_turn(every, mark.args[0], TURN))
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = [item for item in items if item not in left]


def pytest_collection_finish() -> None:
    """Hide what has been loaded from collections of garbage: some million objects that stay."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    if exitstatus:
        terminalreporter.write_line(f"cases were drawn with DRAW={TURN}")


@pytest.fixture(scope="session")
def matrices(request: pytest.FixtureRequest) -> Path:
    """The directory of real matrices; tests that need it are skipped where there is none."""
    from benchmarks.sparse_data import matrices_directory  # only these tests need the sparse part

    found = matrices_directory(request.config.getoption("--matrices"))
    if found is None:
        pytest.skip("no directory of matrices: pass --matrices DIR or set MATRICES_DIR")
    return found
