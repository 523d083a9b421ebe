"""Where the variables of a region lie, and where the elements of their arrays do, as C has it.

Text from which arrays that overlap are found is about memory, not about names: a parameter
`double a[n]` is a pointer to memory of others, a variable of the file may lie behind any pointer.
"""

from __future__ import annotations

from loopwright.frontends.c.syntax_tree import Declaration
from loopwright.lazy_dataclass import dataclass

__all__ = ["Storage", "is_kept", "storage_of"]


@dataclass(frozen=True, slots=True)
class Storage:
    """The memory of a variable, and of the elements that it leads to."""

    is_pointer: bool = False  # its elements lie where it points to, not in the variable itself
    is_restrict: bool = False  # such a pointer, and C promises that no other leads there
    is_const: bool = False  # no pointer: an object that nothing may change
    is_automatic: bool = False  # made by each call of the function, as parameters are
    is_reachable: bool = False  # some pointer may lead to the variable itself
    is_fixed: bool = False  # a parameter that keeps the value it has when the call begins
    is_of_any_type: bool = False  # whatever the types, its elements may be those of another array


def storage_of(
    declaration: Declaration, *, has_address: bool, is_unchanged: bool, is_of_any_type: bool
) -> Storage:
    """The storage of a variable, from what its function does with its address and its value.

    Arrays that are no parameters count as reachable: their names are pointers almost everywhere.
    """
    kind = declaration.type
    is_parameter = declaration.where == "parameter"
    is_pointer = bool(kind.derivations) and (kind.derivations[0] == "*" or is_parameter)
    is_automatic = not (declaration.where == "global" or is_kept(declaration))
    is_array = bool(kind.derivations) and not is_pointer
    return Storage(
        is_pointer=is_pointer,
        is_restrict=is_pointer and "restrict" in kind.own,
        is_const=not is_pointer and "const" in kind.qualifiers,
        is_automatic=is_automatic,
        is_reachable=is_array or has_address or not is_automatic,
        is_fixed=is_parameter and is_unchanged,
        is_of_any_type=is_of_any_type,
    )


def is_kept(declaration: Declaration) -> bool:
    """Whether a variable is static, extern or thread-local."""
    return bool(declaration.type.qualifiers & {"static", "extern", "_Thread_local"})
