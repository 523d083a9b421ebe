"""Products inside programs in C beside NumPy's equal products, sums in the order of the source.

`cc` is the C text that `loopwright cc` writes, compiled by the system's compiler; `jit` is
`lw.compile`. The equal products are those that a program computes, on matrices of the same sizes:
without its initial values, epilogues and softmax, whose time counts as ours.
"""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import loopwright as lw
from benchmarks.corpus_kernels import link, rewrite
from benchmarks.measure import Bar, Outcome, Setting, Table, check_close, geometric_mean, race
from loopwright.runtime.toolchain import find_compiler, tuning_flags

__all__ = ["run"]

Arrays = list["np.ndarray[Any, Any]"]
FOUR = """for (int p = 0; p < n; p++)
  for (int q = 0; q < n; q++)
    for (int r = 0; r < n; r++)
      for (int s = 0; s < n; s++) {{
        {out}[p][q][r][s] = 0;
        for (int a = 0; a < n; a++)
          {out}[p][q][r][s] += C[a][{new}] * {read};
      }}
"""
SCORES = """for (int h = 0; h < H; h++)
  for (int i = 0; i < N; i++) {{
    for (int j = 0; j < N; j++) {{
      double s = 0;
      for (int d = 0; d < D; d++) s += Q[h][i][d] * K[h][j][d];
      S[h][i][j] = s * 0.125;
    }}
    {softmax}
    for (int d = 0; d < D; d++) {{
      double o = 0;
      for (int j = 0; j < N; j++) o += S[h][i][j] * V[h][j][d];
      O[h][i][d] = o{divided};
    }}
  }}
"""
SOFTMAX = """double m = S[h][i][0], z = 0;
    for (int j = 1; j < N; j++) m = S[h][i][j] > m ? S[h][i][j] : m;
    for (int j = 0; j < N; j++) { S[h][i][j] = exp(S[h][i][j] - m); z += S[h][i][j]; }"""
LAYER = """for (int b = 0; b < B; b++)
  for (int o = 0; o < M; o++)
    for (int y = 0; y < H; y++)
      for (int x = 0; x < H; x++) {
        float s = bias[o];
        for (int c = 0; c < K; c++) s += W[o][c] * A[b][c][y][x];
        O[b][o][y][x] = s > 0 ? s : 0;
      }
"""
BATCHED = """for (int b = 0; b < B; b++)
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      O[b][i][j] = 0;
      for (int p = 0; p < N; p++) O[b][i][j] += A[b][i][p] * W[b][p][j];
    }
"""


@dataclass(frozen=True)
class _Program:
    """A region in C, its arguments in order, and the equal products."""

    sizes: dict[str, int]
    arrays: dict[str, str]  # name -> extents, by names of sizes
    body: str
    equal: Callable[..., Any]  # of the arrays; returns a result that some array has afterwards
    result: str
    terms: int
    dtype: str = "double"
    is_equal: bool = True  # else there is more to the result than the products

    def text(self) -> str:
        sizes = [f"int {name}" for name in self.sizes]
        arrays = [
            f"{self.dtype} {name}[restrict {']['.join(extents.split())}]"
            for name, extents in self.arrays.items()
        ]
        head = f"#include <math.h>\nvoid program({', '.join([*sizes, *arrays])})\n"
        return f"{head}{{\n#pragma scop\n{self.body}#pragma endscop\n}}\n"

    def inputs(self, seed: int) -> Arrays:
        numbers = np.random.default_rng(seed)
        dtype = np.float64 if self.dtype == "double" else np.float32
        shapes = [[self.sizes[x] for x in extents.split()] for extents in self.arrays.values()]
        return [numbers.random(shape).astype(dtype) for shape in shapes]


def _four_index(eri: Any, c: Any, *_: Any) -> Any:
    n = len(c)
    first = c.T @ eri.reshape(n, -1)
    second = np.matmul(c.T, first.reshape(n, n, -1))
    third = np.matmul(c.T, second.reshape(n * n, n, n))
    return (third.reshape(-1, n) @ c).reshape(eri.shape)


def _attention(q: Any, k: Any, v: Any, *_: Any) -> Any:
    return np.matmul(np.matmul(q, k.transpose(0, 2, 1)), v) * 0.125


STEPS = (
    ("t1", "p", "eri[a][q][r][s]"),
    ("t2", "q", "t1[p][a][r][s]"),
    ("t1", "r", "t2[p][q][a][s]"),
    ("t2", "s", "t1[p][q][r][a]"),
)
HEADS = {"Q": "H N D", "K": "H N D", "V": "H N D", "S": "H N N", "O": "H N D"}
PROGRAMS = {
    "four-index transform": _Program(
        {"n": 40},
        {"eri": "n n n n", "C": "n n", "t1": "n n n n", "t2": "n n n n"},
        "".join(FOUR.format(out=out, new=new, read=read) for out, new, read in STEPS),
        _four_index,
        "t2",
        40**4,
    ),
    "attention, its products": _Program(
        {"H": 8, "N": 512, "D": 64},
        HEADS,
        SCORES.format(softmax="", divided=""),
        _attention,
        "O",
        512 * 64,
    ),
    "attention": _Program(
        {"H": 8, "N": 512, "D": 64},
        HEADS,
        SCORES.format(softmax=SOFTMAX, divided=" / z"),
        _attention,
        "O",
        512 * 64,
        is_equal=False,
    ),
    "pointwise convolution": _Program(
        {"B": 2, "M": 64, "K": 64, "H": 56},
        {"A": "B K H H", "W": "M K", "bias": "M", "O": "B M H H"},
        LAYER,
        lambda a, w, *_: np.matmul(w, a.reshape(len(a), len(w), -1)),
        "O",
        64,
        "float",
        is_equal=False,
    ),
    "batched product": _Program(
        {"B": 16, "N": 100},
        {"A": "B N N", "W": "B N N", "O": "B N N"},
        BATCHED,
        lambda a, w, *_: np.matmul(a, w),
        "O",
        100,
    ),
}
QUICK = ("four-index transform", "batched product")


def run(setting: Setting) -> Outcome:
    """Race every program, as text and as machine code, beside the equal products."""
    lw.set_num_threads(setting.threads)
    table = Table((("program", "24s"), ("equal ms", "8.2f"), ("cc", "6.3f"), ("jit", "6.3f")))
    print(table.head(), flush=True)
    rows: list[dict[str, Any]] = []
    for name in QUICK if setting.quick else PROGRAMS:
        times = _times(PROGRAMS[name], setting)
        speed = {x: times["equal"] / times[x] for x in ("cc", "jit")}
        rows.append({"program": name, "seconds": times, "speed": speed})
        print(table.row(name, 1e3 * times["equal"], speed["cc"], speed["jit"]), flush=True)
    bars = []
    for way in ("cc", "jit"):
        speeds = [row["speed"][way] for row in rows]
        bars.append(Bar(f"{way}, speed of the equal products, worst", min(speeds), 0.7))
        bars.append(Bar(f"{way}, geometric mean", geometric_mean(speeds), 0.7))
    return Outcome(tuple(rows), tuple(bars))


def _times(program: _Program, setting: Setting) -> dict[str, float]:
    """Seconds of a call by each way; results are compared first."""
    arrays = program.inputs(setting.seed)
    ways = {"cc": _by_text(program), "jit": lw.compile(program.text())}
    if program.is_equal:
        right = program.equal(*program.inputs(setting.seed))
        for call in ways.values():
            given = program.inputs(setting.seed)
            call(*program.sizes.values(), *given)
            check_close(given[list(program.arrays).index(program.result)], right, program.terms)
    runs = {name: partial(call, *program.sizes.values(), *arrays) for name, call in ways.items()}
    runs["equal"] = partial(program.equal, *arrays)
    return {name: found.best for name, found in race(runs, setting).items()}


def _by_text(program: _Program) -> Callable[..., Any]:
    """The program as the C text of `loopwright cc`."""
    compiler = find_compiler()
    flags = tuning_flags(compiler, openmp=True)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "program.c")
        source.write_text(program.text(), encoding="utf-8")
        library = link((*compiler.command, *flags), [rewrite(source, target="c", reassoc=False)])

    def call(*values: Any) -> None:
        library.program(
            *(
                ctypes.c_void_p(x.ctypes.data) if isinstance(x, np.ndarray) else ctypes.c_int(x)
                for x in values
            )
        )

    return call
