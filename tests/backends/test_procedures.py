"""Register tiles as procedures: which loops become one, which are the same, that they are right."""

from __future__ import annotations

import numpy as np
import pytest

from contract_steps import contract_loops
from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.backends.llvm.llvm_entry import entry_symbols
from loopwright.backends.llvm.llvm_procedures import outline
from loopwright.ir.interpret import interpret_program
from loopwright.ir.loops import LoopNest
from loopwright.ir.memory import element_strides
from loopwright.ir.module import CodeUnit
from loopwright.kernels import thread_pool
from loopwright.lower.buffers import stride_name
from loopwright.lower.passes import lower_schedule
from loopwright.runtime.kernel import CompiledKernel
from loopwright.runtime.llvm_engine import compile_to_object, load_object
from loopwright.transform.contract import Contract
from loopwright.transform.plan import apply_plan
from oracle import arrays_of
from programs import Do, For, program


def core(i: str, j: str, p: str, shares: int = 1) -> Contract:
    tile, blocks = (2, 2, 2, 2, 4), (4, 6, 4)
    return contract_loops(i, j, p, tile=tile, blocks=blocks, broadcast="lane", shares=shares)


def matrices(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "inout float64 [n, n]")


def product(out: str, left: str, right: str, loops: str, stop: str = "n") -> For:
    i, j, k = loops
    body = Do(f"{out}[{i}, {j}]", f"{out}[{i}, {j}] + {left}[{i}, {k}] * {right}[{k}, {j}]")
    return For(i, 0, "n", For(j, 0, stop, For(k, 0, "n", body)))


FOUR = matrices("A", "B", "C", "D")
TWO = program("two", FOUR, product("C", "A", "B", "ijk"), product("D", "C", "A", "abc"))
CORES = (core("i", "j", "k"), core("a", "b", "c"))


def nest_of(*steps: Contract) -> LoopNest:
    return lower_schedule(apply_plan(TWO, steps))


def procedures(nest: LoopNest) -> set[object]:
    return {found.procedure for found in outline(nest).values()}


def test_cores_that_differ_in_names_are_one_procedure() -> None:
    nest = nest_of(*CORES)
    assert len(outline(nest)) == 2
    assert len(procedures(nest)) == 1


def test_cores_of_different_shapes_are_two() -> None:
    lower = product("D", "C", "A", "abc", "a + 1")
    source = program("two", FOUR, product("C", "A", "B", "ijk"), lower)
    assert len(procedures(lower_schedule(apply_plan(source, CORES)))) == 2


def test_operands_that_are_one_array_make_another_procedure() -> None:
    source = program("two", FOUR, product("C", "A", "B", "ijk"), product("D", "A", "A", "abc"))
    assert len(procedures(lower_schedule(apply_plan(source, CORES)))) == 2


def test_loops_without_register_tiles_stay_where_they_are() -> None:
    assert not outline(lower_schedule(apply_plan(TWO, ())))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("shares", [1, 3])
@pytest.mark.parametrize("is_linked", [False, True])
def test_procedures_are_right(is_linked: bool, shares: int) -> None:
    nest = nest_of(*(core(*c.loops, shares=shares) for c in CORES))
    module = emit_module(nest)
    assert [unit.leave_to_llvm for unit in module.units] == [True, False]
    whole = CodeUnit(module.text, leave_to_llvm=True)
    code = compile_to_object(module.units if is_linked else (whole,))
    kernel = CompiledKernel(
        load_object(code, entry_symbols(nest.name)), nest.name, module.buffers, module.scalars
    )
    params = {"n": 13}
    arrays = arrays_of(TWO, params)
    found = {name: data.copy() for name, data in arrays.items()}
    strides = {
        stride_name(name, k): s
        for name, a in found.items()
        for k, s in enumerate(element_strides(a))
    }
    bound = kernel.bind({**params, **strides}, np.zeros(0, np.int64), min(shares, 2), thread_pool)
    bound(*(found[name] for name in kernel.buffers))
    interpret_program(TWO, arrays, params)
    for name, data in arrays.items():
        np.testing.assert_array_equal(found[name], data)
