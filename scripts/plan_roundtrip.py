"""Plans that are saved and loaded: the same code byte by byte, and the same results.

    python scripts/plan_roundtrip.py save FILE [--contractions 200] [--kernels 45]
    python scripts/plan_roundtrip.py check FILE
    python scripts/plan_roundtrip.py both [the same]        save, then check in a process of its own

`save` compiles random contractions and the C kernels of the corpus as the model plans them, runs
them, and writes a JSON line for each: plans, a hash of the LLVM IR, a hash of the results. `check`
does the same with the plans of the file in place of the model's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
from replay_corpus import SYMBOLIC, DrawnContraction, drawn_contraction
from replay_stages import forget_calls

import loopwright as lw
from kernels.inputs import make_inputs
from kernels.manifest import KERNELS, Kernel
from loopwright import kernels

THREADS = 2
Plans = Sequence[lw.Plan]
Line = dict[str, Any]


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    if args.verb == "both":
        return _both(args)
    return _saved(args) if args.verb == "save" else _checked(args)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Save plans, load them, compare code and results.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("save", "check", "both"):
        sub = verbs.add_parser(verb)
        if verb != "both":
            sub.add_argument("file", type=Path)
        if verb != "check":
            sub.add_argument("--contractions", type=int, default=200)
            sub.add_argument("--kernels", type=int, default=len(KERNELS))
    return parser


def _both(args: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plans.jsonl"
        sizes = [f"--contractions={args.contractions}", f"--kernels={args.kernels}"]
        for words in (["save", str(file), *sizes], ["check", str(file)]):
            code = subprocess.run([sys.executable, __file__, *words], check=False).returncode
            if code:
                return code
    return 0


def _saved(args: argparse.Namespace) -> int:
    lines = [_contraction_line(number) for number in islice(_numbers(), args.contractions)]
    lines += [_kernel_line(name) for name in islice(KERNELS, args.kernels)]
    args.file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    print(f"{len(lines)} plans saved")
    return 0


def _checked(args: argparse.Namespace) -> int:
    lines = [json.loads(text) for text in args.file.read_text(encoding="utf-8").splitlines()]
    wrong = 0
    for line in lines:
        plans = [lw.Plan.from_json(plan) for plan in line["plans"]]
        if "contraction" in line:
            found = _contraction_line(line["contraction"], plans)
        else:
            found = _kernel_line(line["kernel"], plans)
        for what in ("plans", "code", "result"):
            if found[what] != line[what]:
                wrong += 1
                print(f"{line.get('kernel', line.get('contraction'))}: another {what}")
    print(f"{len(lines)} plans loaded, {wrong} differences in code or results")
    return int(wrong > 0)


def _numbers() -> Iterator[int]:
    """The contractions of one or two operands that compute anything: some are views."""
    for number in count():
        case = drawn_contraction(number)
        is_view = len(case.terms) == 1 and set(case.terms[0]) == set(case.out)
        if len(case.terms) <= 2 and not is_view:
            yield number


def _contraction_line(number: int, plans: Plans = ()) -> Line:
    case = drawn_contraction(number)
    arrays = _filled(case, number)
    keywords = case.keywords(arrays, THREADS)
    if "out" in keywords:
        keywords["out"][...] = 1
    given = {"plan": plans[0]} if plans else {}
    asked = {name: value for name, value in keywords.items() if name != "order"}
    plan = lw.einsum_plan(case.text, *arrays, **asked)
    with _emitted() as texts:
        result = lw.einsum(case.text, *arrays, **keywords, **given)
    told = plans or [plan]
    return _line("contraction", number, told, texts, [np.asarray(result)])


def _filled(case: DrawnContraction, number: int) -> list[Any]:
    random = np.random.default_rng(number)
    arrays = case.operands()
    for array in arrays:
        array[...] = random.integers(0, 4, array.shape)
    return arrays


def _kernel_line(name: str, plans: Plans = ()) -> Line:
    kernel: Kernel = KERNELS[name]
    defines = dict.fromkeys(SYMBOLIC.defines)
    chosen: Any = list(plans) or "model"
    inputs = make_inputs(kernel, kernel.at("MINI"))
    with _emitted() as texts:
        compiled = lw.compile(
            kernel.path,
            "host",
            chosen,
            threads=THREADS,
            reassoc=True,
            function=kernel.function,
            defines=defines,
        )
        function = compiled[kernel.function]
        told = function.plans(*inputs.values())
        function(*inputs.values())
    results = [value for value in inputs.values() if isinstance(value, np.ndarray)]
    return _line("kernel", name, told, texts, results)


def _line(
    kind: str, name: str | int, plans: Plans, texts: list[str], results: Sequence[Any]
) -> Line:
    return {
        kind: name,
        "plans": [plan.to_json() for plan in plans],
        "code": _hash(text.encode() for text in texts),
        "result": _hash(np.ascontiguousarray(x).tobytes() for x in results),
    }


def _hash(parts: Any) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()[:16]


@contextmanager
def _emitted() -> Iterator[list[str]]:
    """The LLVM IR of all kernels that are compiled meanwhile; none is known before."""
    forget_calls()
    texts: list[str] = []
    emit: Callable[..., Any] = kernels.machine_code_module

    def recording(*args: Any, **named: Any) -> Any:
        module = emit(*args, **named)
        texts.append(module.text)
        return module

    kernels.machine_code_module = recording
    try:
        yield texts
    finally:
        kernels.machine_code_module = emit


if __name__ == "__main__":
    sys.exit(main())
