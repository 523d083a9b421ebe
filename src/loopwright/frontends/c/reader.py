"""A C file to its regions: the stages in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike

from loopwright.diagnostics import Collector, Diagnostic, SourceError
from loopwright.frontends.c.assemble import assemble
from loopwright.frontends.c.function import parse_regions
from loopwright.frontends.c.functions import Functions
from loopwright.frontends.c.lines import split_lines
from loopwright.frontends.c.outline import Globals, outline
from loopwright.frontends.c.places import Places
from loopwright.frontends.c.preprocess import preprocess
from loopwright.frontends.c.region import CFile, CRegion
from loopwright.frontends.c.text import SourceText, read_text
from loopwright.frontends.c.types import Model

__all__ = ["read_c"]


def read_c(
    source: str | bytes | PathLike[str],
    *,
    filename: str | None = None,
    cpp_args: Sequence[str] = (),
    defines: Mapping[str, str | int | None] | None = None,
    compiler: str | None = None,
) -> CFile:
    """Read the regions of a C file.

    `source` is a path, or the text itself: bytes, or a str of several lines. `filename` is the name
    that messages use, and its folder is where `#include "..."` looks for text given as such.
    `cpp_args` go to the preprocessor (-D, -U, -I, -include, -std); `defines` are macros by name,
    None for an empty one. `compiler` names the C compiler whose preprocessor runs: by default the
    first of cc, gcc and clang that is there; with "" the small one of our own, which leaves out
    system headers it does not find.

    Raises SourceError with every fault of every region. A file without a region is refused too.
    """
    text = read_text(source, filename)
    faults = Collector()
    preprocessed = preprocess(text, cpp_args, defines or {}, compiler)
    model = Model(preprocessed.is_char_signed, preprocessed.long_bits)
    lines = split_lines(preprocessed.text)
    places = Places(text, lines)
    items, stray = outline(lines.text)
    names = Globals(lines.text, items, model)
    functions = Functions(lines.text, items, names, model)
    for at in (*stray, *(at for item in items if not item.is_function for at in item.pragmas)):
        hint = "a region is part of the body of one function"
        span = places.span((at, at + 1))
        faults.add(Diagnostic(span, "the pragma stands outside a function", "LW130", hint=hint))
    regions: list[CRegion] = []
    for item in items:
        if not item.is_function or not item.pragmas:
            continue
        try:
            for parsed in parse_regions(text, lines.text, item, places, names, model, faults):
                found = assemble(
                    parsed, len(regions), text, lines.text, places, model, faults, functions
                )
                regions += () if found is None else (found,)
        except RecursionError:
            message, hint = "this function is nested too deeply", "split it into smaller ones"
            span = places.span((item.body, item.body + 1))
            faults.add(Diagnostic(span, message, "LW132", hint=hint))
    faults.raise_if_any()
    if not regions:
        raise SourceError(_no_region(text))
    return CFile(text.name, text.raw, text.encoding, tuple(regions))


def _no_region(text: SourceText) -> Diagnostic:
    if text.pragmas:
        span = text.span(text.pragmas[0].line)
        hint = "it stands in a comment or between #if and #endif: move it out"
        return Diagnostic(span, "the pragma is not part of the program", "LW130", hint=hint)
    hint = "write '#pragma scop' before the loops and '#pragma endscop' after them"
    return Diagnostic(text.span(1), "the file has no region", "LW130", hint=hint)
