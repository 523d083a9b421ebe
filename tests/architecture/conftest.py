"""The files of the package are read once, and forgotten when the last check has run."""

from collections.abc import Iterator

import pytest

from architecture.source_files import forget_files
from architecture.test_layers import modules


@pytest.fixture(autouse=True, scope="package")
def _files() -> Iterator[None]:
    yield
    modules.cache_clear()
    forget_files()
