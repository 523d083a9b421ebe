"""The settings of this process: the only reader of LOOPWRIGHT_* environment variables."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import computed_once

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Options", "cache_dir", "current", "data_dir", "override", "parse", "reload", "variable"]

PREFIX = "LOOPWRIGHT_"
DUMPS = ("schedule", "loops", "llvm", "asm", "c")
DUMP_AFTER = "loops:"  # before the name of a pass of lower/passes: the loops after that pass
LOGS = ("cache", "plan", "python", "recompile", "time", "tune")
COLORS = ("auto", "always", "never")
_WORDS = {"1": True, "true": True, "yes": True, "on": True}
_WORDS |= {"0": False, "false": False, "no": False, "off": False}
_UNITS = {"K": 10, "M": 20, "G": 30}  # bits of the suffixes of byte counts
_MOST_THREADS = 4096


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user set; each field is the variable LOOPWRIGHT_<FIELD> in capitals."""

    cache_dir: str | None = None  # absolute path of the kernel cache; None: the platform's place
    cache: bool = True  # read and write compiled kernels on disk
    cache_limit: int = 1 << 30  # bytes of kernels on disk; least recently used ones are removed
    code_limit: int = 256 << 20  # bytes of kernels in this process beyond which caches forget
    data_dir: str | None = None  # absolute path of tuning records; None: the platform's place
    records: bool = True  # take plans that tuning has recorded
    race: bool = True  # race plans of functions that are called often against the source order
    race_compiler: bool = True  # also against code of the C compiler, where there is one
    num_threads: int | None = None  # workers of a kernel; None: the cores this process may use
    interpret: bool = False  # run the oracle instead of compiled code
    boundscheck: bool = False  # check every access of compiled code
    dump: tuple[str, ...] = ()  # stages to print while compiling: DUMPS, loops:PASS
    cpu: str | None = None  # machine to compile for; None: the host
    log: tuple[str, ...] = ()  # which decisions to tell the logger `loopwright`, among LOGS
    color: str = "auto"  # one of COLORS
    check: bool = False  # check every noun after every stage
    full_tracebacks: bool = False  # show the whole traceback of our own errors
    compile_seconds: int = 60  # of the processor, for one compilation; 0: no limit
    strict: bool = False  # a fault of our own planning is an error, no reason for a simpler plan

    @computed_once
    def careful(self) -> bool:
        """Whether calls must not repeat launches of code that was compiled without care."""
        return self.interpret or self.boundscheck


def variable(field: str) -> str:
    """Return the name of the environment variable that sets `field`."""
    return PREFIX + field.upper()


def parse(environ: Mapping[str, str]) -> Options:
    """Return the options that `environ` asks for; an empty value counts as not set."""
    known = {variable(field): (field, reader) for field, reader in _READERS.items()}
    changes: dict[str, Any] = {}
    for name, value in environ.items():
        if not name.startswith(PREFIX) or not value.strip():
            continue
        if name not in known:
            warnings.warn(
                f"{name} is not a Loopwright option and has no effect; "
                f"the options are {', '.join(known)}",
                stacklevel=2,
            )
            continue
        field, reader = known[name]
        changes[field] = reader(name, value.strip())
    return Options(**changes)


_current: Options | None = None


def current() -> Options:
    """Return the options in force; the environment is read on the first call."""
    return reload() if _current is None else _current


def reload() -> Options:
    """Read the environment again and return the options now in force."""
    global _current
    _current = parse(os.environ)
    return _current


@contextmanager
def override(**changes: Any) -> Iterator[Options]:
    """Put other options in force, in all threads, until the block ends."""
    global _current
    unknown = changes.keys() - _READERS.keys()
    if unknown:
        raise UsageError(
            "override() takes the fields of Options",
            found=", ".join(sorted(unknown)),
            hint=f"one of {', '.join(_READERS)}",
        )
    before = current()
    _current = replace(before, **changes)
    try:
        yield _current
    finally:
        _current = before


def cache_dir() -> Path:
    """Return the directory of the kernel cache, which need not exist."""
    place = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    return _directory("cache_dir", "XDG_CACHE_HOME", place)


def data_dir() -> Path:
    """Return the directory of what is not to be lost, which need not exist."""
    place = "~/Library/Application Support" if sys.platform == "darwin" else "~/.local/share"
    return _directory("data_dir", "XDG_DATA_HOME", place)


def _directory(field: str, base_variable: str, place: str) -> Path:
    """The directory that an option names, else ours in the user's base directory."""
    from pathlib import Path  # lazy: pathlib would be a sixth of our import-time budget

    chosen = getattr(current(), field)
    if chosen is not None:
        return Path(chosen)
    base = os.environ.get(base_variable, "")
    # The base directory specification tells readers to ignore a relative path.
    if os.path.isabs(base):
        return Path(base) / "loopwright"
    return Path(_absolute(variable(field), place)) / "loopwright"


def _absolute(name: str, value: str) -> str:
    path = os.path.expanduser(value)
    if path.startswith("~"):
        raise UsageError(
            f"{name}: the home directory of this user is not known",
            found=repr(value),
            hint=f"{name}=/some/directory",
        )
    return os.path.abspath(path)


def _flag(name: str, value: str) -> bool:
    if value.lower() not in _WORDS:
        raise _refusal(name, value, "1 or 0 (also true/false, yes/no, on/off)")
    return _WORDS[value.lower()]


def _bytes(name: str, value: str) -> int:
    unit = _UNITS.get(value[-1].upper(), 0)
    digits = value[:-1] if unit else value
    if not digits.isascii() or not digits.isdigit() or len(digits) > 15 or not int(digits):
        raise _refusal(name, value, "a number of bytes above 0, such as 500M or 2G")
    return int(digits) << unit


def _threads(name: str, value: str) -> int:
    # int() alone would also take signs, underscores and other scripts' digits.
    digits = value.isascii() and value.isdigit() and len(value) < 9
    if not digits or not 1 <= int(value) <= _MOST_THREADS:
        raise _refusal(name, value, f"a whole number from 1 to {_MOST_THREADS}")
    return int(value)


def _seconds(name: str, value: str) -> int:
    # A limit below a second would end ordinary compilations.
    if not (value.isascii() and value.isdigit() and len(value) < 9):
        raise _refusal(name, value, "a whole number of seconds, 0 for no limit")
    return int(value)


def _machine(name: str, value: str) -> str:
    # The name reaches LLVM and file names, so it is held to the letters of machine names.
    if not all(c.isascii() and (c.isalnum() or c in "-_.+") for c in value):
        raise _refusal(name, value, "a machine name such as zen3 or neoverse-n1")
    return value


def _choice(name: str, value: str) -> str:
    if value.lower() not in COLORS:
        raise _refusal(name, value, f"one of {', '.join(COLORS)}")
    return value.lower()


def _list_among(words: tuple[str, ...]) -> Callable[[str, str], tuple[str, ...]]:
    def read(name: str, value: str) -> tuple[str, ...]:
        found = {word.strip().lower() for word in value.split(",")} - {""}
        if not found <= set(words):
            raise _refusal(name, value, f"a comma-separated list of {', '.join(words)}")
        return tuple(word for word in words if word in found)

    return read


def _stages(name: str, value: str) -> tuple[str, ...]:
    """Stages in the order of DUMPS, then passes; which passes there are, lower/passes knows."""
    found = {word.strip().lower() for word in value.split(",")} - {""}
    passes = sorted(word for word in found if word.startswith(DUMP_AFTER))
    if not found <= {*DUMPS, *passes}:
        accepted = f"a comma-separated list of {', '.join(DUMPS)}"
        raise _refusal(name, value, f"{accepted}, or {DUMP_AFTER}PASS for the loops after a pass")
    return (*(word for word in DUMPS if word in found), *passes)


def _refusal(name: str, value: str, accepted: str) -> UsageError:
    shown = value if len(value) <= 60 else value[:57] + "..."
    return UsageError(f"{name} has a value we cannot use", found=repr(shown), hint=accepted)


_READERS: dict[str, Callable[[str, str], object]] = {
    "cache_dir": _absolute,
    "cache": _flag,
    "cache_limit": _bytes,
    "code_limit": _bytes,
    "data_dir": _absolute,
    "records": _flag,
    "race": _flag,
    "race_compiler": _flag,
    "num_threads": _threads,
    "interpret": _flag,
    "boundscheck": _flag,
    "dump": _stages,
    "cpu": _machine,
    "log": _list_among(LOGS),
    "color": _choice,
    "check": _flag,
    "full_tracebacks": _flag,
    "compile_seconds": _seconds,
    "strict": _flag,
}
assert tuple(_READERS) == tuple(field.name for field in fields(Options))
