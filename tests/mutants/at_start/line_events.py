"""Which lines of `src` a process executes, noted in a file that its children share.

The file has one byte per line of source: 1 once the line has run. It is mapped into memory, so that
forked children, and children that end by a signal, leave their lines there too. Python 3.12 has
events that are switched off per line (`sys.monitoring`); older versions trace calls.
"""

import importlib.machinery
import json
import mmap
import os
import sys
import threading

__all__ = ["FILES", "HITS", "LineEvents", "index_of"]

# Environment variables: the JSON file that says where each source file begins, and the mapped file.
FILES = "MUTANTS_FILES"
HITS = "MUTANTS_HITS"
BY_TRACE = "MUTANTS_BY_TRACE"  # set: trace calls, also where there are events
_TOOL = 3  # an identifier of `sys.monitoring` that no known tool has


def index_of(source):
    """Return the first position of each source file below a folder, and the number of positions."""
    starts, total = {}, 0
    for file in sorted(source.rglob("*.py")):
        starts[str(file)] = total
        total += file.read_bytes().count(b"\n") + 2  # lines count from 1
    return starts, total


def _codes(code):
    """Yield a code object and all that are nested in it."""
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from _codes(constant)


class LineEvents:
    """The events of one process: `hits` has one byte per line."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self._starts, positions = json.load(file)
        self._by_events = hasattr(sys, "monitoring") and BY_TRACE not in os.environ
        self._seen = set()  # code objects that need no trace before the next restart
        self.hits = bytearray(positions)

    def attach(self, path):
        """Note lines in a file of as many bytes, also those noted so far."""
        with open(path, "r+b") as file:
            mapped = mmap.mmap(file.fileno(), 0)
        for position, is_hit in enumerate(bytes(self.hits)):
            if is_hit:
                mapped[position] = 1
        self.hits = mapped

    def begin(self):
        """Note the lines of each module that is imported from now on."""
        if not self._by_events:
            threading.settrace(self._call)
            sys.settrace(self._call)
            return
        events = sys.monitoring
        events.use_tool_id(_TOOL, "lines of source")
        events.register_callback(_TOOL, events.events.LINE, self._line)
        loader = importlib.machinery.SourceFileLoader
        compiled = loader.get_code

        def get_code(this, name):
            code = compiled(this, name)
            if code is not None and code.co_filename in self._starts:
                for each in _codes(code):
                    events.set_local_events(_TOOL, each, events.events.LINE)
            return code

        loader.get_code = get_code

    def restart(self):
        """Forget the lines noted so far, and note each of them again."""
        self.hits[:] = bytes(len(self.hits))
        if self._by_events:
            sys.monitoring.restart_events()
        else:
            self._seen.clear()

    def _line(self, code, number):
        self.hits[self._starts[code.co_filename] + number] = 1
        return sys.monitoring.DISABLE

    def _call(self, frame, event, argument):
        """Trace the lines of a function of the source."""
        start = self._starts.get(frame.f_code.co_filename)
        if start is None or frame.f_code in self._seen:
            return None
        lines = {number for _, _, number in frame.f_code.co_lines() if number}
        lines.discard(frame.f_code.co_firstlineno)

        def traced(frame, event, argument):
            if event == "line":
                self.hits[start + frame.f_lineno] = 1
                lines.discard(frame.f_lineno)
            elif event == "return" and not lines:
                self._seen.add(frame.f_code)
            return traced

        return traced
