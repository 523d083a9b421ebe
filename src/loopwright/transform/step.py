"""Step: one decision about a Schedule, as data: applied, enumerated, printed, stored as JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any, ClassVar, NewType, NoReturn, get_type_hints

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.grid_kernel import ElementsVariant, GridVariant
from loopwright.ir.kernel_variant import KernelVariant
from loopwright.ir.schedule import Schedule
from loopwright.ir.serial import Malformed, read_grid_variant, read_variant, variant_to_json
from loopwright.lazy_dataclass import dataclass

__all__ = ["Step", "Text", "refuse", "step_from_json"]

# A file of plans may come from anywhere: what one field may hold is bounded.
_MOST_ENTRIES = 64
_MOST_LETTERS = 128
_MOST_NUMBER = 2**31 - 1
_MOST_TEXT = 1_000_000

Text = NewType("Text", str)  # a field that is no name: a schedule tree


@dataclass(frozen=True, slots=True)
class Step(ABC):
    """One transformation of a schedule; its fields are its only arguments.

    Fields are of type str, Text, int, tuple[str, ...], tuple[int, ...] or tuples of kernel
    variants: every step has a JSON form.
    """

    kind: ClassVar[str]  # the step's name in JSON and in messages

    @abstractmethod
    def apply(self, schedule: Schedule) -> Schedule:
        """The changed schedule, proven legal; raises IllegalStep with the reason."""

    @classmethod
    @abstractmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Step]:
        """Steps of this kind that fit the shape of `schedule`; `apply` may still refuse them."""

    def to_json(self) -> dict[str, Any]:
        """The step as JSON data."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": self.kind, **{name: _plain(value) for name, value in values.items()}}

    def __str__(self) -> str:
        shown = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self))
        return f"{self.kind}({', '.join(shown)})"


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, KernelVariant | GridVariant | ElementsVariant):
        return variant_to_json(value)
    return value


def refuse(step: Step, reason: str, witness: object = "") -> NoReturn:
    """Raise the IllegalStep that says why `step` cannot be taken."""
    raise IllegalStep(step, reason, str(witness))


def step_from_json(data: object, kinds: Mapping[str, type[Step]]) -> Step:
    """The step that `data` describes; UsageError unless it is a known kind with just its fields."""
    if not isinstance(data, dict):
        raise UsageError("a step is a JSON object", found=repr(data)[:80])
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        hint = f"one of {', '.join(kinds)}"
        raise UsageError("unknown kind of step", found=repr(kind)[:80], hint=hint)
    cls = kinds[kind]
    types = {name: hint for name, hint in get_type_hints(cls).items() if name != "kind"}
    given = {name: value for name, value in data.items() if name != "kind"}
    if given.keys() != types.keys():
        found = ", ".join(sorted(map(str, given)))[:80]
        raise UsageError(f"step '{kind}' has other fields", found=found, hint=", ".join(types))
    values = {name: _value(kind, name, types[name], value) for name, value in given.items()}
    return cls(**values)


def _value(kind: str, name: str, wanted: Any, value: object) -> Any:
    """`value` as the field `name` of type `wanted`."""
    if wanted is Text:
        if isinstance(value, str) and len(value) <= _MOST_TEXT:
            return value
        accepted = "text"
    elif wanted in (int, str):
        if _fits(value, wanted):
            return value
        accepted = "a whole number" if wanted is int else "a name"
    elif wanted in _VARIANTS:
        try:
            if isinstance(value, list) and len(value) <= _MOST_ENTRIES:
                return tuple(map(_VARIANTS[wanted], value))
        except Malformed as error:
            hint = "as a plan that was saved has it"
            raise UsageError(f"step '{kind}': field '{name}' is {error}", hint=hint) from None
        accepted = "a list of kernel variants"
    else:
        entry = str if wanted == tuple[str, ...] else int
        entries = value if isinstance(value, list) and len(value) <= _MOST_ENTRIES else [None]
        if all(_fits(item, entry) for item in entries):
            return tuple(entries)
        accepted = "a list of names" if entry is str else "a list of whole numbers"
    raise UsageError(f"step '{kind}': field '{name}' is {accepted}", found=repr(value)[:80])


# Readers of the entries of a field, by its type.
_VARIANTS: dict[Any, Callable[[Any], Any]] = {
    tuple[KernelVariant, ...]: read_variant,
    tuple[GridVariant | ElementsVariant, ...]: read_grid_variant,
}


def _fits(value: object, wanted: type) -> bool:
    if wanted is str:
        return isinstance(value, str) and value.isidentifier() and len(value) <= _MOST_LETTERS
    # JSON's true is an int in Python, but not a number to us.
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _MOST_NUMBER
