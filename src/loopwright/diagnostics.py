"""Where a program is wrong and how that is told: spans, diagnostics, the exception family.

Codes are stable: LW1xx belongs to the front ends (LW10x any of them, LW11x accesses and bounds,
LW12x Python, LW13x C, LW14x einsum, LW15x functions of C that are called, LW16x files of numbers:
LW160 their headers, LW161 their entries, LW162 .tns; LW17x texts of loop trees: LW170 their lines,
LW171 expressions, LW172 what leaves an array or breaks an order; LW18x and LW19x whole functions of
NumPy: LW18x their arrays, LW19x their names, values and helpers). A code once printed never changes
its meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopwright.lazy_dataclass import dataclass

__all__ = [
    "BoundsError",
    "Collector",
    "DeviceError",
    "Diagnostic",
    "DtypeError",
    "IllegalStep",
    "InternalError",
    "LoopwrightError",
    "PathError",
    "RoomError",
    "SourceError",
    "Span",
    "SubscriptError",
    "ToolchainError",
    "UsageError",
    "WrongTypeError",
    "column_of_byte",
]

_INDENT = "    "
_TAB = 4
_MOST_COLUMNS = 120
_MOST_ERRORS = 20
_MOST_OUTPUT = 4000
_BOLD, _RED, _GREEN, _RESET = "\033[1m", "\033[1;31m", "\033[1;32m", "\033[0m"


@dataclass(frozen=True, slots=True)
class Span:
    """A range of source text; lines and columns count characters from 1, the end is exclusive."""

    file: str  # as the user spelled it, or a name in angle brackets such as <einsum>
    line: int
    column: int
    end_line: int
    end_column: int
    text: str = ""  # the whole source line the range begins on, without its line end

    @classmethod
    def in_text(
        cls,
        file: str,
        source: str,
        line: int,
        column: int,
        end_line: int | None = None,
        end_column: int | None = None,
    ) -> Span:
        """Return the span of `source` with its line looked up; without an end, one character."""
        lines = source.split("\n")
        text = lines[line - 1].rstrip("\r") if 1 <= line <= len(lines) else ""
        last = line if end_line is None else end_line
        return cls(file, line, column, last, column + 1 if end_column is None else end_column, text)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


def column_of_byte(text: str, offset: int) -> int:
    """Return the column (from 1) of the UTF-8 byte `offset` of a line, as Python's ast counts."""
    return len(text.encode()[:offset].decode(errors="ignore")) + 1


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault of a source program."""

    span: Span
    message: str  # one line, no full stop
    code: str  # LW1xx
    found: str = ""  # what stands there, shown as a note
    hint: str = ""  # what would be accepted

    def __post_init__(self) -> None:
        assert self.code.startswith("LW"), f"not a diagnostic code: {self.code!r}"

    def render(self, *, color: bool = False) -> str:
        """Return the headline, the source line, the carets, and the note and try lines."""
        bold, red, green, reset = (_BOLD, _RED, _GREEN, _RESET) if color else ("",) * 4
        place = f"{bold}{_visible(str(self.span))}:{reset}"
        lines = [f"{place} {red}error:{reset} {self.message} [{self.code}]"]
        if self.span.text.strip():
            text, carets = _excerpt(self.span)
            lines += [_INDENT + text, f"{_INDENT}{green}{carets}{reset}"]
        if self.found:
            lines.append(f"note: found {_visible(self.found)}")
        if self.hint:
            lines.append(f"try: {self.hint}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()


def _excerpt(span: Span) -> tuple[str, str]:
    """Return the source line without its indentation, and carets under the range."""
    text = span.text.rstrip()
    start = max(span.column - 1, 0)
    end = max(span.end_column - 1, start) if span.end_line == span.line else len(text)
    margin = min(len(text) - len(text.lstrip()), start)
    first = margin if len(text) - margin <= _MOST_COLUMNS else max(margin, start - 60)
    before = ("..." if first > margin else "") + _visible(text[first:start])
    inside = _visible(text[start:end])
    shown = before + inside + _visible(text[max(end, start) :])
    if len(shown) > _MOST_COLUMNS:
        shown = shown[: _MOST_COLUMNS - 3] + "..."
    # A range that starts past the text (a missing token at the line end) still gets its caret.
    pad = _width(before) + max(start - len(text), 0)
    return shown, " " * pad + "^" * max(1, min(_width(inside), _width(shown) - pad))


def _visible(text: str) -> str:
    """Return `text` with tabs as spaces and nothing that could steer a terminal."""
    plain = text.replace("\t", " " * _TAB)
    return plain if plain.isprintable() else "".join(map(_visible_character, plain))


def _visible_character(character: str) -> str:
    return character if character.isprintable() else "\ufffd"


def _width(text: str) -> int:
    """Return how many terminal cells `text` takes."""
    if text.isascii():
        return len(text)
    import unicodedata  # lazy: a shared object that only non-ASCII sources need

    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    marks = sum(unicodedata.category(c) in ("Mn", "Me") for c in text)
    return len(text) + wide - marks


class LoopwrightError(Exception):
    """Anything Loopwright refuses or fails at."""

    # Constructors of the family hand their arguments on unchanged: that keeps errors picklable,
    # so they survive the way back from a worker process.

    def render(self, *, color: bool = False) -> str:
        """Return the text for a terminal."""
        return str(self)


class SourceError(LoopwrightError, ValueError):
    """The user's program is outside the language; holds every fault that was found."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        assert diagnostics, "a SourceError needs a diagnostic"
        super().__init__(*diagnostics)
        self.diagnostics = diagnostics

    def render(self, *, color: bool = False) -> str:
        lines = [d.render(color=color) for d in self.diagnostics[:_MOST_ERRORS]]
        left = len(self.diagnostics) - len(lines)
        if left:
            lines.append(f"note: {left} more error{'s' if left > 1 else ''} not shown")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()


class IllegalStep(LoopwrightError, ValueError):  # noqa: N818, the word of the glossary
    """A step would change what the program computes."""

    def __init__(self, step: object, reason: str, witness: str = "") -> None:
        super().__init__(step, reason, witness)
        self.step = step
        self.reason = reason
        self.witness = witness  # the pair of instances that forbids it, with their places

    def __str__(self) -> str:
        return f"{self.step}: {self.reason}" + (f" {self.witness}" if self.witness else "")


class UsageError(LoopwrightError, ValueError):
    """A call or a setting is wrong: the value found and what is accepted stand in the text."""

    def __init__(self, message: str, found: str = "", hint: str = "") -> None:
        super().__init__(message, found, hint)
        self.message = message
        self.found = found
        self.hint = hint

    def __str__(self) -> str:
        found = f"\nnote: found {_visible(self.found)}" if self.found else ""
        return self.message + found + (f"\ntry: {self.hint}" if self.hint else "")


class DtypeError(UsageError, TypeError):
    """An array has an element type the call cannot take."""


class WrongTypeError(UsageError, TypeError):
    """An argument is of a Python type the call cannot take."""


class PathError(UsageError, RuntimeError):
    """A path of contractions does not fit its operands; NumPy raises RuntimeError for it."""


class SubscriptError(UsageError, IndexError):
    """The arrays of a call lead outside one of them."""


class RoomError(UsageError, MemoryError):
    """What was asked for does not fit into memory."""


class ToolchainError(LoopwrightError, RuntimeError):
    """A program we called, such as a C compiler, is missing or failed."""

    def __init__(self, command: Sequence[str], output: str, reason: str = "failed") -> None:
        super().__init__(command, output, reason)
        self.command = tuple(command)
        self.output = output
        self.reason = reason

    def __str__(self) -> str:
        import shlex  # lazy: needed only when a tool has failed

        output = self.output.strip()
        if len(output) > _MOST_OUTPUT:
            output = "...\n" + output[-_MOST_OUTPUT:]
        return f"{shlex.join(self.command)}: {self.reason}" + (f"\n{output}" if output else "")


class DeviceError(LoopwrightError, RuntimeError):
    """A device or its driver failed at what it was asked to do.

    Devices work behind the host: a fault of a kernel is told by whatever is asked for next. So the
    text names what ran last, too.
    """

    def __init__(self, doing: str, fault: str, last: str = "", hint: str = "") -> None:
        super().__init__(doing, fault, last, hint)
        self.doing = doing
        self.fault = fault  # the driver's name of it
        self.last = last  # the program that was launched last on the device
        self.hint = hint

    def __str__(self) -> str:
        last = f"\nnote: the program launched last is {self.last}" if self.last else ""
        return f"{self.doing}: {self.fault}{last}" + (f"\ntry: {self.hint}" if self.hint else "")


class TimeLimitError(LoopwrightError):
    """A compilation was ended because it took longer than it may.

    It is no error of another kind, so that no fallback for those is chosen by a clock.
    """

    def __init__(self, name: str, stage: str, seconds: int, hint: str) -> None:
        super().__init__(name, stage, seconds, hint)
        self.name = name
        self.stage = stage  # what was done with the program then: "planned"
        self.seconds = seconds  # of the processor, the limit
        self.hint = hint

    @property
    def message(self) -> str:
        """What happened, in one line."""
        limit = f"the limit of {self.seconds} seconds of the processor was spent"
        return f"'{self.name}' takes too long to compile: {limit} while it was {self.stage}"

    def __str__(self) -> str:
        return f"{self.message}\ntry: {self.hint}"


class InternalError(LoopwrightError, RuntimeError):
    """A fault of Loopwright itself; carries the text to send with a report."""

    def __init__(self, message: str, dump: str = "") -> None:
        super().__init__(message, dump)
        self.message = message
        self.dump = dump

    def __str__(self) -> str:
        text = f"internal error: {self.message}\nnote: the fault is ours, not your program's"
        return f"{text}; please send what follows\n{self.dump}" if self.dump else text


class BoundsError(InternalError, IndexError):
    """Compiled code reached outside an array: what LOOPWRIGHT_BOUNDSCHECK finds."""

    def __init__(self, array: str, dimension: int, subscript: int, limits: tuple[int, int]) -> None:
        # A dimension of -1 stands for the place in memory, which no single subscript gives.
        what = f"subscript {dimension + 1}" if dimension >= 0 else "the place in memory"
        low, high = limits
        allowed = f"{low} to {high - 1} are inside" if low < high else "it is empty"
        super().__init__(f"compiled code leaves '{array}': {what} is {subscript}, {allowed}")
        self.args = (array, dimension, subscript, limits)
        self.array = array
        self.dimension = dimension
        self.subscript = subscript
        self.limits = limits


class Collector:
    """Gathers diagnostics so that a front end reports all faults of a program at once."""

    def __init__(self) -> None:
        self._found: dict[Diagnostic, None] = {}

    def add(self, diagnostic: Diagnostic) -> None:
        """Record a fault; the same fault at the same place counts once."""
        self._found[diagnostic] = None

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self._found)

    def take_from(self, count: int) -> list[Diagnostic]:
        """Remove the faults behind the first `count`, and return them."""
        found = list(self._found)[count:]
        for diagnostic in found:
            del self._found[diagnostic]
        return found

    def first(self) -> Diagnostic:
        """The fault that was found first; there must be one."""
        return next(iter(self._found))

    def raise_if_any(self) -> None:
        """Raise one SourceError with everything found, in the order of the source."""
        if self._found:
            order = sorted(self._found, key=lambda d: (d.span.file, d.span.line, d.span.column))
            raise SourceError(*order)
