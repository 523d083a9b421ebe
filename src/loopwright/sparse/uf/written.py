"""Terms as Python expressions: what every call computes anew is written and compiled once.

`evaluate` says what a term is, and takes as long as a short kernel runs. The text of a term is the
same integer wherever `evaluate` gives one; names without a value raise what Python raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from loopwright.sparse.uf.evaluate import evaluate
from loopwright.sparse.uf.terms import Atom, Call, Floor, Linear, Product, Sym, Var
from loopwright.sparse.uf.visit import atoms

__all__ = ["Spell", "function", "written"]

Spell: TypeAlias = Callable[[str], str]  # the expression that stands for a name


def written(term: Linear, spell: Spell, names: dict[str, Any]) -> str:
    """An expression for the value of a term of variables and symbols.

    What has no plain expression, such as a divisor that must be found to be positive, is left to
    `evaluate`; the expression uses it by a name that is added to `names`.
    """
    if any(not _is_plain(atom) for atom in atoms(term)):
        own = [a.name for a in dict.fromkeys(atoms(term)) if isinstance(a, Var | Sym)]
        called = f"term{len(names)}"
        names[called] = lambda values: evaluate(term, values, {})
        return f"{called}({{{', '.join(f'{name!r}: {spell(name)}' for name in own)}}})"
    return _sum(term, spell)


def _is_plain(atom: Atom) -> bool:
    if isinstance(atom, Floor):
        return atom.by.is_constant and atom.by.constant > 0
    return not isinstance(atom, Call)


def _sum(term: Linear, spell: Spell) -> str:
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
        case Var(name=name) | Sym(name=name):
            return spell(name)
        case Floor(x=x, by=by):
            return f"(({_sum(x, spell)})//{by.constant})"
        case Product(factors=factors):
            return "*".join(_atom(factor, spell) for factor in factors)
        case Call():
            raise AssertionError(f"{atom} is no plain atom")


def function(
    arguments: Sequence[str], body: Sequence[str], names: Mapping[str, Any]
) -> Callable[..., Any]:
    """The Python function of these lines; `names` are what it may use besides its arguments."""
    lines = [f"def written({', '.join(arguments)}):", *(f"    {line}" for line in body)]
    space: dict[str, Any] = dict(names)
    exec(compile("\n".join(lines), "<written>", "exec"), space)
    found: Callable[..., Any] = space["written"]
    return found
