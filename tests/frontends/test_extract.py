"""SourceTree to Program: domains, schedule trees, roles and names."""

import islpy as isl
import numpy as np
import pytest

from frontends.kernels import compiled, define
from loopwright.frontends.tree_rewrites import assignments
from loopwright.ir.expr import Binary, Const, Load, Var
from loopwright.ir.program import Program, Role

A = np.zeros(4)
B = np.zeros((4, 4))


def program_of(text: str, *args: object) -> Program:
    return compiled(define(text), *args)[1]


def loop(header: str, args: str = "A, n, m") -> str:
    return f"def f({args}):\n    {header}\n        A[0] = i\n"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("for i in range(n):", "0 <= i < n"),
        ("for i in range(m, n):", "m <= i < n"),
        ("for i in range(m - 1, 2 * n + 3):", "m - 1 <= i < 2n + 3"),
        ("for i in range(m, n, 3):", "m <= i < n and (i - m) mod 3 = 0"),
        ("for i in range(n - 1, -1, -1):", "0 <= i < n"),
        ("for i in range(n, m, -2):", "m < i <= n and (n - i) mod 2 = 0"),
        ("for i in range(min(n, m)):", "0 <= i < n and i < m"),
        ("for i in range(max(n, m), 9):", "n <= i < 9 and m <= i"),
        ("for i in range(n // 2, n):", "2i >= n - 1 and i < n"),
        ("for i in range(n % 4):", "0 <= i < n mod 4"),
        ("for i in range(-n, abs(m)):", "-n <= i and (i < m or i < -m)"),
        ("for i in range(A.shape[0] - 1):", "0 <= i < A_0 - 1"),
    ],
)
def test_domain_of_a_loop(header: str, expected: str) -> None:
    (statement,) = program_of(loop(header), A, 1, 1).statements
    wanted = isl.Set(f"[A_0, n, m] -> {{ S0[i] : {expected} }}")
    assert statement.domain.is_equal(wanted)
    assert statement.iterators == ("i",)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("i < n", "i < n"),
        ("0 < i <= n < 9", "0 < i <= n < 9"),
        ("i == 3 or i != n", "i != n or i = 3"),
        ("not (i < n and i > 2)", "i >= n or i <= 2"),
        ("i % 3 == 1", "i mod 3 = 1"),
        ("i", "i != 0"),
        ("not i", "i = 0"),
        ("abs(i - n) <= 2", "n - 2 <= i <= n + 2"),
        ("i > 2 and True", "i > 2"),
    ],
)
def test_domain_of_a_branch(condition: str, expected: str) -> None:
    text = f"""
    def f(A, n):
        for i in range(10):
            if {condition}:
                A[0] = 1
            else:
                A[0] = 2
    """
    then, other = program_of(text, A, 1).statements
    inside = isl.Set(f"[A_0, n] -> {{ S0[i] : 0 <= i < 10 and ({expected}) }}")
    outside = isl.Set("[A_0, n] -> { S0[i] : 0 <= i < 10 }").subtract(inside)
    assert then.domain.is_equal(inside)
    assert other.domain.is_equal(outside.set_tuple_name("S1"))


def test_schedule_tree() -> None:
    text = """
    def f(A, B):
        for i in range(len(A)):
            A[i] = 0
            for j in range(i, -1, -1):
                B[i, j] = A[j]
            A[i] = 1
        for i in range(4):
            A[i] = 2
    """
    program = program_of(text, A, B)
    domain = isl.UnionSet.empty(program.context.get_space())
    for statement in program.statements:
        domain = domain.union(isl.UnionSet.from_set(statement.domain))
    assert program.schedule.get_domain().is_equal(domain)
    order = isl.UnionMap(
        "{ S0[i] -> [0, i, 0, 0]; S1[i, j] -> [0, i, 1, -j]; S2[i] -> [0, i, 2, 0];"
        " S3[i_1] -> [1, i_1, 0, 0] }"
    )
    assert before(program.schedule.get_map(), domain).is_equal(before(order, domain))
    assert band_names(program) == ["i", "j", "i_1"]
    assert program.statement("S3").iterators == ("i_1",)


def before(order: isl.UnionMap, domain: isl.UnionSet) -> isl.UnionMap:
    """Which instances run before which."""
    restricted = order.intersect_domain(domain)
    return restricted.lex_lt_union_map(restricted)


def band_names(program: Program) -> list[str]:
    names: list[str] = []

    def visit(node: isl.ScheduleNode) -> bool:
        if node.get_type() == isl.schedule_node_type.band:
            band = node.band_get_partial_schedule()
            names.append(band.get_tuple_name(isl.dim_type.set))
            assert band.dim(isl.dim_type.set) == 1
        return True

    program.schedule.get_root().foreach_descendant_top_down(visit)
    return names


def test_band_of_a_loop_that_runs_down() -> None:
    program = program_of("def f(A):\n    for i in range(3, -1, -1):\n        A[i] = 1\n", A)
    band = program.schedule.get_root().child(0).band_get_partial_schedule()
    assert band.plain_is_equal(isl.MultiUnionPwAff("[A_0] -> i[{ S0[i] -> [(-i)] }]"))


def test_parameters_context_and_roles() -> None:
    text = """
    def f(A, x, B, n, p):
        s = 0.0
        for i in range(n):
            s += A[i] * x
            t = A[i]
            B[i, p] = t
        return s
    """
    program = program_of(text, A, 0.5, B, 3, 1)
    assert program.name == "f"
    assert program.params == ("A_0", "B_0", "B_1", "n", "p")
    known = isl.Set("[A_0, B_0, B_1, n, p] -> { : A_0 >= 0 and B_0 >= 0 and B_1 >= 0 }")
    assert program.context.is_equal(known)
    roles = {array.name: (array.role, array.rank) for array in program.arrays}
    assert roles == {
        "A": (Role.IN, 1),
        "x": (Role.IN, 0),
        "B": (Role.INOUT, 2),
        "s": (Role.OUT, 0),
        "t": (Role.LOCAL, 0),
    }
    assert program.array("B").shape == (Var("B_0"), Var("B_1"))


def test_accesses_and_spans() -> None:
    text = "def f(A, B):\n    for i in range(3):\n        A[i] = B[i + 1, 2 * i]\n"
    (statement,) = program_of(text, A, B).statements
    (read,) = statement.reads
    i = Var("i")
    assert (read.array, read.index) == (
        "B",
        (Binary("add", i, Const(1)), Binary("mul", Const(2), i)),
    )
    assert statement.write.index == (i,)
    assert statement.span is not None
    assert (statement.span.line, statement.span.column, statement.span.end_column) == (3, 9, 31)
    assert statement.span.text == "        A[i] = B[i + 1, 2 * i]"


def test_aliases_leave_no_trace() -> None:
    text = """
    def f(A):
        n = A.shape[0]
        for i in range(n):
            j = n - 1 - i
            A[j] = 1
    """
    program = program_of(text, A)
    assert [array.name for array in program.arrays] == ["A"]
    assert len(program.statements) == 1


def test_a_guarded_load_splits_the_statement() -> None:
    text = "def f(A, B):\n    for i in range(4):\n        A[i] = B[i - 1, 0] if i > 0 else 0.0\n"
    guarded, plain = program_of(text, A, B).statements
    assert guarded.domain.is_equal(isl.Set("[A_0, B_0, B_1] -> { S0[i] : 0 < i < 4 }"))
    assert isinstance(guarded.value, Load)
    assert plain.domain.is_equal(isl.Set("[A_0, B_0, B_1] -> { S1[i] : i = 0 }"))


def test_statements_that_never_run_are_left_out() -> None:
    text = """
    def f(A):
        for i in range(len(A)):
            if i < 0:
                A[i] = 1
            A[i] = 2
            if A.shape[0] < 0:
                A[i] = 3
    """
    (statement,) = program_of(text, A).statements
    assert statement.value == Const(2.0, statement.write.dtype)


def test_an_empty_function() -> None:
    program = program_of("def f(A):\n    pass\n", A)
    assert program.statements == ()
    assert program.schedule.get_domain().is_empty()
    assert program.array("A").role is Role.IN


def test_tree_is_in_source_order() -> None:
    text = """
    def f(A):
        A[0] = 1
        for i in range(2):
            if i > 0:
                A[1] = 2
            else:
                A[2] = 3
        A[3] = 4
    """
    tree, _ = compiled(define(text), A)
    values = [assign.value for assign in assignments(tree.body)]
    assert [value.value for value in values if isinstance(value, Const)] == [1, 2, 3, 4]


def test_local_types_widen_until_they_settle() -> None:
    text = """
    def f(A, F):
        x = 0
        y = 0
        z = True
        for i in range(4):
            z = y
            y = x
            x = x + F[i]
        A[0] = z
    """
    program = program_of(text, A, np.zeros(4, np.float32))
    types = {array.name: str(array.dtype) for array in program.arrays if array.role is Role.LOCAL}
    assert types == dict.fromkeys("xyz", "float32")
