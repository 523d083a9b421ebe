"""TVM as a peer: its default schedule, one by hand, and MetaSchedule.

    python -m benchmarks.tuning.tvm_peers FILE.jsonl --count 25 --trials 64 --minutes 3
    python -m benchmarks.tuning.tvm_peers FILE.jsonl --count 25 --choose

The first tunes shapes of the set by MetaSchedule, one after the other, keeps the code of every
trial as a library (`--folder`) and adds an attempt to the file. It may run beside other work: a
trial's time is the fastest of five, and `--choose`, on a quiet machine, times the libraries of
each shape again and takes the fastest of them all. Noise can thus mislead MetaSchedule's search but
not its choice. `evaluation judge --peers tvm_default,tvm_hand,metaschedule` measures what was
chosen beside the others. Needed are apache-tvm 0.27 with apache-tvm-ffi below 0.1.15 (newer ones
end in SIGBUS), xgboost, psutil and cloudpickle. AutoTVM and Ansor were removed from TVM; the oldest
wheel of apache-tvm (0.25) has neither.

Candidates are built in this process: TVM's own builders import 496 tensor intrinsics each, which
takes longer than their time limit on this machine, and all trials would fail without a word.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import platform
import shutil
import sys
import tempfile
import time
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure import WrongResultError
from benchmarks.tuning.results import append_row, attempts_of, read_rows
from benchmarks.tuning.shapes import AnyShape, Convolution, Shape
from loopwright.machines.host import host
from loopwright.tuning.tree_evaluator import example_arrays

__all__ = ["FOLDER", "choose", "library_file", "main", "trials_folder", "tvm_turn"]

FOLDER = "TUNING_TVM_FOLDER"  # a variable of the environment: where tuned libraries lie
_TRIPLES = {"aarch64": "aarch64-linux-gnu", "x86_64": "x86_64-linux-gnu"}
_INTRINSICS = {"aarch64": "arm_cpu", "x86_64": "x86"}
_NUMBER = 5e-4  # seconds of a turn
_FASTEST_OF = 5  # runs of a trial
_ROUNDS = 2  # in which the trials of a shape are timed again
_FINALISTS = 8  # trials with their own rounds after that


def _target() -> Any:
    import tvm

    cpu = host().llvm_cpu
    words = {"kind": "llvm", "mcpu": cpu, "mtriple": _TRIPLES[platform.machine()], "num-cores": 1}
    return tvm.target.Target(words)


def _module(shape: Shape) -> Any:
    """The product as a tensor expression."""
    import tvm
    from tvm import te

    sizes = dict(shape.sizes)
    a = te.placeholder((sizes["m"], sizes["k"]), shape.dtype, name="A")
    b = te.placeholder((sizes["k"], sizes["n"]), shape.dtype, name="B")
    k = te.reduce_axis((0, sizes["k"]), name="k")
    c = te.compute(
        (sizes["m"], sizes["n"]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C"
    )
    return tvm.IRModule({"main": te.create_prim_func([a, b, c])})


def _by_hand(shape: Shape) -> Any:
    """Blocks of 8 rows by two vectors in registers, four steps of k at a time."""
    from tvm import s_tir

    lanes = host().lanes(32 if shape.dtype == "float32" else 64)
    schedule = s_tir.Schedule(_module(shape))
    block = schedule.get_sblock("C")
    written = schedule.cache_write(block, 0, "global")
    i, j, k = schedule.get_loops(block)
    rows, row = schedule.split(i, [None, 8])
    columns, column = schedule.split(j, [None, 2 * lanes])
    outer, inner = schedule.split(k, [None, 4])
    schedule.reorder(rows, columns, outer, inner, row, column)
    schedule.reverse_compute_at(written, columns)
    schedule.vectorize(column)
    schedule.unroll(row)
    schedule.unroll(inner)
    schedule.vectorize(schedule.get_loops(written)[-1])
    schedule.decompose_reduction(block, outer)
    return schedule.mod


def tvm_turn(who: str, shape: AnyShape, arrays: Mapping[str, Any]) -> Callable[[], float]:
    """A turn of one of tvm_default, tvm_hand and metaschedule, timed by TVM's native loop."""
    import tvm

    if isinstance(shape, Convolution) or shape.subscripts != "mk,kn->mn" or shape.threads > 1:
        raise TypeError("TVM is given products on one thread")
    os.environ["TVM_NUM_THREADS"] = "1"
    if who == "metaschedule":
        file = library_file(Path(os.environ.get(FOLDER, ".")), shape)
        if not file.exists():
            raise LookupError("it has not been tuned")
        return library_turn(file, arrays)
    made = _by_hand(shape) if who == "tvm_hand" else _module(shape)
    return _turn(tvm.compile(made, _target()).mod, arrays)


def library_turn(file: Path, arrays: Mapping[str, Any]) -> Callable[[], float]:
    """A turn of a product's code that was kept as a library."""
    import tvm

    return _turn(tvm.runtime.load_module(str(file)), arrays)


def _turn(module: Any, arrays: Mapping[str, Any]) -> Callable[[], float]:
    import tvm

    given = [tvm.runtime.tensor(arrays[name]) for name in ("A", "B", "out")]
    module["main"](*given)
    arrays["out"][...] = given[2].numpy()
    first = module.time_evaluator("main", tvm.cpu(), number=20)(*given).mean
    count = max(1, round(_NUMBER / first))
    timer = module.time_evaluator("main", tvm.cpu(), number=count)
    return lambda: float(timer(*given).mean)


def library_file(folder: Path, shape: AnyShape) -> Path:
    return folder / f"{shape.name.replace(' ', '_')}_{shape.dtype}_{host().name}.so"


def trials_folder(folder: Path, shape: AnyShape) -> Path:
    """Where the code of all trials of a shape lies."""
    return library_file(folder, shape).with_suffix(".trials")


def _builder(kept: Path) -> Any:
    """A builder that compiles in this process and keeps a copy of what it makes in `kept`."""
    import tvm
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    @derived_object
    class Builder(meta_schedule.builder.PyBuilder):  # type: ignore[misc]
        def build(self, inputs: list[Any]) -> list[Any]:
            return [self._built(given) for given in inputs]

        def _built(self, given: Any) -> Any:
            path = os.path.join(tempfile.mkdtemp(), "candidate.so")  # TVM removes the folder
            try:
                module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(given.mod)
                tvm.compile(module, given.target).mod.export_library(path)
                shutil.copy(path, kept / f"{len(list(kept.iterdir())):03d}.so")
            except Exception as error:  # noqa: BLE001  TVM's own classes differ by version
                return meta_schedule.builder.BuilderResult(None, str(error))
            return meta_schedule.builder.BuilderResult(path, None)

    return Builder()


def _import_intrinsics() -> None:
    """Import the tensor intrinsics of this processor and not those of all others."""
    from tvm import s_tir

    name = "tvm.s_tir.tensor_intrin"
    package = types.ModuleType(name)
    package.__path__ = [str(Path(s_tir.__file__).parent / "tensor_intrin")]
    sys.modules.setdefault(name, package)
    importlib.import_module(f"{name}.{_INTRINSICS[platform.machine()]}")


def fastest_of_runs(module: Any, device: Any, config: Any, repeated: list[Any]) -> list[float]:
    """MetaSchedule's time of a trial: the fastest run, where its own is the mean of all."""
    from tvm.s_tir.meta_schedule.runner.utils import run_evaluator_common

    return [min(run_evaluator_common(module, device, config, repeated))]


def tune(shape: Shape, trials: int, folder: Path) -> tuple[float, int]:
    """Tune by MetaSchedule and keep the best as a library; seconds, and trials with a time."""
    import tvm
    from tvm.s_tir import meta_schedule

    _import_intrinsics()
    file, kept = library_file(folder, shape), trials_folder(folder, shape)
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)

    start = time.perf_counter()
    module, target = _module(shape), _target()
    config = meta_schedule.runner.EvaluatorConfig(number=3, repeat=_FASTEST_OF, min_repeat_ms=10)
    runner = meta_schedule.runner.LocalRunner(
        evaluator_config=config, f_run_evaluator=fastest_of_runs
    )
    with tempfile.TemporaryDirectory() as work:
        database = meta_schedule.tir_integration.tune_tir(
            module,
            target,
            work,
            trials,
            num_trials_per_iter=min(16, trials),
            builder=_builder(kept),
            runner=runner,
            num_tuning_cores=1,
            seed=0,
        )
        best = meta_schedule.tir_integration.compile_tir(database, module, target)
        count = len(database.get_all_tuning_records())
    assert best is not None, "no trial of MetaSchedule has a time"
    seconds = time.perf_counter() - start
    tvm.compile(best.mod, target).mod.export_library(str(file))
    return seconds, count


def choose(shape: Shape, folder: Path) -> tuple[float, float]:
    """Put the fastest trial in the place of MetaSchedule's choice; seconds of both, timed in turns.

    Trials whose result is wrong are left out. A first timing of all of them chooses finalists,
    among them MetaSchedule's own choice, which alternate then.
    """
    arrays = example_arrays(shape.tree())
    wanted = shape.reference(arrays)
    own = library_file(folder, shape)
    first: dict[Path, float] = {}
    turns: dict[Path, Callable[[], float]] = {}
    for file in (own, *sorted(trials_folder(folder, shape).glob("*.so"))):
        arrays["out"][...] = -1
        turns[file] = library_turn(file, arrays)
        try:
            shape.check(arrays["out"], wanted)
        except WrongResultError as error:
            print(f"{shape.name}: {file.name} is left out: {error}", file=sys.stderr)
            continue
        first[file] = min(turns[file]() for _ in range(_ROUNDS))
    ahead = sorted(first, key=lambda file: first[file])[:_FINALISTS]
    finalists = [file for file in dict.fromkeys([own, *ahead]) if file in first]
    times = {file: first[file] for file in finalists}
    for _ in range(_FASTEST_OF):
        times = {file: min(times[file], turns[file]()) for file in finalists}
    best = min(finalists, key=lambda file: times[file])
    if best != own:
        # Not into the file itself, which is mapped into this process.
        copy = own.with_suffix(".chosen")
        shutil.copy(best, copy)
        copy.replace(own)
    return times.get(own, math.inf), times[best]


def main(words: list[str] | None = None) -> int:
    """Tune what is missing in a file."""
    from benchmarks.tuning.evaluation import drawn_shapes

    parser = argparse.ArgumentParser(prog="benchmarks.tuning.tvm_peers", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--set", default="looptune")
    parser.add_argument("--count", type=int, default=25)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--folder", type=Path, default=Path(os.environ.get(FOLDER, "tvm_tuned")))
    parser.add_argument("--choose", action="store_true", help="time the trials again, in quiet")
    args = parser.parse_args(words)
    end = time.monotonic() + 60 * args.minutes
    shapes = [s for s in drawn_shapes(args.set, args.count) if isinstance(s, Shape)]
    os.environ["TVM_NUM_THREADS"] = "1"
    if args.choose:
        for shape in shapes:
            if library_file(args.folder, shape).exists() and time.monotonic() < end:
                own, best = choose(shape, args.folder)
                print(f"{shape.name}: {1e6 * own:.1f} us, {1e6 * best:.1f} of all", flush=True)
        return 0
    known = attempts_of(read_rows(args.file), args.set)
    for shape in shapes:
        if (shape.name, "metaschedule") in known and library_file(args.folder, shape).exists():
            continue  # a library that was lost is made again: the last line of a key counts
        if time.monotonic() > end:
            break
        seconds, count = tune(shape, args.trials, args.folder)
        row = {
            "kind": "attempt", "set": args.set, "shape": shape.name, "who": "metaschedule",
            "budget": 0.0, "spent": seconds, "measurements": count, "failures": 0, "tree": None,
            "trace": [], "depths": [], "machine": host().name,
        }  # fmt: skip
        append_row(args.file, row)
        print(f"{shape.name}: {seconds:.1f} s, {count} trials", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
