"""Whether the rules of a format hold for a tensor, counted by generated code.

A rule `forall x: premise => conclusion` becomes a loop over the points of its premise that counts
those where the conclusion fails. `check` says where; this says whether, as fast as code can read.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import INT64, DType, dtype_of
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load
from loopwright.ir.program import Role

from .check import within_domains
from .format import Format, Rule
from .room import is_built_in
from .spf.bodies import as_condition
from .spf.compile import CompiledComputation, compile_computation
from .spf.computation import Computation, DataSpace, Stmt
from .synthesis.source import loop_facts
from .tensor import SparseTensor
from .uf import Conj, IntegerSet, Linear, Var, symbols

__all__ = ["rules_hold"]

_COUNT = "broken"


def rules_hold(tensor: SparseTensor) -> bool | None:
    """Whether all rules hold of a tensor whose index arrays lie in their ranges.

    None where code cannot tell: rules of a user's own format may read anywhere, and some functions
    have no code. Rules are looked at in their order, so that each may rely on those before it.
    """
    format = tensor.format
    names = tuple(index.name for index in format.indices)
    dtypes = tuple(dtype_of(tensor.arrays[name].dtype) for name in names)
    codes = _codes(format, dtypes)
    if codes is None:
        return None
    arrays = {name: np.ascontiguousarray(tensor.arrays[name]) for name in names}
    for code in codes:
        broken = np.zeros(1, np.int64)
        needed = {space.name for space in code.computation.spaces}
        own = {name: array for name, array in arrays.items() if name in needed}
        values = {name: tensor.symbols[name] for name in code.computation.symbols}
        code.run(own | {_COUNT: broken}, values)
        if broken[0]:
            return False
    return True


@lru_cache(maxsize=128)
def _codes(format: Format, dtypes: tuple[DType, ...]) -> tuple[CompiledComputation, ...] | None:
    """A counter for each rule; None where one of them cannot be counted."""
    if not is_built_in(format):
        return None
    widths = {index.name: dtype for index, dtype in zip(format.indices, dtypes, strict=True)}
    found = []
    for rule in format.rules:
        computation = _counted(format, rule, widths) if rule.variables else None
        if computation is not None:
            found.append(compile_computation(computation))
        elif rule.variables:
            return None
    return tuple(found)


def _counted(format: Format, rule: Rule, widths: dict[str, DType]) -> Computation | None:
    """The computation that counts where a rule is broken."""
    if len(rule.premise) != 1 or len(rule.conclusion) != 1:
        return None
    premise, conclusion = within_domains(format, rule, rule.premise[0]), rule.conclusion[0]
    if premise.exists or conclusion.exists:
        return None
    inverses = {index.inverse for index in format.indices if index.inverse}
    called = {call.name for conj in (premise, conclusion) for call in conj.calls}
    if called & inverses:
        return None
    spaces = tuple(
        DataSpace(index.name, widths[index.name], index.extents, Role.IN)
        for index in format.indices
        if index.name in called
    )
    counter = DataSpace.of(_COUNT, INT64, (1,), Role.INOUT)
    try:
        broken = _negated(conclusion, spaces)
    except UsageError:
        return None  # a known function without code for sizes that are not constants
    # A sum without a branch: most entries break nothing, and what is compared comes in rows.
    more = Load(_COUNT, (Const(0),), INT64) + Cast(broken, INT64)
    times = tuple(Linear.of(Var(name)) for name in rule.variables)
    domain = IntegerSet(rule.variables, (premise,))
    stmt = Stmt("count", domain, times, _COUNT, (Linear.of(0),), more)
    wanted = {s for space in spaces for extent in space.shape for s in symbols(extent)}
    wanted |= {
        s for conj in (premise, conclusion) for c in conj.constraints for s in symbols(c.term)
    }
    return Computation(
        "rule", (*spaces, counter), (stmt,), tuple(sorted(wanted)), loop_facts(format)
    )


def _negated(conj: Conj, spaces: tuple[DataSpace, ...]) -> Expr:
    """Whether some constraint does not hold."""
    by_name = {space.name: space for space in spaces}
    found: Expr | None = None
    for constraint in conj.constraints:
        fails: Expr = Binary("eq", Cast(as_condition(constraint, by_name), INT64), Const(0))
        found = fails if found is None else Binary("or", found, fails)
    assert found is not None, "a rule concludes something"
    return found
