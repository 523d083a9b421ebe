"""Call records in memory: what the native dispatcher and those who fill its tables agree on.

A repeated call is found by its *signature*, a list of int64 words: who the arguments are as far as
code depends on them (dtype, sizes and strides of arrays, identities of options). A *record* says
what such a call does: which arrays are new, which kernels run on which arrays, what is returned.
All of it is int64 words, so that native code reads it without the interpreter.

    table    slots - 1, then that many words: addresses of records or 0 (open addressing)
    record   the words of RECORD, then its signature
    object   (kind, a, b, c): one array that kernels take, see the kinds below
    step     run, launch, bytes of shared scratch, count, then count numbers of objects
    result   (kind, a, b, c): one step to what the call returns; steps put values on a stack, of
             which one is left at the end
    apart    (argument, low, high, argument, low, high): bytes around the first elements that two
             arguments reach, which must not meet; argument 0 is `out`
    check    (dict, key, value): what the call depends on must still be found there; without a dict
             the key is a cell of a closure, without a value nothing must be found
"""

from __future__ import annotations

__all__ = [
    "BLOCKS",
    "MOST_ARGUMENTS",
    "MOST_OBJECTS",
    "MOST_OPERANDS",
    "MOST_RESULTS",
    "MOST_WORDS",
    "OPTIONS",
    "PROBES",
    "RECORD",
    "STATE",
]

MOST_WORDS = 256  # of a signature
MOST_OBJECTS = 24  # of a record
MOST_RESULTS = 32  # steps to what a call returns
MOST_OPERANDS = 8  # of an einsum
MOST_ARGUMENTS = 16  # of a compiled function
PROBES = 8  # slots in which a record may lie
BLOCKS = 32  # blocks of scratch memory that wait for calls

# Keywords of einsum that a signature may have, by number; the first is no option but an array.
OPTIONS = (
    "out", "semiring", "threads", "accumulate", "optimize", "dtype", "order", "casting",
    "accum_dtype", "alpha", "beta",
)  # fmt: skip

_STATE = (
    # Functions of CPython and NumPy.
    "dict_get", "vectorcall", "get_attribute", "error_occurred", "error_clear", "incref", "decref",
    "save_thread", "restore_thread", "integer", "new_array", "set_base", "as_scalar",
    "from_float", "from_integer", "from_flag", "from_complex", "new_tuple",
    # Types and objects.
    "array_type", "text_type", "integer_type", "float_type", "none",
    # Settings that calls depend on: (dict, key, value) of each; the threads they stand for.
    "options_dict", "options_key", "options_value", "team_dict", "team_key", "team_value",
    "threads",
    "countdown",  # calls until the settings of the system are looked at again
    "texts",  # a dict from strings to the ones that signatures have
    "einsum_table", "einsum_fallback",  # and what to call for calls that are not known
    "function_name",  # of the attribute with the words of a compiled function
    "generation",  # of scratch blocks: counts how often they were all given back
    "blocks",  # how many wait
)  # fmt: skip
STATE = {name: number for number, name in enumerate(_STATE)}
STATE["names"] = len(STATE)  # of options, as interned strings
STATE["first_block"] = STATE["names"] + len(OPTIONS)  # address, bytes, owner of each

_RECORD = (
    "hash", "words", "owner", "flags", "scratch",
    "objects", "first_object", "steps", "first_step",
    "written", "first_written", "apart", "first_apart", "checks", "first_check",
    "results", "first_result",
    "function",  # of Python, for records with IN_PYTHON
    # Number of an array of int64 whose first element is not 0 after a call that failed, and the
    # function of Python that raises what it says; -1: calls do not fail.
    "status", "failed",
)  # fmt: skip
RECORD = {name: number for number, name in enumerate(_RECORD)}
RECORD["signature"] = len(RECORD)

RELEASE, IN_PYTHON = 1, 2  # flags: without the GIL; by a function of Python on the objects
NO_STATUS = -1
# Kinds of objects.
ARGUMENT = 0  # a: its place among the arguments, 0 for `out`
CONSTANT = 1  # a: its address; the record's owner keeps it
NEW = 2  # a: dtype, b: rank, c: address of the extents
TEMPORARY = 3  # a: bytes from the start of the scratch memory
NUMBER = 4  # a: place of a Python float, b: 1 as float32, 0 as float64
NEW_STRIDED = 5  # as NEW; strides in bytes follow the extents
# Kinds of results.
GIVE_OBJECT = 0  # a: its number
GIVE_SCALAR = 1  # the array of rank 0 with the number a, as a scalar of NumPy
GIVE_NUMBER = 2  # the element of such an array as a number of Python; b: a place in PYTHON_NUMBERS
GIVE_VIEW = 3  # of object a; b: rank, c: address of offset in bytes, extents, strides
GIVE_TUPLE = 4  # of the last a values
GIVE_NONE = 5
PYTHON_NUMBERS = ("float64", "int64", "bool", "complex128")
