"""Sub-interpreters: refused by an error of ours, before anything native is loaded."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

TEXT = (
    "loopwright cannot be imported in a sub-interpreter: its compiled code, LLVM and isl have one "
    "state for the whole process. Import it in the main interpreter (mod_wsgi: "
    "WSGIApplicationGroup %{GLOBAL}), or use processes"
)
INSIDE = """
import sys
try:
    import {module}
except ImportError as error:
    print(type(error).__name__, error.name, error, sep="|", flush=True)
print([x for x in sys.modules if x.split(".")[0] in ("numpy", "llvmlite", "islpy")], flush=True)
"""
OUTSIDE = """
import sys
{before}
try:
    import _interpreters as interpreters
    made = interpreters.create("legacy")  # with the lock of the main one, as WSGI servers do
except ImportError:
    import _xxsubinterpreters as interpreters
    made = interpreters.create()
interpreters.run_string(made, {inside!r})
import loopwright as lw
import numpy as np
print(lw.einsum("i,i->", np.ones(3), np.ones(3)))
"""


def has_sub_interpreters() -> bool:
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        return True
    return False


@pytest.mark.skipif(not has_sub_interpreters(), reason="this Python has no sub-interpreters")
@pytest.mark.parametrize("before", ["", "import loopwright; loopwright.einsum"])
@pytest.mark.parametrize(
    "module", ["loopwright", "loopwright.runtime.llvm_engine", "loopwright.kernels"]
)
def test_imports_are_refused(module: str, before: str) -> None:
    """Whether the main interpreter uses it already or not; and it still can afterwards."""
    script = OUTSIDE.format(before=before, inside=INSIDE.format(module=module))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"ImportError|loopwright|{TEXT}\n[]\n3.0\n"
