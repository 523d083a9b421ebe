"""Frozen dataclasses whose methods are compiled when they are first called.

The standard library compiles six methods per class while a module is imported: 0.7 ms on a
Neoverse N1, a third of the time from a new process to the end of a call that finds its kernel on
disk. Most of these methods are never called. Here a class costs 0.1 ms, and a method is compiled
by its first call, which puts it in the class; all later calls run what the standard library
would have written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type | None = None, /, *, frozen: bool = False, eq: bool = True, **options: Any
    ) -> Any:
        """What `dataclasses.dataclass` makes of a class, but for when methods are compiled.

        Options are the standard library's; a class that is not frozen, or that asks for other
        methods, gets them from there. Frozen classes of both kinds do not inherit from each other.
        """
        if not frozen or not options.keys() <= {"slots", "kw_only"}:
            return dataclasses.dataclass(cls, frozen=frozen, eq=eq, **options)

        def decorate(cls: type) -> type:
            own = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
            _add_methods(own, eq, bool(options.get("slots")))
            return own

        return decorate if cls is None else decorate(cls)


def _add_methods(cls: type, eq: bool, slots: bool) -> None:
    """Give the class each method of a frozen dataclass that it does not define itself."""
    methods: dict[str, Any] = {"__repr__": _repr}
    methods["__init__"] = _compiled_by_first_call(cls, "__init__", _init_source)
    if eq:
        methods["__eq__"] = _compiled_by_first_call(cls, "__eq__", _eq_source)
        if cls.__dict__.get("__hash__") is None:  # as Python leaves it beside an __eq__
            cls.__hash__ = _compiled_by_first_call(  # type: ignore[method-assign]
                cls, "__hash__", _hash_source
            )
    if slots and "__getstate__" not in cls.__dict__:
        methods |= {"__getstate__": _getstate, "__setstate__": _setstate}
    for name, method in methods.items():
        if name not in cls.__dict__:
            setattr(cls, name, method)
    # Both are written once for all classes: they are called by mistake only.
    cls.__setattr__ = _refuse_assignment  # type: ignore[method-assign, assignment]
    cls.__delattr__ = _refuse_deletion  # type: ignore[method-assign, assignment]


Source = Callable[[type, dict[str, Any]], str]  # a method's text; what it refers to is put in


def _compiled_by_first_call(cls: type, name: str, source: Source) -> Callable[..., Any]:
    """A method that replaces itself by the compiled one. Threads may do so at the same time."""

    def first_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        names: dict[str, Any] = {}
        exec(source(cls, names), names)
        method = names[name]
        method.__qualname__ = f"{cls.__qualname__}.{name}"
        method.__module__ = cls.__module__
        setattr(cls, name, method)
        return method(self, *args, **kwargs)

    first_call.__name__ = name
    first_call.__qualname__ = f"{cls.__qualname__}.{name}"
    return first_call


def _init_source(cls: type, names: dict[str, Any]) -> str:
    names |= {"_set": object.__setattr__, "_MISSING": MISSING}
    parameters: dict[bool, list[str]] = {False: [], True: []}  # by whether they need their name
    lines = []
    for field in dataclasses.fields(cls):
        name, value = field.name, field.name
        has_factory = field.default_factory is not MISSING
        names[f"_default_{name}"] = field.default_factory if has_factory else field.default
        if field.init:
            default = f" = _default_{name}" if field.default is not MISSING else ""
            parameters[field.kw_only is True].append(
                name + (" = _MISSING" if has_factory else default)
            )
            if has_factory:
                value = f"_default_{name}() if {name} is _MISSING else {name}"
        elif has_factory:
            value = f"_default_{name}()"
        elif field.default is not MISSING:
            value = f"_default_{name}"
        else:
            continue  # __post_init__ sets it
        slot = getattr(cls, name, None)
        if isinstance(slot, MemberDescriptorType):  # three quarters of the time of object's
            names[f"_set_{name}"] = slot.__set__
            lines.append(f"    _set_{name}(self, {value})")
        else:
            lines.append(f"    _set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    named = ["*", *parameters[True]] if parameters[True] else []
    head = ", ".join(["self", *parameters[False], *named])
    return "\n".join([f"def __init__({head}):", *(lines or ["    pass"])])


def _eq_source(cls: type, names: dict[str, Any]) -> str:
    compared = [field.name for field in dataclasses.fields(cls) if field.compare]
    left, right = (_tuple_source(who, compared) for who in ("self", "other"))
    # Tuples compare equal items by identity, so that this first test changes no answer.
    return (
        "def __eq__(self, other):\n"
        "    if self is other:\n"
        "        return True\n"
        f"    return {left} == {right} if other.__class__ is self.__class__ else NotImplemented"
    )


def _hash_source(cls: type, names: dict[str, Any]) -> str:
    hashed = [
        field.name
        for field in dataclasses.fields(cls)
        if (field.compare if field.hash is None else field.hash)
    ]
    return f"def __hash__(self):\n    return hash({_tuple_source('self', hashed)})"


def _tuple_source(who: str, names: list[str]) -> str:
    return "(" + "".join(f"{who}.{name}, " for name in names) + ")"


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


def _refuse_assignment(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
