"""Faults put into the compiler on purpose, each with a program for which it matters.

A fault is a patch of one function of the package. Faults of proofs let a step pass that should be
refused; all others make wrong loops or wrong code of legal plans.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from loopwright.analysis import reductions
from loopwright.backends.c_text import c_syntax
from loopwright.backends.llvm import llvm_arithmetic, llvm_memory
from loopwright.backends.llvm.llvm_builder import SSAValue
from loopwright.ir.dtypes import INT64
from loopwright.ir.expr import Binary, Const, Expr, Var
from loopwright.ir.loops import Barrier, Block, Buffer, LoopNest, Stmt
from loopwright.ir.program import Array, Program, Role
from loopwright.ir.visit import rebuild
from loopwright.lower import (
    ast_expressions,
    astgen,
    buffers,
    passes,
    simplify,
    statement_uses,
    vectorize,
)
from loopwright.lower.buffers import stride_name
from loopwright.lower.linear_forms import LinearForm
from loopwright.lower.values import promote_registers
from loopwright.transform import schedule_legality
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_fusion import Fuse
from loopwright.transform.loop_marks import Parallel, Unroll, Vectorize
from loopwright.transform.privatize import Privatize
from loopwright.transform.skew import Skew
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine, Tile
from programs import Do, For, nest, program

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Miscompile:
    """A fault, and what shows it."""

    name: str
    program: Callable[[], Program]
    steps: tuple[Step, ...]
    patch: Patch
    is_proof: bool = False  # the sound compiler refuses the steps
    in_c: bool = False  # the fault is in the C printer


def replaced(module: Any, name: str, make: Callable[[Any], Any]) -> Patch:
    """Put `make(original)` in the place of a function of a module."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(module, name, make(getattr(module, name)))

    return apply


def both(first: Patch, second: Patch) -> Patch:
    """Make two replacements."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        first(patch)
        second(patch)

    return apply


def replaced_pass(name: str, make: Callable[[Any], Any]) -> Patch:
    """Put `make(original)` in the place of the rewrite of a pass of lowering."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        changed = [
            replace(each, rewrite=make(each.rewrite)) if each.name == name else each
            for each in passes.PASSES
        ]
        assert changed != list(passes.PASSES)
        patch.setattr(passes, "PASSES", tuple(changed))

    return apply


# -- programs --------------------------------------------------------------------------------

X, Y = "in float64 [n + 2]", "inout float64 [n + 2]"


def scale() -> Program:
    return program(
        "scale", {"x": X, "y": Y}, For("i", 0, "n", Do("y[i]", "2 * x[i]")), known="n >= 0"
    )


def prefix() -> Program:
    body = For("i", 0, "n", Do("y[i + 1]", "y[i] + x[i]"))
    return program("prefix", {"x": X, "y": Y}, body, known="n >= 0")


def diagonal() -> Program:
    """Each element needs the one below and to the right of it in the row before."""
    arrays = {"a": "inout float64 [n + 2, n + 2]"}
    body = nest((("i", "n"), ("j", "n")), Do("a[i + 1, j]", "a[i, j + 1] + 1"))
    return program("diagonal", arrays, body, known="n >= 0")


def two_passes() -> Program:
    """The second loop reads ahead of where the first one writes."""
    arrays = {"x": X, "y": Y, "z": "inout float64 [n + 2]"}
    first = For("i", 0, "n", Do("y[i]", "x[i] + 1"))
    second = For("j", 0, "n", Do("z[j]", "y[j + 1] - x[j]"))
    return program("two_passes", arrays, first, second, known="n >= 0")


def carried_scalar() -> Program:
    arrays = {"x": X, "y": Y, "t": "local float64 []"}
    body = For("i", 0, "n", Do("t", "x[i]", "i mod 2 = 0"), Do("y[i]", "t + x[i]"))
    return program("carried_scalar", arrays, body, known="n >= 0")


def private_row() -> Program:
    """Each iteration fills a row of its own and uses it backwards."""
    arrays = {"a": "in float64 [n, n]", "b": "inout float64 [n, n]", "w": "local float64 [n]"}
    fill = For("j", 0, "n", Do("w[j]", "a[i, j]"))
    use = For("k", 0, "n", Do("b[i, k]", "w[n - 1 - k]"))
    return program("private_row", arrays, For("i", 0, "n", fill, use), known="n >= 0")


def reused_scalar() -> Program:
    arrays = {"x": X, "y": Y, "z": "inout float64 [n + 2]", "t": "local float64 []"}
    steps = Do("t", "x[i]"), Do("y[i]", "t + 1"), Do("t", "x[i + 1]"), Do("z[i]", "t - 1")
    return program("reused_scalar", arrays, For("i", 0, "n", *steps), known="n >= 0")


def guarded() -> Program:
    """One of two statements runs below the diagonal only."""
    arrays = {"a": "inout float64 [n, n]", "b": "inout float64 [n, n]"}
    body = nest(
        (("i", "n"), ("j", "n")),
        Do("a[i, j]", "b[i, j] + 1"),
        Do("b[i, j]", "a[i, j] * 2", "j < i"),
    )
    return program("guarded", arrays, body, known="n >= 0")


def downwards() -> Program:
    body = For("i", "n - 1", "-1", Do("y[i]", "y[i + 1] + x[i]"), step=-1)
    return program("downwards", {"x": X, "y": Y}, body, known="n >= 0")


def sweep() -> Program:
    """Two loops in a loop over time: threads meet between them."""
    arrays = {"a": "inout float64 [n + 2]", "b": "inout float64 [n + 2]"}
    there = For("i", 1, "n + 1", Do("b[i]", "a[i - 1] + a[i + 1]"))
    back = For("j", 1, "n + 1", Do("a[j]", "b[j - 1] - b[j + 1]"))
    return program("sweep", arrays, For("t", 0, 3, there, back), known="n >= 0")


def transposed() -> Program:
    arrays = {"a": "in float64 [n, n + 1]", "b": "inout float64 [n + 1, n]"}
    body = nest((("i", "n"), ("j", "n")), Do("b[j, i]", "a[i, j + 1]"))
    return program("transposed", arrays, body, known="n >= 0")


def differences_of_rows() -> Program:
    arrays = {"x": X, "y": Y, "z": "in float64 [n + 2]"}
    body = For("i", 0, "n", Do("y[i]", "x[i] - (z[i + 1] - y[i])"))
    return program("differences_of_rows", arrays, body, known="n >= 0")


def quotients() -> Program:
    arrays = {"x": "in int32 [n]", "y": "inout int32 [n]"}
    return program("quotients", arrays, For("i", 0, "n", Do("y[i]", "x[i] // 3")), known="n >= 0")


def choices() -> Program:
    value = "x[i] if x[i] < x[i + 1] else 5"
    return program("choices", {"x": X, "y": Y}, For("i", 0, "n", Do("y[i]", value)), known="n >= 0")


def every_other() -> Program:
    arrays = {"x": "in float64 [2 * n + 1]", "y": Y}
    return program("every_other", arrays, For("i", 0, "n", Do("y[i]", "x[2 * i]")), known="n >= 0")


def double_sum() -> Program:
    """A sum over two loops, in the declared order."""
    arrays = {"a": "in float64 [n, n]", "s": "inout float64 []"}
    body = nest((("i", "n"), ("j", "n")), Do("s", "s + a[i, j]"))
    return program("double_sum", arrays, body, known="n >= 0")


def triangle() -> Program:
    arrays = {"a": "in float64 [n, n]", "b": "inout float64 [n, n]"}
    body = For("i", 0, "n", For("j", 0, "i + 1", Do("b[i, j]", "a[j, i] + 1")))
    return program("triangle", arrays, body, known="n >= 0")


def all_but_first() -> Program:
    """The inner loop does not run in the first iteration of the outer one."""
    arrays = {"x": X, "y": Y, "a": "inout float64 [n, n]"}
    inner = For("j", 0, "n", Do("a[i, j]", "a[i, j] + y[i]", "i >= 1"))
    body = For("i", 0, "n", Do("y[i]", "x[i]"), inner)
    return program("all_but_first", arrays, body, known="n >= 0")


# -- faults ----------------------------------------------------------------------------------


def no_proof_of(name: str) -> Patch:
    """A proof that finds nothing wrong with anything."""
    return replaced(schedule_legality, name, lambda original: lambda *args, **kwargs: None)


def _bound_too_low(original: Any) -> Any:
    """`i <= b` ends before b."""

    def stop(cond: Expr, var: str) -> Expr:
        if isinstance(cond, Binary) and cond.op == "le":
            return cond.y
        found: Expr = original(cond, var)
        return found - 1

    return stop


def _end_at_zero_lost(original: Any) -> Any:
    """Loops that run up to 0 in time, as decreasing ones do, stop before it."""

    def stop(cond: Expr, var: str) -> Expr:
        found: Expr = original(cond, var)
        return Const(0) if found == Const(1) else found

    return stop


def _full_tiles_short(original: Any) -> Any:
    """The last iteration of a full strip of 32 is lost: no small size shows it."""

    def expr(node: Any, values: Any) -> Expr:
        found: Expr = original(node, values)
        return Const(30) if found == Const(31) else found

    return expr


def _extremes_exchanged(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(ast_expressions._BINARY, "min", "max")


def _last_dropped(original: Any) -> Any:
    def block(body: tuple[Stmt, ...]) -> Stmt:
        found: Stmt = original(body)
        return found.body[0] if isinstance(found, Block) and len(found.body) > 1 else found

    return block


def _guard_dropped(original: Any) -> Any:
    return lambda self, branch: branch.body


def _guard_implied_by_less(original: Any) -> Any:
    """A sum that is at least -1 counts as one that is not negative."""

    def form(cond: Expr) -> LinearForm | None:
        found: LinearForm | None = original(cond)
        return None if found is None else found + LinearForm((), 1)

    return form


def _remainder_missing(original: Any) -> Any:
    def cut(loop: Any, size: int, inner: str) -> Stmt:
        found: Stmt = original(loop, size, inner)
        return found.body[0] if isinstance(found, Block) else found

    return cut


def _remainder_late(original: Any) -> Any:
    return lambda loop, size: original(loop, size) + 1


def _chunk_too_many(original: Any) -> Any:
    """Chunks begin as long as any iteration is left, also when it is not a whole chunk."""

    def cut(loop: Any, size: int, inner: str) -> Stmt:
        found: Any = original(loop, size, inner)
        if not isinstance(found, Block):
            return found  # type: ignore[no-any-return]
        whole, rest = found.body
        return Block((replace(whole, stop=loop.stop), rest))

    return cut


def _barriers_lost(original: Any) -> Any:
    def share(found: LoopNest) -> LoopNest:
        shared: LoopNest = original(found)
        gone = rebuild(shared.body, lambda s: Block(()) if isinstance(s, Barrier) else s)
        return replace(shared, body=gone)

    return share


def _memory_outside(original: Any) -> Any:
    """One copy for all iterations, where each should have its own."""

    def allocate(array: Array, around: frozenset[str], body: Stmt) -> Stmt:
        return buffers._alloc(array, buffers.Space.SCRATCH, body)

    return allocate


def _strides_exchanged(original: Any) -> Any:
    def argument(array: Array) -> Buffer:
        names = (stride_name(array.name, array.rank - 1 - k) for k in range(array.rank))
        writable = array.role is not Role.IN
        return Buffer(array.name, array.dtype, tuple(map(Var, names)), writable=writable)

    return argument


def _iterators_exchanged(original: Any) -> Any:
    return lambda statement, point: original(statement, list(reversed(point)))


def _first_value_kept(original: Any) -> Any:
    """A scalar in a register keeps its first value when it is assigned again."""
    first: dict[str, Var] = {}

    def promoted(row: Any, scalar: str, value: Var | None, names: set[str]) -> Stmt | None:
        found: Stmt | None = original(
            row, scalar, None if value is None else first.setdefault(scalar, value), names
        )
        return found

    return promoted


def _operands_exchanged(original: Any) -> Any:
    def binary(code: Any, op: str, x: SSAValue, y: SSAValue) -> SSAValue:
        is_data = op == "sub" and x.dtype.is_float
        found: SSAValue = original(code, op, y, x) if is_data else original(code, op, x, y)
        return found

    return binary


def _division_truncates(original: Any) -> Any:
    def division(code: Any, op: str, x: SSAValue, y: SSAValue) -> SSAValue:
        word = "sdiv" if op == "floordiv" else "srem"
        return SSAValue(code.emit(f"{word} {x}, {y.text}"), x.dtype, x.lanes)

    return division


def _choice_reversed(original: Any) -> Any:
    return lambda code, flag, x, y: original(code, flag, y, x)


def _lanes_adjacent(original: Any) -> Any:
    """Every vector is loaded as if its elements were neighbours."""

    def load(code: Any, memory: Any, offset: SSAValue, stride: SSAValue, lanes: int) -> SSAValue:
        near = SSAValue("1", INT64) if lanes > 1 else stride
        found: SSAValue = original(code, memory, offset, near, lanes)
        return found

    return load


def _no_parentheses(original: Any) -> Any:
    return lambda self, binding: self.text


MISCOMPILES = (
    Miscompile(
        "reversed dependence",
        diagonal,
        (Interchange(("j", "i")),),
        no_proof_of("violation"),
        is_proof=True,
    ),
    Miscompile(
        "tiles across a dependence",
        diagonal,
        (Tile(("i", "j"), (2, 2)),),
        no_proof_of("violation"),
        is_proof=True,
    ),
    Miscompile(
        "fusion before the value is there",
        two_passes,
        (Fuse("i", "j"),),
        no_proof_of("violation"),
        is_proof=True,
    ),
    Miscompile(
        "waves too steep",
        sweep,
        (Skew("t", 0, (0, 0), (1, 1), 3),),
        no_proof_of("violation"),
        is_proof=True,
    ),
    Miscompile(
        "lanes that need each other",
        prefix,
        (Vectorize("i", 4),),
        no_proof_of("_require_mark"),
        is_proof=True,
    ),
    Miscompile(
        "threads that need each other",
        prefix,
        (Parallel("i"),),
        no_proof_of("_require_mark"),
        is_proof=True,
    ),
    Miscompile(
        "private copy of a carried value",
        carried_scalar,
        (Privatize("t", "i"),),
        no_proof_of("_require_private"),
        is_proof=True,
    ),
    Miscompile(
        "float sum reordered without leave",
        double_sum,
        (Interchange(("j", "i")),),
        replaced(reductions, "is_reorderable", lambda original: lambda *args: True),
        is_proof=True,
    ),
    Miscompile("last iteration lost", scale, (), replaced(astgen, "_stop", _bound_too_low)),
    Miscompile(
        "last iteration of a decreasing loop lost",
        downwards,
        (),
        replaced(astgen, "_stop", _end_at_zero_lost),
    ),
    Miscompile(
        "full tiles one short",
        scale,
        (StripMine("i", 32),),
        replaced(ast_expressions, "read_expr", _full_tiles_short),
    ),
    Miscompile("min and max exchanged in bounds", scale, (StripMine("i", 3),), _extremes_exchanged),
    Miscompile(
        "statement dropped", guarded, (), replaced(simplify, "_simplified_block", _last_dropped)
    ),
    Miscompile(
        "guard dropped",
        guarded,
        (),
        replaced(simplify._Simplifier, "_simplified_if", _guard_dropped),
    ),
    Miscompile(
        "guard taken for implied",
        all_but_first,
        (),
        both(
            replaced(simplify, "nonnegative_form", _guard_implied_by_less),
            replaced(statement_uses, "nonnegative_form", _guard_implied_by_less),
        ),
    ),
    Miscompile(
        "remainder of an unrolled loop missing",
        scale,
        (Unroll("i", 4),),
        replaced(vectorize, "strip_mine", _remainder_missing),
    ),
    Miscompile(
        "remainder of a vector loop late",
        scale,
        (Vectorize("i", 4),),
        replaced(vectorize, "_remainder_start", _remainder_late),
    ),
    Miscompile(
        "one chunk too many",
        scale,
        (Vectorize("i", 4),),
        replaced(vectorize, "strip_mine", _chunk_too_many),
    ),
    Miscompile(
        "barriers lost",
        sweep,
        (Parallel("i"), Parallel("j")),
        replaced_pass("lower_to_spmd", _barriers_lost),
    ),
    Miscompile(
        "private memory outside its loop",
        private_row,
        (Privatize("w", "i"), Parallel("i")),
        replaced(astgen, "allocate_private", _memory_outside),
    ),
    Miscompile(
        "strides exchanged", transposed, (), replaced(buffers, "_argument", _strides_exchanged)
    ),
    Miscompile(
        "iterators exchanged",
        triangle,
        (),
        replaced(astgen, "_instance", _iterators_exchanged),
    ),
    Miscompile(
        "register keeps an old value",
        reused_scalar,
        (Privatize("t", "i"),),
        replaced(promote_registers, "_promoted", _first_value_kept),
    ),
    Miscompile(
        "operands of a difference exchanged",
        differences_of_rows,
        (),
        replaced(llvm_arithmetic, "binary", _operands_exchanged),
    ),
    Miscompile(
        "division towards zero",
        quotients,
        (),
        replaced(llvm_arithmetic, "_integer_division", _division_truncates),
    ),
    Miscompile(
        "choice reversed", choices, (), replaced(llvm_arithmetic, "select", _choice_reversed)
    ),
    Miscompile(
        "lanes of a strided vector adjacent",
        every_other,
        (Vectorize("i", 4),),
        replaced(llvm_memory, "load", _lanes_adjacent),
    ),
    Miscompile(
        "parentheses lost in C",
        differences_of_rows,
        (),
        replaced(c_syntax.CText, "within", _no_parentheses),
        in_c=True,
    ),
)
