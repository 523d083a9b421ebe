"""`lw.einsum` on arrays of a device: all the way on a fake driver whose kernels the shim runs."""

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from gpu.device_einsums import compare, forget, numbers, texts
from gpu.fake_cuda import CupyArray, FakeApi, FakeArray
from gpu.ways import needs_compiler
from loopwright.calls import device_einsum
from loopwright.diagnostics import DtypeError, LoopwrightError, UsageError
from loopwright.ir import contraction_shape
from loopwright.planner.grid_plans import grid_products

pytestmark = needs_compiler

EINSUMS = (
    ("ij,jk->ik", "ij,jk", (17, 12, 20)),
    ("abcd,ecfb->aedf", "abcd,ecfb", (3, 4, 8, 5, 2, 8)),
    ("bij,bjk->ibk", "bij,bjk", (3, 9, 8, 12)),
    ("acd,dbc->ab", "acd,dbc", (9, 8, 4, 12)),
    ("dca,bd->abc", "dca,bd", (12, 8, 16, 20)),  # neighbours of out are columns apart
    ("efbad,cf->abcde", "efbad,cf", (4, 8, 4, 4, 4, 8)),
    ("aebf,dfce->abcd", "aebf,dfce", (4, 8, 4, 8, 4, 8)),  # tiles of p are alike
    ("ij,j->i", "ij,j", (30, 40)),
    ("ij->ji", "ij", (8, 16)),
    ("ii->", "ii", (13,)),
    ("i,j->ij", "i,j", (5, 9)),
    ("iji->j", "iji", (5, 7)),
    ("ij,jk,kl->il", "ij,jk,kl", (5, 6, 7, 8)),
)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("text", "terms", "sizes"), EINSUMS)
def test_result_is_that_of_the_host(
    api: FakeApi, text: str, terms: str, sizes: tuple[int, ...]
) -> None:
    letters = dict(zip(dict.fromkeys(terms.replace(",", "")), sizes, strict=True))
    hosts = [
        numbers(tuple(letters[c] for c in term), "float32", n)
        for n, term in enumerate(terms.split(","))
    ]
    compare(text, hosts)
    launch = next(call for call in api.calls if call[0] == "cuLaunchKernel")
    assert launch[9] == 5  # the current stream of the library
    assert "cuCtxSynchronize" not in api.names()


KINDS = (
    ("float16", "plus_times"),
    ("float64", "plus_times"),
    ("bool", "or_and"),
    ("int8", "plus_times"),
    ("int32", "min_plus"),
    ("float32", "max_plus"),
    ("complex64", "plus_times"),
    ("complex128", "plus_times"),
)


@pytest.mark.drawn(6)
@pytest.mark.parametrize(("dtype", "ring"), KINDS)
def test_types_and_semirings(api: FakeApi, dtype: str, ring: str) -> None:
    hosts = [numbers((20, 16), dtype), numbers((16, 24), dtype)]
    compare("ij,jk->ik", hosts, semiring=ring)


@pytest.mark.parametrize("row", [1, 4, 5, 6])
def test_loops_beyond_the_limit_of_tables(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, row: int
) -> None:
    """They are counted by division: no memory is taken, in one stream nor by capture."""
    monkeypatch.setattr(contraction_shape, "MOST_TABLE_BYTES", 0)
    text, terms, sizes = EINSUMS[row]
    letters = dict(zip(dict.fromkeys(terms.replace(",", "")), sizes, strict=True))
    shapes = [tuple(letters[c] for c in term) for term in terms.split(",")]
    api.capturing.add(5)
    monkeypatch.setattr(grid_products, "_PARTS", (1,))  # parts need memory between launches
    compare(text, [numbers(shape, "float32", n) for n, shape in enumerate(shapes)])
    assert api.memory == {}


def test_capture_needs_tables_that_are_there(api: FakeApi) -> None:
    given = [*map(CupyArray, (numbers((9, 4, 8), "float32"), numbers((12, 8, 4), "float32")))]
    api.capturing.add(5)
    with pytest.raises(UsageError, match="call it once before the capture begins"):
        lw.einsum("abc,dcb->da", *given)
    api.capturing.clear()
    lw.einsum("abc,dcb->da", *given)
    api.capturing.add(5)
    lw.einsum("abc,dcb->da", *given)
    forget()
    assert len(api.memory) == 1  # the graph holds the table


@pytest.mark.parametrize(
    ("dtype", "alpha", "beta"), [("float64", -2.0, 0.5), ("complex64", 1 + 1j, 2j)]
)
def test_scaling_into_an_array(api: FakeApi, dtype: str, alpha: complex, beta: complex) -> None:
    a, b, old = (numbers(s, dtype) for s in ((9, 8), (8, 7), (7, 9)))
    out = old.copy().T
    lw.einsum("ij,jk->ik", FakeArray(a, api), FakeArray(b, api), out=FakeArray(out, api),
              alpha=alpha, beta=beta)  # fmt: skip
    np.testing.assert_allclose(out, beta * old.T + alpha * (a @ b))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_out_that_is_an_operand(api: FakeApi, dtype: str) -> None:
    a = numbers((12, 12), dtype)
    wanted = a @ a
    on_device = FakeArray(a, api)
    lw.einsum("ij,jk->ik", on_device, on_device, out=on_device)
    np.testing.assert_allclose(a, wanted)


def test_reduction_of_nothing(api: FakeApi) -> None:
    a, b, out = np.zeros((3, 0)), np.zeros((0, 4)), np.ones((3, 4))
    on_device = [FakeArray(x, api) for x in (a, b, out)]
    lw.einsum("ij,jk->ik", *on_device[:2], out=on_device[2], semiring="min_plus")
    assert np.isinf(out).all()
    given = FakeArray(np.zeros((4, 0)), api)
    lw.einsum("ij,jk,lm->ik", *on_device[:2], given, out=on_device[2])
    assert not out.any()


def test_late_reduction_goes_in_blocks(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_einsum, "_MOST_BETWEEN", 100)
    compare("ij,jk,kl->il", [numbers(s, "float32") for s in ((4, 5), (5, 6), (6, 7))],
            semiring="min_plus")  # fmt: skip


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("mixed", "operand 2 lies in the host's memory"),
        ("devices", "arrays lie on different devices\nnote: found operand 1 on 0, operand 2 on 1"),
        ("shape", "out has shape (3, 3)\ntry: the result has shape (4, 4)"),
        ("type", "out has dtype int32\ntry: the result has dtype float32"),
        ("host out", "out lies in the host's memory"),
        ("subscripts", "einsum 'ij,jk->ik': index 'j' has two sizes"),
    ],
)
def test_refusals(api: FakeApi, case: str, told: str) -> None:
    def on_device(shape: tuple[int, ...] = (4, 4), dtype: str = "float32", **more: Any) -> Any:
        return FakeArray(np.zeros(shape, dtype), api, **more)

    a = on_device()
    b: Any = {
        "mixed": lambda: np.zeros((4, 4), np.float32),
        "devices": lambda: on_device(device=1),
        "subscripts": lambda: on_device((5, 4)),
    }.get(case, on_device)()
    out: Any = {
        "shape": lambda: on_device((3, 3)),
        "type": lambda: on_device(dtype="int32"),
        "host out": lambda: np.zeros((4, 4), np.float32),
    }.get(case, on_device)()
    with pytest.raises(LoopwrightError) as raised:
        lw.einsum("ij,jk->ik", a, b, out=out)
    assert str(raised.value).startswith(told)
    assert isinstance(raised.value, DtypeError if case == "type" else UsageError)
    assert "cuLaunchKernel" not in api.names()


# -- plans and orders -----------------------------------------------------------------------------


PLANNED = (
    ("ij,jk->ik", ((17, 12), (12, 20))),
    ("abc,dcb->da", ((9, 4, 8), (12, 8, 4))),
    ("ij,jk->ik", ((5, 3000), (3000, 6))),
    ("ij,j->i", ((30, 40), (40,))),
    ("ij->ji", ((8, 16),)),
)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("text", "shapes"), PLANNED)
def test_plans_go_around(
    api: FakeApi, text: str, shapes: tuple[tuple[int, ...], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that is saved and loaded gives the kernels that it was made of."""
    hosts = [numbers(shape, "float32", n) for n, shape in enumerate(shapes)]
    given = [*map(CupyArray, hosts)]
    plan = lw.einsum_plan(text, *given)
    assert "cuLaunchKernel" not in api.names()
    wanted = lw.einsum(text, *given).host
    made = texts()
    forget()
    for name in ("TILES_4", "TILES_8"):  # nothing that the model would choose now
        monkeypatch.setattr(grid_products, name, ())
    found = lw.einsum(text, *given, plan=type(plan).loads(plan.dumps()))
    assert texts() == made
    np.testing.assert_array_equal(found.host, wanted)


def test_plans_serve_other_sizes_or_are_refused(api: FakeApi) -> None:
    plan = lw.einsum_plan(
        "ij,jk->ik", *map(CupyArray, (numbers((16, 16), "float32"), numbers((16, 16), "float32")))
    )
    a, b = numbers((24, 40), "float32"), numbers((40, 8), "float32")
    found = lw.einsum("ij,jk->ik", CupyArray(a), CupyArray(b), plan=plan)
    np.testing.assert_allclose(found.host, a @ b, 1e-5, 1e-5)
    odd = [*map(CupyArray, (numbers((24, 39), "float32"), numbers((39, 8), "float32")))]
    with pytest.raises(UsageError, match="elements of left cannot be loaded at once"):
        lw.einsum("ij,jk->ik", *odd, plan=plan)
    with pytest.raises(UsageError, match="it is for products of matrices"):
        lw.einsum("ij->ji", CupyArray(numbers((24, 39), "float32")), plan=plan)
    few = CupyArray(numbers((4, 4), "float32"))
    with pytest.raises(UsageError, match="a plan is for one contraction of one or two operands"):
        lw.einsum("ij,jk,kl->il", few, few, few, plan=plan)
    with pytest.raises(UsageError, match="a plan is for one contraction of one or two operands"):
        lw.einsum_plan("ij,jk,kl->il", few, few, few)


def test_plans_of_host_and_device_do_not_mix(api: FakeApi) -> None:
    host = numbers((8, 8), "float32")
    on_device = CupyArray(host)
    with pytest.raises(UsageError, match="is one map_whole_contraction step"):
        lw.einsum("ij,jk->ik", on_device, on_device, plan=lw.einsum_plan("ij,jk->ik", host, host))
    plan = lw.einsum_plan("ij,jk->ik", on_device, on_device)
    with pytest.raises(UsageError, match="is one contract step without loops"):
        lw.einsum("ij,jk->ik", host, host, plan=plan)
