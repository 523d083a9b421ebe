"""What every test runs under: fixed hypothesis examples, a cache of its own, all checks on."""

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


@pytest.fixture(autouse=True, scope="session")
def _own_options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Start from no options but three: a cache of its own, checks after every stage, strictness.

    The variables themselves are set, so that child processes started by a test obey too.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(options.PREFIX):
                patch.delenv(name)
        patch.setenv(options.variable("cache_dir"), str(tmp_path_factory.mktemp("cache")))
        patch.setenv(options.variable("check"), "1")
        patch.setenv(options.variable("strict"), "1")
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
