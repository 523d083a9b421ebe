"""Draws NumPy functions, statement by statement: NumPy runs each as soon as it is drawn.

So shapes and types are known while drawing, and most statements make sense. One that raises is
usually drawn again; sometimes it stays, as the last one.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from outside.campaigns.campaign import Random, chance, pick

__all__ = ["DTYPES", "Drawing", "draw_lines", "is_small"]

DTYPES = (
    "bool", "int8", "uint8", "int32", "int64", "uint64",
    "float16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
MOST_ELEMENTS = 20_000  # of all arrays together
TRIES = 8  # of a statement
_UNARY = (
    "abs", "negative", "sqrt", "floor", "ceil", "trunc", "rint", "sign", "square", "isnan",
    "isfinite", "logical_not", "invert", "conj", "positive", "reciprocal", "signbit",
)  # fmt: skip
_BINARY = (
    "minimum", "maximum", "fmin", "fmax", "add", "subtract", "multiply", "divide", "copysign",
    "logical_and", "logical_or", "fmod", "equal", "less", "floor_divide", "remainder",
)  # fmt: skip
_OPERATORS = ("+", "-", "*", "+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>")
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_REDUCTIONS = ("sum", "max", "min", "prod", "any", "all", "mean", "argmax", "argmin")
_ROUNDING = ("exp", "log", "sin", "cos", "tanh", "arctan", "expm1", "log1p", "cbrt")
_LITERALS = ("0", "1", "2", "3", "-1", "-2", "0.5", "1.5", "-0.0", "2.0", "True", "300", "1j")
_FRESH = "pqstuvw"  # names that a function may bind
_MOST_VISIBLE = 5  # names among which operands are drawn, the last ones


@dataclass
class Drawing:
    """A function while it is drawn."""

    random: Random
    make: Any  # new arguments by name
    lines: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)  # names behind the last line
    loops: int = 0  # around the statement that is drawn
    depth: int = 0  # of blocks around it
    simple: bool = False  # short expressions, whole arrays and slices for the most part

    def arrays(self) -> list[str]:
        return [name for name, value in self.values.items() if isinstance(value, np.ndarray)]

    def visible(self) -> list[str]:
        """Names that expressions use: parameters and what was bound last."""
        names = [name for name in self.values if not name.startswith("_")]
        return names if len(names) <= _MOST_VISIBLE else [*names[:2], *names[-3:]]

    def outcome(self, lines: list[str]) -> dict[str, Any] | Exception:
        """The names behind some lines, or what they raise."""
        given = self.make()
        text = "\n".join([f"def f({', '.join(given)}):", *(f"    {x}" for x in lines)])
        space: dict[str, Any] = {"np": np}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                exec(f"{text}\n    return locals()", space)
                found: dict[str, Any] = space["f"](**given)
            except Exception as error:  # noqa: BLE001, whatever NumPy raises
                return error
        return found


def is_small(values: dict[str, Any]) -> bool:
    """Whether what a function has made is quickly compared."""
    sizes = [np.size(value) for value in values.values()]
    ints = [value for value in values.values() if type(value) is int]
    return sum(sizes) <= MOST_ELEMENTS and all(abs(value) < 2**62 for value in ints)


def draw_lines(random: Random, make: Any, *, rounds: bool) -> list[str]:
    """The body of a function of the arguments that `make` gives."""
    drawing = Drawing(random, make, simple=chance(random, 2))
    known = drawing.outcome([])
    assert isinstance(known, dict)
    drawing.values = known
    for _ in range(int(random.integers(2, 5 if drawing.simple else 9))):
        for _ in range(TRIES):
            new = _statement(drawing)
            found = drawing.outcome([*drawing.lines, *new])
            if isinstance(found, Exception):
                if chance(random, 40):
                    return [*drawing.lines, *new, _returns(drawing)]
                continue
            if found is not None and "_returned" not in found and is_small(found):
                drawing.lines, drawing.values = [*drawing.lines, *new], found
                break
    if rounds:
        return [*drawing.lines, f"return np.{pick(random, *_ROUNDING)}({_view(drawing)})"]
    return [*drawing.lines, _returns(drawing)]


def _returns(drawing: Drawing) -> str:
    names = [name for name in drawing.values if not name.startswith("_")]
    random = drawing.random
    count = min(len(names), int(random.integers(1, 4)))
    chosen = [names[-1], *random.choice(names, count - 1)] if names else []
    if chance(random, 6):
        chosen = [*chosen[1:], _expression(drawing, 1)]
    return f"return {', '.join(map(str, chosen))}" if chosen else "return None"


# -- statements -----------------------------------------------------------------------------------


def _statement(drawing: Drawing) -> list[str]:
    """The lines of a statement."""
    random, arrays = drawing.random, drawing.arrays()
    kind = random.random() * (0.7 if drawing.simple or drawing.depth > 1 else 1.0)
    if kind < 0.3 or not arrays:
        return [f"{_target(drawing)} = {_expression(drawing, int(drawing.simple))}"]
    if kind < 0.45:
        return [f"{_place(drawing)} = {_expression(drawing, 1)}"]
    if kind < 0.6:
        op = pick(random, "+", "-", "*", "+", "-", "*", "/", "//", "%", "&", "|")
        return [f"{_place(drawing)} {op}= {_expression(drawing, 1)}"]
    if kind < 0.68:
        return [f"{_target(drawing)} = {_view(drawing)}"]
    if kind < 0.74:
        return [_masked(drawing)]
    if kind < 0.78:
        return [f"{pick(random, *arrays)}[{_indices(drawing)}] {pick(random, '', '+', '*')}= "
                f"{_expression(drawing, 2)}"]  # fmt: skip
    if kind < 0.82:
        one, other = _place(drawing), _place(drawing)
        return [f"{one}, {other} = {_expression(drawing, 2)}, {_expression(drawing, 2)}"]
    if kind < 0.85:
        call = f"np.{pick(random, *_BINARY)}({_view(drawing)}, {_expression(drawing, 2)}"
        return [f"{call}, out={pick(random, *arrays)})"]
    if kind < 0.93:
        return _loop(drawing)
    body = _block(drawing)
    other = ["else:", *_block(drawing)] if chance(random, 3) else []
    return [f"if {_condition(drawing)}:", *body, *other]


def _loop(drawing: Drawing) -> list[str]:
    random = drawing.random
    name = "ij"[drawing.loops]
    if drawing.loops == 1 and "j" in drawing.values:
        return [f"{_target(drawing)} = {_expression(drawing, 1)}"]
    before = drawing.values
    drawing.values = {**before, name: 1}
    drawing.loops += 1
    body = _block(drawing)
    if chance(random, 6):
        body += [f"    if {_condition(drawing)}:", f"        {pick(random, 'break', 'continue')}"]
    drawing.loops -= 1
    drawing.values = before
    if chance(random, 5):
        return [f"{name} = 0", f"while {name} < {_number(drawing)}:", f"    {name} += 1", *body]
    start, stop = pick(random, "0", "0", "1", "3", "-1"), _number(drawing)
    step = pick(random, "", "", "", ", 2", ", -1")
    if chance(random, 8):
        return [f"for {name} in {_view(drawing)}:", *body]
    if step == ", -1":
        start, stop = stop, "-1" if start == "0" else start
    return [f"for {name} in range({start}, {stop}{step}):", *body]


def _block(drawing: Drawing) -> list[str]:
    drawing.depth += 1
    count = int(drawing.random.integers(1, 3))
    lines = [line for _ in range(count) for line in _statement(drawing)]
    drawing.depth -= 1
    return [f"    {line}" for line in lines]


def _masked(drawing: Drawing) -> str:
    name = pick(drawing.random, *drawing.arrays())
    mask = f"{name} {pick(drawing.random, *_COMPARISONS)} {pick(drawing.random, '0', '1', '2')}"
    if chance(drawing.random, 3):
        return f"{_target(drawing)} = {name}[{mask}]"
    op = pick(drawing.random, "", "", "+", "*")
    return f"{name}[{mask}] {op}= {pick(drawing.random, '0', '1', '2', f'{name}[{mask}]', name)}"


def _target(drawing: Drawing) -> str:
    if chance(drawing.random, 4):
        known = [name for name in drawing.values if name not in "ij"]
        return str(pick(drawing.random, *known or _FRESH))
    free = [name for name in _FRESH if name not in drawing.values]
    return free[0] if free else str(pick(drawing.random, *_FRESH))


def _place(drawing: Drawing) -> str:
    """What an assignment writes: a view in brackets, or for updates an array."""
    name = pick(drawing.random, *drawing.arrays())
    kind = drawing.random.random()
    if kind < 0.15:
        return str(name)
    if kind < 0.3:
        return f"{name}[:]" if drawing.values[name].ndim else f"{name}[...]"
    if kind < 0.4:
        return f"{name}.T[{_subscripts(drawing, drawing.values[name].T)}]"
    return f"{name}[{_subscripts(drawing, drawing.values[name])}]"


# -- expressions ----------------------------------------------------------------------------------


def _number(drawing: Drawing) -> str:
    """A small integer: a literal, a size, an integer parameter."""
    arrays = [name for name in drawing.arrays() if drawing.values[name].ndim]
    sizes = [f"len({name})" for name in arrays[:2]]
    ints = [name for name, value in drawing.values.items() if type(value) is int]
    return str(pick(drawing.random, "2", "3", *sizes, *sizes, *ints))


def _condition(drawing: Drawing) -> str:
    random = drawing.random
    scalars = [name for name, value in drawing.values.items() if not isinstance(value, np.ndarray)]
    left = pick(
        random, *scalars, _number(drawing), f"{_view(drawing)}.{pick(random, 'sum', 'max')}()"
    )
    return f"{left} {pick(random, *_COMPARISONS)} {pick(random, '0', '1', '2', _number(drawing))}"


def _bound(drawing: Drawing) -> str:
    """An end of a slice."""
    random = drawing.random
    kind = random.random()
    if kind < 0.3:
        return ""
    if kind < 0.8 or not drawing.loops:
        return str(int(random.integers(-4, 5)) if kind < 0.7 else int(random.integers(-9, 10)))
    name = "ij"[int(random.integers(drawing.loops))]
    return str(pick(random, name, f"{name} + 1", f"{_number(drawing)} - {name}", f"-{name}"))


def _subscripts(drawing: Drawing, array: np.ndarray) -> str:
    """What stands in brackets behind an array: slices, numbers, None, `...`."""
    random, parts = drawing.random, []
    count = int(random.integers(1, array.ndim + 1)) if array.ndim else 0
    for at in range(count):
        extent = array.shape[at]
        kind = random.random()
        if kind < 0.25 and (extent or chance(random, 9)):
            most = max(extent, 1)
            inside = str(int(random.integers(-most, most)))
            parts.append(pick(random, inside, inside, *"ij"[: drawing.loops]))
        elif kind < 0.4:
            parts.append(":")
        else:
            step = pick(random, "", "", "", ":2", ":-1", ":-2", ":3")
            parts.append(f"{_bound(drawing)}:{_bound(drawing)}{step}")
    if chance(random, 6):
        parts.insert(int(random.integers(len(parts) + 1)), "None")
    if chance(random, 8) or not parts:
        parts.insert(int(random.integers(len(parts) + 1)), "...")
    return ", ".join(parts)


def _indices(drawing: Drawing) -> str:
    """An array of indices, or a list of them."""
    known = [
        name for name in drawing.arrays()
        if drawing.values[name].dtype.kind in "iu" and drawing.values[name].ndim
    ]  # fmt: skip
    return str(pick(drawing.random, *known, "[0, -1]", "[0, 0, 1]", "[1, 0]"))


def _view(drawing: Drawing) -> str:
    """An array, a view of one, or a number."""
    random, names = drawing.random, drawing.visible()
    if not names:
        return str(pick(random, *_LITERALS))
    name = pick(random, *names)
    value = drawing.values[name]
    if not isinstance(value, np.ndarray) or chance(random, 3):
        return str(name)
    kind = random.random() * (0.75 if drawing.simple else 1.0)
    if kind < 0.6:
        return f"{name}[{_subscripts(drawing, value)}]"
    if kind < 0.75:
        return f"{name}.T"
    if kind < 0.8 and value.ndim:
        return f"{name}[{', '.join([':'] * int(random.integers(1, value.ndim + 1)))}, None]"
    if kind < 0.85:
        return f"{name}.{pick(random, 'ravel()', 'copy()', 'real', 'imag', 'reshape(-1)')}"
    if kind < 0.9 and value.ndim:
        shape = [str(n) for n in random.permutation(value.shape)]
        return f"{name}.reshape({', '.join(shape)})"
    if kind < 0.94 and value.ndim >= 2:
        return f"np.diagonal({name})"
    if kind < 0.97 and value.ndim:
        return f"{name}[{_indices(drawing)}]"
    return f"np.flip({name})"


def _expression(drawing: Drawing, depth: int) -> str:
    random = drawing.random
    kind = random.random()
    if depth > 2 or kind < (0.35 if depth > 1 else 0.15):
        return _view(drawing)
    if kind < 0.3:
        return str(pick(random, *_LITERALS))

    def part() -> str:
        return _expression(drawing, depth + 1)

    if kind < 0.42:
        return f"np.{pick(random, *_UNARY)}({part()})"
    if kind < 0.62:
        return f"({part()} {pick(random, *_OPERATORS)} {part()})"
    if kind < 0.68:
        return f"({part()} {pick(random, *_COMPARISONS)} {part()})"
    if kind < 0.74:
        return f"np.{pick(random, *_BINARY)}({part()}, {part()})"
    if kind < 0.78:
        return f"np.where({part()} {pick(random, *_COMPARISONS)} {part()}, {part()}, {part()})"
    if kind < 0.9:
        return _reduction(drawing)
    if kind < 0.93:
        return f"({part()} ** {pick(random, '2', '2', '0.5', '-1', '0')})"
    if kind < 0.96:
        cast = f"{_view(drawing)}.astype('{pick(random, *DTYPES)}')"
        return str(pick(random, cast, f"-{part()}", f"np.clip({part()}, 0, 2)"))
    size = _number(drawing)
    makers = (
        f"np.zeros({size})",
        f"np.ones({size})",
        f"np.arange({size})",
        f"np.zeros_like({_view(drawing)})",
        f"np.full(({size}, 2), 3)",
        f"np.outer({part()}, {part()})",
        f"({_view(drawing)} @ {_view(drawing)})",
    )
    return str(pick(random, *makers))


def _reduction(drawing: Drawing) -> str:
    random, name = drawing.random, pick(drawing.random, *_REDUCTIONS)
    axes = ["", "", "axis=0", "axis=-1", "axis=1", "axis=None"]
    if name not in ("argmax", "argmin"):
        axes.append("axis=(0, 1)")
    options = [pick(random, *axes), pick(random, "", "", "keepdims=True")]
    shown = ", ".join(option for option in options if option)
    if chance(random, 8):
        return f"{_view(drawing)}.cumsum({options[0]})"
    if chance(random, 2):
        return f"{_view(drawing)}.{name}({shown})"
    return f"np.{name}({', '.join(filter(None, [_expression(drawing, 2), shown]))})"
