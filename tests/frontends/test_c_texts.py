"""C texts as found elsewhere: both preprocessors give the same regions."""

from pathlib import Path

import pytest

from frontends.c_functions import needs_compiler
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import extract

PATH = Path(__file__).parent / "c_texts.txt"
PARTS = PATH.read_text(encoding="utf-8").split("==== ")[1:]
TEXTS = dict(part.split("\n", 1) for part in PARTS)
PLAIN = TEXTS["kr_brace"]
TEXTS |= {
    "carriage returns": PLAIN.replace("\n", "\r\n"),
    "no newline at the end": PLAIN.rstrip(),
    "form feeds and tabs": PLAIN.replace("    for", "\f\v\tfor").replace(" = ", "\t=\t"),
}


@pytest.mark.drawn(1)
@needs_compiler
@pytest.mark.parametrize("name", TEXTS)
def test_both_preprocessors_read_it_alike(name: str) -> None:
    theirs, ours = (read_c(TEXTS[name].encode(), compiler=compiler) for compiler in (None, ""))
    assert len(theirs.regions) == len(ours.regions) >= 1
    for their, our in zip(theirs.regions, ours.regions, strict=True):
        assert their.tree.body == our.tree.body  # spans included
        assert their.variables == our.variables
        extract(our.tree)
