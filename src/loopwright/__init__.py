"""Loopwright: a polyhedral tensor compiler. Einsums, loop nests and C regions to fast kernels."""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, which would show among the names of the package
if TYPE_CHECKING:
    from typing import Any

    from loopwright import paths, semirings, sparse
    from loopwright.calls.compile import compile, parse_c
    from loopwright.calls.einsum import einsum, einsum_plan
    from loopwright.calls.einsum_path import einsum_path
    from loopwright.calls.independent_range import prange
    from loopwright.calls.jit import jit
    from loopwright.calls.tune import tune
    from loopwright.diagnostics import (
        DtypeError,
        IllegalStep,
        InternalError,
        LoopwrightError,
        SourceError,
        ToolchainError,
        UsageError,
    )
    from loopwright.ir.program import Program
    from loopwright.machines.host import host
    from loopwright.machines.load import load_machine as machine
    from loopwright.runtime.device_bundle import load
    from loopwright.runtime.scratch import release_scratch
    from loopwright.runtime.thread_pool import set_num_threads
    from loopwright.transform.plan import Plan

__all__ = [
    "DtypeError",
    "IllegalStep",
    "InternalError",
    "LoopwrightError",
    "Plan",
    "Program",
    "SourceError",
    "ToolchainError",
    "UsageError",
    "compile",
    "einsum",
    "einsum_path",
    "einsum_plan",
    "host",
    "jit",
    "load",
    "machine",
    "parse_c",
    "paths",
    "prange",
    "release_scratch",
    "semirings",
    "set_num_threads",
    "sparse",
    "tune",
]
__version__ = "0.1.0"


def _is_main_interpreter() -> bool:
    """Whether this is the first interpreter of the process; True where Python cannot say."""
    try:
        # lazy: Python 3.13 and later have it
        from _thread import _is_main_interpreter as found  # type: ignore[attr-defined]
    except ImportError:
        try:
            # lazy: Python 3.11 and 3.12 have it
            import _xxsubinterpreters as known  # type: ignore[import-not-found]
        except ImportError:
            return True
        return bool(known.get_current() == known.get_main())
    return bool(found())


if not _is_main_interpreter():
    # Before NumPy and LLVM are loaded, which do not refuse and may end the process later.
    raise ImportError(
        "loopwright cannot be imported in a sub-interpreter: its compiled code, LLVM and isl have "
        "one state for the whole process. Import it in the main interpreter (mod_wsgi: "
        "WSGIApplicationGroup %{GLOBAL}), or use processes",
        name=__name__,
    )

# Names load on first use: `import loopwright` itself must stay cheaper than 30 ms over NumPy.
_HOMES = {
    "DtypeError": "diagnostics",
    "IllegalStep": "diagnostics",
    "InternalError": "diagnostics",
    "LoopwrightError": "diagnostics",
    "Plan": "transform.plan",
    "Program": "ir.program",
    "SourceError": "diagnostics",
    "ToolchainError": "diagnostics",
    "UsageError": "diagnostics",
    "compile": "calls.compile",
    "einsum": "calls.einsum_dispatch",
    "einsum_path": "calls.einsum_path",
    "einsum_plan": "calls.einsum",
    "host": "machines.host",
    "jit": "calls.jit",
    "load": "runtime.device_bundle",
    "machine": "machines.load:load_machine",
    "parse_c": "calls.compile",
    "paths": "paths:",
    "prange": "calls.independent_range",
    "release_scratch": "runtime.scratch",
    "semirings": "semirings:",
    "set_num_threads": "runtime.thread_pool",
    "sparse": "sparse:",
    "tune": "calls.tune",
    # Not in __all__: there for opt_einsum, which takes `backend="loopwright"` if it finds them.
    "tensordot": "calls.tensordot",
    "transpose": "calls.tensordot",
}
# These end the tracebacks of their errors themselves, or raise none: a wrapper costs time.
_OWN_EDGE = ("einsum", "prange")


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'loopwright' has no attribute '{name}'")
    from importlib import import_module  # lazy: only the names in use are loaded

    module, colon, inner = home.partition(":")
    found = import_module(f"loopwright.{module}")
    value = found if colon and not inner else getattr(found, inner or name)
    if name not in _OWN_EDGE and callable(value) and not isinstance(value, type):
        # lazy: with it comes the family of errors
        from loopwright.tracebacks import public_edge

        value = public_edge(value)
        value.__module__ = __name__  # where pickle finds this very function
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
