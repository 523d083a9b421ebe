"""The noun Machine: lanes, costs and their fall-backs, the vector step and its bound."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.diagnostics import UsageError
from loopwright.ir.machine import Cache, Machine, OpCost, ParallelCost
from loopwright.machines.load import load_machine, machine_names

N1 = load_machine("neoverse-n1")
SANDY = load_machine("sandy-bridge-i7-3820")


def simple(**changes: object) -> Machine:
    """A machine with two vector pipes and four rows."""
    rows = {
        ("add", "float64"): OpCost(3, 2, 3, (("V", 0.5),)),
        ("mul", "float64"): OpCost(4, 2, 4, (("V", 0.5),)),
        ("add", "int32"): OpCost(1, 2, 1, (("V", 0.5),)),
        ("fma", "float64"): OpCost(5, 2, 4, (("V", 0.5),)),
    }
    machine = Machine(
        name="simple",
        description="",
        isa="x86_64",
        llvm_cpu="generic",
        features=frozenset({"fma"}),
        vector_bytes=32,
        vector_registers=16,
        caches=(Cache(1, 32768, 8, 64), Cache(2, 262144, 8, 64)),
        arithmetic=rows,
        load_latency=4,
        loads_per_cycle=2,
        stores_per_cycle=1,
        issue_width=4,
        prefetches_per_cycle=2,
        prefetch_latency=300,
        parallel_cost=ParallelCost(1000, 100),
        cores=4,
    )
    return replace(machine, **changes)  # type: ignore[arg-type]


def test_lanes() -> None:
    assert [N1.lanes(bits) for bits in (8, 16, 32, 64)] == [16, 8, 4, 2]
    assert simple(vector_registers=0).lanes(64) == 1, "N_REG = 0 means N_VEC = 1"


@pytest.mark.parametrize(
    ("times", "plus", "dtype", "ops_per_cycle", "printed_gflops"),
    [
        ("add", "max", "float64", 4, 15.2),
        ("div", "max", "float64", 0.4, 1.52),
        ("min", "max", "float64", 4, 15.2),
        ("mul", "max", "float64", 8, 30.4),
        ("mul", "min", "float64", 8, 30.4),
        ("mul", "sub", "float64", 8, 30.4),
        ("add", "min", "float64", 4, 15.2),
        ("add", "max", "float32", 8, 30.4),
        ("div", "max", "float32", 0.8, 3.04),
        ("min", "max", "float32", 8, 30.4),
        ("mul", "max", "float32", 16, 60.8),
        ("mul", "min", "float32", 16, 60.8),
        ("mul", "sub", "float32", 16, 60.8),
        ("add", "min", "float32", 8, 30.4),
    ],
)
def test_bounds_of_tables_4_12_and_4_14(
    times: str, plus: str, dtype: str, ops_per_cycle: float, printed_gflops: float
) -> None:
    """The upper bounds the seed prints for MMA[times, plus] on Sandy Bridge i7-3820 at 3.8 GHz."""
    assert SANDY.frequency_hz == 3.8e9
    bound = SANDY.peak_ops_per_cycle(plus, times, dtype)
    assert bound == pytest.approx(ops_per_cycle)
    assert bound * 3.8 == pytest.approx(printed_gflops)


def test_complex_step_is_two_real_ones_per_register() -> None:
    step = N1.vmma("add", "mul", "complex64")
    assert (step.per_cycle, step.instructions) == (1, 2)
    assert N1.cost("add", "complex128") == N1.cost("add", "float64")
    assert N1.cost("mul", "complex128").per_cycle == 1
    with pytest.raises(UsageError, match=r"^'min' is not defined on complex numbers$"):
        N1.vmma("min", "add", "complex64")


def test_unknown_operation_and_dtype_are_told() -> None:
    with pytest.raises(UsageError) as told:
        simple().cost("div", "float64")
    assert str(told.value) == (
        "machine simple does not know the cost of 'div' on float64\ntry: one of add, fma, mul"
    )
    with pytest.raises(UsageError, match=r"^'f32' is not the name of an element type$"):
        N1.cost("add", "f32")


DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint64", "float16", "float32")
DTYPES += ("float64",)
OPS = ("add", "sub", "mul", "min", "max", "and", "or", "xor")


@given(
    name=st.sampled_from(machine_names()),
    plus=st.sampled_from(OPS),
    times=st.sampled_from(OPS),
    dtype=st.sampled_from(DTYPES),
)
def test_every_pair_has_a_sound_bound(name: str, plus: str, times: str, dtype: str) -> None:
    """N never exceeds either operation's own throughput; L covers the accumulator's chain."""
    machine = load_machine(name)
    step = machine.vmma(plus, times, dtype)
    assert step.per_cycle > 0
    assert step.latency >= step.chain > 0
    assert step.instructions >= 1
    if not step.fused:
        limit = min(machine.cost(op, dtype).per_cycle for op in (plus, times))
        assert limit / 3 <= step.per_cycle <= limit
        assert step.latency == sum(machine.cost(op, dtype).latency for op in (plus, times))


def test_the_content_hash_tells_numbers_apart_and_no_words() -> None:
    hashed = N1.content_hash
    told = replace(N1, description="another", sources={}, features=frozenset(sorted(N1.features)))
    assert told.content_hash == hashed
    rows = dict(reversed(N1.arithmetic.items()))
    assert replace(N1, arithmetic=rows).content_hash == hashed
    rows["add", "float32"] = replace(rows["add", "float32"], instructions=9)
    others = [
        replace(N1, arithmetic=rows),
        replace(N1, cores=N1.cores + 1),
        replace(N1, memory_bytes_per_cycle=1.25),
        replace(N1, features=N1.features - {"dotprod"}),
        replace(N1, caches=(replace(N1.caches[0], bytes_per_cycle=1.5), *N1.caches[1:])),
    ]
    assert len({hashed, *(other.content_hash for other in others)}) == 1 + len(others)


def test_every_field_of_a_row_counts() -> None:
    row = N1.arithmetic["fma", "float64"]
    for field in fields(row):
        changed = (("V9", 0.5),) if field.name == "uses" else 77
        other = replace(N1, arithmetic={("fma", "float64"): replace(row, **{field.name: changed})})
        alone = replace(N1, arithmetic={("fma", "float64"): row})
        assert other.content_hash != alone.content_hash, field.name
