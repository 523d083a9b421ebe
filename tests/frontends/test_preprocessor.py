"""The built-in preprocessor gives the tokens and lines of the compiler's preprocessor."""

from pathlib import Path

import pytest

from frontends.c_functions import needs_compiler
from loopwright.frontends.c.lexer import tokenize
from loopwright.frontends.c.preprocessor import preprocess
from loopwright.frontends.c.source_map import MAIN, read_text, split_lines

# Each case of c_macros.txt is C text below a line with its name.
TEXT = (Path(__file__).parent / "c_macros.txt").read_text(encoding="utf-8")
CASES = {part.split("\n", 1)[0]: part.split("\n", 1)[1] for part in TEXT.split("======== ")[1:]}
TASTE = ("no_call", "lines", "over_lines", "operators")  # where words over several lines belong


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("headers")
    (path / "one.h").write_text("#ifndef ONE_H\n#define ONE_H\n#define ONE 1\nint one;\n#endif\n")
    (path / "two.h").write_text('#pragma once\n#include "one.h"\n#define TWO (ONE + 1)\nint two;\n')
    return path


def words(text: str, folder: Path, compiler: str | None) -> list[tuple[str, str, int]]:
    """Every word of the preprocessed text with its file and line."""
    source = read_text(text, str(folder / "k.c"))
    lines = split_lines(preprocess(source, ("-DGIVEN=7",), {"ALSO": 8}, compiler).text)
    found = []
    for token in tokenize(lines.text):
        file, line = lines.origins[lines.row(token.start)]
        name = file if file == MAIN else Path(file).name
        text = " ".join(token.text.split()) if token.kind == "pragma" else token.text
        found.append((text, name, line))
    return found


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_as_the_compiler_does(name: str, folder: Path) -> None:
    text = CASES[name] + "last = GIVEN + ALSO;\n"
    own, theirs = words(text, folder, ""), words(text, folder, None)
    assert [word for word, _, _ in own] == [word for word, _, _ in theirs]
    if name not in TASTE:
        assert own == theirs
