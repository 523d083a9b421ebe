"""What every test runs under: fixed hypothesis examples, a cache of its run, all checks on."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from loopwright import options

# A slow or shared machine must not decide whether a test passes.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", UNTIMED, derandomize=True, max_examples=30, database=None)
settings.register_profile("hunt", UNTIMED, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A compiler keeps most of what it makes: at Python's own thresholds a tenth of a run goes by
# looking for garbage among a million objects that stay.
gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True, scope="session")
def _own_options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Start from no options but five: cache and records of the run, checks, strictness, no races.

    Workers of one run share the cache, as processes do anywhere. The variables themselves are set,
    so that child processes started by a test obey too. Children also share the bytecode of modules,
    in a folder of the run: hundreds of them import the package, and where Python is told to write
    no bytecode each would compile it anew, which takes longer than the rest of its start.
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
        patch.setenv("PYTHONPYCACHEPREFIX", str(of_run / "bytecode"))
        patch.setenv(options.variable("check"), "1")
        patch.setenv(options.variable("strict"), "1")
        patch.setenv(options.variable("race"), "0")  # what is tested must not hang on the clock
        options.reload()
        yield
    options.reload()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--matrices", metavar="DIR", help="directory of .mtx.gz and .tns.gz files")


@pytest.fixture(scope="session")
def matrices(request: pytest.FixtureRequest) -> Path:
    """The directory of real matrices; tests that need it are skipped where there is none."""
    from benchmarks.sparse_data import matrices_directory  # only these tests need the sparse part

    found = matrices_directory(request.config.getoption("--matrices"))
    if found is None:
        pytest.skip("no directory of matrices: pass --matrices DIR or set MATRICES_DIR")
    return found
