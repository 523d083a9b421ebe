"""Draw the picture of the first page: loops, what was proved of them, the code, a bar.

Run it with `python scripts/draw_overview.py`. Nothing is drawn by hand: the proof is what
`loopwright explain` prints about the loops, the code is an excerpt of what `loopwright cc` writes
for a named machine, and the bars are the figures of docs/performance.md.
"""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from html import escape
from pathlib import Path

from loopwright import cli

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "pictures" / "overview.svg"
FIGURES = ROOT / "docs" / "performance.md"

SOURCE = """\
void total(int n, double s[n], double a[n][n])
{
#pragma scop
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++)
            s[j] += a[i][j];
#pragma endscop
}
"""
MACHINE = "zen4"  # the picture is the same wherever it is drawn
ROW = re.compile(r"^\| (C text|machine code), (\d+) programs \| ([\d.]+) \|", re.MULTILINE)
UNSHOWN = re.compile(r"const |long | \{$")
PRAGMA = re.compile(r"^lw_simd\(\)$")  # the macro's text without OpenMP
WIDTHS = (222, 264, 284, 196)  # of the four boxes
GAP, HEIGHT, LINE = 26, 196, 15


def command(*words: str) -> str:
    """Return what a command of `loopwright` prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = cli.main(list(words))
    if status != 0:
        raise SystemExit(out.getvalue())
    return out.getvalue()


def loops() -> list[str]:
    """Return the lines between the pragmas, without their indentation."""
    lines = SOURCE.splitlines()
    inside = lines[lines.index("#pragma scop") + 1 : lines.index("#pragma endscop")]
    return [line[4:].replace("int ", "") for line in inside]


def proof(path: Path) -> list[str]:
    """Return what `explain` says of each loop."""
    text = command("explain", str(path), "--machine", MACHINE, "--target", "c")
    found = re.findall(r"^    (\w+) \(line \d+\): ([^(\n]+)", text, re.MULTILINE)
    return [f"{loop}: {said.strip()}" for loop, said in found]


def code(path: Path) -> list[str]:
    """Return the blocked loop that `cc` writes: one branch, without its braces."""
    target = path.with_suffix(".opt.c")
    command("cc", str(path), "-o", str(target), "--machine", MACHINE, "--target", "c")
    lines = target.read_text(encoding="utf-8").splitlines()
    first = next(k for k, line in enumerate(lines) if line.lstrip().startswith("for ("))
    last = next(k for k in range(first, len(lines)) if lines[k].strip() == "}")
    shown = [line for line in lines[first:last] if not line.lstrip().startswith("if ")]
    depths = sorted({len(line) - len(line.lstrip()) for line in shown})
    return [
        "  " * depths.index(len(line) - len(line.lstrip()))
        + PRAGMA.sub("#pragma GCC ivdep", UNSHOWN.sub("", line.strip()))
        for line in shown
    ]


def figures() -> list[tuple[str, int, float]]:
    """Return name, number of programs and mean speed of each row of the first page's table."""
    text = FIGURES.read_text(encoding="utf-8")
    return [(name, int(count), float(mean)) for name, count, mean in ROW.findall(text)]


def text_at(x: float, y: float, text: str, kind: str) -> str:
    """Return one line of text; spaces at its beginning are kept."""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" xml:space="preserve">{escape(text)}</text>'


def box(x: float, width: float, title: str, body: list[str]) -> list[str]:
    """Return a box with a title, with what stands in it."""
    frame = f'<rect x="{x:g}" y="34" width="{width:g}" height="{HEIGHT - 44}" rx="6" class="box"/>'
    return [text_at(x, 22, title, "title"), frame, *body]


def arrow(x: float) -> str:
    """Return an arrow from one box to the next."""
    y = 34 + (HEIGHT - 44) / 2
    return f'<path d="M{x + 4:g} {y:g}h14m-5 -5l5 5l-5 5" class="arrow"/>'


def listing(x: float, lines: list[str], kind: str = "code") -> list[str]:
    """Return lines of text below each other."""
    return [text_at(x + 9, 54 + k * LINE, line, kind) for k, line in enumerate(lines)]


def bars(x: float, width: float) -> list[str]:
    """Return a bar for gcc and one for each figure, with their lengths in proportion."""
    rows = figures()
    parts = [text_at(x + 9, 54, f"speed of {rows[0][1]} programs, gcc = 1", "note")]
    longest = max(mean for _, _, mean in rows)
    for k, (name, mean) in enumerate([("gcc -O3", 1.0), *((row[0], row[2]) for row in rows)]):
        y = 64 + k * 34
        length = (width - 54) * mean / longest
        parts += [
            text_at(x + 9, y + 9, name, "note"),
            f'<rect x="{x + 9:g}" y="{y + 13}" width="{length:.1f}" height="11" class="bar{k}"/>',
            text_at(x + 14 + length, y + 23, f"{mean:.2f}", "note"),
        ]
    return parts


STYLE = """\
.title{font:bold 13px sans-serif;fill:#1b2a3a}.code{font:11px monospace;fill:#1b2a3a}
.note{font:11px sans-serif;fill:#1b2a3a}.box{fill:#f6f8fa;stroke:#c3ccd5}
.arrow{fill:none;stroke:#5a6b7b;stroke-width:2}.bar0{fill:#9aa7b3}.bar1,.bar2{fill:#2f7d5b}"""


def picture() -> str:
    """Return the picture as SVG."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "total.c"
        path.write_text(SOURCE, encoding="utf-8")
        proved, written = proof(path), code(path)
    columns = [sum(WIDTHS[:k]) + k * GAP + 10 for k in range(4)]
    said = listing(columns[1], proved)
    notes = ["The loops may change places:", "each s[j] adds its terms in order,", "bit for bit."]
    for k, note in enumerate(notes):
        said.append(text_at(columns[1] + 9, 54 + (len(proved) + k + 1) * LINE, note, "note"))
    parts = [
        *box(columns[0], WIDTHS[0], "Your loops", listing(columns[0], loops())),
        *box(columns[1], WIDTHS[1], "What is proved", said),
        *box(columns[2], WIDTHS[2], "The code", listing(columns[2], written)),
        *box(columns[3], WIDTHS[3], "Measured", bars(columns[3], WIDTHS[3])),
        *(arrow(columns[k] + WIDTHS[k]) for k in range(3)),
    ]
    width = columns[3] + WIDTHS[3] + 10
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}">'
    )
    label = "<title>Loops, what is proved of them, the code, and measured speed</title>"
    ground = f'<rect width="{width}" height="{HEIGHT}" fill="#ffffff"/>'
    return "\n".join([head, label, f"<style>{STYLE}</style>", ground, *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
