"""The corpus of replay.py: what is compiled, by public functions, under names that last.

Nothing here may depend on lists that grow with the compiler (dtypes, semirings, formats): a new one
must not change what the others are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import numpy as np
from replay_functions import FUNCTIONS
from replay_stages import Stages, recorded

import loopwright as lw
from loopwright import cli

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))

from kernels.build import SYMBOLIC  # noqa: E402, in tests/
from kernels.inputs import make_inputs  # noqa: E402, likewise
from kernels.manifest import KERNELS, Kernel  # noqa: E402, likewise
from sparse_builders import of_dense  # noqa: E402, likewise

__all__ = ["MACHINES", "DrawnContraction", "Entry", "drawn_contraction", "entries"]

# One of each kind: NEON with multiplication by a lane, AVX2, AVX-512 with dot products of bytes.
MACHINES = ("neoverse-n1", "zen3", "sapphirerapids")
THREADS = (1, 4)
CONTRACTIONS = 200
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing to compile."""

    name: str
    stages: Callable[[], Stages]
    is_quick: bool  # belongs to the part that the tests replay


def entries(machine: str) -> Iterator[Entry]:
    """The corpus for one machine."""
    for threads in THREADS:
        yield from _contractions(threads)
        yield from _functions(threads)
        yield from _programs(threads)
    yield from _sparse_kernels()
    # These plan what _programs plans, so that fewer of them are enough.
    if machine == "neoverse-n1":
        yield from _calls(4)
    if machine == "zen3":
        yield from _calls(1)
        yield from _sources()
        yield from _conversions()  # no model of a machine decides about them


# -- contractions ---------------------------------------------------------------------------------

FLOATS = ("float64", "float32", "float64", "float32", "float16", "complex128", "complex64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
SEMIRINGS: dict[str, tuple[str, ...]] = {
    "plus_times": (*FLOATS, *FLOATS, *INTEGERS, "bool"),
    "min_plus": ("float64", "float32", "int32", "int16", "uint8"),
    "max_plus": ("float64", "float32", "int64", "int8"),
    "max_times": ("float64", "float32", "int32"),
    "min_times": ("float64", "uint16"),
    "min_max": ("float32", "int32", "uint8", "bool"),
    "max_min": ("float64", "int16", "bool"),
    "or_and": ("bool", "uint8", "int64"),
    "xor_and": ("bool", "uint32"),
}
SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 64, 65, 100, 129, 250, 513, 1030)
STEPS = (1, 1, 1, 1, 1, 1, 1, 2, 3, -1)
MOST_ELEMENTS = 1 << 22  # of an operand


@dataclass(frozen=True, slots=True)
class DrawnContraction:
    """An einsum without its operands' values."""

    terms: tuple[str, ...]
    out: str
    sizes: dict[str, int]
    semiring: str
    dtypes: tuple[str, ...]
    orders: tuple[tuple[int, ...], ...]  # of the axes of each operand in memory, outermost first
    steps: tuple[tuple[int, ...], ...]  # along each axis
    into: str  # fresh, C or F (an array to write), sum (one to add to), scaled (alpha and beta)

    @property
    def text(self) -> str:
        return f"{','.join(self.terms)}->{self.out}"

    def operands(self) -> list[Any]:
        """Arrays of the layouts that are asked for; what they hold is left to the caller."""
        return [_operand(self, position) for position in range(len(self.terms))]

    def keywords(self, arrays: Sequence[Any], threads: int) -> dict[str, Any]:
        """The keywords of the call."""
        found: dict[str, Any] = {"semiring": self.semiring, "threads": threads}
        if self.into != "fresh":
            shape = tuple(self.sizes[c] for c in self.out)
            order: Any = self.into if self.into in ("C", "F") else "C"
            found["out"] = np.empty(shape, np.result_type(*arrays), order)
            found["accumulate"] = self.into == "sum"
        if self.into == "scaled":
            found |= {"alpha": 3, "beta": 2, "accumulate": False}
        return found


def _contractions(threads: int) -> Iterator[Entry]:
    for number in range(CONTRACTIONS):
        case = drawn_contraction(number)
        name = f"einsum.{number:03}.{case.text}.{case.dtypes[0]}.{case.semiring}.t{threads}"
        call = partial(_run_contraction, case, threads)
        yield Entry(name, partial(recorded, call), number % 50 == 0)


def drawn_contraction(number: int) -> DrawnContraction:
    """The contraction of a number, whatever the others are."""
    rng = Random(f"contraction {number}")
    terms, out = _matrix_like(rng) if number % 3 else _any_terms(rng)
    semiring = "plus_times" if _chance(rng, 2) else _pick(rng, tuple(SEMIRINGS))
    common = _pick(rng, SEMIRINGS[semiring])
    is_mixed = _chance(rng, 8)
    dtypes = [_pick(rng, SEMIRINGS[semiring]) if is_mixed else common for _ in terms]
    sizes = _sizes(rng, terms, out)
    intos = ("fresh", "fresh", "C", "F", "sum", *(["scaled"] if semiring == "plus_times" else []))
    is_plain = _chance(rng, 2)
    orders = [tuple(range(len(t))) if is_plain else _shuffled(rng, range(len(t))) for t in terms]
    steps = [tuple(1 if is_plain else _pick(rng, STEPS) for _ in t) for t in terms]
    return DrawnContraction(
        terms,
        out,
        sizes,
        semiring,
        tuple(dtypes),
        tuple(orders),
        tuple(steps),
        _pick(rng, intos),
    )


def _matrix_like(rng: Random) -> tuple[tuple[str, ...], str]:
    """Two operands with loops of both kinds and loops that are summed, in any order."""
    letters = iter("abcdefghijklm")
    counts = [_pick(rng, choices) for choices in ((1, 1, 2, 3), (1, 1, 2, 3), (1, 1, 2), (0, 0, 1))]
    i, j, p, batch = ([next(letters) for _ in range(count)] for count in counts)
    terms = [_shuffled(rng, loops) for loops in (batch + i + p, batch + p + j, batch + i + j)]
    left, right, out = map("".join, terms)
    return (left, right), out


def _any_terms(rng: Random) -> tuple[tuple[str, ...], str]:
    """One to three operands of any letters, repeated ones among them."""
    letters = "abcde"[: 2 + _below(rng, 4)]
    count = _pick(rng, (1, 1, 2, 2, 2, 3))
    terms = []
    for _ in range(count):
        term = [_pick(rng, letters) for _ in range(1 + _below(rng, 4))]
        terms.append("".join(term if _chance(rng, 6) else dict.fromkeys(term)))
    used = _shuffled(rng, sorted(set("".join(terms))))
    return tuple(terms), "".join(used[: _below(rng, len(used) + 1)])


def _sizes(rng: Random, terms: Sequence[str], out: str) -> dict[str, int]:
    """Sizes of which no operand gets too many elements."""
    sizes: dict[str, int] = {}
    for letter in _shuffled(rng, sorted(set("".join(terms)))):
        held = [term for term in (*terms, out) if letter in term]
        rest = [int(np.prod([sizes.get(c, 1) for c in term])) for term in held]
        most = max(1, MOST_ELEMENTS // max(rest))
        sizes[letter] = _pick(rng, tuple(size for size in SIZES if size <= most))
    return sizes


def _run_contraction(case: DrawnContraction, threads: int) -> None:
    arrays = case.operands()
    lw.einsum(case.text, *arrays, **case.keywords(arrays, threads))


def _operand(case: DrawnContraction, position: int) -> Any:
    """An array of the layout that is asked for; its elements are never read."""
    term, order, steps = case.terms[position], case.orders[position], case.steps[position]
    extents = [case.sizes[c] * abs(step) for c, step in zip(term, steps, strict=True)]
    memory = np.empty([extents[k] for k in order], case.dtypes[position])
    view = memory.transpose([order.index(k) for k in range(len(term))]) if term else memory
    return view[tuple(slice(None, None, step) for step in steps)]


# Only random() is used: its sequence is the same in every version of Python.
def _below(rng: Random, end: int) -> int:
    return int(rng.random() * end)


def _pick(rng: Random, options: Sequence[T]) -> T:
    return options[_below(rng, len(options))]


def _chance(rng: Random, one_in: int) -> bool:
    return _below(rng, one_in) == 0


def _shuffled(rng: Random, items: Sequence[T]) -> tuple[T, ...]:
    left = list(items)
    return tuple(left.pop(_below(rng, len(left))) for _ in items)


# -- loops of Python and of C ---------------------------------------------------------------------


def _functions(threads: int) -> Iterator[Entry]:
    for number, (function, args) in enumerate(FUNCTIONS):
        reassoc = number % 2 == 0

        def call(f: Any = function, args: Any = args, reassoc: bool = reassoc) -> None:
            lw.jit(reassoc=reassoc, threads=threads)(f)(*args)

        name = f"jit.{function.__name__}.t{threads}"
        yield Entry(name, partial(recorded, call), function.__name__ == "matmul")


def _c_files() -> Iterator[tuple[str, Path]]:
    for kernel in KERNELS.values():
        yield f"kernels.{kernel.name}", kernel.path
    for path in sorted((TESTS / "frontends" / "c_programs").glob("*.c")):
        yield f"c_programs.{path.stem}", path


def _programs(threads: int) -> Iterator[Entry]:
    """Every region of a C file by a plan of the model: as C and as LLVM IR."""
    quick = ("kernels.gemm", "kernels.jacobi-2d")
    for name, path in _c_files():
        yield Entry(f"{name}.t{threads}", partial(_program_stages, path, threads), name in quick)


def _program_stages(path: Path, threads: int) -> Stages:
    # Sums in another order are other plans: one of the two numbers of threads has them.
    programs = lw.parse_c(path, reassoc=threads > 1)
    found = [lw.compile(program, "openmp", threads=threads) for program in programs]
    return {
        "plan": "\n".join(p.plan.dumps() for p in found),
        "loops": "\n".join(p.inspect_loops() for p in found),
        "c": "\n".join(p.inspect_c() for p in found),
        "llvm": "\n".join(p.inspect_llvm() for p in found),
    }


def _calls(threads: int) -> Iterator[Entry]:
    """Every kernel of C as a call compiles it: for the layout of arrays, by contraction kernels."""
    for kernel in KERNELS.values():
        call = partial(_call_kernel, kernel, threads)
        name = f"call.{kernel.name}.t{threads}"
        yield Entry(name, partial(recorded, call), kernel.name in ("gemm", "mvt"))


def _call_kernel(kernel: Kernel, threads: int) -> None:
    defines = dict.fromkeys(SYMBOLIC.defines)
    compiled = lw.compile(kernel.path, threads=threads, reassoc=True, defines=defines)
    compiled[kernel.function](*make_inputs(kernel, kernel.at("MINI")).values())


def _sources() -> Iterator[Entry]:
    """Every C file as the command `cc` rewrites it."""
    for name, path in _c_files():
        yield Entry(f"cc.{name}", partial(_source_stages, path), name == "kernels.gemm")


def _source_stages(path: Path) -> Stages:
    written = BytesIO()
    stream = TextIOWrapper(written, encoding="utf-8")
    with redirect_stdout(stream), redirect_stderr(StringIO()):
        cli.main(["cc", str(path), "-o", "-"])
        stream.flush()
        return {"c": written.getvalue().decode()}


# -- sparse ---------------------------------------------------------------------------------------

FORMATS = ("coo", "csr", "csc", "dia", "ell", "bcsr(2,2)", "sell(4,8)", "hicoo(8)")
PRODUCTS = {"spmv": "ij,j->i", "spmm": "ij,jk->ik"}


def _conversions() -> Iterator[Entry]:
    for source in FORMATS:
        for target in FORMATS:
            if source != target:
                name = f"convert.{source}.{target}"
                quick = (source, target) == ("csr", "ell")
                yield Entry(name, partial(_conversion_stages, source, target), quick)


def _conversion_stages(source: str, target: str) -> Stages:
    """The stages of a conversion for one thread, then those that several threads share."""
    found = lw.sparse.explain(source, target).conversion
    if found is None:
        return {"plan": "none"}
    shared = [s for s in found.chunked_stages if not isinstance(s.chunked, str)]
    codes = [stage.code[0] for stage in found.stages] + [stage.code[0] for stage in shared]
    return {
        "plan": "\n".join(map(str, (*found.stages, *found.chunked_stages))),
        "loops": "\n".join(code.inspect("loops") for code in codes),
        "llvm": "\n".join(code.inspect("llvm") for code in codes),
    }


def _sparse_kernels() -> Iterator[Entry]:
    """Products; their code is the same for any number of threads."""
    for format in FORMATS:
        for name, subscripts in PRODUCTS.items():
            stages = partial(_product_stages, format, subscripts)
            yield Entry(f"sparse.{name}.{format}", stages, format == "csr")


def _product_stages(format: str, subscripts: str) -> Stages:
    rows, columns = np.indices((40, 36))
    dense = np.where((rows * 7 + columns * 3) % 5 == 0, rows - columns + 0.5, 0.0)
    matrix = of_dense(format, dense)
    x = np.zeros((36, 10)[: subscripts.index("-") - subscripts.index(",") - 1])
    kernel = lw.sparse.compile_kernel(subscripts, matrix, x)
    return {stage: kernel.inspect(stage) for stage in ("loops", "llvm")}
