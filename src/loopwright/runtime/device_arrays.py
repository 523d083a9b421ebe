"""Arrays that lie on a device: views of them, and the libraries that they come from.

PyTorch's tensors and CuPy's arrays are read by their own attributes, any other array that has
`__cuda_array_interface__` by that (Numba's, say), and what has neither by DLPack. Results are made
by the library of the arguments, and launches go to the stream in which that library works. None of
them is imported here: who passes an array has done so.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from loopwright.diagnostics import DtypeError, UsageError, WrongTypeError
from loopwright.ir.device import is_by_value, value_bits
from loopwright.ir.dtypes import BFLOAT16, DType, dtype_of
from loopwright.ir.loops import Buffer
from loopwright.memo import BoundedCache
from loopwright.runtime.cuda_driver import cuda_driver
from loopwright.runtime.dlpack_tensor import read_dlpack, row_major

__all__ = [
    "DeviceArray",
    "check_arguments",
    "check_result",
    "current_stream",
    "device_array",
    "empty_like_arguments",
    "is_device_array",
    "number_of",
    "overlap",
]


_packages: BoundedCache[tuple[type, str], str] = BoundedCache(64)
_IMMUTABLE = ("jax", "jaxlib")  # libraries that rely on nobody writing to their arrays


class DeviceArray(NamedTuple):  # made in every call, in a third of the time of a dataclass
    """An array on a CUDA device, as a kernel sees it."""

    pointer: int  # of the element with all subscripts zero
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    dtype: DType
    device: int
    writable: bool
    stream: int | None  # in which it is being made; None: no need to wait
    library: str  # "torch", "cupy", "numba" or another package's name
    owner: object  # keeps the memory

    @property
    def reach(self) -> int:
        """The greatest distance of an element from the one at `pointer`, in elements."""
        if 0 in self.shape:
            return 0
        return sum(abs(s) * (e - 1) for s, e in zip(self.strides, self.shape, strict=True))


def is_device_array(value: object) -> bool:
    """Whether a value is an array that lies on a CUDA device."""
    if isinstance(value, np.ndarray):
        return False
    package = _package(value)
    if package == "torch":
        return bool(getattr(value, "is_cuda", False))
    if hasattr(value, "__cuda_array_interface__"):
        return True
    # Of DLPack's devices: CUDA's memory, and what the host shares with it.
    ask = getattr(value, "__dlpack_device__", None)
    return ask is not None and int(ask()[0]) in (2, 13)


def device_array(value: Any, what: str) -> DeviceArray:
    """The view of an array on a CUDA device; `what` names it in errors.

    Raises UsageError where it lies elsewhere, or has elements that kernels cannot address.
    """
    package = _package(value)
    if package == "cupy":
        return _of_cupy(value, what)
    if package == "torch" and value.is_cuda:
        return _of_torch(value, what)
    if not is_device_array(value):
        if _is_host_array(value):
            raise UsageError(
                f"{what} lies in the host's memory",
                found=_told(value),
                hint="pass all arrays on one device, or all on the host",
            )
        raise WrongTypeError(
            f"{what} is no array of a CUDA device",
            found=type(value).__name__,
            hint="an array of PyTorch, CuPy, Numba or JAX on a CUDA device",
        )
    if hasattr(value, "__cuda_array_interface__"):
        return _of_interface(value, what, package)
    return _of_dlpack(value, what, package)


def check_arguments(buffers: Sequence[Buffer], arrays: Sequence[Any]) -> list[DeviceArray]:
    """Views of the arguments of a program, all on one device and of the types it was made for.

    Raises UsageError for the first one that does not fit.
    """
    if len(arrays) != len(buffers):
        raise UsageError(
            "wrong number of arrays",
            found=str(len(arrays)),
            hint=f"{len(buffers)}: {', '.join(buffer.name for buffer in buffers)}",
        )
    views: list[DeviceArray] = []
    numbers: dict[int, int] = {}  # arguments by value: their places, and bits
    for buffer, value in zip(buffers, arrays, strict=True):
        what = f"'{buffer.name}'"
        if is_by_value(buffer):
            bits = value_bits(number_of(value, what), buffer.dtype)
            numbers[len(views) + len(numbers)] = bits
            continue
        view = device_array(value, what)
        if view.dtype != buffer.dtype:
            raise DtypeError(
                f"{what} has dtype '{view.dtype}'",
                hint=f"the program was made for '{buffer.dtype}'",
            )
        if len(view.shape) != len(buffer.strides):
            raise UsageError(
                f"{what} has {len(view.shape)} dimensions", hint=f"it takes {len(buffer.strides)}"
            )
        if buffer.writable and not view.writable:
            raise UsageError(f"{what} is read-only", hint="pass a writable array, or a copy of it")
        if buffer.writable and _repeats(view):
            raise UsageError(f"elements of {what} share memory", hint="pass a fresh array")
        if views and view.device != views[0].device:
            raise UsageError(
                "arrays lie on different devices",
                found=f"'{buffers[0].name}' on {views[0].device}, {what} on {view.device}",
                hint="move them to one device",
            )
        views.append(view)
    for place, bits in numbers.items():
        dtype = buffers[place].dtype
        device, library = (views[0].device, views[0].library) if views else (0, "")
        number = DeviceArray(bits, (), (), dtype, device, False, None, library, None)
        views.insert(place, number)
    return views


def check_result(view: DeviceArray, shape: tuple[int, ...], what: str) -> None:
    """Refuse an array that cannot take a result of `shape`."""
    if view.shape != shape:
        raise UsageError(f"{what} has shape {view.shape}", hint=f"the result has shape {shape}")
    if not view.writable:
        raise UsageError(f"{what} is read-only", hint="pass a writable array, or a copy of it")
    if _repeats(view):
        raise UsageError(f"elements of {what} share memory", hint="pass a fresh array")


def overlap(x: DeviceArray, y: DeviceArray) -> bool:
    """Whether two arrays may share an element: whether what lies between their ends meets."""
    (x_low, x_high), (y_low, y_high) = _ends(x), _ends(y)
    return x_low < y_high and y_low < x_high


def _ends(view: DeviceArray) -> tuple[int, int]:
    if 0 in view.shape:
        return 0, 0
    spans = [s * (e - 1) for s, e in zip(view.strides, view.shape, strict=True)]
    low, high = (sum(pick(s, 0) for s in spans) for pick in (min, max))
    size = view.dtype.bytes
    return view.pointer + low * size, view.pointer + (high + 1) * size


def number_of(value: Any, what: str) -> Any:
    """A number that a kernel takes by value: Python's, NumPy's, or an array of rank 0."""
    if isinstance(value, bool | int | float | complex | np.generic):
        return value
    if isinstance(value, np.ndarray) and value.shape == ():
        return value[()]
    raise WrongTypeError(
        f"{what} is a number", found=type(value).__name__, hint="a number of Python or NumPy"
    )


def current_stream(package: str, device: int) -> int:
    """The stream in which a library works now; the default one for libraries that have none."""
    library: Any = sys.modules.get(package)
    if package == "torch":
        # What torch's own compiler asks, without an object of Stream for each call.
        ask = getattr(getattr(library, "_C", None), "_cuda_getCurrentRawStream", None)
        if ask is not None:
            return int(ask(device))
        return int(library.cuda.current_stream(device).cuda_stream)
    if package == "cupy":
        return int(library.cuda.get_current_stream().ptr)
    return 0


def empty_like_arguments(
    views: Sequence[DeviceArray], shape: tuple[int, ...], dtype: DType, order: str = "C"
) -> Any:
    """A new array of undefined contents, by the library of the first array and on its device.

    It lies row by row ("C"), or column by column ("F").
    """
    package, device = views[0].library, views[0].device
    library: Any = sys.modules.get(package)
    kind: Any = dtype.numpy
    if dtype == BFLOAT16 and package != "torch":
        # NumPy's name for it belongs to another library: an argument has it, or nobody.
        kind = next((getattr(v.owner, "dtype", None) for v in views if v.dtype == dtype), None)
        package = package if kind is not None and package == "cupy" else ""
    if package == "torch":
        kind, place = getattr(library, dtype.name), f"cuda:{device}"
        if order == "F":
            turned = library.empty(shape[::-1], dtype=kind, device=place)
            return turned.permute(tuple(reversed(range(len(shape)))))
        return library.empty(shape, dtype=kind, device=place)
    more = {"order": order} if order != "C" else {}
    if package == "cupy":
        with library.cuda.Device(device):
            return library.empty(shape, dtype=kind, **more)
    if package == "numba":
        cuda = sys.modules["numba.cuda"]
        with cuda.gpus[device]:
            return cuda.device_array(shape, dtype=kind, **more)
    raise UsageError(
        f"results cannot be made as arrays of {package or 'this library'}"
        + (f" of {dtype}" if dtype == BFLOAT16 else ""),
        hint="pass an array for the result, or arrays of PyTorch, CuPy or Numba",
    )


# -- the libraries --------------------------------------------------------------------------------


def _of_torch(value: Any, what: str) -> DeviceArray:
    torch: Any = sys.modules["torch"]
    if value.requires_grad:
        raise UsageError(
            f"{what} requires a gradient, which kernels do not have",
            hint="pass it as tensor.detach()",
        )
    if value.layout != torch.strided:
        raise UsageError(f"{what} is no dense tensor", found=str(value.layout))
    if value.is_conj() or value.is_neg():
        raise UsageError(
            f"{what} is conjugated or negated in its flags only",
            hint="tensor.resolve_conj() or tensor.resolve_neg()",
        )
    return DeviceArray(
        value.data_ptr(),
        tuple(value.shape),
        tuple(value.stride()),
        _dtype(str(value.dtype).removeprefix("torch."), what),
        value.device.index,
        True,
        None,
        "torch",
        value,
    )


def _of_cupy(value: Any, what: str) -> DeviceArray:
    # CuPy orders its work by its current stream, in which the launch goes as well.
    dtype = _dtype(value.dtype, what)
    return DeviceArray(
        value.data.ptr,
        value.shape,
        _element_strides(value.strides, dtype, what),
        dtype,
        value.device.id,
        True,
        None,
        "cupy",
        value,
    )


def _of_interface(value: Any, what: str, package: str) -> DeviceArray:
    try:
        told = value.__cuda_array_interface__
        pointer, read_only = told["data"]
        shape = tuple(map(int, told["shape"]))
        dtype = _dtype(told["typestr"], what)
        steps, stream = told.get("strides"), told.get("stream")
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"the __cuda_array_interface__ of {what} has no sense", found=repr(error)
        ) from error
    if told.get("mask") is not None:
        raise UsageError(f"{what} has a mask", hint="an array whose elements all count")
    strides = row_major(shape) if steps is None else _element_strides(tuple(steps), dtype, what)
    device = _device_of(pointer, 0 in shape)
    writable = not read_only and package not in _IMMUTABLE
    return DeviceArray(
        pointer or 0, shape, strides, dtype, device, writable, stream, package, value
    )


def _of_dlpack(value: Any, what: str, package: str) -> DeviceArray:
    tensor = read_dlpack(value, what)
    return DeviceArray(
        tensor.pointer,
        tensor.shape,
        tensor.strides,
        _dtype(tensor.dtype, what),
        tensor.device,
        package not in _IMMUTABLE,
        1,  # the stream that the producer was asked to order its work by
        package,
        (value, tensor.owner),
    )


def _device_of(pointer: int, is_empty: bool) -> int:
    """The device that memory belongs to; without any, the first."""
    if is_empty or not pointer:
        return 0
    driver = cuda_driver()
    ordinal = driver.api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(driver.call("cuPointerGetAttribute", ordinal, pointer))


def _element_strides(strides: tuple[int, ...], dtype: DType, what: str) -> tuple[int, ...]:
    size = dtype.bytes
    found = tuple([stride // size for stride in strides])
    if any(stride % size for stride in strides):
        raise UsageError(
            f"strides of {what} are no multiples of its elements",
            found=f"strides of {strides} bytes, elements of {dtype.bytes}",
            hint="pass a copy",
        )
    return found


def _dtype(found: Any, what: str) -> DType:
    try:
        return dtype_of(found)
    except DtypeError as error:
        if str(found) == BFLOAT16.name:
            return BFLOAT16
        raise DtypeError(f"{what}: {error.message}") from None


def _repeats(view: DeviceArray) -> bool:
    """Whether two subscripts reach one element, as in a broadcast view: a sufficient test."""
    if 0 in view.shape:
        return False
    reach = 0
    for stride, extent in sorted(zip(map(abs, view.strides), view.shape, strict=True)):
        if extent == 1:
            continue
        if stride <= reach:
            return True
        reach += stride * (extent - 1)
    return False


def _package(value: object) -> str:
    """The package that the type of a value comes from; "torch" for every tensor of PyTorch."""
    kind = type(value)
    key = kind, kind.__module__
    found = _packages.get(key)
    if found is None:
        # A user's kind of tensor is one, too: its interface fails where it requires a gradient.
        tensor = getattr(sys.modules.get("torch"), "Tensor", ())
        package = kind.__module__.partition(".")[0]
        found = _packages[key] = "torch" if isinstance(value, tensor) else package
    return found


def _is_host_array(value: object) -> TypeGuard[Any]:
    return isinstance(value, np.ndarray) or hasattr(value, "__dlpack_device__")


def _told(value: Any) -> str:
    return f"{_package(value)}.{type(value).__name__}"
