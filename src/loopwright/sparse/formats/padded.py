"""Formats that give every row or diagonal equal room: DIA, ELL and sliced ELL."""

from __future__ import annotations

from typing import Literal

from loopwright.diagnostics import UsageError
from loopwright.sparse.format import Format, Padding, declare, index

from .coordinates import require_sides

__all__ = ["dia", "ell", "sell"]


def dia() -> Format:
    """The diagonals that hold an entry; each row has a place for each of them."""
    return declare(
        "dia",
        "{[ii,d,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && 0<=d<ND && jj=ii+off(d) && 0<=j<NC}",
        "{[ii,d,jj] -> [p] : p=ND*ii+d}",
        index("off", "{[x] : 0<=x<ND}", "{[y] : -NR<y<NC}", monotone="strictly increasing"),
        places="ND*NR",
        order=("i", "j"),
        padding=Padding(is_mapped=True),
    )


def ell(layout: Literal["row", "column"] = "row") -> Format:
    """Rows of equal length; the rest of a shorter one is padded. Stored by rows or by columns."""
    if layout not in ("row", "column"):
        raise UsageError(f"ell: unknown layout '{layout}'", hint="row or column")
    by_row = layout == "row"
    call = "ecol(ii,w)" if by_row else "ecol(w,ii)"
    after = "ecol(x,w)<ecol(x,w+1)" if by_row else "ecol(w,x)<ecol(w+1,x)"
    domain = "{[x,w] : " if by_row else "{[w,x] : "
    return declare(
        f"ell({layout})",
        "{[ii,w,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && 0<=w<rlen(ii) && w<W"
        f" && jj={call} && 0<=j<NC}}",
        f"{{[ii,w,jj] -> [p] : p={'W*ii+w' if by_row else 'NR*w+ii'}}}",
        index("rlen", "{[x] : 0<=x<NR}", "{[y] : 0<=y<=W}"),
        index(
            "ecol",
            domain + "0<=x<NR && 0<=w<W && w<rlen(x)}",
            "{[y] : 0<=y<NC}",
            extents=("NR", "W") if by_row else ("W", "NR"),
            monotone="strictly increasing" if by_row else "",
            pad=-1,
        ),
        places="W*NR",
        order=("i", "j"),
        padding=Padding(),
        invariants=(f"forall x,w: 0<=x<NR && 0<=w<rlen(x)-1 => {after}",),
    )


def sell(height: int = 32, window: int = 128) -> Format:
    """Sliced ELL: slices of `height` rows of equal length, rows sorted by length within windows.

    Within each window of `window` rows, longer rows come first and equal ones keep their order;
    `perm` says which row stands at a position, `pos` is its inverse.
    """
    require_sides("sell: the rows of a slice and of a window", height, window)
    c, s = height, window
    adjacent = f"0<=x<NR-1 && floor(x/{s})=floor((x+1)/{s})"
    member = f"0<=c<NCH && 0<=r<{c} && {c}*c+r<NR"
    return declare(
        f"sell({c},{s})",
        f"{{[c,r,ii,w,jj] -> [i,j] : i=ii && j=jj && {member} && ii=perm({c}*c+r) && 0<=i<NR"
        f" && 0<=w<rlen(ii) && jj=scol(cptr(c)+{c}*w+r) && 0<=j<NC}}",
        f"{{[c,r,ii,w,jj] -> [p] : p=cptr(c)+{c}*w+r}}",
        index("perm", "{[x] : 0<=x<NR}", "{[y] : 0<=y<NR}", inverse="pos"),
        index("rlen", "{[x] : 0<=x<NR}", "{[y] : 0<=y<=NC}"),
        index("clen", "{[x] : 0<=x<NCH}", "{[y] : 0<=y<=NC}"),
        index("cptr", "{[x] : 0<=x<=NCH}", "{[y] : 0<=y<=NP}", monotone="increasing"),
        index("scol", "{[x] : 0<=x<NP}", "{[y] : -1<=y<NC}", pad=-1),
        places="NP",
        order=("pos(i)", "j"),
        padding=Padding(),
        defined={"NCH": f"floor((NR+{c - 1})/{c})"},
        invariants=(
            "cptr(0) = 0",
            "cptr(NCH) = NP",
            f"forall c: 0<=c<NCH => cptr(c+1)=cptr(c)+{c}*clen(c)",
            f"forall x: 0<=x<NR => rlen(perm(x))<=clen(floor(x/{c}))",
            f"forall x: 0<=x<NR => floor(perm(x)/{s})=floor(x/{s})",
            f"forall x: {adjacent} => rlen(perm(x))>=rlen(perm(x+1))",
            f"forall x: {adjacent} && rlen(perm(x))=rlen(perm(x+1)) => perm(x)<perm(x+1)",
            f"forall c,r,w: {member} && 0<=w<rlen(perm({c}*c+r)) => scol(cptr(c)+{c}*w+r)>=0",
            f"forall c,r,w: {member} && 0<=w<rlen(perm({c}*c+r))-1"
            f" => scol(cptr(c)+{c}*w+r)<scol(cptr(c)+{c}*w+{c}+r)",
        ),
    )
