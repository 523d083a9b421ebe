"""Random conversions between formats, built-in ones and ones declared here, and products over them.

Half of the formats are *twins*: the descriptor of a built-in format under another name, which
therefore goes all the ways of a format of one's own. Others are declared here with keys, orders and
promises that no built-in one has. Sources are built by hand (`sparse_builders`) or by conversion
from coordinates; entries may be repeated, 0, missing altogether or everywhere. Some tensors have
few entries in dimensions of up to 2^32: they are read entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np

import loopwright as lw
from loopwright.sparse.format import Format, declare, index
from loopwright.sparse.formats import find
from loopwright.sparse.tensor import SparseTensor, sparse_tensor
from outside.campaigns.campaign import Campaign, Case, Difference, Random, chance, pick
from outside.campaigns.far_coordinates import entries_of, listed, room_of, sum_of_repeated
from sparse_builders import build

MATRICES = (
    "coo", "scoo", "mcoo2", "csr", "csr_unsorted", "csc", "dia", "ell", "ell(column)", "bcsr(2,2)",
    "bcsr(3,2)", "dcsr", "lil", "csf", "hicoo(2)", "hicoo(8)", "alto", "sell(2,4)", "sell(4,8)",
)  # fmt: skip
TENSORS = ("coo", "scoo", "mcoo3", "csf", "hicoo(2)", "alto")
OWN = ("rows", "wide_rows", "rows_with_row", "columns_first", "backwards", "banded_pairs")
DTYPES = ("float64", "float64", "float32", "int32", "int64", "complex128", "int8", "bool")
TWIN = "twin "
FAR = 1 << 16  # dimensions from here on are not made dense
MOST_ROOM = 1 << 22  # elements of an array of a far tensor


@cache
def own(name: str) -> Format:
    """A format that is not built in."""
    pointers = index("rowptr", "{[x] : 0<=x<=NR}", "{[y] : 0<=y<=NNZ}", monotone="increasing")
    columns = index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}")
    compressed = (
        "{[ii,k,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && rowptr(ii)<=k<rowptr(ii+1) && jj=col(k)}"
    )
    ends = ("rowptr(0) = 0", "rowptr(NR) = NNZ")
    ascending = "forall x,k: 0<=x<NR && rowptr(x)<=k<rowptr(x+1)-1 => col(k)<col(k+1)"
    pair = (
        index("row", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR}"),
        columns,
    )
    listed = "{[n,ii,jj] -> [i,j] : i=ii && j=jj && 0<=n<NNZ && ii=row(n) && jj=col(n)}"
    match name:
        case "rows":
            return declare(
                name, compressed, "{[ii,k,jj] -> [k]}", pointers, columns,
                places="NNZ", order=("i", "j"), invariants=(*ends, ascending),
            )  # fmt: skip
        case "wide_rows":
            wide = index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}", dtype="int64")
            return declare(
                name, compressed, "{[ii,k,jj] -> [k]}", pointers, wide,
                places="NNZ", order=("i", "j"), invariants=(*ends, ascending),
            )  # fmt: skip
        case "rows_with_row":
            text = compressed.replace("jj=col(k)", "jj=col(k) && ii=row(k)")
            return declare(
                name, text, "{[ii,k,jj] -> [k]}", pointers, *pair,
                places="NNZ", order=("i", "j"), invariants=(*ends, ascending),
            )  # fmt: skip
        case "columns_first":
            return declare(
                name, listed, "{[n,ii,jj] -> [n]}", *pair, places="NNZ", order=("j", "i")
            )
        case "backwards":
            return declare(
                name, listed, "{[n,ii,jj] -> [n]}", *pair, places="NNZ", order=("-i", "j")
            )
        case _:
            return declare(
                name, listed, "{[n,ii,jj] -> [n]}", *pair, places="NNZ", order=("j-i", "i")
            )


def format_of(name: str, rank: int) -> Format:
    if name in OWN:
        return own(name)
    if name.startswith(TWIN):
        return replace(find(name.removeprefix(TWIN), rank), name=_plain(name))
    return find(name, rank)


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name).strip("_")


def draw(random: Random) -> Case:
    return draw_far(random) if chance(random, 5) else draw_near(random)


def draw_far(random: Random) -> Case:
    """A few entries, many of them at the ends, in a dimension or two that are large."""
    rank = 3 if chance(random, 6) else 2
    near = [int(pick(random, 1, 2, 3, 9)) for _ in range(rank)]
    far = (1 << int(pick(random, 20, 20, 21, 31, 32))) + int(random.integers(-2, 3))
    far += int(pick(random, 0, 0, 0, 8, 16, 64))
    shape = [far if chance(random, 2) else n for n in near]
    shape[int(random.integers(rank))] = far
    ends = [
        [0, min(1, n - 1), n // 2, max(n - 2, 0), n - 1, int(random.integers(n))] for n in shape
    ]
    entries = [
        [[int(pick(random, *axis)) for axis in ends], n + 1]
        for n in range(int(random.integers(0, 12)))
    ]
    names = [*(MATRICES if rank == 2 else TENSORS)]
    names += [TWIN + name for name in names] + ([*OWN] if rank == 2 else [])
    names = [name for name in names if room_of(format_of(name, rank), shape, 12) <= MOST_ROOM]
    return {
        "shape": shape,
        "dtype": pick(random, "int32", "int64") if max(shape) <= 1 << 31 else "int64",
        "entries": entries,
        "source": pick(random, *names),
        "target": pick(random, *names),
        "threads": int(random.integers(1, 4)),
        "fuses": False,
    }


def draw_near(random: Random) -> Case:
    rank = 3 if chance(random, 6) else 2
    shape = [int(pick(random, 1, 2, 3, 4, 5, 6, 8, 9, 13)) for _ in range(rank)]
    names = [*(MATRICES if rank == 2 else TENSORS)]
    names += [TWIN + name for name in names] + ([*OWN, *OWN] if rank == 2 else [])
    dtype = pick(random, *DTYPES)
    count = int(np.prod(shape))
    filled = pick(random, 0.0, 0.1, 0.1, 0.3, 0.3, 0.6, 1.0)
    places = np.flatnonzero(random.random(count) < filled)
    entries = []
    for place in random.permutation(places):
        at = [int(k) for k in np.unravel_index(int(place), shape)]
        value = 1 if dtype == "bool" else int(random.integers(-3, 4))
        entries.append([at, value if chance(random, 15) else value or 1])
    if entries and chance(random, 4):  # repeated coordinates
        for _ in range(int(random.integers(1, 4))):
            entries.append([entries[int(random.integers(len(entries)))][0], 1])
    return {
        "shape": shape,
        "dtype": dtype,
        "entries": entries,
        "source": pick(random, *names),
        "target": pick(random, *names),
        "threads": int(random.integers(1, 4)),
        "fuses": chance(random, 4),  # whether conversion and product are asked for in one call
    }


def dense_of(case: Case) -> np.ndarray:
    found = np.zeros(case["shape"], case["dtype"])
    for at, value in case["entries"]:
        found[tuple(at)] += np.asarray(value, case["dtype"])
    return found


def source_of(case: Case) -> SparseTensor:
    name, rank = case["source"], len(case["shape"])
    entries = [(tuple(at), np.dtype(case["dtype"]).type(v)) for at, v in case["entries"]]
    if name in OWN:
        given = build("coo", case["shape"], entries, case["dtype"])
        return lw.sparse.convert(given, own(name))
    plain = build(name.removeprefix(TWIN), case["shape"], entries, case["dtype"])
    if not name.startswith(TWIN):
        return plain
    return sparse_tensor(format_of(name, rank), plain.shape, plain.arrays, plain.values)


def check_far(case: Case) -> None:
    """Compare the entries of a tensor that is too large to be made dense."""
    rank, number = len(case["shape"]), {"int32": np.int32, "int64": np.int64}[case["dtype"]]
    given = listed(case["shape"], [at for at, _ in case["entries"]], number)
    source = lw.sparse.convert(given, format_of(case["source"], rank))
    target = format_of(case["target"], rank)
    found = lw.sparse.convert(source, target, threads=case["threads"])
    found.check()
    expected = sum_of_repeated(given)
    for name, tensor in (("source", source), ("converted tensor", found)):
        if (got := entries_of(tensor)) != expected:
            raise Difference(f"the {name} holds {got}, not {expected}")


def check(case: Case) -> None:
    (check_far if max(case["shape"]) >= FAR else check_near)(case)


def check_near(case: Case) -> None:
    expected = dense_of(case)
    source = source_of(case)
    target = format_of(case["target"], len(case["shape"]))
    before = {name: array.copy() for name, array in source.arrays.items()}
    found = lw.sparse.convert(source, target, threads=case["threads"])
    found.check()
    _same("the converted tensor", found.to_dense(), expected)
    for name, array in before.items():
        _same(f"the source's {name}", source.arrays[name], array)
    if case["dtype"] == "bool":
        return
    x = np.arange(1, expected.shape[-1] + 1).astype(expected.dtype)
    if expected.ndim == 2:
        _same("spmv", lw.sparse.spmv(found, x, threads=case["threads"]), expected @ x)
        wide = np.stack([x, x[::-1], x * 0 + 1], axis=1)
        _same("spmm", lw.sparse.spmm(found, wide, threads=case["threads"]), expected @ wide)
        if case["fuses"]:
            both = lw.sparse.convert_einsum("ij,j->i", source, x, to=target, threads=1)
            _same("convert_einsum's tensor", both[0].to_dense(), expected)
            _same("convert_einsum's product", both[1], expected @ x)
    else:
        ours = lw.sparse.einsum("ijk,k->ij", found, x, threads=case["threads"])
        _same("einsum", ours, np.einsum("ijk,k->ij", expected, x))


def _same(what: str, found: np.ndarray, expected: np.ndarray) -> None:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        raise Difference(
            f"{what}: {found.dtype}{found.shape}, not {expected.dtype}{expected.shape}"
        )
    if not np.array_equal(found, expected):
        raise Difference(f"{what} differs: {found.tolist()}, not {expected.tolist()}")


def smaller(case: Case) -> Iterator[Case]:
    """Fewer entries first, then plainer formats, types, threads and shapes."""
    entries = case["entries"]
    half = len(entries) // 2
    if half:
        yield {**case, "entries": entries[:half]}
        yield {**case, "entries": entries[half:]}
    for k in range(len(entries)):
        yield {**case, "entries": entries[:k] + entries[k + 1 :]}
    for field, plain in (("threads", 1), ("fuses", False), ("dtype", "float64"), ("source", "coo")):
        if case[field] != plain and not (field == "dtype" and max(case["shape"]) >= FAR):
            yield {**case, field: plain}
    for field in ("source", "target"):
        if case[field].startswith(TWIN):
            yield {**case, field: case[field].removeprefix(TWIN)}
    for axis, n in enumerate(case["shape"]):
        least = 1 + max((at[axis] for at, _ in entries), default=0)
        if least < n:
            yield {**case, "shape": [*case["shape"][:axis], least, *case["shape"][axis + 1 :]]}
    for k, (at, value) in enumerate(entries):
        if value != 1:
            yield {**case, "entries": [*entries[:k], [at, 1], *entries[k + 1 :]]}


def campaign() -> Campaign:
    return Campaign("sparse_formats", draw, check, smaller)
