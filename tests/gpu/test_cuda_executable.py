"""Device programs on CUDA's driver, without a device: arguments, launches, errors, transfers."""

import gc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpu.fake_cuda import FakeApi, FakeArray, fake_driver
from gpu.shim.cuda_shim import has_compiler
from loopwright.diagnostics import DeviceError, DtypeError, RoomError, UsageError, WrongTypeError
from loopwright.ir.device import DeviceKernel, DeviceMemory, DeviceProgram, LaunchKernel, Repeat
from loopwright.ir.dtypes import FLOAT32
from loopwright.ir.expr import Const, Var
from loopwright.ir.loops import Block, Buffer
from loopwright.runtime import cuda_executable, cuda_module
from loopwright.runtime.cuda_driver import cuda_device
from loopwright.runtime.cuda_executable import NARROW, WIDE, CudaExecutable
from loopwright.runtime.cuda_timing import time_launches
from loopwright.runtime.cuda_transfers import run_from_host

pytestmark = pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")

TEXT = """
typedef LW_INDEX lw_index;
extern "C" __global__ void twice(const float *A, float *T, lw_index n, lw_index A_s0)
{ lw_index i = blockIdx.x * 32 + threadIdx.x; if (i < n) T[i] = 2 * A[i * A_s0]; }
extern "C" __global__ void turn(const float *T, float *C, lw_index n, lw_index C_s0)
{ lw_index i = blockIdx.x * 32 + threadIdx.x; if (i < n) C[i * C_s0] = T[n - 1 - i]; }
"""
n, one = Var("n"), Const(1)
A = Buffer("A", FLOAT32, (Var("A_s0"),))
T = Buffer("T", FLOAT32, (one,), writable=True)
C = Buffer("C", FLOAT32, (Var("C_s0"),), writable=True)
GRID = ((n + 31) // 32, one, one)


def reversed_program(shared: int = 0, y: Any = one) -> DeviceProgram:
    grid = (GRID[0], y, one)
    kernels = (
        DeviceKernel("twice", (A, T), ("n", "A_s0"), grid, (32, 1, 1), Block(()), shared),
        DeviceKernel("turn", (T, C), ("n", "C_s0"), GRID, (32, 1, 1), Block(())),
    )
    host = (DeviceMemory(T, (n,), (LaunchKernel("twice"), LaunchKernel("turn"))),)
    return DeviceProgram("reversed", (A, C), ("n", "A_s0", "C_s0"), kernels, host)


def executable(program: DeviceProgram | None = None) -> CudaExecutable:
    """The program with its text for machine code: what the fake driver runs."""
    images = {("sm_90", NARROW): TEXT.encode(), ("sm_90", WIDE): b"// wide\n" + TEXT.encode()}
    return CudaExecutable(program or reversed_program(), TEXT, images=images)


@pytest.fixture
def api(driver: FakeApi) -> FakeApi:
    """Two fake devices, and no library of arrays."""
    return driver


def arrays(api: FakeApi, size: int = 100, **more: Any) -> tuple[FakeArray, FakeArray]:
    source = np.arange(size, dtype=np.float32)
    return FakeArray(source, api, **more), FakeArray(np.zeros(size, np.float32), api, **more)


def launches(api: FakeApi) -> list[tuple[Any, ...]]:
    """Name, grid, block, shared bytes and stream of every launch."""
    return [(call[1][1], *call[2:10]) for call in api.calls if call[0] == "cuLaunchKernel"]


def test_program_runs_in_a_stream(api: FakeApi) -> None:
    a, c = arrays(api)
    executable()((a, c), (100, 1, 1), stream=5)
    assert c.data.tolist() == (2 * a.data[::-1]).tolist()
    assert launches(api) == [
        ("twice", 4, 1, 1, 32, 1, 1, 0, 5),
        ("turn", 4, 1, 1, 32, 1, 1, 0, 5),
    ]
    order = ["cuMemAllocAsync", "cuLaunchKernel", "cuLaunchKernel", "cuMemFreeAsync"]
    assert [name for name in api.names() if name in order] == order
    assert not {"cuMemAlloc", "cuStreamSynchronize", "cuCtxSynchronize"} & set(api.names())
    assert api.contexts == []  # the caller's context is what it was
    assert api.memory == {}


def test_empty_grid_launches_nothing(api: FakeApi) -> None:
    executable()(arrays(api, 0), (0, 1, 1))
    assert launches(api) == []
    assert "cuMemAllocAsync" not in api.names()


def test_large_scalar_makes_subscripts_wide(api: FakeApi) -> None:
    a, c = arrays(api, 1)
    executable()((a, c), (1, 1 << 40, 1))
    assert any(image.startswith(b"// wide") for name, image, *_ in loads(api))
    assert c.data.tolist() == [0.0]


def loads(api: FakeApi) -> list[tuple[Any, ...]]:
    return [call for call in api.calls if call[0] == "cuModuleLoadData"]


def test_code_goes_with_its_last_user_unless_a_graph_holds_it(api: FakeApi) -> None:
    a, c = arrays(api)
    for capturing, unloads in ((set(), 1), ({9}, 1)):
        api.capturing = capturing
        run = executable()
        run((a, c), (100, 1, 1), stream=9)
        cuda_module._modules.clear()
        del run
        gc.collect()
        assert api.names().count("cuModuleUnload") == unloads
    cuda_module._captured.clear()


def test_arrays_of_two_libraries_wait_for_one_another(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Other(FakeArray):
        pass

    streams = {"gpu": 30, "other": 40}
    monkeypatch.setattr(Other, "__module__", "other")
    monkeypatch.setattr(cuda_executable, "current_stream", lambda name, _: streams[name])
    a, c = arrays(api)
    executable()((a, Other(c.data, api)), (100, 1, 1))
    names = ("cuEventRecord", "cuStreamWaitEvent", "cuLaunchKernel")
    waits = [
        (name, *(x for x in values if x in (30, 40)))
        for name, *values in api.calls
        if name in names
    ]
    assert waits == [
        ("cuEventRecord", 40),
        ("cuStreamWaitEvent", 30),
        ("cuLaunchKernel", 30),
        ("cuLaunchKernel", 30),
        ("cuEventRecord", 30),
        ("cuStreamWaitEvent", 40),
    ]


def read_only(api: FakeApi) -> tuple[Any, ...]:
    a, c = arrays(api)
    c.read_only = True
    return a, c


def other_dtype(api: FakeApi) -> tuple[Any, ...]:
    return FakeArray(np.zeros(4), api), arrays(api)[1]


def other_rank(api: FakeApi) -> tuple[Any, ...]:
    return FakeArray(np.zeros((4, 4), np.float32), api), arrays(api)[1]


def other_device(api: FakeApi) -> tuple[Any, ...]:
    return arrays(api)[0], arrays(api, device=1)[1]


def on_host(api: FakeApi) -> tuple[Any, ...]:
    return arrays(api)[0], np.zeros(100, np.float32)


def repeating(api: FakeApi) -> tuple[Any, ...]:
    return arrays(api)[0], FakeArray(np.broadcast_to(np.float32(0), 100), api)


def between_elements(api: FakeApi) -> tuple[Any, ...]:
    packed = np.zeros(100, dtype=[("x", "f4"), ("y", "i2")])
    return FakeArray(packed["x"], api), arrays(api)[1]


REFUSALS = [
    (read_only, UsageError, "'C' is read-only\ntry: pass a writable array, or a copy of it"),
    (
        other_dtype,
        DtypeError,
        "'A' has dtype 'float64'\ntry: the program was made for 'float32'",
    ),
    (other_rank, UsageError, "'A' has 2 dimensions\ntry: it takes 1"),
    (
        other_device,
        UsageError,
        "arrays lie on different devices\nnote: found 'A' on 0, 'C' on 1\n"
        "try: move them to one device",
    ),
    (
        on_host,
        UsageError,
        "'C' lies in the host's memory\nnote: found numpy.ndarray\n"
        "try: pass all arrays on one device, or all on the host",
    ),
    (repeating, UsageError, "elements of 'C' share memory\ntry: pass a fresh array"),
    (
        between_elements,
        UsageError,
        "strides of 'A' are no multiples of its elements\n"
        "note: found strides of (6,) bytes, elements of 4\ntry: pass a copy",
    ),
    (
        lambda api: arrays(api)[:1],
        UsageError,
        "wrong number of arrays\nnote: found 1\ntry: 2: A, C",
    ),
    (
        lambda api: ("A", "C"),
        WrongTypeError,
        "'A' is no array of a CUDA device\nnote: found str\n"
        "try: an array of PyTorch, CuPy, Numba or JAX on a CUDA device",
    ),
]


@pytest.mark.parametrize(("make", "kind", "told"), REFUSALS)
def test_arguments_that_do_not_fit(api: FakeApi, make: Any, kind: type, told: str) -> None:
    run = executable()
    with pytest.raises(UsageError) as raised:
        run(make(api), (100, 1, 1))
    assert type(raised.value) is kind
    assert str(raised.value) == told
    assert launches(api) == []
    # The next call finds everything in order.
    a, c = arrays(api)
    run((a, c), (100, 1, 1))
    assert c.data.tolist() == (2 * a.data[::-1]).tolist()


def test_grid_beyond_the_device_runs_no_kernel(api: FakeApi) -> None:
    program = reversed_program(y=n + 65000)
    with pytest.raises(UsageError) as raised:
        executable(program)(arrays(api, 1000), (1000, 1, 1))
    assert str(raised.value) == (
        "kernel 'twice' of 'reversed' needs too many blocks\nnote: found 32 x 66000 x 1\n"
        "try: device 0 runs 2147483647 x 65535 x 65535"
    )
    assert launches(api) == []


def test_no_such_device() -> None:
    with fake_driver(devices=2), pytest.raises(UsageError) as raised:
        cuda_device(2)
    assert str(raised.value) == (
        "there is no such CUDA device\nnote: found device 2\ntry: devices: 0 to 1"
    )


def test_more_shared_memory_than_a_block_has(api: FakeApi) -> None:
    with pytest.raises(UsageError) as raised:
        executable(reversed_program(300_000))(arrays(api), (100, 1, 1))
    assert str(raised.value) == (
        "kernel 'twice' needs more shared memory than a block has\nnote: found 300000 bytes\n"
        "try: device 0 has 232448"
    )


def test_fault_of_a_launch_names_kernel_and_program(api: FakeApi) -> None:
    run = executable()
    a, c = arrays(api)
    run((a, c), (100, 1, 1))
    api.faults["cuLaunchKernel"] = 700
    with pytest.raises(DeviceError) as raised:
        run((a, c), (100, 1, 1))
    assert str(raised.value) == (
        "kernel 'twice' on a grid of 4 x 1 x 1 blocks: CUDA_ERROR_ILLEGAL_ADDRESS\n"
        "note: the program launched last is 'reversed'\n"
        "try: start a new process: no later call on this device can succeed"
    )
    assert api.contexts == []
    assert api.memory == {}
    api.faults = {"cuStreamSynchronize": 700}
    with pytest.raises(DeviceError, match=r"the program launched last is 'reversed'"):
        cuda_device().synchronize()


def test_memory_that_is_not_there(api: FakeApi) -> None:
    run = executable()
    api.faults["cuMemAllocAsync"] = 2
    with pytest.raises(RoomError, match=r"cuMemAllocAsync: the memory of device 0 is not enough"):
        run(arrays(api), (100, 1, 1))
    api.faults.clear()
    a, c = arrays(api)
    run((a, c), (100, 1, 1))
    assert c.data.tolist() == (2 * a.data[::-1]).tolist()


# -- arrays of the host ---------------------------------------------------------------------------


def strides(views: Any) -> tuple[int, ...]:
    a, c = views
    return (a.shape[0], a.strides[0], c.strides[0])


def test_host_arrays_go_and_come(api: FakeApi) -> None:
    memory, out = np.arange(200, dtype=np.float32), np.zeros(200, np.float32)
    run_from_host(executable(), (memory[::2], out[::-2]), strides, reads=(True, False))
    assert out[::-2].tolist() == (2 * memory[::2][::-1]).tolist()
    assert not out[::2].any()
    assert api.names().count("cuMemcpyHtoDAsync") == 1
    assert api.names().count("cuMemcpyDtoHAsync") == 1
    assert api.memory == {}


def test_host_arrays_that_do_not_fit(api: FakeApi) -> None:
    source, out = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    with pytest.raises(UsageError, match=r"'C' lies on a device, other arrays on the host"):
        run_from_host(executable(), (source, FakeArray(out, api)), strides)
    with pytest.raises(DtypeError, match=r"'A' has dtype 'float64'"):
        run_from_host(executable(), (source.astype(float), out), strides)
    out.flags.writeable = False
    with pytest.raises(UsageError, match=r"'C' is read-only"):
        run_from_host(executable(), (source, out), strides)
    assert launches(api) == []


def test_times_of_launches(api: FakeApi) -> None:
    ran = []
    assert time_launches(lambda: ran.append(1), repeats=4, warm_up=2) == [0.002] * 4
    assert len(ran) == 6
    assert api.names().count("cuEventCreate") == api.names().count("cuEventDestroy") == 8


def test_calls_of_many_launches_become_graphs(api: FakeApi) -> None:
    """The second call with the same arguments is recorded, later ones are replayed."""
    base = reversed_program()
    (memory,) = base.host
    assert isinstance(memory, DeviceMemory)
    steps = Repeat("t", Const(0), Const(5), one, memory.body)
    program = replace(base, host=(replace(memory, body=(steps,)),))
    run = executable(program)
    a, c = arrays(api)
    told = []
    for _ in range(4):
        before = len(api.calls)
        run((a, c), (100, 1, 1), stream=5)
        names = [name for name, *_ in api.calls[before:]]
        told.append((names.count("cuLaunchKernel"), names.count("cuGraphLaunch")))
    assert told == [(10, 0), (10, 1), (0, 1), (0, 1)]
    assert [call[2] for call in api.calls if call[0] == "cuGraphLaunch"] == [5, 5, 5]
    assert c.data.tolist() == (2 * a.data[::-1]).tolist()
    # Other arrays, and a stream that the caller captures, are launched one by one.
    before = len(api.calls)
    run((a, arrays(api)[1]), (100, 1, 1), stream=5)
    api.capturing.add(5)
    run((a, c), (100, 1, 1), stream=5)
    names = [name for name, *_ in api.calls[before:]]
    assert (names.count("cuLaunchKernel"), names.count("cuGraphLaunch")) == (20, 0)
    del run
    gc.collect()
    assert "cuGraphExecDestroy" in api.names()
