"""The door to isl: affine expressions, the quota, and questions to sets and schedule trees."""

import islpy as isl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.examples import gemm, isl_set, isl_tree, running_sum
from loopwright.ir import islkit, schedule_tree
from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Binary, Cast, Const, Expr, Unary, Var
from loopwright.ir.interpret import evaluate

i, j, n = Var("i"), Var("j"), Var("n")
SPACE = "[n] -> { S[i, j] }"


def value_at(expr: Expr, **point: int) -> int:
    """The value of the isl form of `expr` at one point."""
    function = islkit.affine(expr, isl_set(SPACE).get_space())
    graph = isl.Map.from_pw_aff(function).intersect_params(
        isl_set(f"[n] -> {{ : n = {point['n']} }}")
    )
    image = isl_set(f"{{ S[{point['i']}, {point['j']}] }}").apply(graph)
    return image.sample_point().get_coordinate_val(isl.dim_type.set, 0).to_python()


def affine_expressions() -> st.SearchStrategy[Expr]:
    leaves = st.sampled_from([i, j, n, Const(2), Const(-3)])
    return st.recursive(
        leaves,
        lambda below: (
            st.builds(Binary, st.sampled_from(["add", "sub", "min", "max"]), below, below)
            | st.builds(lambda x, c: Binary("mul", x, Const(c)), below, st.integers(-3, 3))
            | st.builds(lambda x, c: Binary("floordiv", x, Const(c)), below, st.integers(1, 4))
            | st.builds(lambda x, c: Binary("mod", x, Const(c)), below, st.integers(1, 4))
            | st.builds(lambda x: Unary("neg", x), below)
        ),
        max_leaves=6,
    )


@given(affine_expressions(), st.tuples(*[st.integers(-5, 5)] * 3))
def test_affine_means_what_the_interpreter_says(expr: Expr, values: tuple[int, int, int]) -> None:
    point = dict(zip("ijn", values, strict=True))
    assert value_at(expr, **point) == evaluate(expr, point)


@pytest.mark.parametrize(
    ("expr", "culprit"),
    [
        (i + j * n, j * n),
        (i // j, i // j),
        (i % 0, i % 0),
        (i // -2, i // -2),
        (Var("q") + 1, Var("q")),
        (Cast(i, FLOAT64), Cast(i, FLOAT64)),
        (Binary("and", i, j), Binary("and", i, j)),
    ],
)
def test_what_is_not_affine_is_named(expr: Expr, culprit: Expr) -> None:
    with pytest.raises(islkit.NotAffine) as caught:
        islkit.affine(expr, isl_set(SPACE).get_space())
    assert caught.value.expr == culprit


def test_quota_ends_the_work_and_leaves_the_context_usable() -> None:
    with pytest.raises(islkit.QuotaExceeded, match="more than 10 isl operations"), islkit.quota(10):
        isl_set("{ S[i, j, k] : 0 <= i <= j <= k <= 2i + 100 }").lexmin()
    assert not isl_set("{ S[i] : i > 3 }").lexmin().is_empty()


def test_points_come_in_the_order_of_the_tree() -> None:
    assert islkit.ordered_points(gemm().schedule, {"n": 2})[:4] == [
        ("S", (0, 0)),
        ("T", (0, 0, 0)),
        ("T", (0, 0, 1)),
        ("S", (0, 1)),
    ]
    assert islkit.ordered_points(gemm().schedule, {"n": 0}) == []


@pytest.mark.parametrize(
    ("tree", "params", "told"),
    [
        ('{ domain: "[n] -> { S[i] : 0 <= i < n }" }', {}, "parameter n has no value"),
        ('{ domain: "{ S[i] : 0 <= i }" }', {}, "statement S has infinitely many points"),
    ],
)
def test_endless_points_are_told(tree: str, params: dict[str, int], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        islkit.ordered_points(isl_tree(tree), params)


def test_parameters_may_be_named_like_keywords_of_isl() -> None:
    space = isl.Space.params_alloc(islkit.context(), 1).set_dim_name(isl.dim_type.param, 0, "max")
    assert islkit.holds(isl.Set.universe(space), {"max": 3})


def test_questions_to_sets() -> None:
    known = isl_set("[n, m] -> { : n > m > 0 }")
    assert islkit.holds(known, {"n": 2, "m": 1})
    assert not islkit.holds(known, {"n": 1, "m": 1})
    assert islkit.inside(known) == "0 < m < n"
    assert islkit.inside(isl_set("[n] -> { : }")) == ""
    assert islkit.inside(isl_set("[n] -> { S[i] : 0 <= i < n }")) == "S[i] : 0 <= i < n"
    assert islkit.tuple_of(isl_set("[n] -> { S[i, j] }")) == (("n",), "S", ("i", "j"))
    assert islkit.tuple_of(isl_set("{ [i] }")) == ((), "", ("i",))
    assert islkit.tuple_of(known) == (("n", "m"), "", ())


def test_questions_to_trees() -> None:
    program = gemm()
    assert schedule_tree.loop_names(program.schedule) == ("i", "j", "k")
    domains = [s.domain for s in program.statements]
    assert islkit.is_order_of(program.schedule, domains)
    assert not islkit.is_order_of(program.schedule, domains[:1])


def test_lines_of_a_tree() -> None:
    tree = isl_tree(
        """{ domain: "[n] -> { S[i] : 0 <= i < n; T[i] : 0 <= i < n }",
             child: { set: [ { filter: "{ S[i] : i < 3 }" },
               { filter: "{ S[i] : i >= 3; T[i] }", child: { mark: "vector",
                 child: { schedule: "[n] -> t[{ S[i] -> [(i)]; T[i] -> [(2i)] }]" } } } ] } }"""
    )
    assert [*schedule_tree.tree_lines(tree, {"t": "parallel"})] == [
        "in any order:",
        "    S[i] : i <= 2",
        "    S[i] : i >= 3; T[i]:",
        "        mark vector:",
        "            parallel for t: S[i] -> [(i)]; T[i] -> [(2i)]",
    ]
    assert [*schedule_tree.tree_lines(running_sum().schedule, {})] == ["for i: S[i] -> [(i)]"]


def test_quota_inside_a_quota() -> None:
    """What stands around is bounded again when the block inside is done."""

    def work(operations: int) -> None:
        for _ in range(operations):
            isl.Space.set_alloc(islkit.context(), 0, 0)

    def both(outer: int, inner: int, before: int, after: int) -> None:
        with islkit.quota(outer):
            with islkit.quota(inner):
                work(before)
            work(after)

    both(1000, 1000, before=100, after=100)
    with pytest.raises(islkit.QuotaExceeded, match="more than 1000 isl"):
        both(1000, 10**6, before=100, after=2000)
    with pytest.raises(islkit.QuotaExceeded, match="more than 10 isl"):
        both(10**6, 10, before=20, after=0)
    work(3000)


@pytest.mark.parametrize("number", [0, -1, 2**63 - 1, 2**63, -(2**63) - 1, 10**40])
def test_integers_of_any_size_reach_isl(number: int) -> None:
    assert islkit.isl_integer(number).to_python() == number
    where = islkit.condition(Binary("ge", i, Const(number)), isl_set(SPACE).get_space())
    assert where.is_equal(isl_set(f"[n] -> {{ S[i, j] : i >= {number} }}"))
