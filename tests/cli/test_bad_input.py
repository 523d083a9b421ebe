"""Input that `loopwright cc` cannot take: refused as a whole, or finished within its quotas.

A refusal names the place, all faults at once, ends with 2, and leaves the files as they were.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drawn import HUNTS, in_all
from loopwright import cli
from loopwright.planner import generic

Capture = pytest.CaptureFixture[str]
LINES = 100_000 if in_all() else 10_000  # of a hundred bytes
DEPTH = 40 if in_all() else 17  # of loops: more than LLVM optimises


def region(body: str, before: str = "") -> str:
    return (
        "double g(double);\n"
        f"void f(int n, int k[100], double a[100], double *p)\n{{\n    int i, j;\n{before}"
        f"#pragma scop\n{body}\n#pragma endscop\n}}\n"
    )


def in_loop(body: str) -> str:
    return region(f"    for (i = 0; i < n; i++)\n        {body}")


REFUSED = {
    "goto": (in_loop("{ a[i] = 1; goto out; }") + "/* out: */\n", "a goto cannot be compiled"),
    "while": (region("    while (n > 0) a[0] = 1;"), "a while loop cannot be compiled"),
    "pointer": (in_loop("*p = a[i];"), "a pointer is followed"),
    "address": (in_loop("*(&a[i] + 1) = 2;"), "a pointer is followed"),
    "data-dependent subscript": (in_loop("a[k[i]] = 1;"), "the subscript"),
    "data-dependent bound": (region("    for (i = 0; i < k[0]; i++) a[i] = 1;"), "the"),
    "call with effects": (in_loop("a[i] = g(a[i]);"), "the function 'g' is not known to be pure"),
    "effects in an expression": (
        in_loop("a[i] = a[j++];"),
        "a variable is changed inside an expression",
    ),
    "bound that is not affine": (region("    for (i = 0; i < n * n; i++) a[i] = 1;"), "affine"),
    "subscript that is not affine": (in_loop("a[i * i] = 1;"), "the subscript is not affine"),
    "region of 4 MB": (region("    a[0] = 1;\n" * 280_000), "the region has more than"),
}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A source, and a file in the place of its result."""
    source, result = tmp_path / "kernel.c", tmp_path / "kernel.opt.c"
    result.write_text("what was there before")
    return source, result


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str, files: tuple[Path, Path], capsys: Capture) -> None:
    source, result = files
    text, message = REFUSED[what]
    source.write_text(text)
    assert cli.main(["cc", str(source)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(
        rf"^{re.escape(str(source))}:\d+:\d+: error: .*{re.escape(message)}", err, re.M
    )
    assert re.search(r"^ +\^+$", err, re.M), "carets below the place"
    assert "Traceback" not in err
    assert result.read_text() == "what was there before"
    assert sorted(p.name for p in source.parent.iterdir()) == ["kernel.c", "kernel.opt.c"]


def test_all_faults_are_told_at_once(files: tuple[Path, Path], capsys: Capture) -> None:
    source, result = files
    source.write_text(in_loop("{ a[k[i]] = 1; a[i * i] = 2; a[i] = g(1.0); }") + in_loop("*p = 1;"))
    assert cli.main(["cc", str(source)]) == 2
    lines = re.findall(r"kernel\.c:(\d+):\d+: error:", capsys.readouterr().err)
    assert lines == ["7", "7", "7", "16"]
    assert result.read_text() == "what was there before"


FINISHED = {
    "long file": "".join(
        f"static const int number_{k} = {k}; /* {'x' * 60} */\n" for k in range(LINES)
    )
    + in_loop("a[i] = 1;"),
    "deep nest": region(
        "".join(f"    for (v{d} = 0; v{d} < n; v{d}++)\n" for d in range(DEPTH))
        + f"    a[v{DEPTH - 1}] += 1;",
        f"    int {', '.join(f'v{d}' for d in range(DEPTH))};\n",
    ),
    "identifier that is not ASCII": in_loop("a[i] = 2 * größe[i];").replace("k[100]", "größe[100]"),
    "isl blow-up": region(
        "    for (i = 0; i < n; i++) for (j = 0; j < n; j++)\n        if ("
        + " && ".join(f"(i != {3 * d} || j != {5 * d})" for d in range(12))
        + ")\n            a[i] += a[j];"
    ),
}


@pytest.mark.parametrize("what", FINISHED)
def test_finished(
    what: str, files: tuple[Path, Path], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the quotas: what is too hard is left as it is written."""
    if not HUNTS:  # a quota that is smaller is met sooner
        monkeypatch.setattr(generic, "_QUOTA", 200_000)
        monkeypatch.setattr(generic, "_QUOTAS", {})
    source, result = files
    source.write_text(FINISHED[what])
    assert cli.main(["cc", str(source)]) == 0
    assert "Traceback" not in capsys.readouterr().err
    assert "#pragma scop" in result.read_text()
