"""`python -m examples.gravimetry [--grid N] ...`: make a field, find the surface, tell and draw.

--grid 32 --pictures FOLDER     both solvers, residuals and surfaces as SVG
--as-printed                    solves for z from 0, as the dissertation prints it: it stalls
--race                          the same program with NumPy beside it, in turns
--table                         the dissertation's table 4.1 beside this machine's times
--matrix-free, --memory BYTES   without the matrix, or where it is larger than BYTES
--noise 0.01                    errors of 1% in the field; the search ends when it is as near
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from pathlib import Path

import numpy as np
from examples.gravimetry import kernels
from examples.gravimetry.engines import (
    DenseEngine,
    Engine,
    MatrixFreeEngine,
    NumpyEngine,
    available_bytes,
    fitting,
)
from examples.gravimetry.inversion import OUTER, SOLVERS, Inversion, invert
from examples.gravimetry.pictures import convergence_chart, surface_picture
from examples.gravimetry.survey import Survey, synthetic_survey

# Minutes on 2 x Xeon E5-2697 v4, 36 threads; grid -> who -> minutes (table 4.1).
TABLE_4_1 = {
    96: {"AOTO": 0.573, "MKL": 0.59, "OpenBLAS": 0.762, "BLIS": 6.029, "plain loops": 14.39},
    128: {"AOTO": 1.222, "MKL": 1.196, "OpenBLAS": 2.777, "BLIS": 10.159, "plain loops": 88.76},
    160: {"AOTO": 3.62, "MKL": 3.5, "OpenBLAS": 6.068, "BLIS": 28.576, "plain loops": 351.992},
}


def main() -> None:
    """Read the arguments and do what they ask for."""
    args = _arguments()
    survey, truth = synthetic_survey(args.grid, noise=args.noise)
    side = f"{args.grid} x {args.grid}"
    print(f"{side}: the matrix takes {survey.matrix_bytes:,} bytes, {available_bytes():,} are free")
    if args.race:
        _race(survey, args.solver or "conjugate_gradients", args.rounds)
        return
    engine = MatrixFreeEngine(survey) if args.matrix_free else fitting(survey, args.memory)
    print(f"products by {engine.name}, compiled beforehand")
    small, _ = synthetic_survey(4)
    invert(small, type(engine)(small), most_steps=1)
    found: dict[str, Inversion] = {}
    for solver in [args.solver] if args.solver else SOLVERS:
        print(solver.replace("_", " "))
        report = _indented if args.steps else (lambda line: None)
        found[solver] = invert(
            survey,
            engine,
            solver,
            accuracy=max(OUTER, args.noise),
            as_printed=args.as_printed,
            report=report,
        )
        _tell(survey, truth, found[solver])
    if args.table:
        _table(args.grid, found)
    if args.pictures is not None:
        _draw(args.pictures, truth, found)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.gravimetry")
    parser.add_argument("--grid", type=int, default=32, metavar="N", help="points along a side")
    parser.add_argument(
        "--noise",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="errors of the field over its norm",
    )
    parser.add_argument("--solver", choices=tuple(SOLVERS), help="one solver instead of both")
    parser.add_argument("--as-printed", action="store_true", help="solve for z and not for z - z0")
    parser.add_argument("--matrix-free", action="store_true", help="never hold the matrix")
    parser.add_argument(
        "--memory", type=int, metavar="BYTES", help="that the matrix may take; above, no matrix"
    )
    parser.add_argument("--steps", action="store_true", help="print a line for each step")
    parser.add_argument("--race", action="store_true", help="time Loopwright and NumPy in turns")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="turns of the race")
    parser.add_argument("--table", action="store_true", help="print table 4.1 beside our times")
    parser.add_argument(
        "--pictures",
        type=Path,
        metavar="FOLDER",
        help="draw surfaces.svg and convergence.svg there",
    )
    args = parser.parse_args()
    if args.grid < 2 or args.rounds < 1 or args.noise < 0:
        parser.error("--grid takes 2 and more, --rounds 1 and more, --noise 0 and more")
    return args


def _indented(line: str) -> None:
    print(f"  {line}", flush=True)


def _tell(survey: Survey, truth: np.ndarray, found: Inversion) -> None:
    off = np.linalg.norm(found.surface - truth) / np.linalg.norm(truth - survey.depth)
    print(
        f"  residual {found.residual:.2e} after {len(found.steps) - 1} steps and {found.inner} "
        f"inner iterations, relief off by {off:.2%}, {found.seconds:.2f} s"
    )


def _race(survey: Survey, solver: str, rounds: int) -> None:
    """Assembly and whole solves in turns; medians, and the best of each."""
    ours, theirs = DenseEngine(survey), NumpyEngine(survey)
    mirrored = NumpyEngine(survey, form="mirrored") if survey.is_even else None
    plain = NumpyEngine(survey, form="as_written") if survey.points <= 4096 else None
    z, count = survey.start(), survey.points**2
    work = {
        "assembly, loopwright": lambda: ours.linearise(z),
        "assembly, ** -1.5 in loops": lambda: kernels.assemble_quickly(
            survey.x, survey.y, z, survey.scale, ours._four
        ),
        **(
            {
                "assembly, mirrored": lambda: kernels.assemble_mirrored(
                    survey.x, survey.y, z, survey.scale, ours._four
                )
            }
            if survey.is_even
            else {}
        ),
        "assembly, / ** 1.5 in loops": lambda: kernels.assemble(
            survey.x, survey.y, z, survey.scale, ours._four
        ),
        "assembly, numpy in place": lambda: theirs.linearise(z),
        **({"assembly, numpy mirrored": lambda: mirrored.linearise(z)} if mirrored else {}),
        **({"assembly, numpy ** 1.5": lambda: plain.linearise(z)} if plain else {}),
        "J^T J p, loopwright": lambda: ours.normal(z),
        "J^T J p, numpy": lambda: theirs.normal(z),
        "solve, loopwright": lambda: _solve(survey, ours, solver),
        "solve, numpy": lambda: _solve(survey, theirs, solver),
    }
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for call in list(work.values())[:-2]:
        call()  # compiles, and touches all memory
    for _, (name, call) in itertools.product(range(rounds), work.items()):
        start = time.perf_counter()
        call()
        seconds[name].append(time.perf_counter() - start)
    for name, found in seconds.items():
        per = f", {min(found) / count * 1e9:.2f} ns an element" if "solve" not in name else ""
        print(f"{name:27} median {statistics.median(found):8.4f} s, best {min(found):.4f} s{per}")
    best = {name: min(found) for name, found in seconds.items()}
    for what, other in (
        ("assembly", "numpy in place"),
        ("assembly", "numpy mirrored"),
        ("assembly", "numpy ** 1.5"),
        ("J^T J p", "numpy"),
        ("solve", "numpy"),
    ):
        if f"{what}, {other}" in best:
            ratio = best[f"{what}, {other}"] / best[f"{what}, loopwright"]
            print(f"{what}: {ratio:.2f} times {other}")


def _solve(survey: Survey, engine: Engine, solver: str) -> None:
    invert(survey, engine, solver)


def _table(grid: int, found: dict[str, Inversion]) -> None:
    """The dissertation's minutes, and ours."""
    print("minutes; the dissertation's on 36 threads of 2 x Xeon E5-2697 v4, another field")
    printed = TABLE_4_1.get(grid, {})
    for who, minutes in printed.items():
        print(f"  {who:36} {minutes:8.3f}")
    if not printed:
        print(f"  printed are {', '.join(map(str, TABLE_4_1))}, not {grid}")
    for solver, inversion in found.items():
        who = f"loopwright, {solver.replace('_', ' ')}"
        print(f"  {who:36} {inversion.seconds / 60:8.3f}")


def _draw(folder: Path, truth: np.ndarray, found: dict[str, Inversion]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    surfaces = {"truth": truth, "found": next(iter(found.values())).surface}
    lines = {}
    for solver, inversion in found.items():
        inner = itertools.accumulate((step.inner for step in inversion.steps), initial=0)
        residuals = (step.residual for step in inversion.steps)
        lines[solver.replace("_", " ")] = list(zip(map(float, inner), residuals, strict=False))
    for name, text in (
        ("surfaces.svg", surface_picture(surfaces)),
        ("convergence.svg", convergence_chart("residual of the field", lines)),
    ):
        (folder / name).write_text(text, encoding="utf-8")
        print(f"drawn in {folder / name}")


if __name__ == "__main__":
    main()
