"""Random C functions of every type and operator, compiled and interpreted."""

import ctypes
from random import Random
from typing import Any

import numpy as np
import pytest

from drawn import HUNTS
from frontends.c_functions import (
    assert_same,
    build,
    copies,
    needs_compiler,
    run_compiled,
    run_region,
)
from loopwright.frontends.c import read_c

COUNT = 400 if HUNTS else 12
EXTENT = 7
ARRAYS = {
    "a": ("double", "f8"), "b": ("float", "f4"), "c": ("int", "i4"), "u": ("unsigned", "u4"),
    "s": ("signed char", "i1"), "w": ("unsigned short", "u2"), "l": ("long", "i8"),
    "q": ("unsigned long", "u8"), "p": ("_Bool", "?"), "h": ("short", "i2"),
}  # fmt: skip
INTEGERS = [name for name in ARRAYS if name not in "ab"]
PARAMS = ", ".join(f"{ctype} {name}[{EXTENT}]" for name, (ctype, _) in ARRAYS.items())


class Writer:
    """Writes one function; what it writes is defined for any contents of the arrays."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._loops: list[str] = []

    def function(self, name: str) -> str:
        body = "".join(self._statement(2) for _ in range(self._random.randint(2, 4)))
        return f"void {name}(int n, {PARAMS})\n{{\n#pragma scop\n{body}#pragma endscop\n}}\n"

    def _statement(self, depth: int) -> str:
        kind = self._random.choice(("assign", "assign", "loop", "loop", "if"))
        pad = "    " * len(self._loops)
        if kind == "loop" and depth:
            return self._loop(depth, pad)
        if kind == "if" and depth and self._loops:
            body, other = self._statement(depth - 1), self._statement(depth - 1)
            return f"{pad}if ({self._condition()}) {{\n{body}{pad}}} else {{\n{other}{pad}}}\n"
        return pad + self._assignment()

    def _loop(self, depth: int, pad: str) -> str:
        random = self._random
        var = f"i{len(self._loops)}"
        low, high = self._bound(), self._bound()
        step = random.choice((1, 1, 2, 3))
        ctype = random.choice(("int", "int", "long"))
        head = f"{ctype} {var} = {low}; {var} < {high}; {var} += {step}"
        if random.random() < 0.3:
            head = f"{ctype} {var} = {high}; {var} >= {low}; {var} -= {step}"
        elif random.random() < 0.2:
            head = f"unsigned {var} = {random.randint(0, 3)}; {var} < {high} + 4u; {var}++"
        self._loops.append(var)
        body = "".join(self._statement(depth - 1) for _ in range(random.randint(1, 2)))
        self._loops.pop()
        return f"{pad}for ({head}) {{\n{body}{pad}}}\n"

    def _bound(self) -> str:
        random = self._random
        base = random.choice(["n", "0", *(f"(int){var}" for var in self._loops)])
        text = f"{base} {random.choice('+-')} {random.randint(0, 3)}"
        return f"({text}) / 2" if random.random() < 0.2 else text

    def _index(self) -> str:
        """An affine expression of any size, brought into the array."""
        random = self._random
        terms = [str(random.randint(0, 9))]
        used = [var for var in (*self._loops, "n") if random.random() < 0.7]
        terms += [f"{random.choice(('', '2 * ', '-3 * '))}(int){var}" for var in used]
        text = " + ".join(terms)
        if random.random() < 0.3:
            text = f"({text}) {random.choice(('/ 3', '/ -2', '% 5', '% -4', '>> 1', '& 7'))}"
        return f"(({text}) % {EXTENT} + {EXTENT}) % {EXTENT}"

    def _condition(self) -> str:
        random = self._random
        text = f"{self._index()} {random.choice(('<', '<=', '==', '!=', '>', '>='))} 3"
        if random.random() < 0.4:
            text = f"{text} {random.choice(('&&', '||'))} !({random.choice(self._loops)} > 2)"
        return text

    def _assignment(self) -> str:
        random = self._random
        name = random.choice(list(ARRAYS))
        target = f"{name}[{self._index()}]"
        if name in "ab":
            return f"{target} {random.choice(('=', '=', '+=', '-=', '*='))} {self._value(3)};\n"
        if random.random() < 0.5:
            return f"{target} = {self._tame(self._value(2))};\n"
        return f"{target} {random.choice(('+=', '*=', '|=', '^=', '&='))} {self._whole(2)};\n"

    def _tame(self, value: str) -> str:
        """C has no answer for a floating number beyond the integers: none gets there."""
        return f"(int)fmin(100, fmax(-100, {value}))"

    def _value(self, depth: int) -> str:
        random = self._random
        if not depth or random.random() < 0.15:
            return self._leaf(list(ARRAYS))
        x, y = self._value(depth - 1), self._value(depth - 1)
        match random.randrange(9):
            case 0:
                return f"({x} {random.choice(('<', '<=', '>', '>=', '==', '!='))} {y})"
            case 1:
                return f"({x} ? {self._value(depth - 1)} : {y})"
            case 2:
                return f"({x} {random.choice(('&&', '||'))} {y})"
            case 3:
                return f"({random.choice('-!+')} {x})"
            case 4:
                whole = self._whole(depth - 1)
                return f"({whole} {random.choice('/%')} {random.choice(('3', '-5', '7u', '2l'))})"
            case 5:
                return f"({self._whole(depth - 1)} {random.choice('&|^')} {self._whole(depth - 1)})"
            case 6:
                return f"(double)({x}) / 3" if random.random() < 0.5 else f"(float)({x})"
            case _:
                return f"({x} {random.choice('+-*')} {y})"

    def _whole(self, depth: int) -> str:
        """An integer."""
        random = self._random
        if not depth or random.random() < 0.3:
            return self._leaf(INTEGERS)
        x, y = self._whole(depth - 1), self._whole(depth - 1)
        match random.randrange(6):
            case 0:
                return f"({x} / (({y} & 7) + 1))"
            case 1:
                return f"({x} % (({y} & 3) + 2))"
            case 2:
                return f"({x} >> {random.randint(0, 6)})"
            case 3:
                cast = random.choice(("char", "unsigned char", "short", "unsigned", "long", "int"))
                return f"({cast})({x})"
            case 4:
                return f"(~ {x})"
            case _:
                return f"({x} {random.choice('+-*')} {y})"

    def _leaf(self, arrays: list[str]) -> str:
        random = self._random
        choice = random.random()
        if choice < 0.5:
            return f"{random.choice(arrays)}[{self._index()}]"
        if choice < 0.75 and self._loops:
            return random.choice([*self._loops, "n"])
        numbers = ["2", "3u", "7l", "'c'", "0x1f", "-1", "5ul"]
        return random.choice(numbers if arrays is INTEGERS else [*numbers, "1.5", "0.25f", "-3.0"])


class CallWriter(Writer):
    """Writes functions that call others, branch on data and have cases in subscripts."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._prefix = f"g{seed}"
        self._parameters: list[str] = []  # of the helper that is being written

    def helpers(self) -> str:
        """Two functions of numbers: one of double, one of an integer type."""
        random = self._random
        self._parameters = ["x", "y"]
        kinds = ("int", "short", "unsigned char", "unsigned", "long")
        text = ""
        for at, (result, one) in enumerate((("double", "double"), (random.choice(kinds), "long"))):
            value = self._value if at == 0 else self._whole
            local = "double" if at == 0 else random.choice(kinds)
            test = f"{value(1)} {random.choice(('<', '>=', '=='))} {value(1)}"
            early = f"return {value(1)};" if random.random() < 0.5 else f"t = {value(1)};"
            text += (
                f"static {result} {self._prefix}_{at}({one} x, {random.choice(kinds)} y)\n{{\n"
                f"    {local} t = {value(2)};\n    if ({test}) {early}\n"
                f"    else {{ y = t {random.choice('<>')} x; t += y; }}\n"
                f"    return t {random.choice('+-*')} {value(1)};\n}}\n"
            )
        self._parameters = []
        return text

    def _index(self) -> str:
        plain = super()._index
        if self._random.random() < 0.2:
            var = self._random.choice(["n", *self._loops])
            return f"({var} < 3 ? {plain()} : {plain()})"
        return plain()

    def _condition(self) -> str:
        if self._random.random() < 0.5:
            return f"{self._whole(1)} < {self._whole(1)}"
        return super()._condition()

    def _value(self, depth: int) -> str:
        if depth and not self._parameters and self._random.random() < 0.25:
            return f"{self._prefix}_0({super()._value(depth - 1)}, {self._whole(0)})"
        return super()._value(depth)

    def _whole(self, depth: int) -> str:
        if depth and not self._parameters and self._random.random() < 0.25:
            return f"{self._prefix}_1({super()._whole(depth - 1)}, {self._whole(0)})"
        return super()._whole(depth)

    def _leaf(self, arrays: list[str]) -> str:
        if not self._parameters:
            return super()._leaf(arrays)
        names = ["(long)y", "3", "-2l"] if arrays is INTEGERS else ["x", "y", "1.5", "2"]
        return self._random.choice(names)


def text_of(seed: int) -> str:
    """Plain functions first, then as many that call others."""
    head, name = "#include <math.h>\n", f"f{seed}"
    if seed < COUNT:
        return head + Writer(seed).function(name)
    writer = CallWriter(seed)
    return head + writer.helpers() + writer.function(name)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(tmp_path_factory.mktemp("random"), "".join(map(text_of, range(2 * COUNT))))


@pytest.mark.drawn(6)
@needs_compiler
@pytest.mark.parametrize("seed", range(2 * COUNT))
def test_random_function(seed: int, library: ctypes.CDLL) -> None:
    rng = np.random.default_rng(seed)
    values: dict[str, Any] = {"n": 4}
    for name, (_, dtype) in ARRAYS.items():
        low = 0 if np.dtype(dtype).kind in "ub" else -9
        values[name] = rng.integers(low, 2 if dtype == "?" else 10, EXTENT).astype(dtype)
    compiled, interpreted = copies(values), copies(values)
    run_compiled(library, f"f{seed}", compiled)
    (region,) = read_c(text_of(seed), filename="k.c", compiler="").regions
    run_region(region, interpreted)
    assert_same(compiled, interpreted)
