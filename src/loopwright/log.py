"""What the compiler decides, told to Python's logger `loopwright`: one line per decision.

LOOPWRIGHT_LOG names the kinds of decisions: cache (found on disk or not), plan, recompile (a
function for new types or values), time, tune. Where the program has set up no handlers, lines go
to stderr.

LOOPWRIGHT_DUMP names the stages whose text is printed on stderr while a kernel is compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from loopwright import options

if TYPE_CHECKING:
    from logging import Logger

__all__ = ["dump", "log"]

NAME = "loopwright"
_logger: Logger | None = None


def log(kind: str, text: Callable[[], str]) -> None:
    """Tell a decision of this kind, if it was asked for; `text` is called only then."""
    if kind in options.current().log:
        global _logger
        _logger = _logger or _set_up()
        _logger.info("%s: %s", kind, text())


def dump(stage: str, text: Callable[[], str]) -> None:
    """Print the text of a stage on stderr, if it was asked for; `text` is called only then."""
    if stage in options.current().dump:
        print(f"--- loopwright {stage} ---\n{text()}", file=sys.stderr)


def _set_up() -> Logger:
    import logging  # lazy: slower to load than all of ours that a call of a known kernel needs

    logger = logging.getLogger(NAME)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(f"{NAME} %(message)s"))
        logger.addHandler(handler)
    return logger
