"""The code that the documentation shows runs, and links lead somewhere."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from loopwright.sparse import verify_format
from loopwright.sparse.verify_format import verify

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")

pytestmark = pytest.mark.skipif(
    not (ROOT / "README.md").exists(), reason="the package was installed without its documentation"
)


def test_the_code_of_the_readme_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("scipy")
    # That every pattern comes back is tested elsewhere, and takes long for this format.
    monkeypatch.setattr(verify_format, "_MOST_PATTERNS", 50)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert len(blocks) >= 3
    # jit reads the source of a function, so the code must stand in a file.
    path = tmp_path / "readme.py"
    path.write_text("\n\n".join(blocks), encoding="utf-8")
    names: dict[str, Any] = runpy.run_path(str(path))
    assert names["C"].format is names["blocks"]
    assert names["B"].format == "csr"
    out = capsys.readouterr().out
    assert "pays after" in out
    assert "stage fill_" in out


@pytest.mark.parametrize(
    "page",
    [
        "arrays",
        "sparse",
        "compiler",
        "gpu",
        "sunway",
        "loop_trees",
        "tuning",
        "paths",
        "gravimetry",
        "python",
    ],
)
def test_the_code_of_the_other_pages_runs(page: str, tmp_path: Path) -> None:
    blocks = BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    assert blocks
    path = tmp_path / f"{page}.py"
    path.write_text("\n\n".join(blocks), encoding="utf-8")
    runpy.run_path(str(path))


def test_every_claim_is_in_the_page() -> None:
    page = (ROOT / "docs" / "sparse.md").read_text(encoding="utf-8")
    named = {
        name
        for row in re.findall(r"^\| ([a-z, ]+) \|", page, re.MULTILINE)
        for name in row.split(", ")
    }
    report = verify("csr", side=1)
    assert {obligation.name for obligation in report.obligations} <= named


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("own_format", ("rows: sound", "rows: WRONG", "two tuples share a place")),
        ("tune_a_product", ("the construction: contract(", "einsum uses it, off by")),
        ("road_grid", ("576 crossings", "from corner to corner:", "drawn in road_grid.svg")),
        ("critical_path", ("the project takes 67 days", "with a circle: ", "drawn in critical")),
        ("game_of_life", ("as NumPy has it:", "..........#.")),
        (
            "save_a_plan",
            ("it gives the same numbers", "4 x 4 vectors: off by", "for zen4: contract("),
        ),
        ("align_sequences", ("align: score 2158 of 2000 and 2500 letters", "ms by the plan")),
        ("gpu_program", ("a[i, j - 1]  read", "__global__ void", "sharpen_1")),
        ("choose_format", ("now csr: dia", "now csr: csr", "diagonals: 5, filled to")),
    ],
)
def test_examples_run(
    name: str,
    said: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("sys.argv", [name])
    monkeypatch.chdir(tmp_path)  # where they draw
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    out = capsys.readouterr().out
    for text in said:
        assert text in out


def test_links_lead_somewhere() -> None:
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
