"""What every test runs under: the examples of its level, a cache of its run, all checks on."""

import gc
import os
import signal
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from drawn import HUNTS, LEVEL, in_all, taken, turn
from loopwright import options
from needed_tools import skipped_without_tools
from run_report import LEFT, RunReport

# A slow or shared machine must not decide whether a test passes.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("test", UNTIMED, derandomize=True, max_examples=12, database=None)
settings.register_profile("all", UNTIMED, derandomize=False, max_examples=20, database=None)
settings.register_profile("hunt", UNTIMED, derandomize=False, max_examples=2000)
settings.load_profile(LEVEL)

# Hypothesis mixes constants of the modules that are loaded into its examples. Which those are,
# depends on the tests that the same worker ran before, so examples would depend on luck.
if not HUNTS:
    providers._get_local_constants = providers.Constants

# A compiler keeps most of what it makes: at Python's own thresholds a tenth of a run goes by
# looking for garbage among a million objects that stay.
gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True, scope="session")
def _own_options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Start from no options but these: caches of the run, checks, strictness, no limit, no races.

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
        patch.setenv(options.variable("compile_seconds"), "0")  # on a busy machine, too
        patch.setenv(options.variable("race"), "0")  # what is tested must not hang on the clock
        options.reload()
        yield
    options.reload()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--matrices", metavar="DIR", help="directory of .mtx.gz and .tns.gz files")
    parser.addoption(
        "--report", action="store_true", help="say what to wait for, skips by reason, the slowest"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "drawn(one_in): a run takes a part of the cases")
    config.addinivalue_line("markers", "only_in_all(reason): too long for the usual run")
    # Shells start what runs in the background with Ctrl-C ignored, and children inherit it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if LEVEL == "all" and config.getoption("hypothesis_seed", default=None) is None:
        config.option.hypothesis_seed = str(turn())  # other random examples every day
    if config.getoption("report") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(RunReport(config, LEVEL))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this run does not take, unless somebody asks for tests by name."""
    is_named = any("::" in word for word in config.args)
    if is_named or config.option.keyword or config.getoption("lf", default=False):
        return
    left: dict[pytest.Item, str] = {}
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if (mark := item.get_closest_marker("only_in_all")) is not None and not in_all():
            left[item] = mark.args[0]
        elif item.get_closest_marker("drawn") is not None:
            cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    for every in cases.values():
        mark = every[0].get_closest_marker("drawn")
        assert mark is not None
        rest = set(every) - set(taken(every, mark.args[0]))
        left |= dict.fromkeys(rest, "cases of which a part is drawn")
    config.stash[LEFT] = Counter(left.values())
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = [item for item in items if item not in left]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let a worker hand over what it has left out: it is the worker that knows the reasons."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left"] = dict(session.config.stash.get(LEFT, Counter()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    with skipped_without_tools():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    with skipped_without_tools():
        return (yield)


def pytest_collection_finish() -> None:
    """Hide what has been loaded from collections of garbage: some million objects that stay."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    if exitstatus and LEVEL == "all":
        terminalreporter.write_line(f"repeat the same cases: make test-all DRAW={turn()}")


@pytest.fixture(scope="session")
def matrices(request: pytest.FixtureRequest) -> Path:
    """The directory of real matrices; tests that need it are skipped where there is none."""
    from benchmarks.sparse_data import matrices_directory  # only these tests need the sparse part

    found = matrices_directory(request.config.getoption("--matrices"))
    if found is None:
        pytest.skip("no directory of matrices: pass --matrices DIR or set MATRICES_DIR")
    return found
