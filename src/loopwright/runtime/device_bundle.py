"""Bundles: a device program in a folder, to be run where no compiler of ours is.

    manifest.json       the program's host part, its signature, a digest of every other file
    kernels.cu          the text that was emitted (kernels.cl for OpenCL)
    sm_90.int.cubin     machine code for an architecture and a type of subscripts
    compute_80.int.ptx  or text that drivers of later devices translate

To load one needs neither isl nor LLVM. Everything is checked before anything is used, and nothing
in a bundle is code of Python; but machine code runs as it stands: load bundles that you trust.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from loopwright.diagnostics import InternalError, UsageError
from loopwright.ir.device import DeviceProgram
from loopwright.ir.device_serial import device_program_to_json, read_device_program
from loopwright.ir.expr import Expr
from loopwright.ir.serial import Malformed, read_expr, to_json
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import computed_once
from loopwright.runtime.argument_sizes import scalars_from_arrays
from loopwright.runtime.cuda_executable import NARROW, WIDE, CudaExecutable
from loopwright.runtime.cuda_transfers import run_from_host
from loopwright.runtime.device_arrays import DeviceArray, check_arguments, is_device_array
from loopwright.runtime.host_steps import compile_host
from loopwright.runtime.opencl_executable import OpenclExecutable

__all__ = ["DeviceBundle", "load", "load_bundle", "save_bundle"]

FORMAT = "loopwright device bundle"
VERSION = 1
_MANIFEST = "manifest.json"
_TEXTS = {"cuda": "kernels.cu", "opencl": "kernels.cl"}
_INDEX_NAMES = {NARROW: "int", WIDE: "long"}
_ARCH = re.compile(r"(sm|compute)_\d{2,3}[af]?")
_MOST_BYTES = 256 << 20  # of one file


@dataclass(frozen=True, slots=True)
class DeviceBundle:
    """What a folder holds."""

    program: DeviceProgram  # its kernels without bodies
    language: str  # "cuda" or "opencl"
    text: str
    images: dict[tuple[str, str], bytes]  # by architecture and type of subscripts
    shapes: dict[str, tuple[Expr, ...]]  # of the arrays, over the scalars
    reads: tuple[bool, ...]  # whether the old contents of each array matter
    options: tuple[str, ...]  # of the compiler

    def executable(self) -> CudaExecutable:
        """The program for CUDA devices. Raises UsageError for a bundle of another language."""
        if self.language != "cuda":
            raise UsageError("the bundle is not for CUDA", found=self.language)
        return CudaExecutable(self.program, self.text, self.options, self.images)

    def opencl_executable(self, context: Any | None = None) -> OpenclExecutable:
        """The program for OpenCL. Raises UsageError for a bundle of another language."""
        if self.language != "opencl":
            raise UsageError("the bundle is not for OpenCL", found=self.language)
        return OpenclExecutable(self.program, self.text, context, self.options)

    def function(self) -> BundleFunction:
        """The program as a function of its arrays."""
        return BundleFunction(self)


class BundleFunction:
    """A bundle's program as a function of arrays, all on one CUDA device or all of NumPy.

    Sizes and strides are those of the arrays; other scalars are given by name. Arrays of a device
    are used in the current stream of their library, and the call does not wait. A bundle for OpenCL
    takes arrays of NumPy and runs on the first device of OpenCL.
    """

    def __init__(self, bundle: DeviceBundle) -> None:
        self._bundle = bundle
        self.name = bundle.program.name
        self.parameters = tuple(buffer.name for buffer in bundle.program.buffers)

    def __call__(self, *arrays: Any, stream: int | None = None, **scalars: int) -> None:
        program, shapes, reads = self._bundle.program, self._bundle.shapes, self._bundle.reads

        def given(views: Sequence[DeviceArray]) -> Sequence[int]:
            return scalars_from_arrays(program, shapes, views, scalars)

        if self._bundle.language == "opencl":
            self._on_opencl.run_from_host(arrays, given, reads)
        elif arrays and not any(map(is_device_array, arrays)):
            run_from_host(self._on_cuda, arrays, given, reads)
        else:
            views = check_arguments(program.buffers, arrays)
            self._on_cuda.run(views, given(views), stream)

    @computed_once
    def _on_cuda(self) -> CudaExecutable:
        return self._bundle.executable()

    @computed_once
    def _on_opencl(self) -> OpenclExecutable:
        return self._bundle.opencl_executable()

    def __repr__(self) -> str:
        told = ", ".join(self.parameters)
        return f"<loopwright bundle {self.name}({told}) for {self._bundle.language}>"


def load(folder: str | os.PathLike[str]) -> BundleFunction:
    """The function that `save(folder)` of compiled code for a GPU wrote.

    It takes the arrays of the program in their order, on one CUDA device or all of NumPy, and
    scalars that no array tells by name. Nothing is compiled but for devices that the bundle has no
    code for. Raises UsageError where the folder holds no bundle, or a damaged one.
    """
    return load_bundle(folder).function()


def save_bundle(
    folder: str | os.PathLike[str],
    program: DeviceProgram,
    text: str,
    *,
    images: Mapping[tuple[str, str], bytes] | None = None,
    shapes: Mapping[str, Sequence[Expr]] | None = None,
    reads: Sequence[bool] | None = None,
    options: Sequence[str] = (),
    language: str = "cuda",
) -> None:
    """Write a bundle into `folder`, which is made if it is not there.

    The manifest comes last and in one step: a folder that holds one is whole.
    """
    if language not in _TEXTS:
        raise UsageError(
            "no language of bundles", found=repr(language), hint=f"one of {', '.join(_TEXTS)}"
        )
    needed = [True] * len(program.buffers) if reads is None else list(reads)
    assert len(needed) == len(program.buffers)
    contents = {_TEXTS[language]: text.encode()}
    listed = []
    for (arch, index), image in (images or {}).items():
        kind = "ptx" if arch.startswith("compute") else "cubin"
        name = f"{arch}.{_INDEX_NAMES[index]}.{kind}"
        contents[name] = image
        listed.append({"arch": arch, "index": index, "file": name})
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "language": language,
        "program": device_program_to_json(program),
        "signature": {
            "arguments": [
                {
                    "name": buffer.name,
                    "dtype": buffer.dtype.name,
                    "rank": len(buffer.strides),
                    "writable": buffer.writable,
                    "reads": is_read,
                    "shape": _shape(shapes, buffer.name),
                }
                for buffer, is_read in zip(program.buffers, needed, strict=True)
            ],
            "scalars": list(program.scalars),
        },
        "text": _TEXTS[language],
        "images": listed,
        "options": list(options),
        "digests": {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()},
    }
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, data in contents.items():
            (place / name).write_bytes(data)
        temporary = place / f".{_MANIFEST}-{os.getpid()}"
        temporary.write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        os.replace(temporary, place / _MANIFEST)
    except OSError as error:
        raise UsageError(f"the bundle cannot be written: {error.strerror}", str(place)) from error


def _shape(shapes: Mapping[str, Sequence[Expr]] | None, name: str) -> Any:
    found = None if shapes is None else shapes.get(name)
    return None if found is None else [to_json(extent) for extent in found]


def load_bundle(folder: str | os.PathLike[str]) -> DeviceBundle:
    """The bundle in `folder`. Raises UsageError where it is damaged or no bundle."""
    place = Path(folder)
    try:
        return _read(place, json.loads(_contents(place / _MANIFEST)))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, InternalError) as error:
        if isinstance(error, UsageError):
            raise
        reason = _reason(error)
        raise UsageError(
            "this folder holds no bundle that can be used",
            found=f"{place}: {reason}",
            hint="save the program again",
        ) from error


def _reason(error: BaseException) -> str:
    match error:
        case OSError(strerror=str(text)):
            return text
        case InternalError(message=text):
            return text
        case RecursionError():
            return "parts lie in parts too deeply"
    return str(error).splitlines()[0]


def _read(place: Path, manifest: Any) -> DeviceBundle:
    match manifest:
        case {
            "format": str(form),
            "version": version,
            "language": str(language),
            "program": program_data,
            "signature": {"arguments": list(arguments), "scalars": list(scalars)},
            "text": str(text_name),
            "images": list(images),
            "options": list(options),
            "digests": dict(digests),
        } if form == FORMAT and language in _TEXTS and all(isinstance(o, str) for o in options):
            pass
        case _:
            raise Malformed("a manifest", manifest)
    if version != VERSION:
        raise Malformed(f"a manifest of version {VERSION}", version)
    program = read_device_program(program_data)
    compile_host(program)  # raises where names do not fit together
    if list(program.scalars) != scalars or len(arguments) != len(program.buffers):
        raise Malformed("the signature of its program", scalars)
    shapes, reads = {}, []
    for buffer, argument in zip(program.buffers, arguments, strict=True):
        match argument:
            case {
                "name": name,
                "dtype": dtype,
                "rank": rank,
                "reads": bool(is_read),
                "shape": shape,
            }:
                reads.append(is_read)
            case _:
                raise Malformed("an argument", argument)
        if (name, dtype, rank) != (buffer.name, buffer.dtype.name, len(buffer.strides)):
            raise Malformed(f"the argument '{buffer.name}' of its program", argument)
        if shape is not None:
            if not isinstance(shape, list) or len(shape) != rank:
                raise Malformed("a shape", shape)
            shapes[buffer.name] = tuple(map(read_expr, shape))
    if text_name != _TEXTS[language]:
        raise Malformed("the name of a text", text_name)
    text = _checked(place, text_name, digests).decode()
    found = dict(_image(place, image, digests) for image in images)
    return DeviceBundle(program, language, text, found, shapes, tuple(reads), tuple(options))


def _image(place: Path, data: Any, digests: dict[str, Any]) -> tuple[tuple[str, str], bytes]:
    match data:
        case {"arch": str(arch), "index": str(index), "file": str(name)} if (
            _ARCH.fullmatch(arch) and index in _INDEX_NAMES
        ):
            kind = "ptx" if arch.startswith("compute") else "cubin"
            if name == f"{arch}.{_INDEX_NAMES[index]}.{kind}":
                return (arch, index), _checked(place, name, digests)
    raise Malformed("an image", data)


def _checked(place: Path, name: str, digests: dict[str, Any]) -> bytes:
    """The contents of a file of the bundle, whose names are all ours."""
    data = _contents(place / name)
    if hashlib.sha256(data).hexdigest() != digests.get(name):
        raise Malformed(f"what was saved as {name}", f"{len(data)} bytes")
    return data


def _contents(path: Path) -> bytes:
    if path.stat().st_size > _MOST_BYTES:
        raise Malformed("a file of a bundle", f"{path.name}, too large")
    return path.read_bytes()
