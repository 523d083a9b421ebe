"""The files of the package are read once, and forgotten when the last check has run."""

from pathlib import Path

import pytest

from architecture.source_files import forget_files

HERE = Path(__file__).parent


def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    if nextitem is None or nextitem.path.parent != HERE:
        forget_files()
