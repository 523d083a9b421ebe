"""Preprocessing: by the C compiler where there is one, else by `builtin_preprocessor`."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence

from loopwright.child_process import Ended, call
from loopwright.compilers import compiler_path
from loopwright.diagnostics import Diagnostic, SourceError, Span, ToolchainError, UsageError
from loopwright.frontends.c.builtin_preprocessor import expand
from loopwright.frontends.c.source_map import MAIN, SourceText
from loopwright.lazy_dataclass import dataclass

__all__ = ["Preprocessed", "preprocess"]

_ACCEPTED = re.compile(
    r"-[DUI].+|-(?:iquote|isystem|include|D|U|I)|-std=[\w+:]+|-ansi|-f(?:un)?signed-char"
    r"|-f?openmp|-pthread|-[OgwW][\w=,-]*|-m[\w=.+-]+",
    re.DOTALL,
)
_WITH_VALUE = ("-iquote", "-isystem", "-include", "-D", "-U", "-I")
_MACRO = re.compile(r"[^\W\d]\w*(?:\([\w\s,.]*\))?")
_FAULT = re.compile(r"(.+?):(\d+):(?:(\d+):)? (?:fatal )?error: (.*)")
_KILLED = 9  # SIGKILL, which `signal` does not define on every system
_PROBE = "__loopwright_probe__"
_SECONDS = 10  # of CPU time; four times as much wall-clock time
# Macros can cause any amount of work: the compiler gets what a large file needs. The limits are
# inherited by its child processes, which would survive if only the compiler were killed.
_LIMITED = f'ulimit -t {_SECONDS}; ulimit -v 4194304 2>/dev/null; exec "$@"'


@dataclass(frozen=True, slots=True)
class Preprocessed:
    """Text with line markers, and the implementation-defined properties of the compiler's types."""

    text: str
    is_char_signed: bool
    long_bits: int


def preprocess(
    source: SourceText,
    cpp_args: Sequence[str],
    defines: Mapping[str, str | int | None],
    compiler: str | None,
) -> Preprocessed:
    """Expand the macros of a file; see `read_c`."""
    args = _arguments(cpp_args, defines)
    command = _find(compiler)
    if command is None:
        signed = _is_char_signed(args)
        return Preprocessed(expand(source, MAIN, args), signed, 64)
    return _run(command, source, args)


def _arguments(args: Sequence[str], defines: Mapping[str, str | int | None]) -> list[str]:
    """The arguments of the preprocessor; those with other effects are refused."""
    if isinstance(args, str):
        raise UsageError(
            "cpp_args is one text", found=args, hint='a list: ["-DN=100", "-Iinclude"]'
        )
    given: list[str] = []
    waiting = iter(args)
    for arg in waiting:
        if not _ACCEPTED.fullmatch(arg):
            hint = "-D, -U, -I, -iquote, -isystem, -include and -std are"
            raise UsageError("not an argument for the preprocessor", found=arg, hint=hint)
        given.append(arg)
        if arg in _WITH_VALUE:
            value = next(waiting, None)
            if value is None:
                raise UsageError(f"'{arg}' needs a value", hint=f"{arg} NAME")
            given.append(value)
    for name, body in defines.items():
        if not _MACRO.fullmatch(name) or "\n" in str(body):
            raise UsageError("not a macro", found=f"{name}={body}", hint='{"N": 100}')
        given.append(f"-D{name}={'' if body is None else body}")
    return given


def _find(compiler: str | None) -> str | None:
    """The path of the compiler to call; None for the built-in preprocessor."""
    if compiler == "":
        return None
    found = compiler_path(compiler)
    if found is not None or compiler is None:
        return found
    raise UsageError(f"the C compiler '{compiler}' is not found", hint='"" uses none')


def _is_char_signed(args: Sequence[str]) -> bool:
    """Whether plain char is signed on this machine, unless an argument says so."""
    import platform  # lazy: slow to load, needed without a compiler only

    flags = [arg for arg in args if arg in ("-fsigned-char", "-funsigned-char")]
    if flags:
        return flags[-1] == "-fsigned-char"
    return (
        not platform.machine().lower().startswith(("aarch64", "arm64", "arm", "ppc", "riscv", "s3"))
    )


def _run(compiler: str, source: SourceText, args: Sequence[str]) -> Preprocessed:
    command = [compiler, "-E", "-w", "-x", "c", "-iquote", source.folder, *args, "-"]
    probe = f'\n\n# 1 "{_PROBE}"\n{_PROBE} __CHAR_UNSIGNED__ __SIZEOF_LONG__\n'
    given = f'# 1 "{MAIN}"\n'.encode() + source.plain + probe.encode()
    done = _call(command, given)
    text = done.output.decode(source.encoding)
    errors = done.errors.decode("utf-8", "replace")
    if done.is_late or done.status == -_KILLED:
        reason = "do macros of the file double their text, or does it include what never ends?"
        raise ToolchainError(command, reason, "took too long")
    if done.status != 0:
        raise _failure(command, source, errors)
    body, found, answer = text.rpartition(_PROBE)
    if not found:
        raise ToolchainError(command, errors, "gave no output")
    unsigned, bytes_of_long = answer.split()[:2]
    return Preprocessed(body, not unsigned.isdigit(), 8 * int(bytes_of_long))


def _call(command: Sequence[str], given: bytes) -> Ended:
    """What a command leaves behind, which is ended at its limits."""
    path = os.environ.get("PATH", os.defpath)
    clean = {"PATH": path, "LC_ALL": "C", "TMPDIR": tempfile.gettempdir()}
    shell = shutil.which("sh")
    limited = [shell, "-c", _LIMITED, "sh", *command] if shell else list(command)
    try:
        done = call(limited, seconds=4 * _SECONDS, given=given, environment=clean)
    except OSError as error:
        raise ToolchainError(command, str(error), "cannot be called") from None
    if done.is_long:
        reason = f"gave more than {len(done.output) >> 20} MiB of text"
        raise ToolchainError(command, "do macros of the file double their text?", reason)
    return done


def _failure(command: Sequence[str], source: SourceText, errors: str) -> Exception:
    """The compiler's errors as a SourceError where they have locations, else a ToolchainError."""
    found: list[Diagnostic] = []
    for match in map(_FAULT.match, errors.splitlines()):
        if match is None:
            continue
        file, line, column, message = match[1], int(match[2]), int(match[3] or 1), match[4]
        span = Span(file, line, column, line, column + 1)
        if file == MAIN:
            span = source.span(line, column, column + 1)
        is_missing = "No such file" in message or "not found" in message
        hint = "give the folder of the header with -I" if is_missing else ""
        found.append(Diagnostic(span, f"the preprocessor says: {message}", "LW131", hint=hint))
    return (
        SourceError(*found) if found else ToolchainError(command, errors.replace(MAIN, source.name))
    )
