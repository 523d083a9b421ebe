"""Formats with pointers to rows, columns, fibres or blocks: CSR, CSC, LIL, CSF, BCSR, HiCOO."""

from __future__ import annotations

from loopwright.diagnostics import UsageError
from loopwright.sparse.format import COORDINATES, SIZES, Format, Padding, declare, index

from .coordinates import require_sides, twice

__all__ = ["bcsr", "csc", "csf", "csr", "csr_unsorted", "dcsr", "hicoo", "lil"]

_ENTRIES = "{[x] : 0<=x<NNZ}"


def csr() -> Format:
    """Rows one after the other, columns ascending within a row."""
    return declare(
        "csr",
        "{[ii,k,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && rowptr(ii)<=k<rowptr(ii+1)"
        " && 0<=k<NNZ && jj=col(k) && 0<=j<NC}",
        "{[ii,k,jj] -> [k]}",
        index("rowptr", "{[x] : 0<=x<=NR}", "{[y] : 0<=y<=NNZ}", monotone="increasing"),
        index("col", _ENTRIES, "{[y] : 0<=y<NC}"),
        places="NNZ",
        order=("i", "j"),
        invariants=(
            "rowptr(0) = 0",
            "rowptr(NR) = NNZ",
            "forall x,k: 0<=x<NR && rowptr(x)<=k<rowptr(x+1)-1 => col(k)<col(k+1)",
        ),
    )


def csr_unsorted() -> Format:
    """CSR as some libraries leave it: columns of a row in any order, perhaps repeated."""
    return declare(
        "csr_unsorted",
        "{[ii,k,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && rowptr(ii)<=k<rowptr(ii+1)"
        " && 0<=k<NNZ && jj=col(k) && 0<=j<NC}",
        "{[ii,k,jj] -> [k]}",
        index("rowptr", "{[x] : 0<=x<=NR}", "{[y] : 0<=y<=NNZ}", monotone="increasing"),
        index("col", _ENTRIES, "{[y] : 0<=y<NC}"),
        places="NNZ",
        order=("i",),
        is_unique=False,
        invariants=("rowptr(0) = 0", "rowptr(NR) = NNZ"),
    )


def csc() -> Format:
    """Columns one after the other, rows ascending within a column."""
    return declare(
        "csc",
        "{[jj,k,ii] -> [i,j] : i=ii && j=jj && 0<=jj<NC && colptr(jj)<=k<colptr(jj+1)"
        " && 0<=k<NNZ && ii=row(k) && 0<=i<NR}",
        "{[jj,k,ii] -> [k]}",
        index("colptr", "{[x] : 0<=x<=NC}", "{[y] : 0<=y<=NNZ}", monotone="increasing"),
        index("row", _ENTRIES, "{[y] : 0<=y<NR}"),
        places="NNZ",
        order=("j", "i"),
        invariants=(
            "colptr(0) = 0",
            "colptr(NC) = NNZ",
            "forall x,k: 0<=x<NC && colptr(x)<=k<colptr(x+1)-1 => row(k)<row(k+1)",
        ),
    )


def dcsr() -> Format:
    """CSR of the rows that are not empty."""
    return declare(
        "dcsr",
        "{[p,k,ii,jj] -> [i,j] : i=ii && j=jj && 0<=p<NZR && ii=rowidx(p) && 0<=i<NR"
        " && rptr(p)<=k<rptr(p+1) && 0<=k<NNZ && jj=col(k) && 0<=j<NC}",
        "{[p,k,ii,jj] -> [k]}",
        index("rowidx", "{[x] : 0<=x<NZR}", "{[y] : 0<=y<NR}", monotone="strictly increasing"),
        index("rptr", "{[x] : 0<=x<=NZR}", "{[y] : 0<=y<=NNZ}", monotone="strictly increasing"),
        index("col", _ENTRIES, "{[y] : 0<=y<NC}"),
        places="NNZ",
        order=("i", "j"),
        invariants=(
            "rptr(0) = 0",
            "rptr(NZR) = NNZ",
            "forall p,k: 0<=p<NZR && rptr(p)<=k<rptr(p+1)-1 => col(k)<col(k+1)",
        ),
    )


def lil() -> Format:
    """A list of columns per row; the lists lie one behind the other, with a start and a length."""
    return declare(
        "lil",
        "{[ii,w,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && 0<=w<len(ii)"
        " && jj=lcol(start(ii)+w) && 0<=j<NC}",
        "{[ii,w,jj] -> [p] : p=start(ii)+w}",
        index("start", "{[x] : 0<=x<=NR}", "{[y] : 0<=y<=NNZ}", monotone="increasing"),
        index("len", "{[x] : 0<=x<NR}", "{[y] : 0<=y<=NC}"),
        index("lcol", _ENTRIES, "{[y] : 0<=y<NC}"),
        places="NNZ",
        order=("i", "j"),
        invariants=(
            "start(0) = 0",
            "start(NR) = NNZ",
            "forall x: 0<=x<NR => start(x+1) = start(x)+len(x)",
            "forall x,k: 0<=x<NR && start(x)<=k<start(x)+len(x)-1 => lcol(k)<lcol(k+1)",
        ),
    )


def csf(rank: int = 3) -> Format:
    """A tree of coordinates: a level per dimension, fibres by pointers, none of them empty."""
    last = rank - 1
    count = (*(f"M{m}" for m in range(last)), "NNZ")
    level = tuple(f"p{m}" for m in range(rank))
    variables = ",".join((*level, *twice(rank)))
    parts = [f"0<={level[0]}<{count[0]}"]
    arrays = []
    invariants = []
    for m, (i, ii, size) in enumerate(
        zip(COORDINATES[:rank], twice(rank), SIZES[:rank], strict=True)
    ):
        parts.append(f"{i}={ii} && {ii}=idx{m}({level[m]}) && 0<={i}<{size}")
        arrays.append(
            index(
                f"idx{m}",
                f"{{[x] : 0<=x<{count[m]}}}",
                f"{{[y] : 0<=y<{size}}}",
                monotone="" if m else "strictly increasing",
            )
        )
        if m == last:
            continue
        below, pointer = level[m + 1], f"ptr{m}"
        parts.append(f"{pointer}({level[m]})<={below}<{pointer}({level[m]}+1)")
        parts.append(f"0<={below}<{count[m + 1]}")
        arrays.append(
            index(
                pointer,
                f"{{[x] : 0<=x<={count[m]}}}",
                f"{{[y] : 0<=y<={count[m + 1]}}}",
                monotone="strictly increasing",
            )
        )
        invariants += [f"{pointer}(0) = 0", f"{pointer}({count[m]}) = {count[m + 1]}"]
        invariants.append(
            f"forall p,q: 0<=p<{count[m]} && {pointer}(p)<=q<{pointer}(p+1)-1"
            f" => idx{m + 1}(q)<idx{m + 1}(q+1)"
        )
    return declare(
        "csf",
        f"{{[{variables}] -> [{','.join(COORDINATES[:rank])}] : {' && '.join(parts)}}}",
        f"{{[{variables}] -> [{level[last]}]}}",
        *arrays,
        places="NNZ",
        order=COORDINATES[:rank],
        invariants=invariants,
    )


def bcsr(rows: int = 2, columns: int = 2) -> Format:
    """CSR of dense blocks; the last block row and column may reach over the edge."""
    require_sides("bcsr: the sides of a block", rows, columns)
    inside = f"ii={rows}*ib+r && jj={columns}*jb+c && 0<=r<{rows} && 0<=c<{columns}"
    return declare(
        f"bcsr({rows},{columns})",
        "{[ib,kb,jb,r,c,ii,jj] -> [i,j] : i=ii && j=jj && 0<=ib<NBR"
        " && browptr(ib)<=kb<browptr(ib+1) && 0<=kb<NNZB && jb=bcol(kb) && 0<=jb<NBC"
        f" && {inside} && 0<=i<NR && 0<=j<NC}}",
        f"{{[ib,kb,jb,r,c,ii,jj] -> [p] : p={rows * columns}*kb+{columns}*r+c}}",
        index("browptr", "{[x] : 0<=x<=NBR}", "{[y] : 0<=y<=NNZB}", monotone="increasing"),
        index("bcol", "{[x] : 0<=x<NNZB}", "{[y] : 0<=y<NBC}"),
        places=f"{rows * columns}*NNZB",
        order=(f"floor(i/{rows})", f"floor(j/{columns})", f"i mod {rows}", f"j mod {columns}"),
        padding=Padding(is_mapped=True),
        defined={
            "NBR": f"floor((NR+{rows - 1})/{rows})",
            "NBC": f"floor((NC+{columns - 1})/{columns})",
        },
        invariants=(
            "browptr(0) = 0",
            "browptr(NBR) = NNZB",
            "forall x,k: 0<=x<NBR && browptr(x)<=k<browptr(x+1)-1 => bcol(k)<bcol(k+1)",
        ),
    )


def hicoo(rank: int = 3, side: int = 128) -> Format:
    """Blocks of equal sides along Morton's curve, short coordinates within a block."""
    require_sides("hicoo: the sides of a block", side)
    if side < 2 or side & (side - 1):
        # Blocks of one entry have no coordinates within them, so that none could be stored.
        raise UsageError("hicoo: the side of a block is a power of two, from 2 on", str(side))
    dense, sizes, copies = COORDINATES[:rank], SIZES[:rank], twice(rank)
    width = "uint8" if side <= 256 else "uint16" if side <= 1 << 16 else "int32"
    variables = ",".join(("b", "n", *copies))
    whole = [f"{side}*b{i}(b)+e{i}(n)" for i in dense]
    parts = [
        f"{i}={ii} && {ii}={term} && 0<={i}<{size}"
        for i, ii, term, size in zip(dense, copies, whole, sizes, strict=True)
    ]
    member = "0<=b<NB && bptr(b)<=n<bptr(b+1) && 0<=n<NNZ"
    here, there = (",".join(f"b{i}({at})" for i in dense) for at in ("b", "b+1"))
    first, second = (",".join(f"e{i}({at})" for i in dense) for at in ("n", "n+1"))
    return declare(
        f"hicoo({side})",
        f"{{[{variables}] -> [{','.join(dense)}] : {member} && {' && '.join(parts)}}}",
        f"{{[{variables}] -> [n]}}",
        index("bptr", "{[x] : 0<=x<=NB}", "{[y] : 0<=y<=NNZ}", monotone="strictly increasing"),
        *(
            index(f"b{i}", "{[x] : 0<=x<NB}", f"{{[y] : 0<=y && {side}*y<{size}}}")
            for i, size in zip(dense, sizes, strict=True)
        ),
        *(index(f"e{i}", _ENTRIES, f"{{[y] : 0<=y<{side}}}", dtype=width) for i in dense),
        places="NNZ",
        order=(f"MORTON({','.join(dense)})",),
        invariants=(
            "bptr(0) = 0",
            "bptr(NB) = NNZ",
            f"forall b: 0<=b<NB-1 => MORTON({here})<MORTON({there})",
            f"forall b,n: 0<=b<NB && bptr(b)<=n<bptr(b+1)-1 => MORTON({first})<MORTON({second})",
            *(
                f"forall b,n: {member} => {term}<{size}"
                for term, size in zip(whole, sizes, strict=True)
            ),
        ),
    )
