"""A device program on CUDA devices: compiled when a device first runs it, launched in a stream.

    executable = CudaExecutable(program, text)
    executable.launch(pointers, scalars, stream=stream)

Nothing waits for the device and no memory is taken but in stream order, so that launches can be
captured in a graph. What a call needs is found before its first kernel runs: a call that cannot
be finished leaves all arrays as they were.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from loopwright.diagnostics import UsageError
from loopwright.ir.device import DeviceProgram
from loopwright.memo import BoundedCache
from loopwright.runtime.cuda_compiler import compile_cuda
from loopwright.runtime.cuda_driver import CudaDevice, cuda_device
from loopwright.runtime.cuda_graph import CudaGraph
from loopwright.runtime.cuda_module import CudaModule, load_module
from loopwright.runtime.device_arrays import DeviceArray, check_arguments, current_stream
from loopwright.runtime.host_steps import Needs, compile_host, needs_of

__all__ = ["NARROW", "WIDE", "CudaExecutable", "in_stream_order"]

NARROW, WIDE = "int", "long long"  # types of subscripts, sizes and strides
# Threads beyond the end of an array compute subscripts, too, before they find that they have
# nothing to do: so the narrow type serves only what leaves it a bit.
_NARROW_REACH = 1 << 30
_LAST_NAMED = 2  # the default streams are 0 to 2; no graph captures them
_MANY, _MOST = 8, 200_000  # launches of calls that become graphs
_MOST_GRAPHS = 16


@contextmanager
def in_stream_order(
    views: Sequence[DeviceArray], stream: int | None = None
) -> Iterator[tuple[CudaDevice, int]]:
    """The device of the arrays and the stream for launches on them: that of the first library.

    What is launched there inside the block waits for what makes the arrays in other streams, and
    other libraries' streams wait for it.
    """
    ordinal = views[0].device if views else 0
    device = cuda_device(ordinal)
    others: set[int] = set()  # streams of further libraries, which see what is written
    if stream is None:
        library = views[0].library if views else ""
        stream = current_stream(library, ordinal)
        for view in views:
            if view.library != library:
                others.add(_plain(current_stream(view.library, ordinal)))
    # Work that has made the arrays may still be under way in another stream.
    before = others | {_plain(view.stream) for view in views if view.stream is not None}
    for other in before:
        if other != _plain(stream):
            device.order(other, stream)
    yield device, stream
    for other in others:
        if other != _plain(stream):
            device.order(stream, other)


class CudaExecutable:
    """A program with its text, for any device. Several threads may launch it at once.

    `images` holds machine code or PTX by architecture and type of subscripts, such as
    ("sm_90", "int"); what is not there is compiled from the text.
    """

    def __init__(
        self,
        program: DeviceProgram,
        text: str,
        options: Sequence[str] = (),
        images: Mapping[tuple[str, str], bytes] | None = None,
    ) -> None:
        self.program = program
        self.text = text
        self.options = tuple(options)
        self.images: dict[tuple[str, str], bytes] = dict(images or {})
        self._host = compile_host(program)
        self._ready: dict[tuple[int, bool], _Ready] = {}  # by device and width of subscripts
        self._needs: BoundedCache[tuple[int, ...], Needs] = BoundedCache(256)
        # By device, width of subscripts and arguments; None: such a call was made once.
        self._graphs: BoundedCache[tuple[int, bool, tuple[int, ...]], CudaGraph | None]
        self._graphs = BoundedCache(_MOST_GRAPHS)
        self._lock = threading.RLock()
        self._name = program.name

    def launch(
        self,
        pointers: Sequence[int],
        scalars: Sequence[int],
        stream: int = 0,
        device: CudaDevice | None = None,
        reach: int = 0,
    ) -> None:
        """Run the program on the addresses of the elements with all subscripts zero.

        `reach` is the greatest distance of an element from such a one, in elements: where 32 bits
        do not hold it, or anything else, subscripts have 64.
        """
        device = cuda_device() if device is None else device
        scalars = tuple(scalars)
        needs = self._needs.get(scalars) or self._needs_of(scalars, device)
        is_wide = reach >= _NARROW_REACH or needs.reach >= _NARROW_REACH
        ready = self._ready.get((device.ordinal, is_wide)) or self._make_ready(device, is_wide)
        if stream > _LAST_NAMED:
            ready.keep_if_captured(stream)
        entered = device.enter()
        device.last_program = self._name
        try:
            if _MANY <= needs.launches <= _MOST and not ready.is_captured(stream):
                self._replay(ready, stream, device, is_wide, (*pointers, *scalars))
            else:
                ready.run(stream, *pointers, *scalars)
        finally:
            if entered:
                device.leave()

    def local_bytes(self, scalars: Sequence[int], device: CudaDevice, reach: int = 0) -> int:
        """Bytes that threads of the kernels for such a launch have in memory, for registers.

        The code is compiled and loaded for it, as the launch would do.
        """
        scalars = tuple(scalars)
        needs = self._needs.get(scalars) or self._needs_of(scalars, device)
        ready = self._make_ready(device, max(reach, needs.reach) >= _NARROW_REACH)
        return max(ready.module.local_bytes(kernel) for kernel in self.program.kernels)

    def _replay(
        self,
        ready: _Ready,
        stream: int,
        device: CudaDevice,
        is_wide: bool,
        values: tuple[int, ...],
    ) -> None:
        """Launch a call of many kernels: from the second time on as a graph."""
        key = device.ordinal, is_wide, values
        if key not in self._graphs:
            self._graphs[key] = None
            ready.run(stream, *values)
            return
        graph = self._graphs.get(key)
        if graph is None:
            graph = CudaGraph(device, lambda own: ready.run(own, *values))
            self._graphs[key] = graph
        graph.launch(stream)

    def __call__(
        self, arrays: Sequence[Any], scalars: Sequence[int], stream: int | None = None
    ) -> None:
        """Run the program on arrays of one device, in the current stream of their library.

        Raises UsageError for arrays that do not fit, before anything runs.
        """
        views = check_arguments(self.program.buffers, arrays)
        self.run(views, scalars, stream)

    def run(
        self, views: Sequence[DeviceArray], scalars: Sequence[int], stream: int | None = None
    ) -> None:
        """As a call, on views that were checked."""
        with in_stream_order(views, stream) as (device, chosen):
            pointers = [view.pointer for view in views]
            reach = max([view.reach for view in views], default=0)
            self.launch(pointers, scalars, chosen, device, reach)

    def compile(self, arch: str, index: str = NARROW) -> bytes:
        """The machine code for an architecture; PTX for a virtual one such as "compute_90"."""
        found = self.images.get((arch, index))
        if found is None:
            options = (f"-DLW_INDEX={index}", *self.options)
            found = compile_cuda(self.text, arch, options, self.program.name)
            self.images[arch, index] = found
        return found

    def _needs_of(self, scalars: tuple[int, ...], device: CudaDevice) -> Needs:
        most = device.most_grid
        needs = needs_of(self.program, self._host, scalars, (most[0], most[1], most[2]))
        if needs.fault is not None:
            kernel, grid = needs.fault
            raise UsageError(
                f"kernel '{kernel}' of '{self.program.name}' needs too many blocks",
                found=" x ".join(map(str, grid)),
                hint=f"device {device.ordinal} runs {' x '.join(map(str, most))}",
            )
        self._needs[scalars] = needs
        return needs

    def _make_ready(self, device: CudaDevice, is_wide: bool) -> _Ready:
        with self._lock:
            key = device.ordinal, is_wide
            if key not in self._ready:
                module = load_module(device, self._image(device, WIDE if is_wide else NARROW))
                launches = [module.launcher(kernel) for kernel in self.program.kernels]
                run = self._host(launches, device.allocate, device.release)
                self._ready[key] = _Ready(module, run)
            return self._ready[key]

    def _image(self, device: CudaDevice, index: str) -> bytes:
        """Code for a device: made for it, else PTX that the driver can translate, else compiled."""
        exact = self.images.get((device.arch, index))
        if exact is not None:
            return exact
        capability = int(device.arch.removeprefix("sm_"))
        for (arch, kind), image in self.images.items():
            virtual = arch.removeprefix("compute_")
            is_virtual = virtual != arch and virtual.isdecimal()
            if kind == index and is_virtual and int(virtual) <= capability:
                return image
        return self.compile(device.arch, index)


class _Ready:
    """A program on one device."""

    __slots__ = ("_is_capturing", "_none", "module", "run")

    def __init__(self, module: CudaModule, run: Callable[..., None]) -> None:
        self.module = module
        self.run = run
        api = module.device.driver.api
        self._is_capturing = api.cuStreamIsCapturing
        self._none = api.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE

    def is_captured(self, stream: int) -> bool:
        """Whether what is launched in a stream becomes part of a graph of the caller's."""
        if stream <= _LAST_NAMED:
            return False
        status, capture = self._is_capturing(stream)
        return bool(status == 0 and capture != self._none)

    def keep_if_captured(self, stream: int) -> None:
        """Keep the code for ever if the launch becomes part of a graph."""
        if self.is_captured(stream):
            self.module.keep()


def _plain(stream: int) -> int:
    """A stream by its number; the default stream has two."""
    return 1 if stream == 0 else stream
