"""NVRTC compiles CUDA C++ where it is installed, with or without a device."""

import sys
from pathlib import Path
from typing import Any

import pytest

from loopwright import options
from loopwright.diagnostics import ToolchainError, UsageError
from loopwright.runtime import cuda_compiler, cuda_driver
from loopwright.runtime.cuda_compiler import compile_cuda, nvrtc_version

TEXT = """
#ifndef LW_INDEX
#define LW_INDEX int
#endif
extern "C" __global__ void first(float *a) { a[threadIdx.x] = 1.0f; }

extern "C" __global__ void __launch_bounds__(128) second(float *a, LW_INDEX n)
{
    a[threadIdx.x] = n;
}
"""


def has_nvrtc() -> bool:
    try:
        nvrtc_version()
    except UsageError:
        return False
    return True


needs_nvrtc = pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed: extra 'cuda'")


@pytest.fixture(autouse=True)
def _cache_of_its_own(tmp_path: Path) -> Any:
    with options.override(cache_dir=str(tmp_path / "cache"), cache=True):
        yield


@needs_nvrtc
def test_the_disk_keeps_code(monkeypatch: pytest.MonkeyPatch) -> None:
    code = compile_cuda(TEXT, "sm_90")
    monkeypatch.setattr(cuda_compiler, "_compiled", lambda *_, **__: b"anew")
    assert compile_cuda(TEXT, "sm_90") == code
    assert compile_cuda(TEXT, "sm_80") == b"anew"
    assert compile_cuda(TEXT, "sm_90", ("-DX=1",)) == b"anew"
    assert compile_cuda(TEXT + "\n", "sm_90") == b"anew"


@needs_nvrtc
def test_error_names_kernel_and_line() -> None:
    with pytest.raises(ToolchainError) as raised:
        compile_cuda(TEXT.replace("= n;", "= m;"), "sm_90", name="pair")
    assert raised.value.reason == "failed at line 9 of kernel 'second'"
    assert 'pair.cu(9): error: identifier "m" is undefined' in raised.value.output


@needs_nvrtc
def test_architecture_that_the_compiler_does_not_know() -> None:
    with pytest.raises(ToolchainError, match=r"invalid value for --gpu-architecture"):
        compile_cuda(TEXT, "sm_10")


def test_no_architecture() -> None:
    with pytest.raises(UsageError) as raised:
        compile_cuda(TEXT, "h200")
    assert str(raised.value) == "no CUDA architecture\nnote: found 'h200'\ntry: such as sm_90"


class Missing:
    """Stands for bindings whose library is not there."""

    def __getattr__(self, name: str) -> Any:
        def call(*_: object) -> Any:
            raise RuntimeError("cannot find libcuda.so.1\nand more")

        return call


def test_missing_packages_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    monkeypatch.setattr(cuda_driver, "_driver", None)
    for call in (cuda_driver.cuda_device, nvrtc_version):
        with pytest.raises(UsageError) as raised:
            call()
        assert raised.value.message == "CUDA needs the package cuda-bindings"
        assert raised.value.hint == "pip install 'loopwright[cuda]'"


def test_missing_libraries_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "_driver", None)
    monkeypatch.setattr(cuda_driver, "_bindings", Missing)
    with pytest.raises(UsageError) as raised:
        cuda_driver.cuda_device()
    assert str(raised.value) == (
        "there is no CUDA driver here\nnote: found cannot find libcuda.so.1\n"
        "try: install NVIDIA's driver, or target='host'"
    )
    monkeypatch.setattr(cuda_compiler, "_nvrtc", Missing)
    with pytest.raises(UsageError) as raised:
        nvrtc_version()
    assert str(raised.value) == (
        "CUDA needs NVRTC, its compiler\nnote: found cannot find libcuda.so.1\n"
        "try: pip install 'loopwright[cuda]'"
    )
