"""The native dispatcher in this process: its state, built-in functions, scratch memory.

It reads objects of Python and NumPy by the layout of CPython with a GIL. Where that is not the
layout, which `knows_layout` finds out by looking at objects, there is no dispatcher, and calls go
the road of Python.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import sysconfig
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from loopwright import options
from loopwright.ir.call_dispatch import BLOCKS, OPTIONS, STATE
from loopwright.runtime import thread_pool
from loopwright.runtime.address import (
    Address,
    builtin_function,
    builtin_method,
    data_address,
    hold_for_ever,
    locked_function_at,
    python_function,
)
from loopwright.runtime.call_table import CallTable
from loopwright.runtime.llvm_engine import LoadedObject
from loopwright.runtime.scratch import ScratchBlock, releases
from loopwright.runtime.thread_pool import num_threads

__all__ = ["Dispatcher", "knows_layout"]

_LOOK_AGAIN = 256  # calls after which the cores of this process are counted anew
_MOST_CALLS = 1024
_TYPE, _NEW_FROM_DESCR, _RETURN, _SET_BASE = 2, 94, 76, 282  # of NumPy's table of functions
_FUNCTIONS = {
    "dict_get": "PyDict_GetItemWithError",
    "vectorcall": "PyObject_Vectorcall",
    "get_attribute": "PyObject_GetAttr",
    "error_occurred": "PyErr_Occurred",
    "error_clear": "PyErr_Clear",
    "incref": "Py_IncRef",
    "decref": "Py_DecRef",
    "save_thread": "PyEval_SaveThread",
    "restore_thread": "PyEval_RestoreThread",
    "integer": "PyLong_AsLongLong",
    "from_float": "PyFloat_FromDouble",
    "from_integer": "PyLong_FromLongLong",
    "from_flag": "PyBool_FromLong",
    "from_complex": "PyComplex_FromDoubles",
    "new_tuple": "PyTuple_New",
}
_pointer, _word = ctypes.c_void_p, ctypes.c_int64


class Dispatcher:
    """The one of this process; nothing of it is ever freed."""

    def __init__(self, code: LoadedObject) -> None:
        self._code = code
        self.words = np.zeros(STATE["first_block"] + 3 * BLOCKS, dtype=np.int64)
        self._texts: dict[str, str] = {}
        self._names = tuple(map(sys.intern, OPTIONS))
        self._own = sys.intern("_dispatch_words")
        # Those that words refer to. Threads may put different ones in force at the same time, so
        # some earlier ones are kept: no other object may take the address that is compared.
        self._settings: deque[tuple[object, ...]] = deque(maxlen=64)
        self._hash = self._function("lw_hash", _pointer, _word, result=_word)
        self._put = self._function("lw_block_put", _word, _word, ctypes.py_object)
        self._drop = self._function("lw_blocks_drop", result=_word)
        self.einsum_calls = self.table(_MOST_CALLS)
        self._fill()
        self._function("lw_dispatch_init", _pointer)(data_address(self.words))
        releases.append(self._drop)
        hold_for_ever(self)

    def _function(self, symbol: str, *types: type, result: type | None = None) -> Any:
        return locked_function_at(self._code.address(symbol), *types, result=result)

    def _fill(self) -> None:
        table = _numpy_table()
        facts = {word: python_function(name) for word, name in _FUNCTIONS.items()}
        facts |= {
            "new_array": table[_NEW_FROM_DESCR],
            "set_base": table[_SET_BASE],
            "as_scalar": table[_RETURN],
            "array_type": id(np.ndarray),
            "text_type": id(str),
            "integer_type": id(int),
            "float_type": id(float),
            "none": id(None),
            "options_dict": id(vars(options)),
            "team_dict": id(vars(thread_pool)),
            "texts": id(self._texts),
            "einsum_table": int(self.einsum_calls.address),
            "function_name": id(self._own),
        }
        self._keys = sys.intern("_current"), sys.intern("_chosen")
        facts["options_key"], facts["team_key"] = map(id, self._keys)
        for name, value in facts.items():
            self.words[STATE[name]] = value
        first = STATE["names"]
        self.words[first : first + len(OPTIONS)] = list(map(id, self._names))

    def table(self, most: int) -> CallTable:
        """A new table of calls."""
        return CallTable(lambda words, count: int(self._hash(words, count)), most)

    # -- what calls look like ---------------------------------------------------------------------

    @property
    def threads(self) -> int:
        """The threads of calls that ask for none, as signatures have them."""
        return int(self.words[STATE["threads"]])

    def text(self, value: str) -> str:
        """The one string of equal ones that signatures have."""
        if len(self._texts) >= _MOST_CALLS:
            self._texts.clear()
        return self._texts.setdefault(value, value)

    def settle(self) -> None:
        """Look at the settings that calls depend on; records of other ones are forgotten."""
        now = options.current()
        chosen = thread_pool._chosen  # by its name, as native code compares it
        before = self._settings[-1] if self._settings else (None, None)
        if before[0] is not now:
            self.einsum_calls.clear()
        if before[0] is not now or before[1] is not chosen:
            self._settings.append((now, chosen))
        self.words[STATE["options_value"]] = 0 if now.careful else id(now)
        self.words[STATE["team_value"]] = id(chosen)
        self.words[STATE["threads"]] = num_threads()
        self.words[STATE["countdown"]] = _LOOK_AGAIN

    # -- scratch memory ---------------------------------------------------------------------------

    def offer(self, size: int) -> None:
        """Have a block of at least `size` bytes wait for the next call."""
        count = int(self.words[STATE["blocks"]])
        if not size:
            return
        if count:
            at = STATE["first_block"] + 3 * (count - 1) + 1
            if int(self.words[at]) >= size:
                return
            self._drop()  # smaller ones would only be in the way
        block = ScratchBlock.of(size)
        self._put(int(block), block.size, block)

    # -- functions --------------------------------------------------------------------------------

    def einsum(self, fallback: Callable[..., Any], doc: str) -> Any:
        """`einsum` as a built-in function; `fallback` serves calls without a record."""
        hold_for_ever(fallback)
        self.words[STATE["einsum_fallback"]] = id(fallback)
        return builtin_function(self._code.address("lw_einsum"), "einsum", "loopwright", doc)

    def method(self, owner: type) -> Any:
        """`__call__` of compiled functions, which hold what `function_words` gives."""
        return builtin_method(self._code.address("lw_function"), "__call__", owner, "")

    def function_words(self, fallback: Callable[..., Any], table: CallTable) -> Any:
        """What a compiled function holds in the attribute `_dispatch_words`."""
        return np.array([id(fallback), int(table.address)], dtype=np.int64)


def _numpy_table() -> Any:
    """NumPy's table of functions."""
    core = sys.modules.get("numpy._core._multiarray_umath") or sys.modules.get(
        "numpy.core._multiarray_umath"
    )
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = _pointer, [ctypes.py_object, ctypes.c_char_p]
    start = get(core._ARRAY_API, None)  # type: ignore[union-attr]
    words = ctypes.string_at(start, 8 * (_SET_BASE + 1))
    return struct.unpack(f"{_SET_BASE + 1}q", words)


def knows_layout() -> bool:
    """Whether objects of this Python and this NumPy lie in memory as the dispatcher reads them."""
    header = object.__basicsize__
    if (
        sys.implementation.name != "cpython"
        or header != 16
        or bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
        or struct.calcsize("P") != 8
    ):
        return False
    array = np.zeros((3, 4, 5), dtype=np.float32)[::-1, 1:, ::2]
    at = id(array) + header
    data, rank, extents, strides, _, dtype, flags = struct.unpack(
        "qi4xqqqqi4x", ctypes.string_at(at, 56)
    )
    pair = ("a", "b")
    items = struct.unpack("2q", ctypes.string_at(id(pair) + tuple.__basicsize__, 16))
    value = 0.7071
    return (
        data == int(data_address(array))
        and rank == array.ndim
        and struct.unpack("3q", ctypes.string_at(extents, 24)) == array.shape
        and struct.unpack("3q", ctypes.string_at(strides, 24)) == array.strides
        and dtype == id(array.dtype)
        and flags == array.flags.num
        and struct.unpack("q", ctypes.string_at(id(array) + header - 8, 8))[0] == id(np.ndarray)
        and items == tuple(map(id, pair))
        and struct.unpack("q", ctypes.string_at(id(pair) + header, 8))[0] == len(pair)
        and struct.unpack("d", ctypes.string_at(id(value) + header, 8))[0] == value
        and _numpy_table()[_TYPE] == id(np.ndarray)
        and _makes_arrays()
    )


def _makes_arrays() -> bool:
    """Whether NumPy's table has the functions at the places that we take them from."""
    table = _numpy_table()
    owner = object()
    types = [ctypes.py_object] * 2 + [ctypes.c_int] + [_pointer] * 3 + [ctypes.c_int, _pointer]
    make = locked_function_at(
        Address(table[_NEW_FROM_DESCR], owner), *types, result=ctypes.py_object
    )
    dtype = np.dtype(np.float32)
    extents = np.array([2, 3], dtype=np.int64)
    hold_for_ever(dtype)  # the call takes the reference
    made = make(np.ndarray, dtype, 2, data_address(extents), None, None, 0, None)
    return type(made) is np.ndarray and made.shape == (2, 3) and made.dtype == dtype
