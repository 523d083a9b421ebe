"""Fields of objects and of call records, as lines of LLVM text that load them.

The fields of objects are read as Python's and NumPy's macros read them: PyTuple_GET_ITEM,
PyFloat_AS_DOUBLE, PyArray_NDIM and their like are parts of their binary interfaces.
"""

from __future__ import annotations

from loopwright.ir.call_dispatch import RECORD, STATE

__all__ = [
    "ALIGNED",
    "DATA",
    "DTYPE",
    "EXTENTS",
    "FLAGS",
    "HEADER",
    "ITEMS",
    "OTHERWISE",
    "RANK",
    "STRIDES",
    "TYPE",
    "WARNS",
    "WRITEABLE",
    "load_field",
    "load_record",
    "load_state",
    "load_word",
]

HEADER = object.__basicsize__  # bytes of the header of an object
TYPE = HEADER - 8
ITEMS = tuple.__basicsize__  # of a tuple, after its size
# Fields of NumPy's arrays.
DATA, RANK, EXTENTS, STRIDES = HEADER, HEADER + 8, HEADER + 16, HEADER + 24
DTYPE, FLAGS = HEADER + 40, HEADER + 48
ALIGNED, WRITEABLE = 0x100, 0x400
WARNS = 1 << 31  # whoever writes is warned; signatures of records never have it
OTHERWISE = 1  # what @execute returns when Python has to run the call


def load_word(name: str, base: str, number: int | str, kind: str = "i64") -> str:
    """Load a word of `base` into `name`."""
    return (
        f"  %{name}.at = getelementptr i64, ptr %{base}, i64 {number}\n"
        f"  %{name} = load {kind}, ptr %{name}.at, align 8"
    )


def load_state(*names: str) -> str:
    """Load pointers of the state into registers of the same names."""
    return "\n".join(load_word(name, "S", STATE[name], "ptr") for name in names)


def load_record(*names: str, **renamed: str) -> str:
    """Load words of the record into registers of the same names, or of the names they are given."""
    given = dict.fromkeys(names) | renamed
    return "\n".join(load_word(name, "R", RECORD[word or name]) for name, word in given.items())


def load_field(name: str, base: str, offset: int, kind: str = "ptr") -> str:
    """Load a field of an object into `name`."""
    return (
        f"  %{name}.at = getelementptr i8, ptr %{base}, i64 {offset}\n"
        f"  %{name} = load {kind}, ptr %{name}.at, align {4 if kind == 'i32' else 8}"
    )
