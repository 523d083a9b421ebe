"""Names at the ends of branches and loops: one value for what may be several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from loopwright.frontends.python.merged_types import join
from loopwright.frontends.python.procedures.abstract_values import (
    AnyValue,
    ArrayValue,
    StaticValue,
    TupleValue,
    Unknown,
)
from loopwright.frontends.python.procedures.building import Building
from loopwright.frontends.python.python_values import PyType, PyValue, convert
from loopwright.frontends.refusal import Refusal
from loopwright.ir.procedure import ComputeArray, ProcedureStmt
from loopwright.ir.visit import loads, names

__all__ = ["Wider", "join_branches", "same_value", "stored"]

Env = dict[str, AnyValue]
_SEVERAL = "is bound to different things in two branches"


class Wider(Exception):  # noqa: N818, a loop has to be read again
    """Names of a loop need other types, or arrays that the iterations hand on."""

    def __init__(self, types: dict[str, PyType], arrays: frozenset[str] = frozenset()) -> None:
        super().__init__(types, arrays)
        self.types = types
        self.arrays = arrays


def same_value(x: AnyValue | None, y: AnyValue | None) -> bool:
    """Whether two values are surely the same."""
    match x, y:
        case StaticValue(value=one), StaticValue(value=other):
            return one is other
        case TupleValue(items=one), TupleValue(items=other):
            alike = len(one) == len(other) and x.is_list == y.is_list
            return alike and all(map(same_value, one, other))
        case ArrayValue(view=one), ArrayValue(view=other):
            return one is not None and one == other
        case PyValue(), PyValue():
            return x == y
    return x is y


def stored(build: Building, cell: str, value: PyValue) -> None:
    """Store a number in a cell, converted to its type."""
    build.set(cell, convert(value, build.arrays[cell].dtype))


def join_branches(
    build: Building,
    ends: list[tuple[list[ProcedureStmt], Env]],
    before: Mapping[str, AnyValue],
    visible: frozenset[str],
    outside: frozenset[str],
) -> tuple[Env, dict[str, tuple[str, bool]]]:
    """What names are after branches that go on, and the cells that hold them: name, weak.

    Stores are added to the branches. The caller allocates no cells: they stand before the branch,
    where the names `visible` were given; the names `outside`, before the function began.
    """
    if not ends:
        return dict(before), {}
    if len(ends) == 1:
        return dict(ends[0][1]), {}
    found: Env = {}
    cells: dict[str, tuple[str, bool]] = {}
    for name in dict.fromkeys(name for _, env in ends for name in env):
        values = [env.get(name) for _, env in ends]
        if all(same_value(values[0], value) for value in values[1:]):
            assert values[0] is not None
            found[name] = values[0]
        elif all(isinstance(value, PyValue) for value in values):
            numbers = [value for value in values if isinstance(value, PyValue)]
            dtype, weak = joined_type(name, [number.type for number in numbers])
            cell = build.cell(name, dtype)
            for (body, _), number in zip(ends, numbers, strict=True):
                with build.block() as tail:
                    stored(build, cell, number)
                body += tail
            cells[name] = cell, weak
        elif None in values:
            found[name] = Unknown("is assigned in one branch only")
        elif (joined := _joined_arrays(build, name, ends, visible, outside)) is not None:
            found[name] = joined
        else:
            reported = any(isinstance(v, Unknown) and not v.why for v in values)
            found[name] = Unknown("" if reported else _SEVERAL)
    return found, cells


def _joined_arrays(
    build: Building,
    name: str,
    ends: list[tuple[list[ProcedureStmt], Env]],
    visible: frozenset[str],
    outside: frozenset[str],
) -> ArrayValue | None:
    """Memory that each branch copies its array to; None where these are not alike."""
    arrays = [v for _, env in ends if isinstance(v := env[name], ArrayValue) and v.view]
    first = arrays[0] if arrays else None
    if first is None or len(arrays) < len(ends) or not first.rank:
        return None
    if not all(names(extent) <= visible and not loads(extent) for extent in first.shape):
        return None
    order = build.order_of(first)
    for other in arrays[1:]:
        is_like = other.dtype == first.dtype and other.rank == first.rank
        if not is_like or (build.order_of(other) or order) != (order or build.order_of(other)):
            return None
        if not all(map(build.equal, other.shape, first.shape)):
            return None
    room = build.allocate(name, first.dtype, first.shape, order)
    assert room.view is not None
    for (body, env), array in zip(ends, arrays, strict=True):
        assert array.view is not None
        base = array.view.base
        others = (x.view.base for n, x in env.items() if n != name and _is_memory(x))  # type: ignore[union-attr]
        if base in outside or base in others:
            # Others have it: that nobody sees while neither is written.
            build.frozen |= {base, room.view.base}
        body.append(ComputeArray(room.view.name, array.expr))
    return room


def _is_memory(value: AnyValue) -> bool:
    return isinstance(value, ArrayValue) and value.view is not None


def joined_type(name: str, types: Iterable[PyType]) -> PyType:
    """The type that a name has where several assignments reach."""
    given = list(dict.fromkeys(types))
    if len(given) == 1:
        return given[0]
    dtypes = {dtype for dtype, _ in given}
    dtype, weak = join(given)
    is_lossy = any(d.is_integer and d.bits > 32 and not w for d, w in given) and dtype.is_float
    if is_lossy or (len(dtypes) > 1 and any(d.kind == "b" for d in dtypes)):
        words = " or ".join(sorted({d.name for d in dtypes}))
        hint = "use another name, or convert to one type"
        raise Refusal("LW119", f"'{name}' is {words}, as data decide", hint=hint)
    return dtype, weak
