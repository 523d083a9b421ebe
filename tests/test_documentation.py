"""The code that the documentation shows runs, and links lead somewhere."""

import dataclasses
import re
import runpy
import struct
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopwright.options import Options
from loopwright.sparse import verify_format
from loopwright.sparse.verify_format import verify

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OUTPUT = re.compile(r"^```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
MENTION = re.compile(r"\bdocs/[\w/.-]+\.(?:md|svg)\b")
MOST_LINES, MOST_WORDS = 60, 500  # of the first page

pytestmark = pytest.mark.skipif(
    not (ROOT / "README.md").exists(), reason="the package was installed without its documentation"
)


def test_the_first_page_is_short() -> None:
    """Count words as `wc -w` does: whatever stands between spaces, code and links included."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    assert len(text.split()) <= MOST_WORDS


def test_the_code_of_the_readme_prints_what_it_shows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [code], [shown] = BLOCK.findall(text), OUTPUT.findall(text)
    # jit reads the source of a function, so the code must stand in a file.
    path = tmp_path / "readme.py"
    path.write_text(code, encoding="utf-8")
    runpy.run_path(str(path))
    assert capsys.readouterr().out == shown


def test_the_figure_of_the_readme_is_in_the_page_it_links() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    [speed] = re.findall(r"\*\*([\d.]+) times\*\*", text)
    [(programs, mean)] = re.findall(r"^\| machine code, (\d+) programs \| ([\d.]+)", page, re.M)
    assert speed == mean
    assert f"{programs} C programs" in text


def test_the_picture_is_what_its_script_draws() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "draw_overview.py"))
    drawn = script["picture"]()
    assert script["PICTURE"].read_text(encoding="utf-8") == drawn, (
        "draw it again: python scripts/draw_overview.py"
    )
    assert ET.fromstring(drawn).tag.endswith("svg")
    for shown in (
        "s[j] += a[i][j];",
        "j: its iterations are independent",
        "i: carries flow S0[0, 0] -&gt; S0[0, 1]",
        "#pragma GCC ivdep",
        "machine code",
    ):
        assert shown in drawn


def test_every_setting_is_explained_once() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]+) \|", page, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(field.name.upper() for field in dataclasses.fields(Options))


def test_the_code_of_the_guide_prints_reports(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("scipy")
    run_blocks("guide", tmp_path)
    out = capsys.readouterr().out
    assert "pays after" in out
    assert "stage fill_" in out


@pytest.mark.drawn(5)
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
def test_the_code_of_the_other_pages_runs(
    page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # That every pattern comes back is tested elsewhere, and takes long for formats with blocks.
    monkeypatch.setattr(verify_format, "_MOST_PATTERNS", 50)
    run_blocks(page, tmp_path)


def run_blocks(page: str, folder: Path) -> None:
    """Run the Python blocks of a page of docs/, one after the other, as one file."""
    blocks = BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    assert blocks
    path = folder / f"{page}.py"
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


@pytest.mark.drawn(5)
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
        ("reaction_diffusion", ("128 x 128, 300 steps", "s, the bits of NumPy")),
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


def test_the_animation_is_what_its_example_draws(tmp_path: Path) -> None:
    """Every frame is as large as the picture; the picture of the page is such a file."""
    example = runpy.run_path(str(ROOT / "examples" / "reaction_diffusion.py"))
    drawn = tmp_path / "drawn.png"
    example["animate"](drawn, 24, 3)
    shown = ROOT / "docs" / "pictures" / "reaction_diffusion.png"
    assert shown.stat().st_size <= 600 * 1024
    for file, count in ((drawn, 3), (shown, example["FRAMES"])):
        chunks = list(chunks_of(file.read_bytes()))
        width, height = struct.unpack(">II", dict(chunks)[b"IHDR"][:8])
        frames = [
            data[4 * (kind == b"fdAT") :] for kind, data in chunks if kind in (b"IDAT", b"fdAT")
        ]
        frames = [zlib.decompress(data) for data in frames]
        assert [len(frame) for frame in frames] == count * [height * (width + 1)]
        assert frames[0] != frames[1]
        assert struct.unpack(">II", dict(chunks)[b"acTL"]) == (count, 0)


def chunks_of(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The chunks of a PNG file, their sums checked."""
    at = 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        body, end = data[at + 4 : at + 8 + length], at + 12 + length
        assert struct.unpack(">I", data[end - 4 : end]) == (zlib.crc32(body),)
        yield body[:4], body[4:]
        at = end


def pages() -> Iterator[Path]:
    """The pages that people read: those of the root, of docs/ and of the examples."""
    yield from ROOT.glob("*.md")
    for folder in ("docs", "examples"):
        yield from (ROOT / folder).rglob("*.md")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and GitLab make them."""
    found: dict[str, int] = {}
    for heading in HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found[anchor] = found.get(anchor, -1) + 1
        if found[anchor]:
            found[f"{anchor}-{found[anchor]}"] = 0
    return set(found)


def dangling(page: Path) -> list[str]:
    """The links of a page that lead nowhere: no such file, or no such heading in it."""
    lost = []
    for name, anchor in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(f"{page.name}: {name}#{anchor}")
    return lost


def test_links_lead_somewhere() -> None:
    assert [lost for page in pages() for lost in dangling(page)] == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One `f`, two\n## One `f`, two\n[a](page.md#one-f-two) [b](#one-f-two-1)\n"
        "[c](no.md) [d](#three) [e](https://x.org/no.md)\n```\n[f](gone.md)\n# Three\n```\n",
        encoding="utf-8",
    )
    assert dangling(page) == ["page.md: no.md#", "page.md: #three"]


def test_pages_that_code_names_exist() -> None:
    for folder in ("src", "tests", "scripts", "benchmarks", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            for name in MENTION.findall(path.read_text(encoding="utf-8")):
                assert (ROOT / name).exists(), f"{path.name}: {name}"


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    linked = {name for name, _ in LINK.findall(index)}
    assert {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"} <= linked
    assert len((ROOT / "docs" / "STATUS.md").read_text(encoding="utf-8").splitlines()) <= 80
