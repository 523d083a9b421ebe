"""The `loopwright` command: one module per sub-command, imported only when it runs.

A command module offers `add_arguments(parser: argparse.ArgumentParser) -> None` and
`run(args: argparse.Namespace) -> int`; it raises LoopwrightError for anything the user can mend.
With `PASSES_ARGUMENTS` it gets what follows `--` on the command line as `args.passed`.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

from loopwright.cli.guardian import guarded, heard

if TYPE_CHECKING:
    from loopwright.diagnostics import LoopwrightError

__all__ = ["COMMANDS", "main"]


def _command(name: str, line: str) -> tuple[str, str, str]:
    """A command that the module `<name>_command` of this package implements."""
    return name, f"{__name__}.{name}_command", line


# (name, module, one line of help), in the order of the help text.
COMMANDS: tuple[tuple[str, str, str], ...] = (
    _command("demo", "four jobs beside NumPy, gcc and scipy, and a refused reordering"),
    _command("cc", "optimise the loops of a C file between its pragmas"),
    (
        "explain",
        "loopwright.cli.explain_command",
        "tell what is done with the loops of a C file and why",
    ),
    (
        "convert",
        "loopwright.cli.convert_command",
        "convert a file of a sparse tensor to another format",
    ),
    _command("athread", "run an Athread program of Sunway on this machine, every access checked"),
    _command("tune", "measure plans for a C file or an einsum, and list what was recorded"),
    _command("machines", "list the known machines, or show one"),
    (
        "calibrate",
        "loopwright.cli.calibrate_command",
        "measure this machine and store its description",
    ),
    (
        "info",
        "loopwright.cli.info_command",
        "print versions, machine, cache and options for a report",
    ),
    _command("cache", "show, check or empty the kernel cache"),
)

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE


class Command(Protocol):
    """What a command module offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        signal.signal(signal.SIGTERM, _terminate)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored
            signal.signal(signal.SIGINT, _interrupt)
    try:
        with _seldom_collecting(), guarded() if argv is None and arguments else nullcontext():
            status = _dispatch(arguments)
        # A closed pipe must be noticed here, not by the interpreter while it shuts down.
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("loopwright: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _discard_output()  # the reader has gone
        return EXIT_BROKEN_PIPE
    except (MemoryError, OSError) as error:
        _report(error)
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
        return EXIT_ERROR
    return status


def _discard_output() -> None:
    """Let what is still buffered go nowhere instead of raising at exit."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)


# A compiler keeps most of what it makes: at Python's own thresholds 4% of a command goes by looking
# for garbage among objects that stay.
_THRESHOLDS = (100_000, 20, 20)


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Look for garbage less often while a command runs; afterwards as the caller wants it."""
    before = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _terminate(number: int, frame: object) -> NoReturn:
    """Exit by an exception, so that temporary files are removed."""
    heard()
    raise SystemExit(128 + number)


def _interrupt(number: int, frame: object) -> NoReturn:
    """Raise what Python's own handler raises."""
    heard()
    raise KeyboardInterrupt


def _dispatch(arguments: list[str]) -> int:
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    command, parser = _parser(chosen)
    try:
        if getattr(command, "PASSES_ARGUMENTS", False) and "--" in arguments:
            args = _parsed_with_rest(parser, arguments)
        else:
            args = parser.parse_args(arguments, argparse.Namespace(passed=[]))
    except SystemExit as stop:  # argparse has printed the help or its complaint
        return stop.code if isinstance(stop.code, int) else EXIT_ERROR
    if args.version:
        from importlib.metadata import version  # lazy: slow, and only --version needs it

        print("loopwright", version("loopwright"))
        return 0
    if command is None:
        parser.print_help(sys.stderr)
        return EXIT_ERROR
    return _run(command, args)


def _parsed_with_rest(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """The arguments of a command that passes on what follows --.

    Where a file is missing before it, -- ends the options as elsewhere, and the file follows:
    `cc -- -k.c`, `cc --run -- -k.c -- 100`.
    """
    at = arguments.index("--")
    own, rest = arguments[:at], arguments[at + 1 :]
    complaint = io.StringIO()
    try:
        with redirect_stderr(complaint):
            return parser.parse_args(own, argparse.Namespace(passed=rest))
    except SystemExit as stop:
        if not stop.code:
            raise  # the help was asked for
        files, _, passed = _around(rest)
        try:
            with redirect_stderr(io.StringIO()):
                whole = [*own, "--", *files]
                return parser.parse_args(whole, argparse.Namespace(passed=passed))
        except SystemExit:
            sys.stderr.write(complaint.getvalue())
            raise stop from None


def _around(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    """What stands before the first --, that itself, and what follows."""
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at : at + 1], words[at + 1 :]


def _run(command: Command, args: argparse.Namespace) -> int:
    # lazy: dataclasses would be a third of the time that --help may take
    from loopwright.diagnostics import LoopwrightError

    try:
        return command.run(args)
    except LoopwrightError as error:
        _report(error)
        return EXIT_ERROR


def _parser(chosen: str | None) -> tuple[Command | None, argparse.ArgumentParser]:
    """Return the module of the chosen command and a parser that knows that command's arguments."""
    parser = argparse.ArgumentParser(
        prog="loopwright",
        usage="loopwright [-h] [--version] command ...",
        description="Compile tensor programs to fast code for the machine at hand or another.",
        # Our own table: argparse breaks the line after a name of more than eight letters.
        epilog="\n".join(["commands:", *(f"  {name:<11}{line}" for name, _, line in COMMANDS)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    group = parser.add_subparsers(prog="loopwright", metavar="command", help=argparse.SUPPRESS)
    command: Command | None = None
    for name, module, line in COMMANDS:
        description = line[0].upper() + line[1:] + "."
        entry = group.add_parser(name, description=description, allow_abbrev=False)
        if name == chosen:
            command = cast(Command, importlib.import_module(module))
            command.add_arguments(entry)
    return command, parser


def _report(error: LoopwrightError | MemoryError | OSError) -> None:
    """Print what is wrong, or what the system has refused: memory, files, space on a disk."""
    # lazy: see _run
    from loopwright import options

    # lazy: see _run
    from loopwright.diagnostics import LoopwrightError, SourceError, UsageError

    try:
        wanted = options.current()
    except UsageError:  # the options themselves may be what is wrong
        wanted = options.Options()
    if wanted.full_tracebacks:
        import traceback  # lazy: only for those who ask for it

        traceback.print_exception(error)
        return
    if not isinstance(error, LoopwrightError):
        reason = getattr(error, "strerror", None) or str(error) or "there is not enough memory"
        file = getattr(error, "filename", None)
        print(f"loopwright: error: {reason}{f': {file}' if file else ''}", file=sys.stderr)
        return
    color = wanted.color == "always" or (wanted.color == "auto" and _is_colorful())
    # A source error begins with its own place; any other is told by us.
    teller = "" if isinstance(error, SourceError) else "loopwright: error: "
    print(teller + error.render(color=color), file=sys.stderr)


def _is_colorful() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
