"""Minima and maxima that pass over NaN, as the one instruction that AVX-512 has for them.

LLVM's passes know what `llvm.maximumnum` means and take loops of it into vectors. For x86 its code
generator makes six instructions of it for a vector, and ten for a number, through other registers
and back. VRANGE is the same function (bits 2 and 0 of its operand: the sign is that of the result,
the greater is taken), which no pass knows. So the calls are exchanged when the passes are done.
"""

from __future__ import annotations

import re
from itertools import count

__all__ = ["has_extremes", "with_range_instructions"]

_NAMES = ("llvm.minimumnum.", "llvm.maximumnum.")
_KIND = r"(?:<\d+ x )?(?:float|double)>?"
_VALUE = r"(?:splat \([^)]*\)|<[^>]*>|[^,()<> ]+)"
_CALL = re.compile(
    rf"^(?P<result>\s*%\S+) = (?:tail |musttail |notail )?call (?:[a-z]+ )*?(?P<kind>{_KIND}) "
    rf"@llvm\.(?P<end>min|max)imumnum\.\w+\({_KIND} (?:noundef )?(?P<x>{_VALUE}), "
    rf"{_KIND} (?:noundef )?(?P<y>{_VALUE})\).*$",
    re.MULTILINE,
)
_VECTOR_BITS = (128, 256, 512)


def has_extremes(text: str) -> bool:
    """Whether code in LLVM's language calls what can be exchanged."""
    return any(name in text for name in _NAMES)


def with_range_instructions(text: str) -> str:
    """The code with such calls exchanged, of numbers and of whole vectors; others stay."""
    declared: dict[str, None] = {}
    numbers = count()

    def exchanged(match: re.Match[str]) -> str:
        kind, result, x, y = match["kind"], match["result"].strip(), match["x"], match["y"]
        is_number = not kind.startswith("<")
        element = kind.strip("<>").split()[-1]
        width = 32 if element == "float" else 64
        lanes = 128 // width if is_number else int(kind.strip("<>").split()[0])
        bits = lanes * width
        if bits not in _VECTOR_BITS:
            return match[0]
        vector = f"<{lanes} x {element}>"
        name = f"@llvm.x86.avx512.mask.range.p{'s' if width == 32 else 'd'}.{bits}"
        kinds = [vector, vector, "i32", vector, f"i{max(8, lanes)}"]
        lines: list[str] = []
        whole = result
        if is_number:
            whole = f"%range.{next(numbers)}"
            for end, value in (("x", x), ("y", y)):
                inserted = f"insertelement {vector} poison, {element} {value}, i32 0"
                lines.append(f"{whole}.{end} = {inserted}")
            x, y = f"{whole}.x", f"{whole}.y"
        values = [x, y, "4" if match["end"] == "min" else "5", "poison", "-1"]
        if bits == _VECTOR_BITS[-1]:
            kinds.append("i32")
            values.append("4")  # rounding, of which there is none, as the processor is set
        declared[f"declare {vector} {name}({', '.join(kinds)})"] = None
        operands = ", ".join(f"{k} {v}" for k, v in zip(kinds, values, strict=True))
        lines.append(f"{whole} = call {vector} {name}({operands})")
        if is_number:
            lines.append(f"{result} = extractelement {vector} {whole}, i32 0")
        return "\n".join(f"  {line}" for line in lines)

    found = _CALL.sub(exchanged, text)
    return "\n".join([found, *(line for line in declared if line not in found), ""])
