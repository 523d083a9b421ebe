"""Tables for people: cells in columns."""

from loopwright.tables import table_lines

ROWS = (("format", "bytes"), ("csr", "12"), ("dia", "4096"))


def test_cells_stand_on_the_left() -> None:
    assert table_lines(ROWS) == ["format  bytes", "csr     12", "dia     4096"]


def test_numbers_stand_on_the_right() -> None:
    assert table_lines(ROWS, numbers=True) == ["format  bytes", "csr        12", "dia      4096"]
