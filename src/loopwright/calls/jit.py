"""`jit`: naive Python loops, compiled for the types and shapes they are called with."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, overload

from loopwright.calls.specialisation import Specialisation
from loopwright.diagnostics import UsageError
from loopwright.frontends.python import ArgType, argument_types, is_unchanged, parse_function
from loopwright.runtime.threads import num_threads

__all__ = ["JitFunction", "jit"]


class JitFunction:
    """A compiled function. The plain one is `py_func`."""

    def __init__(self, function: Callable[..., Any], *, reassoc: bool, threads: int | None) -> None:
        functools.update_wrapper(self, function)
        self.py_func: FunctionType = function
        self.reassoc = reassoc
        self.threads = threads
        self._found: dict[tuple[ArgType, ...], Specialisation] = {}

    def __call__(self, *args: Any, **named: Any) -> Any:
        if named:
            args = self._positional(args, named)
        threads = self.threads or num_threads()
        return self.specialise(*args)(args, threads)

    def specialise(self, *args: Any) -> Specialisation:
        """The code for the types of these arguments, compiled on first use."""
        types = argument_types(args)
        found = self._found.get(types)
        if found is None or not is_unchanged(self.py_func, found.tree.captured):
            tree = parse_function(self.py_func, types)
            found = self._found[types] = Specialisation(tree, self.reassoc)
        return found

    lower = specialise

    @property
    def signatures(self) -> list[tuple[ArgType, ...]]:
        """Argument types compiled so far."""
        return list(self._found)

    def explain(self, *args: Any) -> str:
        """What was recognised and decided; without arguments, for every signature so far."""
        if args:
            return self.specialise(*args).explain(args, self.threads or num_threads())
        return "\n\n".join(found.explain() for found in self._found.values())

    def inspect_schedule(self, *args: Any) -> str:
        """The program and the order its statements run in."""
        return self.specialise(*args).inspect_schedule()

    def inspect_loops(self, *args: Any) -> str:
        """The loop nests that are emitted."""
        return self.specialise(*args).inspect("loops", args, self.threads or num_threads())

    def inspect_llvm(self, *args: Any) -> str:
        """The LLVM IR that is compiled."""
        return self.specialise(*args).inspect("llvm", args, self.threads or num_threads())

    def inspect_asm(self, *args: Any) -> str:
        """The machine code, as assembly."""
        return self.specialise(*args).inspect("asm", args, self.threads or num_threads())

    def _positional(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        import inspect  # lazy: calls by keyword are rare, and inspect is slow to load

        try:
            bound = inspect.signature(self.py_func).bind(*args, **named)
        except TypeError as error:
            raise UsageError(f"{self.py_func.__name__}(): {error}") from None
        return bound.args

    def __repr__(self) -> str:
        return f"<loopwright.jit function {self.py_func.__name__}, {len(self._found)} signatures>"


@overload
def jit(function: Callable[..., Any], /) -> JitFunction: ...


@overload
def jit(
    *, reassoc: bool = False, threads: int | None = None
) -> Callable[[Callable[..., Any]], JitFunction]: ...


def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    reassoc: bool = False,
    threads: int | None = None,
) -> JitFunction | Callable[[Callable[..., Any]], JitFunction]:
    """Compile a function of plain loops over NumPy arrays. Usable bare or with arguments.

    `reassoc` allows floating sums to be taken in another order than written, which vectors of
    partial sums need; `threads` fixes the number of threads.
    """
    if function is not None:
        return _compiled(function, reassoc=reassoc, threads=threads)
    return functools.partial(_compiled, reassoc=reassoc, threads=threads)


def _compiled(function: object, *, reassoc: bool, threads: int | None) -> JitFunction:
    if not isinstance(function, FunctionType):
        raise UsageError("jit takes a function", found=repr(function))
    return JitFunction(function, reassoc=reassoc, threads=threads)
