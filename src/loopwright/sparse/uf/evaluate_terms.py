"""The values of terms: evaluated, or compiled to Python expressions.

`evaluate` defines the algebra: a Term is the integer computed here, and every law used elsewhere is
tested against it. It takes as long as a short kernel runs, so what every call computes is written
as Python text and compiled once; that text gives the same integer wherever `evaluate` gives one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError
from loopwright.sparse.uf.constraints import Constraint
from loopwright.sparse.uf.linear_terms import (
    Atom,
    AtomProduct,
    Floor,
    Sym,
    Term,
    TupleVar,
    UFCall,
    atoms,
)

__all__ = [
    "Function",
    "Functions",
    "Spell",
    "evaluate",
    "holds",
    "python_expression",
    "python_function",
]

# An index array, a table of results by arguments, or code; code with several results returns them
# in a tuple.
Function: TypeAlias = (
    "NDArray[np.integer] | Mapping[tuple[int, ...], int | Sequence[int]]"
    " | Callable[..., int | Sequence[int]]"
)
Functions: TypeAlias = "Mapping[str, Function]"


def evaluate(term: Term, values: Mapping[str, int], functions: Functions) -> int:
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
        case TupleVar(name=name) | Sym(name=name):
            if name not in values:
                raise UsageError(
                    f"'{name}' has no value",
                    f"values for {', '.join(values) or 'no name'}",
                    f"give '{name}' as well",
                )
            return int(values[name])
        case UFCall(name=name, args=args, result=result):
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
        case AtomProduct(factors=factors):
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


Spell: TypeAlias = Callable[[str], str]  # the expression that stands for a name


def python_expression(term: Term, spell: Spell, names: dict[str, Any]) -> str:
    """An expression for the value of a term of variables and symbols.

    What has no plain expression, such as a divisor that must be found to be positive, is left to
    `evaluate`; the expression uses it by a name that is added to `names`.
    """
    if any(not _is_plain(atom) for atom in atoms(term)):
        own = [a.name for a in dict.fromkeys(atoms(term)) if isinstance(a, TupleVar | Sym)]
        called = f"term{len(names)}"
        names[called] = lambda values: evaluate(term, values, {})
        return f"{called}({{{', '.join(f'{name!r}: {spell(name)}' for name in own)}}})"
    return _sum(term, spell)


def _is_plain(atom: Atom) -> bool:
    if isinstance(atom, Floor):
        return atom.by.is_constant and atom.by.constant > 0
    return not isinstance(atom, UFCall)


def _sum(term: Term, spell: Spell) -> str:
    text = ""
    for atom, factor in term.terms:
        sign = "-" if factor < 0 else "+" if text else ""
        size = "" if abs(factor) == 1 else f"{abs(factor)}*"
        text += f"{sign}{size}{_atom(atom, spell)}"
    if term.constant or not text:
        text += f"{'+' if text and term.constant >= 0 else ''}{term.constant}"
    return text


def _atom(atom: Atom, spell: Spell) -> str:
    match atom:
        case TupleVar(name=name) | Sym(name=name):
            return spell(name)
        case Floor(x=x, by=by):
            return f"(({_sum(x, spell)})//{by.constant})"
        case AtomProduct(factors=factors):
            return "*".join(_atom(factor, spell) for factor in factors)
        case UFCall():
            raise AssertionError(f"{atom} is no plain atom")


def python_function(
    arguments: Sequence[str], body: Sequence[str], names: Mapping[str, Any]
) -> Callable[..., Any]:
    """The Python function of these lines; `names` are what it may use besides its arguments."""
    lines = [f"def written({', '.join(arguments)}):", *(f"    {line}" for line in body)]
    space: dict[str, Any] = dict(names)
    exec(compile("\n".join(lines), "<written>", "exec"), space)
    found: Callable[..., Any] = space["written"]
    return found
