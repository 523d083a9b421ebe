"""A whole function for types of arguments, as later processes know it without reading it.

What calls need beside the kernel lies in the disk cache: what is taken and returned, guards, the
checks that may fail, the arguments that are written. Two entries lead there, as for affine loops
(see jit_definition): the first tells which outer names count, the second is keyed by what they
stand for now: numbers, functions of known modules, texts of helpers.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

import numpy as np

from loopwright.frontends.python import ArgType
from loopwright.frontends.python.fingerprint import definition_text, lookup, value_texts
from loopwright.frontends.python.procedures.variant import Variant
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.procedure import (
    ArrayRole,
    ArrayView,
    Parameter,
    Procedure,
    ProcedureArray,
    Returned,
    ReturnedArray,
    ReturnedNumber,
    ReturnedOneOf,
    ReturnedPart,
    ReturnedTuple,
    ViewAxis,
)
from loopwright.ir.serial import Malformed, read_expr, to_json
from loopwright.kernels import recall, remember

if TYPE_CHECKING:
    from loopwright.ir.loops import LoopNest

__all__ = ["Failure", "Interface", "ProcedureDefinition", "interface_of"]

_FORM = 2  # of what is stored


class Failure(NamedTuple):
    """An exception that a check raises: its type, its text with places for so many values."""

    exception: str
    text: str
    values: int


class Interface(NamedTuple):
    """What calls of a function know of it."""

    procedure: Procedure  # its body does not count
    failures: tuple[Failure, ...]  # by the number of the check, counted from 1
    written: tuple[str, ...]  # arguments that are written


def interface_of(procedure: Procedure, nest: LoopNest) -> Interface:
    """What calls know of a function that was read and lowered now."""
    # lazy: loads what lowers functions
    from loopwright.lower.procedure_nests.lower_procedure import checks_of

    stored = {buffer.name for buffer in nest.buffers if buffer.writable}
    arguments = (a.name for a in procedure.arrays if a.role is ArrayRole.ARGUMENT)
    failures = (Failure(c.exception, c.text, len(c.values)) for c in checks_of(procedure))
    written = tuple(name for name in arguments if name in stored)
    return Interface(procedure, tuple(failures), written)


class ProcedureDefinition:
    """A function for one tuple of argument types and one kind of call."""

    def __init__(
        self, function: FunctionType, types: tuple[ArgType, ...], variant: Variant, machine: str
    ) -> None:
        self._function = function
        text = definition_text(function)
        kind = sorted(variant.ones), variant.orders, sorted(variant.gapped), variant.trusting
        given = [tuple(x) for x in types]
        self.place = f"whole {_FORM} {text} {given} {kind} {machine} NumPy {np.__version__}"
        self._is_known = text is not None

    def __str__(self) -> str:
        return f"definition of '{self._function.__qualname__}'"

    def recalled(self) -> tuple[str, Interface] | None:
        """A key of all that the function means, and its interface; None: it has to be read."""
        match recall(self.place) if self._is_known else None:
            case {"captured": list(names)} if all(isinstance(name, str) for name in names):
                key = self._key(names)
            case _:
                return None
        facts = None if key is None else recall(key)
        if key is None or facts is None:
            return None
        try:
            captured = tuple((name, lookup(self._function, name)) for name in names)
            return key, _interface(facts, captured)
        except Malformed:
            return None

    def keep(self, made: Interface) -> str | None:
        """Let later processes know the function; the key, None where text does not tell it."""
        names = [name for name, _ in made.procedure.captured]
        key = self._key(names) if self._is_known else None
        if key is not None:
            remember(key, _facts(made))
            remember(self.place, {"captured": names})
        return key

    def _key(self, names: list[str]) -> str | None:
        values = value_texts(self._function, names)
        return None if values is None else f"{self.place} {names} {values}"


# -- as JSON --------------------------------------------------------------------------------------


def _facts(made: Interface) -> dict[str, Any]:
    procedure = made.procedure
    return {
        "name": procedure.name,
        "parameters": [[p.name, p.kind] for p in procedure.parameters],
        "sizes": list(procedure.sizes),
        "arrays": [
            [a.name, a.dtype.name, [to_json(x) for x in a.shape], a.role.value, list(a.order)]
            for a in procedure.arrays
        ],
        "guards": [to_json(guard) for guard in procedure.guards],
        "returned": _returned(procedure.returned),
        "views": [
            [
                view.name,
                view.base,
                view.dtype.name,
                [to_json(x) for x in view.start],
                [
                    [to_json(axis.extent), [[d, to_json(step)] for d, step in axis.steps]]
                    for axis in view.axes
                ],
            ]
            for view in procedure.views
        ],
        "late": [list(pair) for pair in procedure.late],
        "failures": [list(failure) for failure in made.failures],
        "written": list(made.written),
    }


def _returned(returned: Returned) -> list[Any]:
    match returned:
        case ReturnedArray(name=name, trims=trims):
            return ["array", name, trims]
        case ReturnedPart(item=item, part=part):
            return ["part", _returned(item), part]
        case ReturnedOneOf(which=which, items=items):
            return ["one of", which, [_returned(item) for item in items]]
        case ReturnedNumber(name=name, weak=weak):
            return ["number", name, weak]
        case ReturnedTuple(items=items, is_none=is_none):
            return ["tuple", [_returned(item) for item in items], is_none]
        case _:
            assert_never(returned)


def _interface(facts: Any, captured: tuple[tuple[str, object], ...]) -> Interface:
    """Read what `_facts` gave; raises Malformed where it has another form."""
    try:
        procedure = Procedure(
            str(facts["name"]),
            tuple(Parameter(name, kind) for name, kind in facts["parameters"]),
            tuple(facts["sizes"]),
            tuple(
                ProcedureArray(
                    name, DTYPES[dtype], _each(read_expr, shape), ArrayRole(role), tuple(order)
                )
                for name, dtype, shape, role, order in facts["arrays"]
            ),
            _each(read_expr, facts["guards"]),
            (),
            _read_returned(facts["returned"]),
            tuple(
                ArrayView(
                    name, base, DTYPES[dtype], _each(read_expr, start), _each(_read_axis, axes)
                )
                for name, base, dtype, start, axes in facts["views"]
            ),
            tuple((str(name), str(cell)) for name, cell in facts["late"]),
            captured=captured,
        )
        failures = tuple(Failure(str(a), str(b), int(c)) for a, b, c in facts["failures"])
        return Interface(procedure, failures, tuple(facts["written"]))
    except (KeyError, TypeError, ValueError) as error:
        raise Malformed("the interface of a function", facts) from error


def _each(read: Callable[[Any], Any], data: Any) -> tuple[Any, ...]:
    return tuple(map(read, data))


def _read_axis(data: Any) -> ViewAxis:
    extent, steps = data
    return ViewAxis(read_expr(extent), tuple((int(d), read_expr(step)) for d, step in steps))


def _read_returned(data: Any) -> Returned:
    match data:
        case ["array", str(name), bool(trims)]:
            return ReturnedArray(name, trims)
        case ["part", item, "real" | "imag" as part]:
            found = _read_returned(item)
            if isinstance(found, ReturnedArray):
                return ReturnedPart(found, part)
        case ["one of", str(which), list(items)]:
            return ReturnedOneOf(which, _each(_read_returned, items))
        case ["number", str(name), bool(weak)]:
            return ReturnedNumber(name, weak)
        case ["tuple", list(items), bool(is_none)]:
            return ReturnedTuple(_each(_read_returned, items), is_none)
    raise Malformed("what a function returns", data)
