"""Random small NumPy functions as text, and arguments for them."""

from __future__ import annotations

import linecache
from random import Random
from typing import Any

import numpy as np

_DTYPES = ("float64", "float64", "float32", "int64", "int32", "uint8", "bool", "complex128")
_EXTENTS = (0, 1, 2, 3, 3, 7)


class DrawnFunction:
    """One function `f` of one to three arrays and an integer, and its arguments."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        count = self._random.randint(1, 3)
        extents = [self._random.choice(_EXTENTS) for _ in range(2)]
        self._ranks = {name: self._random.choice((1, 1, 2, 2, 3)) for name in "abc"[:count]}
        self._locals: dict[str, int] = {}
        shapes = {
            name: tuple(self._random.choice(extents) for _ in range(rank))
            for name, rank in self._ranks.items()
        }
        arrays = tuple(self._array(shape) for shape in shapes.values())
        self.args = (*arrays, self._random.randint(0, 3))
        lines = [f"def f({', '.join(self._ranks)}, n):"]
        for _ in range(self._random.randint(1, 4)):
            lines += self._statement(1)
        names = [*self._ranks, *self._locals]
        lines.append(f"    return {', '.join(self._random.sample(names, min(2, len(names))))}")
        self.text = "\n".join(lines) + "\n"

    def function(self) -> Any:
        """The function itself; its source is found by its file name."""
        file = f"<drawn {hash(self.text)}>"
        linecache.cache[file] = (len(self.text), None, self.text.splitlines(keepends=True), file)
        space: dict[str, Any] = {"np": np}
        exec(compile(self.text, file, "exec"), space)
        return space["f"]

    # -- values -----------------------------------------------------------------------------------

    def _array(self, shape: tuple[int, ...]) -> Any:
        random = self._random
        dtype = np.dtype(random.choice(_DTYPES))
        draws = np.random.default_rng(random.randrange(1 << 30))
        data = draws.integers(-4, 5, size=shape).astype("float64")
        if dtype.kind in "fc":
            data = data / 2
            specials = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e300]
            holes = draws.random(size=shape) < 0.1
            data = np.where(holes, draws.choice(specials, size=shape), data)
        with np.errstate(all="ignore"):
            array = np.abs(data).astype(dtype) if dtype.kind in "bu" else data.astype(dtype)
        way = random.random()
        if way < 0.15:
            return np.asfortranarray(array)
        if way < 0.25 and array.ndim:
            return np.repeat(array, 2, axis=-1)[..., ::2]
        return array

    # -- text -------------------------------------------------------------------------------------

    def _statement(self, depth: int) -> list[str]:
        random, pad = self._random, "    " * depth
        kind = random.random()
        if kind < 0.3:
            value, rank = self._expression(2)
            name = random.choice("xyz")
            self._locals[name] = rank
            return [f"{pad}{name} = {value}"]
        if kind < 0.6:
            target, rank = self._view()
            value, _ = self._expression(2, most=rank)
            return [f"{pad}{target} {random.choice(('=', '+=', '*=', '-='))} {value}"]
        if kind < 0.7:
            target, rank = self._view()
            return [f"{pad}{target}[{target} > 0] = {random.choice(('1', '0', '2'))}"]
        if kind < 0.9 and depth < 2:
            loop = random.choice(("range(n)", "range(1, n)", "range(n - 1, -1, -1)"))
            known = dict(self._locals)
            body = [x for _ in range(random.randint(1, 2)) for x in self._statement(depth + 1)]
            self._locals = known  # names of the body may have no value
            return [f"{pad}for i in {loop}:", *body]
        known = dict(self._locals)
        body = self._statement(depth + 1)
        self._locals = known
        return [f"{pad}if n > {random.randint(0, 2)}:", *body]

    def _name(self) -> tuple[str, int]:
        return self._random.choice([*self._ranks.items(), *self._locals.items()])

    def _view(self) -> tuple[str, int]:
        random = self._random
        name, rank = self._name()
        way = random.random()
        if way < 0.35 or not rank:
            return (name, rank) if rank else self._argument()
        if way < 0.45:
            return f"{name}.T", rank
        items, left = [], 0
        for _ in range(rank):
            if random.random() < 0.2:
                items.append(random.choice(("0", "-1", "n")))
            else:
                items.append(self._slice())
                left += 1
        if not left:
            items[0], left = ":", 1
        return f"{name}[{', '.join(items)}]", left

    def _argument(self) -> tuple[str, int]:
        name = self._random.choice(list(self._ranks))
        return name, self._ranks[name]

    def _slice(self) -> str:
        random = self._random
        ends = ("", "", "", "1", "2", "-1", "-2", "n", "n + 1", "5", "-4")
        step = random.choice(("", "", "", "", ":2", ":-1", ":-2"))
        return f"{random.choice(ends)}:{random.choice(ends)}{step}"

    def _expression(self, depth: int, most: int = 3) -> tuple[str, int]:
        random = self._random
        if not depth or random.random() < 0.3:
            if random.random() < 0.25:
                return random.choice(("2", "0.5", "-1", "n", "1.5")), 0
            for _ in range(8):
                text, rank = self._view()
                if rank <= most:
                    return text, rank
            return "3", 0
        way = random.random()
        if way < 0.55:
            x, rank = self._expression(depth - 1, most)
            y, other = self._expression(depth - 1, most)
            return f"({x} {random.choice('+-*+-*/')} {y})", max(rank, other)
        if way < 0.7:
            x, rank = self._expression(depth - 1, most)
            name = random.choice(("abs", "np.sqrt", "np.negative", "np.conj", "-"))
            return (f"(-{x})" if name == "-" else f"{name}({x})"), rank
        if way < 0.8:
            x, rank = self._expression(depth - 1, most)
            y, other = self._expression(depth - 1, most)
            name = random.choice(("np.maximum", "np.minimum", "np.where"))
            if name == "np.where":
                return f"np.where({x} > {y}, {x}, {y})", max(rank, other)
            return f"{name}({x}, {y})", max(rank, other)
        x, rank = self._view()
        axis = random.randrange(-rank, rank)
        name = random.choice(("sum", "max", "min", "mean", "any"))
        if random.random() < 0.5:
            return f"np.{name}({x})", 0
        return f"{x}.{name}(axis={axis})", rank - 1
