"""The value of terms and constraints, for given variables, symbols and functions.

This is what the algebra means: a Linear is the integer computed here, and every law used elsewhere
is tested against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError
from loopwright.sparse.uf.constraint import Constraint
from loopwright.sparse.uf.terms import Atom, Call, Floor, Linear, Product, Sym, Var

__all__ = ["Function", "Functions", "evaluate", "holds"]

# An index array, a table of results by arguments, or code; code with several results returns them
# in a tuple.
Function: TypeAlias = (
    "NDArray[np.integer] | Mapping[tuple[int, ...], int | Sequence[int]]"
    " | Callable[..., int | Sequence[int]]"
)
Functions: TypeAlias = "Mapping[str, Function]"


def evaluate(term: Linear, values: Mapping[str, int], functions: Functions) -> int:
    """The integer that `term` is; variables and symbolic constants are looked up in `values`.

    Raises UsageError where a name has no value, an index array is read outside its range, or a
    divisor is not positive.
    """
    total = term.constant
    for atom, factor in term.terms:
        total += factor * _value(atom, values, functions)
    return total


def holds(constraint: Constraint, values: Mapping[str, int], functions: Functions) -> bool:
    """Whether a constraint is true of the given values."""
    value = evaluate(constraint.term, values, functions)
    return value == 0 if constraint.is_equality else value >= 0


def _value(atom: Atom, values: Mapping[str, int], functions: Functions) -> int:
    match atom:
        case Var(name=name) | Sym(name=name):
            if name not in values:
                raise UsageError(
                    f"'{name}' has no value",
                    f"values for {', '.join(values) or 'no name'}",
                    f"give '{name}' as well",
                )
            return int(values[name])
        case Call(name=name, args=args, result=result):
            at = tuple(evaluate(argument, values, functions) for argument in args)
            return _looked_up(name, at, result, functions)
        case Floor(x=x, by=by):
            divisor = evaluate(by, values, functions)
            if divisor <= 0:
                raise UsageError(
                    f"the divisor of {atom} is not positive",
                    f"{by} = {divisor}",
                    "only quotients by positive numbers are rounded down",
                )
            return evaluate(x, values, functions) // divisor
        case Product(factors=factors):
            product = 1
            for factor in factors:
                product *= _value(factor, values, functions)
            return product


def _looked_up(name: str, at: tuple[int, ...], result: int, functions: Functions) -> int:
    if name not in functions:
        raise UsageError(
            f"the function '{name}' has no value",
            f"functions {', '.join(functions) or '(none)'}",
            f"give '{name}' as an array, a table or code",
        )
    function = functions[name]
    where = f"{name}({', '.join(map(str, at))})"
    if isinstance(function, np.ndarray):
        if len(at) != function.ndim or not all(
            0 <= index < size for index, size in zip(at, function.shape, strict=True)
        ):
            raise UsageError(
                f"{where} lies outside the array '{name}'",
                f"an array of shape {function.shape}",
                "make the array longer, or bound the argument in the domain",
            )
        return _chosen(int(function[at]), result, where)
    if isinstance(function, Mapping):
        if at not in function:
            raise UsageError(
                f"the table of '{name}' has no entry for {where}",
                f"{len(function)} entries",
                "add the entry, or bound the argument in the domain",
            )
        return _chosen(function[at], result, where)
    return _chosen(function(*at), result, where)


def _chosen(value: int | Sequence[int], result: int, where: str) -> int:
    several: Sequence[int] = value if isinstance(value, Sequence) else (int(value),)
    if result >= len(several):
        raise UsageError(
            f"{where} has no result {result}", f"{len(several)} results", "count them from 0"
        )
    return int(several[result])
