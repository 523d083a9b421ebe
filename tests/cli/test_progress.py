"""The line that grows: what is drawn, how often, and that nothing is left behind."""

import io

import pytest

from loopwright import clock
from loopwright.cli.progress import ProgressBar, StatusLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_is_drawn_and_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([0.0, 0.05, 0.2, 0.21])
    monkeypatch.setattr(clock, "now", lambda: next(moments))
    stream = Terminal()
    with ProgressBar("reading", stream) as bar:
        for done in (0, 1, 2, 4):
            bar(done, 4)
    parts = stream.getvalue().split("\r")
    assert parts == [
        "",
        "reading [                        ]   0%",
        "reading [############            ]  50%",
        "reading [########################] 100%",
        " " * len("reading [########################] 100%"),
        "",
    ]


def test_nothing_without_a_terminal() -> None:
    stream = io.StringIO()
    with ProgressBar("reading", stream) as bar:
        bar(1, 2)
    assert stream.getvalue() == ""
    with ProgressBar("reading", stream, shown=True) as bar:
        bar(0, 0)
    assert "100%" in stream.getvalue()


def test_the_line_is_wiped_after_an_error() -> None:
    stream = Terminal()
    with pytest.raises(ZeroDivisionError), ProgressBar("reading", stream) as bar:
        bar(1, 1 // 0)
    assert stream.getvalue() == ""


def test_a_status_is_replaced_on_a_terminal() -> None:
    stream = Terminal()
    with StatusLine(stream, lines=True) as line:
        line.show("loads and stores")
        line.show("sums")
    shown = ["", "loads and stores", "sums            ", "    ", ""]
    assert stream.getvalue().split("\r") == shown


def test_a_status_is_a_line_elsewhere() -> None:
    stream = io.StringIO()
    with StatusLine(stream, lines=True) as line:
        line.show("loads and stores")
        line.show("sums")
    assert stream.getvalue() == "  loads and stores\n  sums\n"
