"""What is planned for each program of the corpus, and that every plan keeps its meaning.

A line of FACTS is a program with its sizes, a machine with its threads (`text`: for C text;
`chosen`: weighed against other plans), and what holds of the plan: steps by kind, loops and
numbers; `kind*2` stands exactly so often, `!kind` nowhere, `@the plan` is what was taken. Of lines
that begin with `~`, which take long, a run draws some.
"""

from __future__ import annotations

import re
from functools import cache, partial

import pytest

from loopwright.diagnostics import IllegalStep
from loopwright.ir.loops import LoopNest
from loopwright.lower.passes import lower_schedule
from loopwright.transform.plan import Plan, apply_plan, initial_schedule
from loopwright.transform.step import Step
from loopwright.validate.check_data import Runner, check_data, compare_numbers
from loopwright.validate.problem_sizes import large_sizes, pick_sizes
from loopwright.validate.reference_run import Signs, run_reference
from loopwright.validate.runners import c_runners, jit_runner
from needed_tools import needs_compiler
from oracle import run_nest
from planner.corpus import NAMES, Planned, planned, program_named

FACTS = """
rows | n1 | !parallel; simd j
rows | n1 2 | parallel i; !share_from
running_products | n1 | unroll_and_jam i 4; simd j
map | n1 2 | strip_mine i 8; parallel_chunks i_t parts=4
two_widths n=200 | n1 2 | strip_mine i 8
two_widths n=200 T=int | n1 2 | strip_mine i 16
two_widths n=5000 T=char | n1 2 | strip_mine i 64
two_widths n=200 T=char | n1 2 | strip_mine i 8
own_scalar | n1 2 | privatize s i; parallel i
columns | n1 2 | strip_mine j 8; interchange j_t; parallel_chunks j_t; !partial_sums
columns reassoc | n1 2 | parallel_chunks j_t; !partial_sums
both_sums T=long | n1 2 | partial_sums S1 i; parallel; !reschedule
scaled_column n=2000 | n1 2 | parallel_chunks i_t
scaled_row n=2000 | n1 2 | !parallel_chunks; !parallel
sums_inside T=long | n1 2 | partial_sums S0 i; parallel_chunks l_t; share_from k
corner T=long | n1 2 | tile; reschedule; parallel
grid T=long | n1 2 chosen | distribute i; tile i_2 j 32 480; parallel i_2_t; @its marks alone
intervals | n1 | reschedule; simd j
intervals | spr 2 chosen | reschedule; !parallel
short_copy m=3000 | n1 2 | parallel_chunks j_t
few_planes | n1 2 | parallel i; !privatize; share_from c
shared_scalar | n1 2 | split_live_ranges x; parallel i; parallel k
scan | n1 2 | !parallel; !tile; !simd
along | n1 2 | fuse j_t m_t; parallel_chunks j_t
short_inside | n1 2 | !parallel; !parallel_chunks
counts | n1 2 | expand_scalar d; parallel
few_sweeps | n1 2 | parallel i
parted_sum | n1 2 | expand_scalar x; distribute_statements; parallel i_t
gaps | n1 2 | !expand_scalar
there_and_back | n1 2 | parallel_chunks i_t; share_from t
there_and_back n=4096 | n1 2 | !share_from
there_and_back | n1 | skew; !share_from
moments points=60000 n=48 | clx 2 | interchange b_t_t g_t; parallel_chunks b_t_t
moments points=20 n=48 | clx 2 | parallel b_t; !strip_mine
descent | spr 2 text chosen | strip_mine i_t 4096; distribute_statements i_t; strip_mine j_2 64
longest | spr 2 text chosen | distribute_statements i; !strip_mine
scatter | n1 2 | parallel p_t
scatter_back | n1 2 | parallel p_t
scatter_apart | n1 2 | parallel p_t
scatter m=4 | n1 2 | !parallel
scatter m=5 T=int | n1 2 | !partial_sums
spread | n1 2 | parallel p_t
spread m=7 | n1 2 | parallel p_t
column_squares m=5 | n1 2 | partial_sums S0 i
relax T=long | n1 chosen | split_index_set v u 0; split_index_set v_2 u 1; simd v; simd v_2_2
relax T=long | n1 2 chosen | split_index_set; @the plan for one thread
routes T=float | n1 chosen | expand_scalar mask j; split_index_set j k 0
~ routes T=float | n1 2 chosen | split_index_set i k 0; parallel i; parallel i_2_2
chained_rows | n1 2 | !split_index_set
partitions T=int | spr chosen | split_by_distance s 32; simd s
partitions T=int | spr text chosen | !split_by_distance
lagged | spr chosen | split_by_distance s 32; simd s
lagged | spr 2 chosen | split_by_distance s 32
lagged_back T=int | spr chosen | split_by_distance s; expand_scalar x s
lagged_both | spr chosen | split_by_distance s
skipped T=float | n1 chosen | !unroll_and_jam
elimination n=500 | n1 chosen | !unroll_and_jam
elimination n=500 | n1 2 chosen | !unroll_and_jam; parallel i
copy_columns T=float | n1 | reschedule; simd j
lengths T=float | n1 | expand_scalar c; reschedule; simd d; privatize c d
~ lengths T=int | n1 2 | tile i d 32 64; parallel i_t
best_split T=long | n1 | expand_scalar t j; reschedule; tile j u 64 64
best_split T=long | n1 2 | tile j u 32 32; parallel j_t
split_beside T=long | n1 | tile j u
split_in_order T=long | n1 | !reschedule
mirrored T=long | n1 | simd j
~ folded_by_lengths | spr | gather_in_place best; walk_rows l i; split_update S0; update_last
~ folded_by_rows | clx | gather_in_place best; split_update S0; update_last; !walk_rows
~ asked_by_lengths | spr | walk_rows l i; exchange_terms S0; update_last S1
asked_by_rows | clx | gather_in_place best; exchange_terms S0; update_last S1
~ weighted_by_lengths | spr | walk_rows l i; split_update S0
named_by_lengths | spr | walk_rows l i; !update_last
~ named_by_lengths | spr 2 chosen | walk_rows; @the plan for one thread
stored_by_rows | n1 | expand_scalar cost k; simd j
no_table | clx | !gather_in_place; !walk_rows; contract i_2 j_2 k
waiting_row | clx | !gather_in_place; !reschedule
align n=2000 | n1 chosen | diagonals i j rows=64 columns=64
align n=2000 | n1 2 chosen | tile i j 64 256; parallel i_t; diagonals i; privatize best
align_beside_border n=2000 | n1 chosen | distribute i; diagonals i_2
align n=100 | n1 chosen | !diagonals
short_chain n=2000 | n1 chosen | !diagonals
from_above n=2000 | n1 chosen | !diagonals; simd j
prices n=3000 | clx 2 chosen | tile i j; parallel i_t; @the plan
ways | spr 2 text chosen | tile i_2 j 32; parallel i_2_t; unroll_and_jam i_2 4
ways | spr 2 chosen | tile i_2 j 32; parallel i_2_t; !unroll_and_jam
chains | spr 2 text chosen | tile i_2 j 32; parallel i_2_t; unroll_and_jam i_2 4
ranks | spr 2 text chosen | tile; parallel i_t; !unroll_and_jam
ranks | spr 2 chosen | tile; parallel i_t; !unroll_and_jam
ranks n=100 | clx 2 chosen | !parallel; @the plan for one thread
ranks n=12000 | clx 2 chosen | parallel i_t; @its marks alone
~ upwind n=1700 T=float | clx 2 chosen | skew t; tile t_w t 4 2; parallel; @the plan
upwind n=1700 T=float | clx text chosen | skew t; privatize up; !parallel
upwind n=200 T=float | clx 2 | !skew; parallel i
fluxes n=900 | n1 | skew t; privatize u
~ fluxes n=900 | n1 2 | skew t block=16; parallel
~ jacobi | clx 2 | skew t width=2; tile t_w t 8 2; parallel
jacobi n=300 | n1 | skew t width=2; align j
in_place | clx 2 | skew t width=1; parallel
edges | clx 2 | fuse z_t j_t; fuse z_t l_t; parallel_chunks z_t
option | clx 2 | skew t width=512; tile t_w t 4096 8; parallel; share_from
lattice | clx | expand_scalar held; expand_scalar now; skew*1; !parallel
~ lattice | clx 2 | skew*1; parallel t_t_2; share_from
put | clx | expand_scalar held; skew*1; !parallel
~ put | clx 2 | skew*1; parallel t_t_2; share_from
lattice_in_order | clx | !skew
lattice_in_order | clx 2 | !skew; !parallel
cubes n=160 | clx 2 | !skew; parallel i; parallel i_1
elements | n1 2 | !skew
blur | spr | reschedule; simd j; simd x
blur | spr 2 | !reschedule; parallel i; parallel y
blur | n1 | !reschedule
blur n=100 m=100 | spr | !reschedule
half | spr | reschedule
between | spr | reschedule; simd k
backwards | spr | !reschedule
maxwell n=128 T=float | n1 | distribute k; distribute k_1; skew t width=1
maxwell n=120 T=float | n1 | !distribute; skew t
running_rows n=4000 | n1 | unroll_and_jam i 2
running_rows n=400 | n1 | unroll_and_jam i 4
lines | n1 text chosen | !unroll_and_jam
pairs n=3000 | n1 | outer_vectors i lanes=2; !expand_scalar
pairs n=3000 | skx | outer_vectors i lanes=8; !expand_scalar
pairs n=16 | n1 | !outer_vectors
row_products n=900 | n1 | !outer_vectors; unroll_and_jam i 4
taps n=400 m=398 | n1 text | outer_vectors x lanes=16 copies=1
taps n=400 m=398 | skx text | outer_vectors x lanes=32 copies=1
best | n1 text | outer_vectors c lanes=16 copies=1
best | skx text | outer_vectors c copies=1
knapsacks T=int | n1 2 text chosen | outer_vectors c; parallel c; share_from p
knapsacks | spr 2 text chosen | outer_vectors c; parallel c
lags | n1 | outer_vectors l
short_lags | n1 | !outer_vectors
row_lags T=float | skx text chosen | !expand_scalar
row_lags | n1 text chosen | !expand_scalar
sections | n1 | outer_vectors r; unroll k 4; unroll k_1 4
frames len=64 | n1 | outer_vectors f lanes=2
frames len=128 | spr | outer_vectors f lanes=8 copies=2
frames len=256 | spr | outer_vectors f lanes=8 copies=1
full n=700 m=9 | n1 | outer_vectors j lanes=4; !promote_to_registers
full | n1 | outer_vectors j lanes=4; !promote_to_registers
full_in_place n=700 m=9 | n1 | outer_vectors j lanes=4; !promote_to_registers
nine n=600 m=700 | n1 | !unroll_and_jam
powers n=4000 m=2400 | n1 2 | strip_mine*1; strip_mine j 1200; outer_vectors j; parallel j_t
powers n=4000 m=600 | n1 2 | !strip_mine; outer_vectors j
near T=float | n1 | outer_vectors i lanes=4; privatize mask j; !split_by_distance
near | skx | outer_vectors i lanes=8
near_in_long | skx | !outer_vectors
~ many | skx chosen | outer_vectors i lanes=16; split_live_ranges push
~ many | skx text chosen | outer_vectors i lanes=16
leaves few=16 | zen3 | outer_vectors t lanes=8 copies=1
leaves few=16 | skx | outer_vectors t lanes=16 copies=1
leaves few=12 | zen3 | outer_vectors t lanes=4
leaves few=20 | zen3 | outer_vectors t lanes=4
leaves few=8 | skx | outer_vectors t lanes=8
~ leaves few=6 | skx | !outer_vectors
cells few=8 reach=4 | skx | outer_vectors a lanes=8
cells few=12 reach=4 | skx | outer_vectors a lanes=4
cells few=8 reach=1 | skx | !outer_vectors
~ bodies m=100 | n1 chosen | outer_vectors b_1; !unroll_and_jam
~ bodies m=100 | skx chosen | outer_vectors b_1 lanes=8; !unroll_and_jam
window | n1 | unroll i 5; unroll j 5; simd*1; simd c
window | n1 2 | unroll i 5; simd c; parallel r
moving | n1 2 | unroll y; unroll x; simd j
colours | n1 2 | unroll k; simd j
colours_apart | n1 2 | simd k; !unroll
rays | n1 2 | unroll r 4; simd x; parallel y
powers | n1 2 | outer_vectors j; parallel j_t
here | n1 2 | parallel i; simd j
blocks wide=8 | n1 | unroll y 8; simd u
blocks wide=4 | n1 | unroll y 8; simd u
blocks wide=7 | n1 | !simd
blocks wide=3 | n1 | !simd
small_triangles | n1 chosen | !simd
scores n=1500 m=1400 len=1024 | n1 text chosen | unroll_and_jam i; expand_scalar*1; expand_scalar s
triangles | n1 text chosen | !unroll_and_jam
from_three | n1 | align j
from_four | n1 | !align
left_of | n1 | align j
halves | n1 | !align
product | n1 | contract i j p
product n=400 m=400 k=400 | n1 chosen | contract i j p; @the plan
map n=900 | n1 chosen | simd i; @the plan
scaled reassoc | n1 | contract*1; contract i_2 j_1 p
two_products reassoc | n1 | contract*2
two_products reassoc | n1 2 | contract shares=2; parallel i
lower reassoc | n1 | contract*1
lower_of_two reassoc | n1 | contract*1
lower_of_two | n1 | !contract
from_below reassoc | n1 | contract*1
symmetric reassoc | n1 | contract*2; expand_array above
tensor_lines reassoc | n1 | contract*1; expand_array line
covariances reassoc | n1 | contract*1
~ factors reassoc | n1 | separate_box; contract; strip_mine k 192
factors reassoc | n1 2 | separate_box; contract shares=2; split_index_set; parallel_chunks
~ lower_factors reassoc | n1 | separate_box; contract
~ solved reassoc | n1 | split_live_ranges w; contract
one_factor reassoc | n1 | !contract
diagonal_only reassoc | n1 | !contract
three_factors reassoc | n1 | !contract
no_update reassoc | n1 | !contract
no_reduction reassoc | n1 | !contract
band reassoc | n1 | !contract
small_product reassoc | n1 | !contract
many_small | n1 chosen | unroll k 8; !contract; @its marks alone
dots T=signed_char | n1 | contract; !unroll_and_jam
dots T=signed_char | spr | contract
dots T=short | n1 text chosen | !contract
min_of_columns T=long | n1 | contract
min_of_rows T=long | n1 2 | contract
shares | spr | contract; unroll_and_jam i_3 4
density | spr | contract; unroll_and_jam i_3 2
layer B=500 n=32 m=36 k=33 | n1 2 | parallel x; contract*1; !reschedule
layer B=500 n=32 m=36 k=33 | zen3 2 | parallel x; contract*1
layer B=2 n=32 m=36 k=33 | n1 2 | contract shares=2; !parallel
chained | n1 2 | contract*2; parallel x; parallel x_1
four_index | n1 | contract*2
attention | n1 2 | contract*2; parallel h
pointwise | n1 | contract r_2 x_2 c; expand_array s r x
convolution reassoc | n1 | contract r_2 x_2 c
convolution | n1 | contract r_2 x_2 v
shifted | n1 | contract i j p
over_time | n1 2 | contract; parallel x
in_one_nest | n1 | contract*2
"""
LINES = FACTS.strip().splitlines()
ROWS = [tuple(line.removeprefix("~ ").split(" | ")) for line in LINES]
FACTS_OF_ROWS = [
    pytest.param(*row, marks=pytest.mark.drawn(2) if line.startswith("~") else ())
    for line, row in zip(LINES, ROWS, strict=True)
]


def plan_of(words: str, where: str) -> Planned:
    machine, *more = where.split()
    threads = next((int(word) for word in more if word.isdigit()), 1)
    return planned(words, machine, threads, "text" in more, "chosen" in more)


def holds(fact: str, found: Planned) -> bool:
    """Whether a fact of FACTS holds of a plan."""
    if fact.startswith("@"):
        return found.taken == fact[1:]
    if fact.startswith("!"):
        return fact[1:] not in found.kinds()
    kind, *words = fact.split()
    if "*" in kind:
        kind, _, count = kind.partition("*")
        return found.kinds().count(kind) == int(count)
    return any(step.kind == kind and set(words) <= tokens(step) for step in found.plan)


def tokens(step: Step) -> set[str]:
    """The words of a step: loops, numbers, and `field=value`."""
    text = str(step).replace("'", "")
    return set(re.findall(r"\w+", text)) | set(re.findall(r"\w+=\w+", text))


@pytest.mark.parametrize(("words", "where", "facts"), FACTS_OF_ROWS)
def test_what_is_planned(words: str, where: str, facts: str) -> None:
    found = plan_of(words, where)
    assert [fact for fact in facts.split("; ") if not holds(fact, found)] == [], str(found)


def test_every_program_has_a_plan() -> None:
    assert {words.split()[0] for words, _, _ in ROWS} == set(NAMES)


@cache
def originals(words: str) -> Runner:
    """Machine code of the source order."""
    return jit_runner(lower_schedule(initial_schedule(program_named(words))))


def differences(words: str, nest: LoopNest, *, is_text: bool = False) -> list[str]:
    """Where a nest, interpreted and compiled, leaves other numbers than its program."""
    source = program_named(words)
    runs = {"machine code": jit_runner(nest, 2)}
    if is_text:
        (runs["C text"],) = c_runners([nest], ("-O1", "-ffp-contract=off", "-fopenmp", "-w"))
    found = []
    small = pick_sizes(source, values=(0, 1, 2, 5, 7), most=1500, count=4)
    for at, params in enumerate(small):
        reference = run_reference(source, params, seed=at)
        found += check_data(reference, partial(run_nest, nest, threads=2), "interpreter")
        for name, run in runs.items():
            found += check_data(reference, run, name)
    for params in large_sizes(source, nest, 0)[:2]:
        found += compare_numbers(source, originals(words), runs, params, seed=1, signs=Signs.ANY)
    assert small
    return [str(difference) for difference in found]


@needs_compiler
@pytest.mark.drawn(8)
@pytest.mark.parametrize(("words", "where"), [row[:2] for row in ROWS])
def test_plans_keep_the_meaning(words: str, where: str) -> None:
    """A plan that was made for some sizes is right at all others, where it is legal there."""
    found = plan_of(words, where)
    assert Plan.loads(found.plan.dumps()) == found.plan
    free = " ".join(word for word in words.split() if "=" not in word or word.startswith("T="))
    try:
        schedule = apply_plan(program_named(free), found.plan)
    except IllegalStep:  # of a loop whose length is known
        schedule = plan_of(free, where).schedule
    assert differences(free, lower_schedule(schedule), is_text="text" in where) == []
