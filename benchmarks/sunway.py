"""Code for SW26010 by the model of a core group: thirteen kernels against their bounds.

Nothing is run: a dry run of the generated nests is played by the queue model (docs/sunway.md). The
bound of a kernel is the larger of two times: the bytes that must move at 20.4 GB/s, each input read
once and each output written once, and the flops at the peak. Arrays that no mesh can hold between
two phases count again: A of gemver is read, written and read again; tmp of 2mm and E, F of 3mm are
written and read. Kernels that sum up a matrix along both of its dimensions come twice: as written,
and with sums in another order (--reassoc, marked by *).
Before that the model prices plans of which the rate was published.
"""

from __future__ import annotations

import itertools
import math
import resource
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.corpus_kernels import CONSTANT, KERNELS, SYMBOLIC, write_source
from benchmarks.measure import Bar, Outcome, Setting, Table, geometric_mean
from benchmarks.sunway_plans import by_hand, tiles_of_32, with_partial_lines
from loopwright.backends.athread.athread_module import MeshFunction
from loopwright.calls.mesh_prediction import team_of_function
from loopwright.calls.splice import optimise_region
from loopwright.cli import main
from loopwright.diagnostics import LoopwrightError, UsageError
from loopwright.frontends.c import read_c
from loopwright.machines.load_mesh import load_mesh
from loopwright.machines.mesh_timeline import MeshPrediction, each_event, predict_teams
from loopwright.planner.mesh_plans.mesh import mesh_planner
from loopwright.planner.mesh_plans.mesh_work import DataDependent

__all__ = ["run"]

_Sizes = Mapping[str, int]
_RATE = 20.4e9  # bytes in a second that DMA moves in large blocks
_SIZE = 512  # rows of square matrices in tiles of 32
_LARGEST = 6144  # of the product by hand
_BOTH_WAYS = ("gemver", "mvt", "atax", "bicg")  # sums along rows and along columns


class _Kernel(NamedTuple):
    """What a kernel must move and compute at least, in elements of 8 bytes and flops."""

    sizes: tuple[dict[str, int], ...]  # LARGE, EXTRALARGE
    elements: Callable[[_Sizes], float]
    flops: Callable[[_Sizes], float]


def _sizes(names: str, *values: tuple[int, ...]) -> tuple[dict[str, int], ...]:
    return tuple(dict(zip(names.split(), each, strict=True)) for each in values)


_KERNELS: dict[str, _Kernel] = {
    "gemm": _Kernel(
        _sizes("ni nj nk", (1000, 1100, 1200), (2000, 2300, 2600)),
        lambda s: s["ni"] * s["nk"] + s["nk"] * s["nj"] + 2 * s["ni"] * s["nj"],
        lambda s: 2 * s["ni"] * s["nj"] * s["nk"],
    ),
    "gemver": _Kernel(
        _sizes("n", (2000,), (4000,)), lambda s: 3 * s["n"] ** 2, lambda s: 8 * s["n"] ** 2
    ),
    "gesummv": _Kernel(
        _sizes("n", (1300,), (2800,)), lambda s: 2 * s["n"] ** 2, lambda s: 4 * s["n"] ** 2
    ),
    "symm": _Kernel(
        _sizes("m n", (1000, 1200), (2000, 2600)),
        lambda s: s["m"] ** 2 / 2 + 3 * s["m"] * s["n"],
        lambda s: 2 * s["m"] ** 2 * s["n"],
    ),
    "syrk": _Kernel(
        _sizes("m n", (1000, 1200), (2000, 2600)),
        lambda s: s["n"] * s["m"] + s["n"] ** 2,
        lambda s: s["n"] ** 2 * s["m"],
    ),
    "syr2k": _Kernel(
        _sizes("m n", (1000, 1200), (2000, 2600)),
        lambda s: 2 * s["n"] * s["m"] + s["n"] ** 2,
        lambda s: 2 * s["n"] ** 2 * s["m"],
    ),
    "trmm": _Kernel(
        _sizes("m n", (1000, 1200), (2000, 2600)),
        lambda s: s["m"] ** 2 / 2 + 2 * s["m"] * s["n"],
        lambda s: s["m"] ** 2 * s["n"],
    ),
    "2mm": _Kernel(
        _sizes("ni nj nk nl", (800, 900, 1100, 1200), (1600, 1800, 2200, 2400)),
        lambda s: (
            s["ni"] * s["nk"]
            + s["nk"] * s["nj"]
            + 2 * s["ni"] * s["nj"]
            + s["nj"] * s["nl"]
            + 2 * s["ni"] * s["nl"]
        ),
        lambda s: 2 * s["ni"] * s["nj"] * (s["nk"] + s["nl"]),
    ),
    "3mm": _Kernel(
        _sizes("ni nj nk nl nm", (800, 900, 1000, 1100, 1200)),
        lambda s: (
            s["ni"] * s["nk"]
            + s["nk"] * s["nj"]
            + s["nj"] * s["nm"]
            + s["nm"] * s["nl"]
            + 2 * s["ni"] * s["nj"]
            + 2 * s["nj"] * s["nl"]
            + s["ni"] * s["nl"]
        ),
        lambda s: 2 * s["nj"] * (s["ni"] * s["nk"] + s["nl"] * s["nm"] + s["ni"] * s["nl"]),
    ),
    "atax": _Kernel(
        _sizes("m n", (1900, 2100), (1800, 2200)),
        lambda s: s["m"] * s["n"],
        lambda s: 4 * s["m"] * s["n"],
    ),
    "bicg": _Kernel(
        _sizes("m n", (1900, 2100), (1800, 2200)),
        lambda s: s["m"] * s["n"],
        lambda s: 4 * s["m"] * s["n"],
    ),
    "doitgen": _Kernel(
        _sizes("nq nr np", (140, 150, 160), (220, 250, 270)),
        lambda s: 2 * s["nr"] * s["nq"] * s["np"] + s["np"] ** 2,
        lambda s: 2 * s["nr"] * s["nq"] * s["np"] ** 2,
    ),
    "mvt": _Kernel(_sizes("n", (2000,), (4000,)), lambda s: s["n"] ** 2, lambda s: 4 * s["n"] ** 2),
}


def run(setting: Setting) -> Outcome:
    """The model against published rates, then generated code, ragged sizes, and jacobi-2d."""
    machine = load_mesh("sw26010")
    bars = list(_published())
    names = [name for name in setting.kernels or _KERNELS if name in _KERNELS]
    with tempfile.TemporaryDirectory() as folder:
        seconds = {name: _generated(name, Path(folder)) for name in names}
    table = Table(
        (("kernel", "8s"), ("sizes", "24s"), ("ms", "9.2f"), ("GFLOPS", "7.1f"), ("peak", "6.1%"),
         ("MB", "9.1f"), ("bound ms", "8.2f"), ("ratio", "7.2f"), ("ragged", "6.2f"),
         ("generated", "9.2f"), ("bound by", "30s"))
    )  # fmt: skip
    print(table.head())
    rows: list[dict[str, Any]] = []
    for name in names:
        chosen = _KERNELS[name].sizes[: 1 if setting.quick else 2]
        orders = (False, True) if name in _BOTH_WAYS else (False,)
        for reassoc, sizes in itertools.product(orders, chosen):
            row = _row(name, sizes, seconds[name], reassoc=reassoc)
            rows.append(row)
            print(
                table.row(
                    f"{name}*" if reassoc else name,
                    "x".join(map(str, sizes.values())),
                    row["milliseconds"],
                    row["gflops"],
                    row["share"],
                    row["megabytes"],
                    row["bound"],
                    row["ratio"],
                    row["ragged"],
                    seconds[name],
                    row["bound_by"],
                ),
                flush=True,
            )
    print(f"peak {machine.peak_flops('float64') / 1e9:.1f} GFLOPS, generated in seconds")
    print("*: sums in another order (--reassoc)\n")
    if "gemm" in names and (function := _function("gemm")) is not None:
        for sizes in _KERNELS["gemm"].sizes[: 1 if setting.quick else 2]:
            share = _predicted(function, sizes)[0].share_of_peak
            print(f"gemm {'x'.join(map(str, sizes.values()))}, extents not known: {share:.1%}")
    found = [row for row in rows if row["ratio"] is not None]
    strict = [row for row in found if not row["reassoc"]]
    free = [row for row in found if row["reassoc"] or row["kernel"] not in _BOTH_WAYS]
    shares = [row["share"] for row in found if row["kernel"] == "gemm"]
    bars += [
        Bar("gemm, share of the peak, worst", min(shares, default=math.nan), 0.6),
        Bar(
            "times the bound, geometric mean",
            geometric_mean(row["ratio"] for row in strict) if strict else math.nan,
            1.6,
            at_most=True,
        ),
        Bar(
            "times the bound, geometric mean, with --reassoc",
            geometric_mean(row["ratio"] for row in free) if free else math.nan,
            1.6,
            at_most=True,
        ),
        Bar(
            "ragged sizes, time of a flop over that of multiples of 32, worst",
            max((row["ragged"] for row in found if row["ragged"] is not None), default=math.nan),
            1.1,
            at_most=True,
        ),
        Bar("jacobi-2d, bytes of one sweep per spawn over ours", _jacobi(setting), 4.0),
        Bar("generating, mean", sum(seconds.values()) / len(seconds), 0.66, at_most=True,
            unit=" s"),
        Bar("generating, worst", max(seconds.values()), 1.4, at_most=True, unit=" s"),
    ]  # fmt: skip
    return Outcome(tuple(rows), tuple(bars))


def _published() -> list[Bar]:
    """Plans of others: what the model says, between what was measured and what is possible."""
    machine = load_mesh("sw26010")
    tiles = tiles_of_32(machine, _SIZE)
    rows = tiles_of_32(machine, _SIZE, by_rows=True)
    unaligned = tiles_of_32(with_partial_lines(machine), _SIZE, by_rows=True)
    hand = by_hand(machine, _LARGEST)
    slower = unaligned.cycles / tiles.cycles
    print(f"tiles of 32, no sharing: {tiles.share_of_peak:.2%} of the peak (published: about 3%)")
    print(
        f"  a request for each row: {rows.cycles / tiles.cycles:.2f} times as long, "
        f"{slower:.2f} with partial lines as whole ones (published: more than 2)"
    )
    print(f"product by hand: {hand.share_of_peak:.1%} of the peak (published: 88.7%)\n")
    return [
        Bar("tiles of 32, share of the peak", tiles.share_of_peak, 0.03),
        Bar("tiles of 32, share of the peak", tiles.share_of_peak, 0.05, at_most=True),
        Bar("tiles of 32, a request for each row, times as long", slower, 1.7),
        Bar("tiles of 32, a request for each row, times as long", slower, 2.3, at_most=True),
        Bar("product by hand, share of the peak", hand.share_of_peak, 0.85),
        Bar("product by hand, share of the peak", hand.share_of_peak, 0.95, at_most=True),
    ]


def _function(
    name: str, sizes: _Sizes | None = None, *, reassoc: bool = False
) -> MeshFunction | None:
    """What the cores run for a kernel whose arrays have these extents, or any."""
    mode = SYMBOLIC if sizes is None else CONSTANT
    with tempfile.TemporaryDirectory() as folder:
        file = read_c(write_source(KERNELS[name], Path(folder), mode=mode, extents=sizes))
        (region,) = file.regions
        machine = load_mesh("sw26010")
        return optimise_region(
            file, region, mesh_planner, machine, target="athread", reassoc=reassoc
        ).mesh


def _generated(name: str, folder: Path) -> float:
    """Seconds of the processor for all files of a kernel, the preprocessor included."""
    for each in ("mvt", name):  # the first one imports what it needs
        source = write_source(KERNELS[each], folder, mode=SYMBOLIC)
        start = _spent()
        arguments = ["cc", str(source), "--target", "athread", "-o", str(folder / f"{each}.out")]
        if main(arguments) != 0:
            return math.nan
        seconds = _spent() - start
    return seconds


def _spent() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _predicted(function: MeshFunction, sizes: _Sizes) -> tuple[MeshPrediction, int]:
    """The prediction of a call, and the bytes that DMA moves."""
    machine = load_mesh("sw26010")
    team = team_of_function(function, sizes, machine)
    moved = sum(
        times * event.request.bytes
        for events in team.cores.values()
        for event, times in each_event(events)
        if event.request is not None
    )
    return predict_teams(machine, [team]), moved


def _row(
    name: str, sizes: dict[str, int], seconds: float, *, reassoc: bool = False
) -> dict[str, Any]:
    """The figures of a kernel at some sizes; None where it has no prediction."""
    kernel = _KERNELS[name]
    least = _least_seconds(kernel, sizes)
    row: dict[str, Any] = {
        "kernel": name, "sizes": sizes, "reassoc": reassoc, "bound": 1e3 * least,
        "milliseconds": None, "gflops": None, "share": None, "megabytes": None, "ratio": None,
        "ragged": None, "generated": seconds,
    }  # fmt: skip
    try:
        even = {word: -(-value // 32) * 32 for word, value in sizes.items()}
        functions = tuple(_function(name, each, reassoc=reassoc) for each in (sizes, even))
        if functions[0] is None or functions[1] is None:
            raise UsageError("no loop is mapped")
        found, moved = _predicted(functions[0], sizes)
        smooth, _ = _predicted(functions[1], even)
    except (LoopwrightError, DataDependent) as error:
        return row | {"bound_by": f"not predicted: {error}"}
    rate = kernel.flops(sizes) / found.seconds
    by, part = found.bound
    return row | {
        "milliseconds": 1e3 * found.seconds,
        "gflops": rate / 1e9,
        "share": rate / found.peak_flops,
        "megabytes": moved / 1e6,
        "ratio": found.seconds / least,
        "ragged": kernel.flops(even) / smooth.seconds / rate,
        "bound_by": f"{by} ({part:.0%})",
    }


def _least_seconds(kernel: _Kernel, sizes: _Sizes) -> float:
    machine = load_mesh("sw26010")
    moved = 8 * kernel.elements(sizes) / _RATE
    return max(moved, kernel.flops(sizes) / machine.peak_flops("float64"))


def _jacobi(setting: Setting) -> float:
    """Bytes of jacobi-2d with every array moved in every sweep, over those that we move."""
    steps, size = (20 if setting.quick else 500), 1300
    function = _function("jacobi-2d")
    if function is None:
        return math.nan
    found, moved = _predicted(function, {"tsteps": steps, "n": size})
    apart = 2 * steps * 2 * 8 * size * size
    print(
        f"jacobi-2d {size}, {steps} steps: {1e3 * found.seconds:.1f} ms, {moved / 1e9:.2f} GB; "
        f"one sweep per spawn moves {apart / 1e9:.2f} GB"
    )
    return apart / moved
