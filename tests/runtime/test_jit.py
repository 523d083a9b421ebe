"""Object code: compiled, linked, kept alive; what cannot be linked is told."""

from __future__ import annotations

import ctypes
import gc

import pytest

from loopwright.diagnostics import InternalError
from loopwright.runtime.jit import compile_to_object, host_cpu_name, llvm_version, load_object

SQUARE = "define i64 @f(i64 %x) {\n  %y = mul i64 %x, %x\n  ret i64 %y\n}"


def function(text: str) -> tuple[object, ctypes._CFuncPtr]:
    loaded = load_object(compile_to_object(text), ("f",))
    return loaded, ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded.address("f"))


def test_compiled_code_runs() -> None:
    loaded, square = function(SQUARE)
    assert square(7) == 49
    assert loaded is not None


def test_equal_names_in_several_objects() -> None:
    """Every object is a library of its own."""
    kept = [function(SQUARE.replace("%x, %x", f"%x, {k}")) for k in range(20)]
    gc.collect()
    assert [call(3) for _, call in kept] == [3 * k for k in range(20)]


@pytest.mark.parametrize(
    ("code", "symbols", "reason"),
    [
        (b"no object at all", ("f",), "The file was not recognized as a valid object file"),
        (b"", ("f",), "The file was not recognized as a valid object file"),
        (compile_to_object(SQUARE), ("g",), "Symbols not found: [ g ]"),
    ],
)
def test_what_cannot_be_linked(code: bytes, symbols: tuple[str, ...], reason: str) -> None:
    with pytest.raises(InternalError) as caught:
        load_object(code, symbols)
    assert caught.value.message == f"compiled code cannot be linked: {reason}"


def test_a_function_that_is_nowhere() -> None:
    text = "declare void @lw_is_nowhere()\ndefine void @f() {\n  call void @lw_is_nowhere()\n"
    with pytest.raises(InternalError) as caught:
        load_object(compile_to_object(text + "  ret void\n}"), ("f",))
    assert caught.value.message.startswith(
        "compiled code cannot be linked: Failed to materialize symbols"
    )
    test_compiled_code_runs()


@pytest.mark.parametrize(
    "text", ["define void @f() {\n", "not IR", "define i64 @f(i64 %x) {\n  ret i64 %y\n}"]
)
def test_invalid_text(text: str) -> None:
    """Nothing that is wrong reaches LLVM's passes, which would end the process."""
    with pytest.raises(InternalError) as caught:
        compile_to_object(text)
    assert caught.value.message.startswith("emitted LLVM IR is not valid: ")
    assert caught.value.dump == text


def test_names_for_cache_keys() -> None:
    assert host_cpu_name()
    assert all(part.isdigit() for part in llvm_version().split("."))
