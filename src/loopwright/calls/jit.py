"""`jit`: naive Python loops, compiled for the types and shapes they are called with."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np

from loopwright.calls.call_race import checked_race
from loopwright.calls.jit_definition import JitDefinition
from loopwright.calls.jit_dispatch import (
    AffineCall,
    NativeCalls,
    Recordable,
    install_native_calls,
)
from loopwright.calls.specialisation import Specialisation, TuneFirst
from loopwright.diagnostics import LoopwrightError, SourceError, UsageError, WrongTypeError
from loopwright.frontends.python import (
    ArgType,
    ForeignArgument,
    argument_types,
    is_unchanged,
)
from loopwright.log import log
from loopwright.machines.machine_argument import target_machine
from loopwright.memo import BoundedCache
from loopwright.runtime.disk_cache import without_disk_cache
from loopwright.runtime.thread_pool import checked_threads, num_threads
from loopwright.tracebacks import hide_frames, public_edge

if TYPE_CHECKING:
    from loopwright.calls.device_code import DeviceCode
    from loopwright.calls.device_jit import DeviceJit
    from loopwright.calls.procedure_function import ProcedureFunction
    from loopwright.calls.stepped_function import PartFunction, SteppedFunction
    from loopwright.runtime.foreign_arrays import ArrayLibrary
    from loopwright.transform.plan import Plan
    from loopwright.tuning.tasks import Task

__all__ = [
    "NUMBA_OPTIONS",
    "JitFunction",
    "disk_cache_wanted",
    "jit",
    "reassociation",
    "refuse_others",
    "team",
]

OnUnsupported: TypeAlias = Literal["raise", "python"]
ErrorModel: TypeAlias = Literal["numpy", "python"]
Types: TypeAlias = tuple[ArgType, ...]
Whole: TypeAlias = "ProcedureFunction | SteppedFunction"  # of more than affine loops
Code: TypeAlias = "Specialisation | Whole"

_MOST_SIGNATURES = 256  # of one function
_STARS = 0x04 | 0x08  # inspect.CO_VARARGS and CO_VARKEYWORDS, without loading inspect


class JitFunction:
    """A compiled function. The plain one is `py_func`."""

    def __init__(
        self,
        function: FunctionType,
        *,
        reassoc: bool = False,
        threads: int | None = None,
        on_unsupported: OnUnsupported = "raise",
        cache: bool = True,
        plan: Plan | None = None,
        tune: str | float | None = None,
        race: bool | None = None,
        error_model: ErrorModel = "numpy",
        calls: tuple[object, ...] = (),
    ) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.reassoc = reassoc
        self.threads = threads
        self.on_unsupported = on_unsupported
        self.cache = cache  # whether compiled code may lie on disk
        self._plan = plan
        self._race = race
        self._tune: TuneFirst | None = None
        if tune is not None:
            from loopwright.calls.tune_first import tuning_first  # lazy: almost nobody tunes

            self._tune = tuning_first(tune)
        self.error_model = error_model
        self._named = calls  # functions that Python calls where they stand
        self._is_usual = cache and on_unsupported == "raise" and error_model == "numpy"
        self._found: BoundedCache[Types, Code] = BoundedCache(_MOST_SIGNATURES)
        self._refused: BoundedCache[Types, None] = BoundedCache(_MOST_SIGNATURES)  # left to Python
        self._stepped: SteppedFunction | None = None  # once called with what is no array
        self._on_device: DeviceJit | None = None  # once it was called with arrays of a device
        code = function.__code__
        self._count = code.co_argcount + code.co_kwonlyargcount
        self._has_stars = bool(code.co_flags & _STARS)
        self._native: NativeCalls | None = None
        if _has_native_calls():
            self._native = NativeCalls(function, self._call)
            self._dispatch_words = self._native.words  # by this name native code finds them

    def _call(self, *args: Any, **named: Any) -> Any:
        """A call in Python, which may be written down for the native dispatcher."""
        try:
            result = self._call_in_python(args, named)
        except LoopwrightError as error:
            hide_frames(error)
            raise
        is_known = self.error_model == "numpy" and not named
        if self._native is not None and is_known:
            self._native.remember(args, self._threads(), self._known)
        return result

    __call__ = _call

    def _known(self, args: tuple[Any, ...]) -> Recordable | None:
        """The code that a call has run; None where Python has run it."""
        found = self._found.get(argument_types(args))
        if isinstance(found, Specialisation):
            return AffineCall(found, args)
        # Functions that Python drives call their segments, which are written down by themselves.
        return found if hasattr(found, "record") else None

    def _call_in_python(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if not self._is_usual:
            return self._call_specially(args, named)
        given = self._in_order(args, named)
        try:
            found = self.specialise(*given)
        except ForeignArgument as error:
            return self._call_foreign(given, error)
        return found(given, self._threads() if isinstance(found, Specialisation) else 1)

    def _call_specially(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """A call without the disk cache, or that Python may run."""
        with contextlib.nullcontext() if self.cache else without_disk_cache():
            if self.on_unsupported == "python":
                return self._call_or_python(args, named)
            given = self._in_order(args, named)
            try:
                found = self.specialise(*given)
            except ForeignArgument as error:
                return self._call_foreign(given, error)
            return self._run(found, given)

    def _run(self, code: Code, given: tuple[Any, ...]) -> Any:
        if self.error_model == "numpy" or not isinstance(code, Specialisation):
            return code(given, self._threads())
        from loopwright.calls.error_model import call_as_python  # lazy: few ask for it

        return call_as_python(code, self.py_func, given, self._threads())

    def _call_foreign(self, given: tuple[Any, ...], error: ForeignArgument) -> Any:
        """A call with arrays of other libraries: results are arrays of theirs.

        Raises `error` where some argument is neither an array nor a number.
        """
        on_device = self._device_jit(given)
        if on_device is not None:
            if self.error_model == "python":
                raise UsageError(
                    "error_model='python' takes no arrays of a device",
                    hint="copies in this process's memory, or leave it out",
                )
            return on_device(given)
        stepped = self._in_steps()
        if stepped is not None:
            return stepped(given, self._threads())
        library = _library_of(given, error)
        return library.in_kind(self(*library.views(given, "argument")))

    def _in_steps(self) -> SteppedFunction | None:
        """The function in steps, for arguments such as generators; None where it has no steps."""
        found = self._stepped
        if found is None or not is_unchanged(self.py_func, found.captured):
            found = self._stepped = self._parts().in_steps(None)
        return found

    def _device_jit(self, given: tuple[Any, ...]) -> DeviceJit | None:
        """The function for arrays of a device; None where none of them lies on one."""
        if not _may_be_on_device(given):
            return None
        # lazy: for users of GPUs
        from loopwright.calls.device_jit import DeviceJit, any_on_device

        if not any_on_device(given):
            return None
        if self._on_device is None:
            self._on_device = DeviceJit(self.py_func, self._plan, reassoc=self.reassoc)
        return self._on_device

    def _code(self, given: tuple[Any, ...]) -> tuple[Code | DeviceCode, tuple[Any, ...]]:
        """The code that a call with these arguments runs, and the arguments as it takes them."""
        try:
            return self.specialise(*given), given
        except ForeignArgument as error:
            on_device = self._device_jit(given)
            if on_device is not None:
                return on_device.code(given), given
            seen = _library_of(given, error).views(given, "argument")
            return self.specialise(*seen), seen

    def specialise(self, *args: Any) -> Code:
        """The code for the types of these arguments, compiled on first use."""
        return self._specialise(argument_types(args), args)

    lower = specialise

    def task(self, *args: Any, **named: Any) -> tuple[Specialisation, Task | None]:
        """The code of a call and what tuning measures for it."""
        code, given = self._code(self._in_order(args, named))
        if not isinstance(code, Specialisation):
            raise UsageError("tune is for arrays of NumPy", hint="copies in this process's memory")
        return code, code.task(given, self._threads())

    @property
    def signatures(self) -> list[Types]:
        """Argument types compiled so far."""
        return list(self._found)

    @public_edge
    def explain(self, *args: Any, **named: Any) -> str:
        """What was recognised and decided; without arguments, for every signature so far."""
        if args or named:
            code, given = self._code(self._in_order(args, named))
            return code.explain(given, self._threads())
        return "\n\n".join(found.explain() for found in self._found.values())

    @public_edge
    def plan(self, *args: Any, **named: Any) -> Plan:
        """The plan of a call with these arguments: `jit(plan=...)` takes it and makes its code."""
        code, given = self._code(self._in_order(args, named))
        return code.plan_of(given, self._threads())

    @public_edge
    def inspect_schedule(self, *args: Any, **named: Any) -> str:
        """The loops in the order they run, and the kernels in place of some of them."""
        code, given = self._code(self._in_order(args, named))
        return code.inspect_schedule(given, self._threads())

    @public_edge
    def inspect_loops(self, *args: Any, **named: Any) -> str:
        """The loop nests that are emitted."""
        return self._inspect("loops", args, named)

    @public_edge
    def inspect_c(self, *args: Any, **named: Any) -> str:
        """The loop nests as C with OpenMP pragmas."""
        return self._inspect("c", args, named)

    @public_edge
    def inspect_llvm(self, *args: Any, **named: Any) -> str:
        """The LLVM IR that is compiled."""
        return self._inspect("llvm", args, named)

    @public_edge
    def inspect_asm(self, *args: Any, **named: Any) -> str:
        """The machine code, as assembly."""
        return self._inspect("asm", args, named)

    def _inspect(self, stage: str, args: tuple[Any, ...], named: dict[str, Any]) -> str:
        code, given = self._code(self._in_order(args, named))
        return code.inspect(stage, given, self._threads())

    def _threads(self) -> int:
        return num_threads() if self.threads is None else self.threads

    def _specialise(self, types: Types, args: tuple[Any, ...]) -> Code:
        found = self._found.get(types)
        if found is None or not is_unchanged(self.py_func, found.captured):
            log("recompile", lambda: self._occasion(types))
            if self._native is not None:
                self._native.forget()
            definition = JitDefinition(
                self.py_func, types, reassoc=self.reassoc, raises=self.error_model == "python"
            )
            try:
                found = Specialisation(
                    definition, target_machine(), self._plan, self._tune, self._race
                )
            except SourceError as error:
                self._found[types] = found = self._as_procedure(types, args, error)
                return found
            self._found[types] = found
            if self._native is not None:
                found.on_forget = self._native.forget
        return found

    def _as_procedure(self, types: Types, args: tuple[Any, ...], error: SourceError) -> Whole:
        """The code of a function of more than affine loops; raises `error` for some options."""
        if self._plan is not None or self._tune is not None or self.error_model == "python":
            raise error
        try:
            return self._parts().whole(types, args)
        except SourceError as refusal:
            raise refusal from None  # the reader of affine loops gives other advice

    def _parts(self) -> PartFunction:
        """The function as parts that are compiled, and calls between them that Python makes."""
        # lazy: functions of affine loops do without
        from loopwright.calls.stepped_function import PartFunction, StepOptions

        leaves = self.on_unsupported == "python"
        named = self._named
        options = StepOptions(lambda f: any(f is x for x in named), self._threads, leaves, {})
        return PartFunction(self.py_func, options)

    def _occasion(self, types: Types) -> str:
        """Why code is needed that is not in memory, in words."""
        shown = ", ".join(f"{x.dtype}[{x.rank}]" if x.kind == "array" else x.dtype for x in types)
        reason = "outer values changed" if types in self._found else "types not seen before"
        return f"{self.py_func.__qualname__}({shown}): {reason}"

    def _call_or_python(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Run compiled, or in Python where a refusal came before anything was touched."""
        try:
            given = self._in_order(args, named)
            try:
                types = argument_types(given)
            except ForeignArgument as error:
                return self._call_foreign(given, error)
            if types in self._refused:
                return self.py_func(*args, **named)
            code = self._compiled_or_refused(types, given)
            if isinstance(code, Specialisation):
                return self._run(code, given)
        except (SourceError, UsageError):
            return self.py_func(*args, **named)
        return code(given, self._threads())  # it asks Python itself, and never starts again

    def _compiled_or_refused(self, types: Types, args: tuple[Any, ...]) -> Code:
        try:
            return self._specialise(types, args)
        except (SourceError, UsageError):
            self._refused[types] = None
            raise

    def _in_order(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """The value of every parameter, defaults filled in, in the order of the definition."""
        if (not named and len(args) == self._count) or self._has_stars:
            return args  # the front end tells what is wrong with starred parameters
        import inspect  # lazy: most calls pass everything by position, and inspect loads slowly

        try:
            bound = inspect.signature(self.py_func).bind(*args, **named)
        except TypeError as error:
            raise UsageError(f"{self.py_func.__name__}(): {error}") from None
        bound.apply_defaults()
        return tuple(bound.arguments.values())

    def __reduce__(self) -> str:
        """Pickled by name, as functions are: a worker process finds its own copy."""
        return self.py_func.__qualname__

    def __repr__(self) -> str:
        return f"<loopwright.jit function {self.py_func.__name__}, {len(self._found)} signatures>"


@functools.cache
def _has_native_calls() -> bool:
    """Whether calls go to the native dispatcher first; asked when the first function is made."""
    return install_native_calls(JitFunction)


def _library_of(given: tuple[Any, ...], error: ForeignArgument) -> ArrayLibrary:
    """Whose arrays some arguments are; raises `error` where none is an array."""
    from loopwright.runtime.foreign_arrays import library_of  # lazy: most arrays are NumPy's

    found = library_of(given)
    if found is None:
        raise error
    return found


def _may_be_on_device(given: tuple[Any, ...]) -> bool:
    """Whether some argument has what arrays of devices have."""
    names = ("__cuda_array_interface__", "__dlpack_device__", "is_cuda")
    return any(hasattr(x, n) for x in given if not isinstance(x, np.ndarray) for n in names)


@overload
def jit(function: Callable[..., Any], /) -> JitFunction: ...


@overload
def jit(
    *,
    reassoc: bool = False,
    threads: int | None = None,
    on_unsupported: OnUnsupported = "raise",
    parallel: bool | None = None,
    fastmath: bool | Collection[str] | None = None,
    cache: bool | None = None,
    nogil: bool | None = None,
    nopython: bool | None = None,
    boundscheck: bool | None = None,
    plan: Plan | None = None,
    tune: str | float | None = None,
    race: bool | None = None,
    error_model: ErrorModel = "numpy",
    calls: Collection[Callable[..., Any]] = (),
    **others: Any,
) -> Callable[[Callable[..., Any]], JitFunction]: ...


def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    reassoc: bool = False,
    threads: int | None = None,
    on_unsupported: OnUnsupported = "raise",
    parallel: bool | None = None,
    fastmath: bool | Collection[str] | None = None,
    cache: bool | None = None,
    nogil: bool | None = None,
    nopython: bool | None = None,
    boundscheck: bool | None = None,
    plan: Plan | None = None,
    tune: str | float | None = None,
    race: bool | None = None,
    error_model: ErrorModel = "numpy",
    calls: Collection[Callable[..., Any]] = (),
    **others: Any,
) -> JitFunction | Callable[[Callable[..., Any]], JitFunction]:
    """Compile a function of plain loops over NumPy arrays. Usable bare or with arguments.

    Called with arrays of a CUDA device (CuPy, PyTorch, Numba, DLPack) it runs there, in the current
    stream of their library, and does not wait.

    `reassoc` allows floating sums to be taken in another order than written, which vectors of
    partial sums need, and the terms of an expression to be regrouped; `threads` fixes the number of
    threads. What cannot be compiled or run safely raises an error that says why; with
    `on_unsupported="python"` Python runs it instead. `plan` is one that the function's `plan(...)`
    gave, in this or an earlier process: its steps are proven and taken in place of the model's.
    `tune="search"`, or a number of seconds, measures plans before the first call with new sizes,
    where none have been recorded for them: see `loopwright.tune`.

    A function that is called often is raced against the order of its source, by its own calls, and
    the faster code is kept and remembered; every bit of the results stays as it is. With
    `race=False` there is no race.

    Where Python raises (an integer that a type does not hold, a Python number divided by zero, NaN
    as an integer) compiled code goes on with what docs/python.md says. With `error_model="python"`
    it raises what Python raises, and leaves the arrays as Python leaves them: what is written is
    copied first, and Python runs a call again in which that may have happened.

    Of numba's options, `parallel=False` stands for one thread and `fastmath=True` for `reassoc`
    (nothing else of it is done: NaN and infinities keep their meaning); `cache=False` keeps the
    function out of the disk cache. `nogil`, `nopython` and `boundscheck` are taken and change
    nothing: compiled code never holds Python's lock, never falls back to Python by itself, and a
    call that would leave an array is refused before it runs.
    """
    del nogil, boundscheck
    refuse_others(
        nopython, others, ("reassoc", "threads", "on_unsupported", "plan", "tune", "race")
    )
    may_reassociate, may_cache = reassociation(reassoc, fastmath), disk_cache_wanted(cache)
    if threads is not None:
        checked_threads(threads)
    count = team(threads, parallel)
    if on_unsupported not in ("raise", "python"):
        raise UsageError(
            "on_unsupported has two values", found=repr(on_unsupported), hint="'raise' or 'python'"
        )

    if error_model not in ("numpy", "python"):
        raise UsageError(
            "error_model has two values", found=repr(error_model), hint="'numpy' or 'python'"
        )

    chosen = None
    if plan is not None:
        from loopwright.planner.planners import checked_plan  # lazy: plans load isl

        chosen = checked_plan(plan)

    if plan is not None and tune is not None:
        raise UsageError("plan= and tune= exclude each other", hint="the plan that tune gave")

    checked_race(race)

    def compiled(function: object) -> JitFunction:
        if not isinstance(function, FunctionType):
            hint = "leave the signature out: types follow from each call"
            is_signature = isinstance(function, str | tuple | list)
            raise WrongTypeError(
                "jit takes a function", found=repr(function)[:60], hint=hint if is_signature else ""
            )
        return JitFunction(
            function,
            reassoc=may_reassociate,
            threads=count,
            on_unsupported=on_unsupported,
            cache=may_cache,
            plan=chosen,
            tune=tune,
            race=race,
            error_model=error_model,
            calls=tuple(calls),
        )

    return compiled if function is None else compiled(function)


# -- the options of numba.jit on `jit`: what each one means here, or what to use in its place -----


NUMBA_OPTIONS = (
    "parallel", "fastmath", "cache", "nogil", "nopython", "boundscheck", "error_model",
)  # fmt: skip

# Options that mean nothing here, with what a user of them wants to know.
_INSTEAD = {
    "forceobj": "on_unsupported='python' runs in Python what cannot be compiled",
    "looplift": "on_unsupported='python' runs in Python what cannot be compiled",
    "locals": "leave it out: types follow from the arguments of each call",
    "inline": "leave it out, and write what the function computes where it is called",
    "forceinline": "leave it out, and write what the function computes where it is called",
    "debug": "LOOPWRIGHT_DUMP=loops prints what was made, LOOPWRIGHT_INTERPRET=1 runs it slowly",
    "target": "leave it out: code is made for this machine; lw.compile has targets",
    "target_backend": "leave it out: code is made for this machine; lw.compile has targets",
}


def team(threads: int | None, parallel: Any) -> int | None:
    """The number of threads that `threads` and numba's `parallel` ask for; None: the default."""
    if parallel is None or parallel is True:
        return threads
    if parallel is not False:
        hint = "True, or False for one thread"
        raise WrongTypeError("parallel is True or False", found=repr(parallel)[:60], hint=hint)
    if threads not in (None, 1):
        raise UsageError("parallel=False means one thread", found=f"threads={threads}")
    return 1


def reassociation(reassoc: bool, fastmath: Any) -> bool:
    """Whether floating sums may be reassociated: `reassoc`, or numba's `fastmath` or a set of it.

    Nothing else of fastmath is done: NaN and infinities keep their meaning.
    """
    if isinstance(fastmath, Collection) and all(isinstance(x, str) for x in fastmath):
        return reassoc or bool({"reassoc", "fast"} & set(fastmath))
    if fastmath is None or isinstance(fastmath, bool):
        return reassoc or bool(fastmath)
    hint = "True stands for reassoc=True"
    raise WrongTypeError("fastmath is True or False", found=repr(fastmath)[:60], hint=hint)


def disk_cache_wanted(cache: Any) -> bool:
    """Whether a function may lie in the disk cache: always, but with numba's `cache=False`."""
    if cache is None or isinstance(cache, bool):
        return cache is not False
    raise WrongTypeError("cache is True or False", found=repr(cache)[:60])


def refuse_others(nopython: Any, others: dict[str, Any], known: Collection[str]) -> None:
    """Refuse numba's options that have no meaning here, and those that nobody has."""
    if nopython is not None and nopython is not True:
        raise UsageError(
            "jit compiles or refuses",
            found=f"nopython={nopython!r}"[:60],
            hint=_INSTEAD["forceobj"],
        )
    for name in others:
        hint = _INSTEAD.get(name, f"one of {', '.join(sorted({*known, *NUMBA_OPTIONS}))}")
        raise WrongTypeError(f"jit has no option '{name}'", hint=hint)
