"""Plans are weighed against the source order, and taken where they are clearly faster."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import loopwright as lw
from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.machines.load import load_machine
from loopwright.planner import plan_choice
from loopwright.planner.cost.schedule_cost import schedule_seconds
from loopwright.planner.plan_choice import ALONE, MARKED, PLANNED, SOURCE, choose_plan
from loopwright.planner.planners import model_planner
from loopwright.planner.source_order import source_order
from loopwright.transform.loop_marks import Parallel, Simd, Unroll
from loopwright.transform.plan import apply_plan
from loopwright.transform.scalar_expansion import ExpandScalar
from loopwright.transform.unroll_and_jam import UnrollAndJam

N1 = load_machine("neoverse-n1")
SAPPHIRE = load_machine("sapphirerapids")

PRODUCT = """
void f(double a[400][400], double b[400][400], double c[400][400]) {
#pragma scop
  for (int i = 0; i < 400; i++)
    for (int j = 0; j < 400; j++)
      for (int k = 0; k < 400; k++)
        c[i][j] += a[i][k] * b[k][j];
#pragma endscop
}
"""
# Copies of rows that are not next to the diagonal would each have to ask whether they are.
ELIMINATION = """
void f(double a[500][500]) {
  double factor;
#pragma scop
  for (int k = 0; k < 500; k++)
    for (int i = 0; i < 500; i++)
      if (i != k) {
        factor = a[i][k];
        a[i][k] = 0.0;
        for (int j = 0; j < 500; j++)
          a[i][j] -= factor * a[k][j];
      }
#pragma endscop
}
"""
COPY = """
void f(double a[900], double b[900]) {
#pragma scop
  for (int i = 0; i < 900; i++)
    a[i] = 2.0 * b[i];
#pragma endscop
}
"""


def program(text: str) -> Program:
    (found,) = lw.parse_c(text)
    return found


def test_a_product_is_taken_out() -> None:
    chosen = choose_plan(program(PRODUCT), N1, 1)
    assert chosen.taken == PLANNED
    seconds = dict(chosen.seconds)
    assert seconds[PLANNED] < 0.5 * seconds[SOURCE]
    assert "is taken" in str(chosen)


@pytest.mark.parametrize("threads", [1, 2])
def test_guarded_copies_lose(threads: int) -> None:
    chosen = choose_plan(program(ELIMINATION), N1, threads)
    assert not any(isinstance(step, UnrollAndJam) for step in chosen.plan)


def test_marks_are_not_weighed() -> None:
    chosen = choose_plan(program(COPY), N1, 1)
    assert chosen.seconds == ()
    assert "nothing was weighed" in str(chosen)


@pytest.mark.parametrize(
    ("plan", "marks", "taken"),
    [
        (0.94, 2.0, PLANNED),
        (0.96, 2.0, SOURCE),
        (0.96, 1.0, MARKED),
        (math.nan, 2.0, PLANNED),
    ],
)
def test_the_rule(plan: float, marks: float, taken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds(schedule: Schedule, *_: object, **__: object) -> float:
        if schedule.contractions:
            return plan
        return marks if schedule.mark("k") is Mark.UNROLL else 1.0

    def written_out(schedule: Schedule, *_: object, **__: object) -> tuple[Unroll, ...]:
        return (Unroll("k", 4),)

    monkeypatch.setattr(plan_choice, "schedule_seconds", seconds)
    monkeypatch.setattr(plan_choice, "extend_plan", written_out)
    assert choose_plan(program(PRODUCT), N1, 1).taken == taken


def test_the_model_takes_what_is_chosen() -> None:
    for text in (PRODUCT, ELIMINATION, COPY):
        assert model_planner(program(text), N1, 1)[0] == choose_plan(program(text), N1, 1).plan


def test_the_source_order_is_priced_like_any_other() -> None:
    source = program(PRODUCT)
    _, written = source_order(source, N1, 1)
    seconds = schedule_seconds(written, N1, {})
    # 64 million steps of a sum, two cycles apart.
    assert 0.4 * 128e6 / 2.5e9 < seconds < 6 * 128e6 / 2.5e9


def test_an_order_that_leaves_threads_nothing_gives_way_to_waves() -> None:
    """Rows of a recurrence side by side are faster on one thread, tiles in waves on several."""
    source = b"""
    void f(int n, int m, unsigned char wall[n][m], unsigned ways[n][m]) {
    #pragma scop
      for (int i = 1; i < n; i++) {
        ways[i][0] = wall[i][0] ? 0 : ways[i - 1][0];
        for (int j = 1; j < m; j++)
          ways[i][j] = wall[i][j] ? 0 : ways[i - 1][j] + ways[i][j - 1] + ways[i - 1][j - 1];
      }
    #pragma endscop
    }
    """
    (program,) = lw.parse_c(source)
    chosen = choose_plan(program, replace(N1, cores=2), 2, text=True)
    assert any(isinstance(step, Parallel) for step in chosen.plan)


def test_short_loops_written_out_need_no_other_order() -> None:
    """Products of small matrices: rows in registers, not sums in memory."""
    source = b"""
    void f(int n, double a[n][8][8], double b[n][8][8], double c[n][8][8]) {
    #pragma scop
      for (int p = 0; p < n; p++)
        for (int i = 0; i < 8; i++)
          for (int j = 0; j < 8; j++) {
            double s = 0;
            for (int k = 0; k < 8; k++)
              s += a[p][i][k] * b[p][k][j];
            c[p][i][j] = s;
          }
    #pragma endscop
    }
    """
    (program,) = lw.parse_c(source)
    chosen = choose_plan(program, N1, 1)
    assert chosen.taken == MARKED
    assert Unroll("k", 8) in chosen.plan
    seconds = dict(chosen.seconds)
    assert seconds[MARKED] < seconds[PLANNED] < seconds[SOURCE]


@pytest.mark.parametrize(
    ("guessed", "long_rows", "many_rows", "taken"),
    [
        (0.99, 0.8, 1.0, PLANNED),  # 0.89 in the mean of the other shapes
        (0.99, 0.97, 0.97, SOURCE),
        (0.99, 0.5, 1.01, SOURCE),  # slower at one
        (1.01, 0.5, 0.5, SOURCE),  # slower at the guess
    ],
)
def test_other_shapes_than_the_guessed_one(
    guessed: float,
    long_rows: float,
    many_rows: float,
    taken: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = program(
        """void f(int n, int m, double z[n][m], double x[m], double y[m]) {
#pragma scop
  for (int t = 0; t < n; t++)
    for (int p = 0; p < m; p++) { x[p] *= 1.0 + z[t][p]; y[p] += x[p]; }
#pragma endscop
}"""
    )

    def seconds(
        schedule: Schedule, _: Machine, sizes: dict[str, int], *__: object, **___: object
    ) -> float:
        if not schedule.factors:
            return 1.0
        n, m = sizes["n"], sizes["m"]
        return guessed if n == m else long_rows if n < m else many_rows

    monkeypatch.setattr(plan_choice, "schedule_seconds", seconds)
    monkeypatch.setattr(plan_choice, "extend_plan", lambda *_, **__: (Simd("p"),))
    chosen = choose_plan(source, N1, 1)
    assert (chosen.taken == PLANNED) == (taken == PLANNED)


LAGS = """void lags(int h, int w, int most, {type} z[h][w], {type} north[most]) {{
#pragma scop
  for (int l = 0; l < most; l++) {{
    {type} v = 0;
    for (int i = 0; i < h - l; i++)
      for (int j = 0; j < w; j++) {{
        {type} d = z[i + l][j] - z[i][j];
        v += d * d;
      }}
    north[l] = v / w;
  }}
#pragma endscop
}}
"""


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("name", ["skylake-avx512", "neoverse-n1"])
def test_what_a_sum_in_order_gathers_stays_beside_it(name: str, kind: str) -> None:
    """gcc computes it in vectors either way: apart from its sum it only goes through memory."""
    (program,) = lw.parse_c(LAGS.format(type=kind))
    chosen = choose_plan(program, load_machine(name), 1, text=True)
    assert not any(isinstance(step, ExpandScalar) for step in chosen.plan)


def test_plans_for_one_thread_have_the_steps_that_change_the_program() -> None:
    """A plan for threads that is declined leaves nothing behind in the plan for one thread."""
    (source,) = lw.parse_c("""
        void table(int n, double x[n][n], double w[n][n]) {
        #pragma scop
            for (int l = 1; l < n; l++)
                for (int i = 0; i < n - l; i++) {
                    int j = i + l;
                    double best = 1e300;
                    for (int k = i; k < j; k++) {
                        double cost = x[i][k] + x[k + 1][j];
                        if (cost < best) best = cost;
                    }
                    x[i][j] = best + w[i][j];
                }
        #pragma endscop
        }
    """)
    alone, both = (choose_plan(source, SAPPHIRE, threads) for threads in (1, 2))
    assert both.taken == ALONE
    assert both.plan == alone.plan
    assert str(apply_plan(source, both.plan)) == str(both.schedule)
