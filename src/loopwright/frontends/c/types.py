"""C's arithmetic types and the conversions between them (C11 6.3.1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from loopwright.ir.dtypes import DTYPES, DType

__all__ = ["CType", "Model", "common_type", "promoted"]


@dataclass(frozen=True, slots=True)
class CType:
    """An arithmetic type; C keeps apart types of one dtype, as long and long long."""

    name: str = field(compare=False)  # C's shortest spelling, or the typedef's of a system header
    dtype: DType
    rank: int  # orders integers by width; floating types stand above them

    @property
    def is_floating(self) -> bool:
        return self.dtype.is_float

    @property
    def is_unsigned(self) -> bool:
        return self.dtype.kind == "u"

    def __str__(self) -> str:
        return self.name


BOOLEAN = CType("_Bool", DTYPES["bool"], 0)
INT = CType("int", DTYPES["int32"], 3)
UNSIGNED = CType("unsigned int", DTYPES["uint32"], 3)
LONG_LONG = CType("long long", DTYPES["int64"], 5)
UNSIGNED_LONG_LONG = CType("unsigned long long", DTYPES["uint64"], 5)
FLOAT = CType("float", DTYPES["float32"], 6)
DOUBLE = CType("double", DTYPES["float64"], 7)
_SIZES = {"char": (8, 1), "short": (16, 2), "int": (32, 3), "long long": (64, 5)}
# Names of types in system headers, which are not read: name -> signed, bits.
_FIXED = {
    **{f"int{bits}_t": (True, bits) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": (False, bits) for bits in (8, 16, 32, 64)},
    **{f"int_least{bits}_t": (True, bits) for bits in (8, 16, 32, 64)},
    **{f"uint_least{bits}_t": (False, bits) for bits in (8, 16, 32, 64)},
    "intmax_t": (True, 64),
    "uintmax_t": (False, 64),
    "size_t": (False, 64),
    "ssize_t": (True, 64),
    "ptrdiff_t": (True, 64),
    "intptr_t": (True, 64),
    "uintptr_t": (False, 64),
    "off_t": (True, 64),
    "u_char": (False, 8),
    "uchar": (False, 8),
    "uint": (False, 32),
    "ushort": (False, 16),
}
_BY_BITS = {8: ("char", 1), 16: ("short", 2), 32: ("int", 3), 64: ("long", 4)}


@dataclass(frozen=True, slots=True)
class Model:
    """What C leaves open and the compiler settles."""

    is_char_signed: bool = True
    long_bits: int = 64

    def named(self, name: str) -> CType | None:
        """The type that a system header gives to `name`."""
        if name == "bool":
            return BOOLEAN
        if name not in _FIXED:
            return None
        signed, bits = _FIXED[name]
        _, rank = _BY_BITS[bits]
        return CType(name, DTYPES[f"{'int' if signed else 'uint'}{bits}"], rank)

    def spelled(self, words: Sequence[str]) -> CType | None:
        """The type of specifiers in any order: `long unsigned int`; None when there is none."""
        count = Counter(words)
        sign = {"signed", "unsigned"} & count.keys()
        base = count - Counter({"signed": 1, "unsigned": 1})
        if len(sign) == 2 or base["signed"] or base["unsigned"]:
            return None
        long = base.pop("long", 0)
        rest = sorted(base.elements())
        if rest in (["float"], ["double"], ["_Bool"]):
            floats = {"float": FLOAT, "double": DOUBLE, "_Bool": BOOLEAN}
            return None if sign or long else floats[rest[0]]
        if rest == ["char"] and not long:
            signed = "signed" in sign or (not sign and self.is_char_signed)
            text = f"{next(iter(sign))} char" if sign else "char"
            return CType(text, DTYPES["int8" if signed else "uint8"], 1)
        if "short" in rest and rest in (["short"], ["int", "short"]) and not long:
            return self._integer("short", sign)
        if rest not in ([], ["int"]) or long > 2 or not (long or rest or sign):
            return None
        return self._integer(("int", "long", "long long")[long], sign)

    def _integer(self, name: str, sign: set[str]) -> CType:
        bits, rank = _SIZES.get(name, (self.long_bits, 4))
        if "unsigned" in sign:
            return CType(f"unsigned {name}", DTYPES[f"uint{bits}"], rank)
        return CType(name, DTYPES[f"int{bits}"], rank)


def promoted(ctype: CType) -> CType:
    """The type of `+x`: integers below int become int, which holds all their values."""
    return INT if ctype.rank < INT.rank else ctype


def common_type(x: CType, y: CType) -> CType:
    """The type of `x + y` by the usual arithmetic conversions."""
    x, y = promoted(x), promoted(y)
    if x.is_floating or y.is_floating:
        return max((x, y), key=lambda t: t.rank)
    if x.is_unsigned == y.is_unsigned:
        return max((x, y), key=lambda t: t.rank)
    signed, unsigned = (y, x) if x.is_unsigned else (x, y)
    if unsigned.rank >= signed.rank:
        return unsigned
    if signed.dtype.bits > unsigned.dtype.bits:
        return signed
    return CType(f"unsigned {signed.name}", DTYPES[f"uint{signed.dtype.bits}"], signed.rank)
