"""Walking through terms: what is inside them, and terms with parts replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from loopwright.sparse.uf.terms import Atom, Call, Floor, Linear, Product, Sym, Var

__all__ = [
    "atoms",
    "atoms_within",
    "calls",
    "rename",
    "replace_atoms",
    "substitute",
    "symbols",
    "variables",
]


def atoms(term: Linear) -> Iterator[Atom]:
    """Every atom of a term, outer ones before those inside them."""
    for atom, _ in term.terms:
        yield from atoms_within(atom)


def atoms_within(atom: Atom) -> Iterator[Atom]:
    """An atom and every atom inside it."""
    yield atom
    match atom:
        case Call(args=args):
            for argument in args:
                yield from atoms(argument)
        case Floor(x=x, by=by):
            yield from atoms(x)
            yield from atoms(by)
        case Product(factors=factors):
            for factor in factors:
                yield from atoms_within(factor)


def variables(term: Linear) -> frozenset[str]:
    """The names of the variables in a term."""
    return frozenset(atom.name for atom in atoms(term) if isinstance(atom, Var))


def symbols(term: Linear) -> frozenset[str]:
    """The names of the symbolic constants in a term."""
    return frozenset(atom.name for atom in atoms(term) if isinstance(atom, Sym))


def calls(term: Linear) -> Iterator[Call]:
    """Every call in a term, outer ones before those in their arguments."""
    return (atom for atom in atoms(term) if isinstance(atom, Call))


def replace_atoms(term: Linear, change: Callable[[Atom], Linear | None]) -> Linear:
    """`term` with atoms replaced, inner ones first; `change` answers None for those that stay."""
    found: list[tuple[Atom, int]] = []
    constant = term.constant
    is_changed = False
    for atom, factor in term.terms:
        other = _replaced(atom, change)
        if other is None:
            found.append((atom, factor))
            continue
        is_changed = True
        found += [(a, f * factor) for a, f in other.terms]
        constant += other.constant * factor
    return Linear.sum(found, constant) if is_changed else term


def _replaced(atom: Atom, change: Callable[[Atom], Linear | None]) -> Linear | None:
    inner = _replaced_inside(atom, change)
    if inner is None:
        return change(atom)
    found = inner.atom
    # What a value put in place of a factor has left alone is not replaced a second time.
    if found is None or type(found) is not type(atom):
        return inner
    other = change(found)
    return inner if other is None else other


def _replaced_inside(atom: Atom, change: Callable[[Atom], Linear | None]) -> Linear | None:
    match atom:
        case Call(name=name, args=args, result=result):
            others = tuple(replace_atoms(argument, change) for argument in args)
            return None if others == args else Linear.of(Call(name, others, result))
        case Floor(x=x, by=by):
            dividend, divisor = replace_atoms(x, change), replace_atoms(by, change)
            return None if (dividend, divisor) == (x, by) else dividend.floor(divisor)
        case Product(factors=factors):
            parts = [_replaced(factor, change) for factor in factors]
            if all(part is None for part in parts):
                return None
            product = Linear.of(1)
            for factor, part in zip(factors, parts, strict=True):
                product = product * (factor if part is None else part)
            return product
    return None


def substitute(term: Linear, values: Mapping[Atom, Linear]) -> Linear:
    """`term` with atoms replaced by terms, all at once."""
    return replace_atoms(term, values.get) if values else term


def rename(term: Linear, names: Mapping[str, str]) -> Linear:
    """`term` with variables called otherwise."""
    return substitute(term, {Var(a): Linear.of(Var(b)) for a, b in names.items()})
