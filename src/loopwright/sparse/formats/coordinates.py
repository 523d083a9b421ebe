"""Formats that store every coordinate of an entry: COO, sorted, along Morton's curve, and ALTO."""

from __future__ import annotations

from loopwright.diagnostics import UsageError
from loopwright.sparse.format import COORDINATES, SIZES, Format, declare, index

__all__ = ["alto", "coo", "mcoo", "names", "require_sides", "scoo", "twice"]

_NAMES = ("row", "col", "tube")
_LARGEST_SIDE = (1 << 31) - 1  # places of a block, or of a slice of rows, are counted in 64 bits


def names(rank: int) -> tuple[str, ...]:
    """The index arrays of the coordinates of an entry."""
    return tuple(_NAMES[m] if m < len(_NAMES) else f"idx{m}" for m in range(rank))


def require_sides(what: str, *sides: object) -> None:
    """Refuse parameters that are no sides of blocks or slices."""
    if not all(isinstance(side, int) and 1 <= side <= _LARGEST_SIDE for side in sides):
        raise UsageError(
            f"{what} are whole numbers from 1 to {_LARGEST_SIDE}", found=", ".join(map(str, sides))
        )


def twice(rank: int) -> tuple[str, ...]:
    """The variables of the storage that equal the dense coordinates: ii, jj, ..."""
    return tuple(name[0] * 2 + name[1:] for name in COORDINATES[:rank])


def _bounded(rank: int) -> str:
    """Every dense coordinate is its variable of the storage and lies within its size."""
    parts = [
        f"{i}={ii} && 0<={i}<{size}"
        for i, ii, size in zip(COORDINATES[:rank], twice(rank), SIZES[:rank], strict=True)
    ]
    return " && ".join(parts)


def _listed(
    name: str, rank: int, order: tuple[str, ...], is_unique: bool, invariants: tuple[str, ...] = ()
) -> Format:
    variables = ",".join(("n", *twice(rank)))
    equal = " && ".join(f"{ii}={f}(n)" for ii, f in zip(twice(rank), names(rank), strict=True))
    return declare(
        name,
        f"{{[{variables}] -> [{','.join(COORDINATES[:rank])}] : 0<=n<NNZ && {equal}"
        f" && {_bounded(rank)}}}",
        f"{{[{variables}] -> [n]}}",
        *(
            index(f, "{[x] : 0<=x<NNZ}", f"{{[y] : 0<=y<{size}}}")
            for f, size in zip(names(rank), SIZES[:rank], strict=True)
        ),
        places="NNZ",
        order=order,
        is_unique=is_unique,
        invariants=invariants,
    )


def coo(rank: int = 2) -> Format:
    """Coordinates and values in any order; repeated coordinates mean the sum."""
    return _listed("coo", rank, (), False)


def scoo(rank: int = 2) -> Format:
    """Coordinates in lexicographic order."""
    return _listed("scoo", rank, COORDINATES[:rank], False)


def mcoo(rank: int = 2) -> Format:
    """Coordinates along Morton's curve, none repeated."""
    key = f"MORTON({','.join(COORDINATES[:rank])})"
    here, there = (",".join(f"{f}({at})" for f in names(rank)) for at in ("n", "n+1"))
    rule = f"forall n: 0<=n<NNZ-1 => MORTON({here})<MORTON({there})"
    return _listed(f"mcoo{rank}", rank, (key,), True, (rule,))


def alto(rank: int = 2) -> Format:
    """One number per entry: the bits of its coordinates in turn, as many as each size needs."""
    sizes = ",".join(SIZES[:rank])
    variables = ",".join(("n", *twice(rank)))
    parts = [f"{ii}=ALTO_{m}(alto(n),{sizes})" for m, ii in enumerate(twice(rank))]
    whole = f"alto(n)=ALTO({','.join(twice(rank))},{sizes})"
    again = ",".join(f"ALTO_{m}(alto(n),{sizes})" for m in range(rank))
    return declare(
        "alto",
        f"{{[{variables}] -> [{','.join(COORDINATES[:rank])}] : 0<=n<NNZ && {' && '.join(parts)}"
        f" && {whole} && {_bounded(rank)}}}",
        f"{{[{variables}] -> [n]}}",
        index(
            "alto",
            "{[x] : 0<=x<NNZ}",
            "{[y] : y>=0}",
            monotone="strictly increasing",
            dtype="int64",
        ),
        places="NNZ",
        order=(f"ALTO({','.join(COORDINATES[:rank])},{sizes})",),
        invariants=(
            *(
                f"forall n: 0<=n<NNZ => ALTO_{m}(alto(n),{sizes})<{size}"
                for m, size in enumerate(SIZES[:rank])
            ),
            f"forall n: 0<=n<NNZ => ALTO({again},{sizes})=alto(n)",
        ),
    )
