"""Names for the accesses of statements: a statement and a number.

0 is its write, k its k-th different read.
"""

from __future__ import annotations

from loopwright.ir.program import Access, Program, Statement
from loopwright.lazy_dataclass import dataclass

__all__ = ["NamedAccess", "named_access", "named_accesses"]


@dataclass(frozen=True, slots=True)
class NamedAccess:
    """One of the different accesses of a statement."""

    name: str  # S_0 its write, S_1, S_2, ... its reads
    statement: str
    access: Access
    is_write: bool


def named_accesses(statement: Statement) -> list[NamedAccess]:
    """The different accesses of a statement to arrays with subscripts, its write first."""
    reads = [a for a in dict.fromkeys(statement.reads) if a.index]
    accesses = [(statement.write, True), *((read, False) for read in reads)]
    return [
        NamedAccess(f"{statement.name}_{k}", statement.name, access, is_write)
        for k, (access, is_write) in enumerate(accesses)
    ]


def named_access(program: Program, name: str) -> NamedAccess:
    """The access of a name."""
    statement = program.statement(name.rpartition("_")[0])
    return next(one for one in named_accesses(statement) if one.name == name)
