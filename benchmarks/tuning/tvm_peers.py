"""TVM as a peer: its default schedule, one by hand, and MetaSchedule.

    python -m benchmarks.tuning.tvm_peers FILE.jsonl --count 25 --trials 64 --minutes 3

tunes shapes of the set by MetaSchedule, one after the other, keeps the best schedule of each as a
library (`--folder`) and adds an attempt to the file; `evaluation judge --peers
tvm_default,tvm_hand,metaschedule` measures them beside the others. It needs apache-tvm 0.27 with
apache-tvm-ffi below 0.1.15 (newer ones end in SIGBUS), xgboost and psutil. AutoTVM and Ansor were
removed from TVM and cannot be installed.

Candidates are built in this process: TVM's own builders import 496 tensor intrinsics each, which
takes longer than their time limit on this machine, and all trials would fail without a word.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import tempfile
import time
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.tuning.results import append_row, attempts_of, read_rows
from benchmarks.tuning.shapes import AnyShape, Convolution, Shape
from loopwright.machines.host import host

__all__ = ["FOLDER", "main", "tvm_turn"]

FOLDER = "TUNING_TVM_FOLDER"  # a variable of the environment: where tuned libraries lie
_TRIPLES = {"aarch64": "aarch64-linux-gnu", "x86_64": "x86_64-linux-gnu"}
_INTRINSICS = {"aarch64": "arm_cpu", "x86_64": "x86"}
_NUMBER = 5e-4  # seconds of a turn


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


def tvm_turn(who: str, shape: AnyShape, arrays: Mapping[str, Any]) -> Any:
    """A turn of one of tvm_default, tvm_hand and metaschedule, timed by TVM's native loop."""
    import tvm

    if isinstance(shape, Convolution) or shape.subscripts != "mk,kn->mn" or shape.threads > 1:
        raise TypeError("TVM is given products on one thread")
    os.environ["TVM_NUM_THREADS"] = "1"
    if who == "metaschedule":
        file = library_file(Path(os.environ.get(FOLDER, ".")), shape)
        if not file.exists():
            raise LookupError("it has not been tuned")
        module = tvm.runtime.load_module(str(file))
    else:
        made = _by_hand(shape) if who == "tvm_hand" else _module(shape)
        module = tvm.compile(made, _target()).mod
    given = [tvm.runtime.tensor(arrays[name]) for name in ("A", "B", "out")]
    module["main"](*given)
    arrays["out"][...] = given[2].numpy()
    first = module.time_evaluator("main", tvm.cpu(), number=20)(*given).mean
    count = max(1, round(_NUMBER / first))
    timer = module.time_evaluator("main", tvm.cpu(), number=count)
    return lambda: float(timer(*given).mean)


def library_file(folder: Path, shape: AnyShape) -> Path:
    return folder / f"{shape.name.replace(' ', '_')}_{shape.dtype}_{host().name}.so"


def _builder() -> Any:
    """A builder that compiles in this process."""
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


def tune(shape: Shape, trials: int, file: Path) -> tuple[float, int]:
    """Tune by MetaSchedule and keep the best as a library; seconds, and trials with a time."""
    import tvm
    from tvm.s_tir import meta_schedule

    _import_intrinsics()

    start = time.perf_counter()
    module, target = _module(shape), _target()
    config = meta_schedule.runner.EvaluatorConfig(number=3, repeat=1, min_repeat_ms=10)
    with tempfile.TemporaryDirectory() as folder:
        database = meta_schedule.tir_integration.tune_tir(
            module,
            target,
            folder,
            trials,
            num_trials_per_iter=min(16, trials),
            builder=_builder(),
            runner=meta_schedule.runner.LocalRunner(evaluator_config=config),
            num_tuning_cores=1,
            seed=0,
        )
        best = meta_schedule.tir_integration.compile_tir(database, module, target)
        count = len(database.get_all_tuning_records())
    assert best is not None, "no trial of MetaSchedule has a time"
    seconds = time.perf_counter() - start
    file.parent.mkdir(parents=True, exist_ok=True)
    tvm.compile(best.mod, target).mod.export_library(str(file))
    return seconds, count


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
    args = parser.parse_args(words)
    end = time.monotonic() + 60 * args.minutes
    known = attempts_of(read_rows(args.file), args.set)
    for shape in drawn_shapes(args.set, args.count):
        if (shape.name, "metaschedule") in known or not isinstance(shape, Shape):
            continue
        if time.monotonic() > end:
            break
        seconds, count = tune(shape, args.trials, library_file(args.folder, shape))
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
