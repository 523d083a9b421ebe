"""Computations, descriptors and loop trees that somebody wrote, right and wrong ones.

Each array of a call lies inside a larger one, full of a number that nobody else writes. A case is
right if the result is that of its definition, refused if the call says why and has written nothing;
a write outside, a wrong result or another exception is a fault. Where the definition leaves an
array, the call must be refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random as PlainRandom
from typing import Any

import numpy as np

import loopwright as lw
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import Mark
from loopwright.ir.program import Role
from loopwright.sparse import computations as spf
from loopwright.sparse.format import Format, declare, index
from loopwright.sparse.tensor import sparse_tensor
from loopwright.tuning.loop_tree import LoopTree, shape_of
from loopwright.tuning.loop_tree_text import parse_tree, tree_text
from loopwright.tuning.lower_tree import lower_tree
from loopwright.tuning.quick_kernel import compile_tree
from outside.campaigns.campaign import (
    Campaign,
    Case,
    Difference,
    Random,
    Unjudged,
    chance,
    pick,
)
from tuning.trees import drawn_case, wandered

GUARD, MARK = 256, 77  # elements around an array, and what they hold
SUBSCRIPTS = ("i", "i", "p(i)", "p(i)", "2*i", "N-1-i", "floor(i/2)", "p(q(i))", "at()")
VALUES = {"floor(i/2)": "i//2"}  # as Python spells it
INDEX_TYPES = ("int32", "int32", "int64", "int16", "uint8")
MOST_POINTS = 200_000


class Guarded:
    """Arrays inside larger ones."""

    def __init__(self) -> None:
        self.whole: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def of(self, name: str, values: Any) -> np.ndarray:
        inner = np.asarray(values)
        whole = np.full(inner.size + 2 * GUARD, MARK, inner.dtype)
        found = whole[GUARD : GUARD + inner.size].reshape(inner.shape)
        found[...] = inner
        self.whole[name] = whole, inner.copy()
        return found

    def require_untouched(self, *written: str) -> None:
        """The surroundings are what they were, and arrays too but for those that are `written`."""
        for name, (whole, before) in self.whole.items():
            end = len(whole) - GUARD
            if (whole[:GUARD] != MARK).any() or (whole[end:] != MARK).any():
                raise Difference(f"memory around '{name}' was written")
            inside = whole[GUARD:end].reshape(before.shape)
            if name not in written and not np.array_equal(inside, before):
                raise Difference(f"'{name}' was written: {inside.tolist()}")


# -- computations --------------------------------------------------------------------------------


def draw_statement(random: Random) -> Case:
    count = int(random.integers(0, 7))
    reach = max(count, 1)

    def numbers() -> list[int]:
        low, high = (0, reach) if chance(random, 2) else (-2, reach + 3)
        found = [int(x) for x in random.integers(low, high, count)]
        if found and chance(random, 12):
            found[0] = pick(random, 1 << 30, -(1 << 31), 127, 255)
        return found

    return {
        "kind": "statement",
        "N": count,
        "M": int(pick(random, count, count, reach, 2 * reach, 3)),
        "p": numbers(),
        "q": numbers(),
        "types": [pick(random, *INDEX_TYPES), pick(random, *INDEX_TYPES)],
        "to": pick(random, *SUBSCRIPTS),
        "from": pick(random, *SUBSCRIPTS),
        "shifts": [int(pick(random, 0, 0, 0, 1, -1, 5)) for _ in range(2)],
        "bounds": [int(pick(random, 0, 0, 0, 0, 1, -1)) for _ in range(2)],
        "adds": chance(random, 2),
        "threads": int(random.integers(1, 4)),
    }


def check_statement(case: Case) -> None:
    n, m, (low, high) = case["N"], case["M"], case["bounds"]
    (to, source), (plus_to, plus_from) = (case["to"], case["from"]), case["shifts"]
    sign = "+=" if case["adds"] else "="
    written, read = f"y({to}+{plus_to})", f"x(0*i+{VALUES.get(source, source)}+{plus_from})"
    text = f"""
        take: {{[i] : {low}<=i<N+{high}}} at (0,i,0): at() = p(i)
        move: {{[i] : {low}<=i<N+{high}}} at (0,i,1): {written} {sign} {read}
    """
    types = case["types"]
    spaces = (
        f"in p[N]: {types[0]}, in q[N]: {types[1]}, in x[M]: float64, inout y[M]: float64,"
        " local at: int64"
    )
    made = spf.computation("made", spaces, text)
    guarded = Guarded()
    arrays = {
        "p": guarded.of("p", np.array(case["p"]).astype(types[0])),
        "q": guarded.of("q", np.array(case["q"]).astype(types[1])),
        "x": guarded.of("x", np.arange(1.0, m + 1)),
        "y": guarded.of("y", np.arange(10.0, m + 10)),
    }
    p, q = ([int(v) for v in arrays[name]] for name in "pq")
    wanted = _moved(case, p, q, arrays["y"].tolist())
    try:
        spf.compile_computation(made)(arrays, {"N": n, "M": m}, case["threads"])
    except (lw.UsageError, IndexError):
        guarded.require_untouched()
        if wanted is not None:
            raise Difference("refused, although every access is inside") from None
        raise
    guarded.require_untouched("y")
    if wanted is None:
        raise Difference(f"an access is outside, the result is {arrays['y'].tolist()}")
    if arrays["y"].tolist() != wanted:
        raise Difference(f"y is {arrays['y'].tolist()}, not {wanted}")


def _moved(case: Case, p: list[int], q: list[int], y: list[float]) -> list[float] | None:
    """The array by definition; None where an access is outside."""
    n, m, (low, high) = case["N"], case["M"], case["bounds"]
    shifts = dict(zip(("to", "from"), case["shifts"], strict=True))

    def at(values: list[int], place: int) -> int:
        if not 0 <= place < len(values):
            raise IndexError
        return values[place]

    def subscript(which: str, i: int) -> int:
        forms = {
            "i": lambda: i,
            "p(i)": lambda: at(p, i),
            "at()": lambda: at(p, i),
            "2*i": lambda: 2 * i,
            "N-1-i": lambda: n - 1 - i,
            "floor(i/2)": lambda: i // 2,
            "p(q(i))": lambda: at(p, at(q, i)),
        }
        return forms[case[which]]() + shifts[which]

    try:
        for i in range(low, n + high):
            at(p, i)
            place, source = subscript("to", i), subscript("from", i)
            value = at(list(range(1, m + 1)), source)
            at(list(range(m)), place)
            y[place] = y[place] + value if case["adds"] else float(value)
    except IndexError:
        return None
    return y


def draw_rows(random: Random) -> Case:
    rows, columns = (int(random.integers(1, 5)) for _ in range(2))
    lengths = random.integers(0, columns + 1, rows)
    col = [sorted(random.choice(columns, int(n), replace=False).tolist()) for n in lengths]
    pointers = [0, *np.cumsum(lengths).tolist()]
    flat = [int(j) for row in col for j in row]
    if chance(random, 2):  # wrong
        which = pointers if chance(random, 2) or not flat else flat
        which[int(random.integers(len(which)))] = int(
            pick(random, -1, 1, 2, 77, columns, (1 << 31) - 1, -(1 << 31))
        )
    return {
        "kind": "rows",
        "columns": columns,
        "rowptr": pointers,
        "col": flat,
        "facts": chance(random, 2),
        "threads": int(random.integers(1, 4)),
    }


SPACES = (
    "in rowptr[NR+1]: int32, in col[NNZ]: int32, in val[NNZ]: float64, in x[NC]: float64,"
    " out y[NR]: float64"
)
PRODUCT = """
    zero: {[i] : 0<=i<NR} at (0, i, 0): y(i) = 0
    add: {[i,k] : 0<=i<NR && rowptr(i)<=k<rowptr(i+1)} at (1, i, 0, k, 0): y(i) += val(k)*x(col(k))
"""


def check_rows(case: Case) -> None:
    rowptr, col, columns = case["rowptr"], case["col"], case["columns"]
    rows, count = len(rowptr) - 1, len(col)
    if case["facts"]:
        made = spf.computation("rows", SPACES, PRODUCT, facts=lw.sparse.find("csr"))
        made = spf.parallelise(spf.fuse(made, "zero", "add", 1), "add")
    else:
        made = spf.computation("rows", SPACES, PRODUCT)
    guarded = Guarded()
    arrays = {
        "rowptr": guarded.of("rowptr", np.array(rowptr, np.int32)),
        "col": guarded.of("col", np.array(col, np.int32)),
        "val": guarded.of("val", np.arange(1.0, count + 1)),
        "x": guarded.of("x", np.arange(1.0, columns + 1)),
        "y": guarded.of("y", np.zeros(rows)),
    }
    wanted = _summed(rowptr, col, columns)
    is_csr = _is_csr(rowptr, col, columns)
    sizes = {"NR": rows, "NC": columns, "NNZ": count}
    try:
        spf.compile_computation(made)(arrays, sizes, case["threads"])
    except (lw.UsageError, IndexError):
        guarded.require_untouched()
        if is_csr or (wanted is not None and not case["facts"]):
            raise Difference("refused, although it is right") from None
        raise
    guarded.require_untouched("y")
    if wanted is None or (case["facts"] and not is_csr):
        raise Difference(f"accepted: {arrays['y'].tolist()}")
    if arrays["y"].tolist() != wanted:
        raise Difference(f"y is {arrays['y'].tolist()}, not {wanted}")


def _summed(rowptr: list[int], col: list[int], columns: int) -> list[float] | None:
    found = []
    for first, last in pairwise(rowptr):
        if last > first and not 0 <= first < last <= len(col):
            return None
        part = range(first, last)
        if any(not 0 <= col[k] < columns for k in part):
            return None
        found.append(float(sum((k + 1) * (col[k] + 1) for k in part)))
    return found


def _is_csr(rowptr: list[int], col: list[int], columns: int) -> bool:
    if rowptr[0] != 0 or rowptr[-1] != len(col) or rowptr != sorted(rowptr):
        return False
    rows = [col[a:b] for a, b in pairwise(rowptr)]
    return all(
        all(0 <= j < columns for j in row) and all(a < b for a, b in pairwise(row)) for row in rows
    )


# -- descriptors ---------------------------------------------------------------------------------

PARTS = {
    "map": "{[ii,k,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && rowptr(ii)<=k<rowptr(ii+1)"
    " && jj=col(k)}",
    "access": "{[ii,k,jj] -> [k]}",
    "pointer domain": "{[x] : 0<=x<=NR}",
    "pointer range": "{[y] : 0<=y<=NNZ}",
    "domain": "{[x] : 0<=x<NNZ}",
    "range": "{[y] : 0<=y<NC}",
    "first": "rowptr(0) = 0",
    "last": "rowptr(NR) = NNZ",
    "ascends": "forall x,k: 0<=x<NR && rowptr(x)<=k<rowptr(x+1)-1 => col(k)<col(k+1)",
}
CHANGES = (
    ("<=", "<"), ("<", "<="), ("NR", "NC"), ("NC", "NNZ"), ("NNZ", "NR"), ("ii+1", "ii+2"),
    ("0", "1"), ("0", "-1"), ("[k]", "[k+1]"), ("[k]", "[2*k]"), ("i=ii", "i=ii+1"),
    ("=>", "=> 1<0 &&"), ("j=jj", "j=jj-1"), ("col(k)", "col(k+1)"), ("x+1", "x+2"),
    ("NNZ", "NNZ-1"), ("NR", "NR+1"),
)  # fmt: skip


def draw_descriptor(random: Random) -> Case:
    shape = [int(random.integers(1, 6)) for _ in range(2)]
    dense = random.integers(1, 9, shape) * (random.random(shape) < 0.5)
    changes = [
        [pick(random, *PARTS), int(random.integers(len(CHANGES)))]
        for _ in range(int(random.integers(0, 3)))
    ]
    return {
        "kind": "descriptor",
        "dense": dense.tolist(),
        "changes": changes,
        "monotone": pick(random, "increasing", "increasing", "strictly increasing", ""),
        "spoil": [int(random.integers(64)), int(pick(random, -1, 0, 1, 77, 1 << 30))],
        "spoils": chance(random, 2),
        "source": pick(random, "dense", "csc", "coo"),
    }


def _format(case: Case) -> Format:
    parts = dict(PARTS)
    for name, change in case["changes"]:
        parts[name] = parts[name].replace(*CHANGES[change], 1)
    pointers = index(
        "rowptr", parts["pointer domain"], parts["pointer range"], monotone=case["monotone"]
    )
    return declare(
        "changed",
        parts["map"],
        parts["access"],
        pointers,
        index("col", parts["domain"], parts["range"]),
        places="NNZ",
        order=("i", "j"),
        invariants=(parts["first"], parts["last"], parts["ascends"]),
    )


def check_descriptor(case: Case) -> None:
    dense = np.array(case["dense"], float)
    # Arrays of a list of coordinates are kept, those of columns are filled anew.
    source = case.get("source", "dense")
    given = dense if source == "dense" else lw.sparse.convert(lw.sparse.from_dense(dense), source)
    made = lw.sparse.convert(given, _format(case))
    if not np.array_equal(made.to_dense(), dense):
        raise Difference(f"converted to {made.to_dense().tolist()}")
    arrays, guarded = {name: np.array(a) for name, a in made.arrays.items()}, Guarded()
    if case["spoils"]:
        place, value = case["spoil"]
        which = ("rowptr", "col")[place % 2] if arrays["col"].size else "rowptr"
        arrays[which][place // 2 % len(arrays[which])] = value
    held = {name: guarded.of(name, array) for name, array in arrays.items()}
    values = guarded.of("values", made.values)
    tensor = sparse_tensor(made.format, dense.shape, held, values, symbols=dict(made.symbols))
    x = np.arange(1.0, dense.shape[1] + 1)
    try:
        found = lw.sparse.spmv(tensor, x)
        there = lw.sparse.convert(tensor, "coo").to_dense()
    finally:
        guarded.require_untouched()
    wanted = tensor.to_dense()
    if not np.array_equal(there, wanted) or not np.allclose(found, wanted @ x):
        raise Difference(f"{there.tolist()} and {found.tolist()}, not {wanted.tolist()}")


# -- loop trees ----------------------------------------------------------------------------------


def draw_tree(random: Random) -> Case:
    plain = PlainRandom(int(random.integers(1 << 30)))
    tree = wandered(drawn_case(plain).tree, plain, plain.randint(0, 8))
    lines = tree_text(tree).split("\n")
    for _ in range(int(pick(random, 0, 1, 1, 2, 3))):
        at = int(random.integers(1, len(lines)))
        match int(random.integers(6)):
            case 0:  # a number
                digits = [k for k, c in enumerate(lines[at]) if c.isdigit()]
                if digits:
                    k = int(pick(random, *digits))
                    lines[at] = lines[at][:k] + str(int(random.integers(10))) + lines[at][k + 1 :]
            case 1:
                lines[at] = "  " + lines[at]
            case 2:
                lines[at] = lines[at].removeprefix("  ")
            case 3:
                del lines[at]
            case 4:
                lines.insert(at, lines[int(random.integers(1, len(lines)))])
            case _:
                old, new = pick(
                    random, (" + ", " - "), ("[i", "[j"), (", k]", ", k + 1]"), ("add", "max"),
                    ("for", "fro"), (" in ", " out "), ("]", ", 0]"), ("32", "64"), ("m", "n"),
                    ("in ", "inout "), ("out ", "local "), ("vector", "parallel"), ("]", "+1]"),
                )  # fmt: skip
                lines[at] = lines[at].replace(old, new, 1)
    return {"kind": "tree", "text": "\n".join(lines), "threads": int(random.integers(1, 3))}


def check_tree(case: Case) -> None:
    tree = parse_tree(case["text"])
    if _size(tree) > MOST_POINTS:
        raise Unjudged("too large to be interpreted")
    if parse_tree(tree_text(tree)) != tree:
        raise Difference("its text is of another tree")
    guarded, random = Guarded(), np.random.default_rng(1)
    arrays = {
        array.name: guarded.of(
            array.name, random.integers(0, 3, shape_of(array)).astype(array.dtype.numpy)
        )
        for array in tree.arrays
        if array.role is not Role.LOCAL
    }
    wanted = {name: array.copy() for name, array in arrays.items()}
    threads = 3 if any(x.mark is Mark.PARALLEL for n in tree.nests for x in n.loops) else 1
    with np.errstate(all="ignore"):
        interpret_nest(lower_tree(tree), wanted, {}, threads=threads)
    compile_tree(tree, threads=case["threads"])(arrays)
    written = [a.name for a in tree.arrays if a.role is not Role.IN]
    guarded.require_untouched(*written)
    for name in written:
        if name in arrays and not np.allclose(
            arrays[name], wanted[name], rtol=1e-3, equal_nan=True
        ):
            raise Difference(f"{name} is {arrays[name].tolist()}, not {wanted[name].tolist()}")


def _size(tree: LoopTree) -> int:
    sizes = [int(np.prod([float(n) for _, n in nest.statement.dims])) for nest in tree.nests]
    sizes += [int(np.prod([float(n) for n in shape_of(array)])) for array in tree.arrays]
    return max(sizes)


# ------------------------------------------------------------------------------------------------

KINDS = {
    "statement": (draw_statement, check_statement),
    "rows": (draw_rows, check_rows),
    "descriptor": (draw_descriptor, check_descriptor),
    "tree": (draw_tree, check_tree),
}


def draw(random: Random) -> Case:
    return KINDS[pick(random, *KINDS)][0](random)


def check(case: Case) -> None:
    KINDS[case["kind"]][1](case)


def smaller(case: Case) -> Iterator[Case]:
    """Without a line, a change, a shift or a thread."""
    if case.get("threads", 1) > 1:
        yield {**case, "threads": 1}
    if case["kind"] == "tree":
        lines = case["text"].split("\n")
        for at in range(1, len(lines)):
            yield {**case, "text": "\n".join(lines[:at] + lines[at + 1 :])}
    for at in range(len(case.get("changes", ()))):
        yield {**case, "changes": case["changes"][:at] + case["changes"][at + 1 :]}
    if case.get("spoils"):
        yield {**case, "spoils": False}
    for name in ("shifts", "bounds"):
        for at, number in enumerate(case.get(name, ())):
            if number:
                yield {**case, name: [0 if k == at else x for k, x in enumerate(case[name])]}


def campaign() -> Campaign:
    return Campaign("memory_safety", draw, check, smaller)
