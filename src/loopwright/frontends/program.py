"""From a source tree to the Program it means."""

from __future__ import annotations

from dataclasses import replace

from loopwright import options
from loopwright.frontends.extract import extract
from loopwright.frontends.tree import SourceTree
from loopwright.ir.check import check_program
from loopwright.ir.program import Program

__all__ = ["program_of"]


def program_of(tree: SourceTree, *, reassoc: bool) -> Program:
    """What a source tree means; `reassoc` allows floating sums in another order."""
    program = replace(extract(tree), reassoc=reassoc)
    if options.current().check:
        check_program(program)
    return program
