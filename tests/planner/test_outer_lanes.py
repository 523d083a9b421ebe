"""Where outer loops are taken in vectors, and how large the buffers of scalars may be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopwright import machine, parse_c
from loopwright.analysis.size_estimates import likely_sizes
from loopwright.ir.loops import Mark
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.planner.cost.expanded_bytes import BufferShare
from loopwright.planner.generic import default_plan
from loopwright.planner.plan_choice import choose_plan
from loopwright.transform.outer_vectors import OuterVectors
from loopwright.transform.register_promotion import PromoteToRegisters
from loopwright.transform.scalar_expansion import ExpandScalar
from loopwright.transform.tiling import StripMine
from loopwright.transform.unroll_and_jam import UnrollAndJam
from oracle import assert_same

PAIRS = """
void pairs(double x[{n}], double m[{n}], double f[{n}]) {{
#pragma scop
    for (int i = 0; i < {n}; i++) {{
        double s = 0.0;
        for (int j = 0; j < {n}; j++) {{
            double d = x[j] - x[i];
            double w = m[j] / (d * d + 0.5);
            s += d * w;
        }}
        f[i] = s;
    }}
#pragma endscop
}}
"""
COLUMNS = """
void columns(double a[900][900], double x[900], double y[900]) {
#pragma scop
    for (int i = 0; i < 900; i++) {
        double s = 0.0;
        for (int j = 0; j < 900; j++) s += a[i][j] * x[j];
        y[i] = s * 2.0;
    }
#pragma endscop
}
"""

FRAMES = """
void frames(int n, double x[n + 300], double w[{long}], double c[40][{long}], double y[n][40]) {{
#pragma scop
    for (int f = 0; f < n; f++) {{
        double buf[{long}];
        for (int t = 0; t < {long}; t++) buf[t] = x[f + t] * w[t];
        for (int b = 0; b < 40; b++) {{
            double s = 0.0;
            for (int t = 0; t < {long}; t++) s += buf[t] * c[b][t];
            y[f][b] = s;
        }}
    }}
#pragma endscop
}}
"""


def program(text: str) -> Program:
    (found,) = parse_c(text)
    return found


@pytest.mark.parametrize("name", ["neoverse-n1", "skylake-avx512"])
def test_sums_of_pairs_run_beside_each_other(name: str) -> None:
    """The sum over j keeps its order: vectors lie along i, and no scalar goes to memory."""
    host = machine(name)
    plan, _ = default_plan(program(PAIRS.format(n=3000)), host)
    (step,) = (step for step in plan if isinstance(step, OuterVectors))
    assert step.loop == "i"
    assert step.lanes == host.lanes(64)
    assert not any(isinstance(step, ExpandScalar) for step in plan)


def test_short_loops_stay() -> None:
    plan, _ = default_plan(program(PAIRS.format(n=16)), machine("neoverse-n1"))
    assert not any(isinstance(step, OuterVectors) for step in plan)


def test_lanes_in_different_rows_stay() -> None:
    plan, _ = default_plan(program(COLUMNS), machine("neoverse-n1"))
    assert not any(isinstance(step, OuterVectors) for step in plan)


TAPS = """
void taps(unsigned char img[8][402][402], int tap[8][5][5], unsigned char out[400][400]) {
#pragma scop
    for (int y = 0; y < 400; y++)
        for (int x = 0; x < 398; x++) {
            int sum = 128;
            for (int c = 0; c < 8; c++)
                for (int a = 0; a < 3; a++)
                    for (int b = 0; b < 5; b++) sum += tap[c][a][b] * img[c][y + a][x + b];
            out[y][x] = sum < 0 ? 0 : sum > 255 ? 255 : sum;
        }
#pragma endscop
}
"""
BEST = """
void best(int n, int gain[n], int before[n], int after[n]) {
#pragma scop
    for (int c = 0; c < n; c++) {
        int most = -1000000;
        for (int h = 0; h <= c; h++) {
            int v = before[c - h] + gain[h];
            most = v > most ? v : most;
        }
        after[c] = most;
    }
#pragma endscop
}
"""


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", ["neoverse-n1", "skylake-avx512"])
@pytest.mark.parametrize(("text", "loop", "bits"), [(TAPS, "x", 8), (BEST, "c", 32)])
def test_integers_are_lanes_too(text: str, loop: str, bits: int, name: str) -> None:
    """One vector of all lanes: the narrowest elements fill a register, of 256 bits at most."""
    host = machine(name)
    plan, _ = default_plan(program(text), host, text=True)
    (step,) = (step for step in plan if isinstance(step, OuterVectors))
    assert (step.loop, step.copies) == (loop, 1)
    assert step.lanes % (min(256, 8 * host.vector_bytes) // bits) == 0


LAGS = """
void lags(int n, int most, double x[n], double r[most]) {
#pragma scop
    for (int l = 0; l < most; l++) {
        double s = 0.0;
        for (int i = 0; i < n - l; i++) s += x[i] * x[i + l];
        r[l] = s;
    }
#pragma endscop
}
"""
SECTIONS = """
void sections(int rows, int n, double c[4][4], double x[rows][n], double y[rows][n]) {
#pragma scop
    for (int r = 0; r < rows; r++) {
        double s[4];
        for (int k = 0; k < 4; k++) s[k] = 0.0;
        for (int i = 0; i < n; i++) {
            double v = x[r][i];
            for (int k = 0; k < 4; k++) {
                double w = c[k][0] * v + s[k];
                s[k] = c[k][1] * v - c[k][2] * w + c[k][3] * s[k];
                v = w;
            }
            y[r][i] = v;
        }
    }
#pragma endscop
}
"""


@pytest.mark.parametrize("last", ["r[l] = s;", "r[l] = s / (2.0 * (n - l));"])
def test_sums_of_ranges_run_beside_each_other(last: str) -> None:
    """Numbers of iterations become floating ones in lanes."""
    text = LAGS.replace("r[l] = s;", last)
    plan, _ = default_plan(program(text), machine("neoverse-n1"))
    (step,) = (step for step in plan if isinstance(step, OuterVectors))
    assert step.loop == "l"


FULL = """
#define max(a, b) ((a) > (b) ? (a) : (b))
#define min(a, b) ((a) < (b) ? (a) : (b))
void full(int n, int m, float x[{n}][{n}], float h[{m}][{m}], float y[{y}][{y}]) {{
#pragma scop
    for (int i = 0; i < {n} + {m} - 1; i++)
        for (int j = 0; j < {n} + {m} - 1; j++) {{
            {first}
            for (int u = max(0, i - {m} + 1); u <= min(i, {n} - 1); u++)
                for (int v = max(0, j - {m} + 1); v <= min(j, {n} - 1); v++)
                    {sum} += x[u][v] * h[i - u][j - v];
            {last}
        }}
#pragma endscop
}}
"""
SCALAR = {"first": "float s = 0;", "sum": "s", "last": "y[i][j] = s;"}
ELEMENT = {"first": "y[i][j] = 0;", "sum": "y[i][j]", "last": ""}


SHORT: dict[str, object] = {"n": 700, "m": 9, "y": 708}
UNKNOWN: dict[str, object] = {"n": "n", "m": "m", "y": "n + m - 1"}


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("sizes", "spelling"), [(SHORT, SCALAR), (SHORT, ELEMENT), (UNKNOWN, SCALAR)]
)
def test_windows_are_alike_in_all_lanes(sizes: dict[str, object], spelling: dict[str, str]) -> None:
    """Sums over a short window that moves along differ at the borders only."""
    plan, _ = default_plan(program(FULL.format(**sizes, **spelling)), machine("neoverse-n1"))
    (step,) = (step for step in plan if isinstance(step, OuterVectors))
    assert (step.loop, step.lanes) == ("j", 4)
    assert not any(isinstance(step, PromoteToRegisters) for step in plan)


def test_short_triangles_have_too_many_ends() -> None:
    text = LAGS.replace("n - l", "40 - l")
    plan, _ = default_plan(program(text), machine("neoverse-n1"))
    assert not any(isinstance(step, OuterVectors) for step in plan)


def test_the_least_of_two_sizes_bounds_one_of_them() -> None:
    """Taps of nine: rows are as long as those that are written."""
    (found,) = parse_c("""
        void f(int n, int m, double h[9], double x[500], double y[508]) {
        #pragma scop
            for (int i = 0; i < n; i++) {
                y[i] = 0;
                for (int k = 0; k < m; k++) if (k <= i) y[i] += h[k] * x[i - k];
            }
        #pragma endscop
        }
    """)
    assert likely_sizes(found) == {"n": 508, "m": 9}


NINE = """
void nine(double x[600][700], double h[9][9], double y[608][708]) {
#pragma scop
    for (int i = 0; i < 600; i++)
        for (int j = 0; j < 700; j++)
            for (int u = 0; u < 9; u++)
                for (int v = 0; v < 9; v++)
                    y[i + u][j + v] += x[i][j] * h[u][v];
#pragma endscop
}
"""


def test_loops_that_compilers_write_out_are_not_cut() -> None:
    plan, _ = default_plan(program(NINE), machine("neoverse-n1"))
    assert not any(isinstance(step, UnrollAndJam) for step in plan)


def test_small_arrays_of_lanes_are_registers() -> None:
    """Much is computed for each element from another row; loops along small arrays are copies."""
    plan, schedule = default_plan(program(SECTIONS), machine("neoverse-n1"))
    (step,) = (step for step in plan if isinstance(step, OuterVectors))
    assert step.loop == "r"
    assert {schedule.mark(loop) for loop in ("k", "k_1")} == {Mark.UNROLL}


def test_buffers_take_a_quarter_of_a_cache() -> None:
    host = machine("neoverse-n1")
    share = BufferShare(program(PAIRS.format(n=3000)), host)
    assert share.bytes_of("d", ("i", "j")) == 8 * 3000 * 3000
    assert share.has_room({"d": ("j",), "w": ("j",)})
    assert not share.has_room({"d": ("i", "j")})
    assert share.inner_loops({"d": ("i", "j"), "s": ("i",)}) == {"d": ("j",), "s": ("i",)}
    large = BufferShare(program(PAIRS.format(n=1_000_000)), host)
    assert large.inner_loops({"d": ("i", "j")}) == {}


POWERS = """
void powers(double x[4000][{m}], double w[4000], double sums[5][{m}]) {{
#pragma scop
    for (int i = 0; i < 4000; i++)
        for (int j = 0; j < {m}; j++) {{
            double power = w[i];
            for (int p = 0; p < 5; p++) {{
                sums[p][j] += power;
                power *= x[i][j];
            }}
        }}
#pragma endscop
}}
"""


@pytest.mark.parametrize(("columns", "size"), [(2400, 1200), (600, 0)])
def test_strips_of_lanes_go_around_the_sum_for_threads(columns: int, size: int) -> None:
    """Sums keep their order along i, so that threads share columns, where rows are long enough."""
    host = replace(machine("neoverse-n1"), cores=2)
    plan, schedule = default_plan(program(POWERS.format(m=columns)), host, parallel=True)
    (vectors,) = (step for step in plan if isinstance(step, OuterVectors))
    strips = [step for step in plan if isinstance(step, StripMine)]
    assert [step.size for step in strips] == ([size] if size else [])
    if strips:
        assert schedule.mark(f"{vectors.loop}_t") is Mark.PARALLEL


@pytest.mark.drawn(2)
@pytest.mark.parametrize("length", [64, 128, 256])
@pytest.mark.parametrize("name", ["neoverse-n1", "sapphirerapids"])
def test_local_arrays_of_lanes_have_room(name: str, length: int) -> None:
    """A local array becomes one of vectors: as many copies are taken as it has room for."""
    given = program(FRAMES.format(long=length))
    plan, schedule = default_plan(given, machine(name))
    taken = [step for step in plan if isinstance(step, OuterVectors)]
    assert len(taken) == (length * 8 * machine(name).lanes(64) <= 1 << 14)
    text = stmt_text(lower_schedule(schedule).body)
    assert all(f"vector for {step.loop}_v" in text for step in taken)


KNAPSACKS = """
void knapsacks(int n, int m, {type} gain[n][m], {type} total[n][m]) {{
#pragma scop
    for (int p = 1; p < n; p++)
        for (int c = 0; c < m; c++) {{
            {type} best = {least};
            for (int h = 0; h <= c; h++) {{
                {type} v = total[p - 1][c - h] + gain[p][h];
                best = v > best ? v : best;
            }}
            total[p][c] = best;
        }}
#pragma endscop
}}
"""


@pytest.mark.drawn(8)
@pytest.mark.parametrize(("dtype", "least"), [("int", "-2147483647"), ("double", "-1.0e300")])
@pytest.mark.parametrize("name", ["neoverse-n1", "sapphirerapids"])
def test_threads_share_lanes_whose_strips_need_each_other(
    name: str, dtype: str, least: str
) -> None:
    """Strips of c may go around p, one behind the other: threads get blocks of lanes inside."""
    host = replace(machine(name), cores=2)
    given = program(KNAPSACKS.format(type=dtype, least=least))
    chosen = choose_plan(given, host, 2, text=True)
    (vectors,) = (step for step in chosen.plan if isinstance(step, OuterVectors))
    assert chosen.schedule.mark(vectors.loop) is Mark.PARALLEL
    nest = lower_schedule(chosen.schedule)
    for n, m, threads in ((0, 5, 2), (2, 1, 2), (3, 67, 2), (2, 131, 3)):
        assert_same(given, nest, {"n": n, "m": m}, threads=threads)
