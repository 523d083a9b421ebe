"""Which arrays of a region of C must not overlap, and what C itself says of each pair.

The order of loops, and all that is kept in registers, follows from dependences between elements of
one array; elements of two arrays are taken for different memory. That is so for every pair of which
one is written only where the two do not overlap. Arrays here are the memory behind the names that a
region uses: the elements to which a pointer leads, an array of the file, and a variable that some
pointer may lead to, as `int *p` may lead to the `n` of the file that bounds read.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from itertools import combinations

from loopwright.frontends.c import CRegion, CVariable, Origin, VariableKind
from loopwright.ir.program import Program
from loopwright.lazy_dataclass import dataclass

__all__ = ["MemoryPair", "NamedMemory", "Proof", "pairs_of"]


class Proof(Enum):
    """Why the memory of a pair does not overlap."""

    OBJECTS = "different objects"
    RESTRICT = "restrict"
    CONSTANT = "constants that nothing may change"
    TYPES = "types that C keeps apart"


@dataclass(frozen=True, slots=True)
class NamedMemory:
    """The memory behind one name."""

    variable: CVariable
    is_elements: bool  # the elements that the variable has or leads to; else the variable itself
    is_written: bool  # by the region

    @property
    def is_behind_pointer(self) -> bool:
        return self.is_elements and self.variable.storage.is_pointer

    @property
    def is_own_pointer(self) -> bool:
        """Whether it is a variable that holds an address."""
        return not self.is_elements and self.variable.storage.is_pointer

    def __str__(self) -> str:
        return self.variable.name if self.is_elements else f"&{self.variable.name}"


@dataclass(frozen=True, slots=True)
class MemoryPair:
    """Two pieces of memory, one of them written, that must not overlap."""

    first: NamedMemory
    second: NamedMemory
    proof: Proof | None  # that they do not; None: only addresses tell

    def __str__(self) -> str:
        return f"{self.first} and {self.second}"


def pairs_of(region: CRegion, program: Program) -> tuple[MemoryPair, ...]:
    """The pairs of a region and its program, in the order of its variables."""
    found = []
    for x, y in combinations(_memory(region, program), 2):
        if not (x.is_written or y.is_written) or not (_may_reach(x, y) or _may_reach(y, x)):
            continue
        found.append(MemoryPair(x, y, _proof(x, y) or _proof(y, x)))
    return tuple(found)


def _memory(region: CRegion, program: Program) -> Iterator[NamedMemory]:
    """All memory that a region touches, but for variables of its own."""
    written = {statement.write.array for statement in program.statements}
    touched = written | {access.array for s in program.statements for access in s.reads}
    local = {variable.name for variable in region.tree.locals}
    for variable in region.variables:
        if variable.origin is Origin.REGION or variable.tree_name in local:
            continue
        if variable.kind is not VariableKind.ARRAY:
            is_counter = variable.kind is VariableKind.ITERATOR
            yield NamedMemory(variable, False, is_counter or variable.tree_name in written)
        elif variable.tree_name in touched:
            yield NamedMemory(variable, True, variable.tree_name in written)
            if variable.storage.is_pointer:
                yield NamedMemory(variable, False, False)


def _may_reach(x: NamedMemory, y: NamedMemory) -> bool:
    """Whether `x` are elements among which `y` may lie, as far as names tell."""
    if not x.is_elements:
        return False
    if y.is_elements:
        return True
    if not x.is_behind_pointer or not y.variable.storage.is_reachable:
        return False
    # Addresses have types of their own: only bytes are stored over them.
    return not y.is_own_pointer or (x.is_written and _is_of_any_type(x.variable))


def _proof(x: NamedMemory, y: NamedMemory) -> Proof | None:
    """Why the elements to which a pointer leads are none of another piece of memory."""
    if not x.is_behind_pointer:
        return None if y.is_behind_pointer else Proof.OBJECTS
    own, other = x.variable.storage, y.variable.storage
    if own.is_restrict and (not y.is_behind_pointer or other.is_restrict):
        return Proof.RESTRICT
    # A pointer that is not copied from this one in the block of both.
    if own.is_restrict and own.is_automatic and other.is_fixed:
        return Proof.RESTRICT
    if not y.is_behind_pointer and own.is_fixed and other.is_automatic:
        return Proof.OBJECTS  # made by the call, which the pointer is older than
    if not y.is_behind_pointer and other.is_const:
        return Proof.CONSTANT
    return None if _share_type(x.variable, y.variable) else Proof.TYPES


def _share_type(x: CVariable, y: CVariable) -> bool:
    """Whether C lets elements be accessed as elements of another type: by its sign, or as bytes."""
    if _is_of_any_type(x) or _is_of_any_type(y):
        return True
    if x.dtype.is_integer and y.dtype.is_integer:
        return x.dtype.bits == y.dtype.bits
    return x.dtype == y.dtype


def _is_of_any_type(variable: CVariable) -> bool:
    is_byte = variable.dtype.is_integer and variable.dtype.bits == 8
    return is_byte or variable.storage.is_of_any_type
