"""A function of C as a callable: its parameters, the variables of its regions, its calls.

Everything a call is given is checked before anything is touched: element types, extents as
declared, C's layout. A call runs the regions in the order of the text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from loopwright.calls.c_initial_values import (
    Values,
    initial_array,
    initial_list,
    initial_number,
    number,
    open_extent,
    whole,
)
from loopwright.calls.jit_dispatch import AffineCall, NativeCalls, install_native_calls
from loopwright.calls.region_arguments import RegionArguments
from loopwright.calls.specialisation import Specialisation
from loopwright.diagnostics import (
    Diagnostic,
    DtypeError,
    LoopwrightError,
    SourceError,
    Span,
    UsageError,
)
from loopwright.frontends.c import CFile, CRegion, CVariable, Origin, VariableKind
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.visit import names
from loopwright.planner.contraction_plans.call_shape import value_of
from loopwright.runtime.array_arguments import Array
from loopwright.tracebacks import hide_frames, public_edge

if TYPE_CHECKING:
    from loopwright.transform.plan import Plan

__all__ = [
    "CFunction",
    "RegionCode",
    "checked_array",
    "known_functions",
    "require_only_regions",
]

T = TypeVar("T")

# Whether plain `char` has a sign is the compiler's choice: arrays of either kind are arrays of it.
_CHARS = (np.dtype("int8"), np.dtype("uint8"))


class RegionCode(Protocol):
    """The code of one region; arguments come in the order of its tree's parameters."""

    def __call__(self, args: tuple[Any, ...], threads: int) -> Any: ...

    def explain(self, args: tuple[Any, ...] = (), threads: int = 1) -> str: ...

    def inspect(self, stage: str, args: tuple[Any, ...], threads: int) -> str: ...

    def inspect_schedule(self) -> str: ...

    def plan_of(self, args: tuple[Any, ...], threads: int) -> Plan: ...


class CFunction:
    """A compiled function of C. `globals` holds the file's variables that it uses."""

    def __init__(
        self,
        file: CFile,
        regions: tuple[CRegion, ...],
        make: Callable[[CRegion], RegionCode],
        global_values: dict[str, Any],
        threads: Callable[[], int],
        *,
        on_device: bool = False,
    ) -> None:
        self._on_device = on_device  # arrays may lie on a device
        require_only_regions(file, regions)
        self.name = regions[0].function
        self.parameters = regions[0].parameters
        self.globals = global_values
        self._regions = regions
        self._codes = tuple(map(make, regions))
        self._threads = threads
        self._orders = tuple(map(RegionArguments, regions))
        self._integers: list[tuple[str, Callable[[Values], int]]] = []
        self._memory: list[tuple[str, Callable[[Values, Values], Array]]] = []
        for variable in _variables(regions).values():
            self._prepare(variable)
        self._native: NativeCalls | None = None
        self._plain: Specialisation | None = None  # all that a call runs, on its arguments alone
        if _has_native_calls():
            self._plain, self._places = self._plain_code()
            self._native = NativeCalls(None, self._call)
            self._dispatch_words = self._native.words  # by this name native code finds them
            if self._plain is not None:
                self._plain.on_forget = self._native.forget

    def _plain_code(self) -> tuple[Specialisation | None, tuple[int, ...]]:
        """The code of the only region where all its variables are parameters, and their places."""
        code, order = self._codes[0], self._orders[0]
        origins = {variable.origin for variable in _variables(self._regions).values()}
        if len(self._codes) != 1 or not isinstance(code, Specialisation):
            return None, ()
        if origins != {Origin.PARAMETER} or not order.are_plain:
            return None, ()
        return code, tuple(self.parameters.index(name) + 1 for name in order.names)

    # -- calls ------------------------------------------------------------------------------------

    def _call(self, *args: Any, **named: Any) -> None:
        """Run the function; arrays change in place, everything else is passed by value.

        The call may be written down for the native dispatcher.
        """
        try:
            self._run(args, named)
        except LoopwrightError as error:
            hide_frames(error)
            raise
        if self._native is not None and self._plain is not None and not named:
            self._native.remember(args, self._threads(), self._known)

    __call__ = _call

    def _known(self, args: tuple[Any, ...]) -> AffineCall | None:
        """The code that a call has run, and the arguments it was given."""
        if self._plain is None:
            return None
        values = self._bound(args, {})
        return AffineCall(self._plain, self._orders[0](values), self._places)

    def _run(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        values = self._bound(args, named)
        threads = self._threads()
        for region, code, order in zip(self._regions, self._codes, self._orders, strict=True):
            code(order(values), threads)
            if len(self._regions) > 1:
                self._keep(region, values)

    @public_edge
    def explain(self, *args: Any, **named: Any) -> str:
        """What was recognised and decided in every region; with arguments, for that call."""
        if not args and not named:
            return "\n\n".join(code.explain() for code in self._codes)
        told = self._each(args, named, lambda code, given, n: code.explain(given, n))
        return "\n\n".join(told)

    @public_edge
    def plans(self, *args: Any, **named: Any) -> tuple[Plan, ...]:
        """The plans of a call, one for each region: `compile(plan=...)` takes them."""
        return tuple(self._each(args, named, lambda code, given, n: code.plan_of(given, n)))

    def region_calls(
        self, args: tuple[Any, ...], named: dict[str, Any]
    ) -> list[tuple[RegionCode, tuple[Any, ...], int]]:
        """The code of every region with its arguments and threads in a call, before any has run."""
        return self._each(args, named, lambda code, given, n: (code, given, n))

    @public_edge
    def save(self, folder: str) -> None:
        """Write code for a GPU as a bundle, which `loopwright.load` takes."""
        if not self._on_device:
            raise UsageError("bundles are of code for a GPU", hint='compile(..., target="cuda")')
        if len(self._codes) != 1:
            raise UsageError(
                f"'{self.name}' has {len(self._codes)} regions",
                hint="a function of one region for each bundle",
            )
        self._codes[0].save(folder)  # type: ignore[attr-defined]

    @public_edge
    def inspect_schedule(self) -> str:
        """The statements of every region and the order they run in."""
        return "\n\n".join(code.inspect_schedule() for code in self._codes)

    @public_edge
    def inspect_loops(self, *args: Any, **named: Any) -> str:
        """The loop nests that are emitted for a call."""
        return self._inspect("loops", args, named)

    @public_edge
    def inspect_c(self, *args: Any, **named: Any) -> str:
        """The loop nests as C with OpenMP pragmas."""
        return self._inspect("c", args, named)

    @public_edge
    def inspect_llvm(self, *args: Any, **named: Any) -> str:
        """The LLVM IR that is compiled for a call."""
        return self._inspect("llvm", args, named)

    @public_edge
    def inspect_asm(self, *args: Any, **named: Any) -> str:
        """The machine code for a call, as assembly."""
        return self._inspect("asm", args, named)

    def __repr__(self) -> str:
        return f"<loopwright function {self.name}({', '.join(self.parameters)})>"

    def _inspect(self, stage: str, args: tuple[Any, ...], named: dict[str, Any]) -> str:
        return "\n".join(
            self._each(args, named, lambda code, given, n: code.inspect(stage, given, n))
        )

    def _each(
        self,
        args: tuple[Any, ...],
        named: dict[str, Any],
        ask: Callable[[RegionCode, tuple[Any, ...], int], T],
    ) -> list[T]:
        """What the code of every region answers for a call."""
        values = self._bound(args, named)
        threads = self._threads()
        pairs = zip(self._codes, self._orders, strict=True)
        return [ask(code, order(values), threads) for code, order in pairs]

    # -- variables --------------------------------------------------------------------------------

    def _prepare(self, variable: CVariable) -> None:
        """Settle how a call gets at a variable; make those of the file.

        Refuses variables whose value at the start of a call nobody knows.
        """
        if variable.origin is Origin.GLOBAL and variable.name not in self.globals:
            self.globals[variable.name] = initial_array(variable, _constant_shape(variable))
        if variable.kind in (VariableKind.INTEGER, VariableKind.ITERATOR):
            self._integers.append((variable.name, self._integer(variable)))
        else:
            self._memory.append((variable.name, self._binder(variable)))

    def _bound(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """The value of every variable of the regions by its name in C, all checked."""
        is_plain = not named and len(args) == len(self.parameters)
        given = dict(zip(self.parameters, args, strict=True)) if is_plain else None
        given = self._by_name(args, named) if given is None else given
        values: dict[str, Any] = {name: find(given) for name, find in self._integers}
        for name, bind in self._memory:
            values[name] = bind(given, values)
        return values

    def _by_name(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        if len(args) > len(self.parameters):
            raise UsageError(
                f"{self.name} takes {len(self.parameters)} arguments",
                found=str(len(args)),
                hint=", ".join(self.parameters),
            )
        given = dict(zip(self.parameters, args, strict=False))
        for name, value in named.items():
            if name not in self.parameters or name in given:
                what = "given twice" if name in given else "no parameter"
                hint = ", ".join(self.parameters)
                raise UsageError(f"{self.name}: '{name}' is {what}", hint=hint)
            given[name] = value
        missing = [name for name in self.parameters if name not in given]
        if missing:
            hint = ", ".join(self.parameters)
            raise UsageError(f"{self.name}: missing {', '.join(missing)}", hint=hint)
        return given

    def _integer(self, variable: CVariable) -> Callable[[Values], int]:
        """How a call finds an integer that the regions only read."""
        name, dtype = variable.name, variable.dtype
        match variable.origin:
            case Origin.PARAMETER:
                return lambda given: whole(name, given[name], dtype)
            case Origin.GLOBAL:
                return lambda given: int(self.globals[name])
        first = initial_number(variable)
        if first is None:
            message = f"'{name}' has no value before the region"
            raise UsageError(message, hint="make it a parameter")
        return lambda given: int(first(given))

    def _binder(self, variable: CVariable) -> Callable[[Values, Values], Array]:
        """How a call gets the array, or the array of rank 0, behind a variable."""
        name, dtype = variable.name, variable.dtype
        extents = tuple(self._extent(extent) for extent in variable.shape)
        match variable.origin:
            case Origin.PARAMETER if variable.kind is VariableKind.ARRAY:
                is_char = variable.ctype == "char"

                def checked(given: Values, values: Values) -> Array:
                    value = given[name]
                    if is_char and getattr(value, "dtype", None) in _CHARS:
                        value = value.view(dtype.numpy)
                    shape = tuple(e(values) for e in extents)
                    return checked_array(name, value, dtype, shape, on_device=self._on_device)

                return checked
            case Origin.PARAMETER:
                return lambda given, values: number(name, given[name], dtype)
            case Origin.GLOBAL:
                return lambda given, values: self.globals[name]
        if not variable.shape:
            first = initial_number(variable)
            zero = dtype.numpy.type(0)
            return lambda given, values: np.array(zero if first is None else first(given))
        initial_list(variable)  # refuses before the first call

        def fresh(given: Values, values: Values) -> Array:
            shape = [e(values) for e in extents]
            if shape[0] is None:
                shape[0] = open_extent(variable, shape[1:])
            if None in shape:
                raise UsageError(f"the extents of '{name}' are not known")
            return initial_array(variable, [n or 0 for n in shape])

        return fresh

    def _extent(self, extent: Expr) -> Callable[[Values], int | None]:
        """A declared extent as a function of the integers by their names in C; None: left open."""
        names_in_c = {
            v.tree_name: v.name
            for region in self._regions
            for v in region.variables
            if v.kind in (VariableKind.INTEGER, VariableKind.ITERATOR) and v.tree_name
        }
        match extent:
            case Const(value=int(value)):
                return lambda values: value
            case Var(name=name):
                known = names_in_c.get(name)
                return lambda values: None if known is None else values[known]
        used = {name: names_in_c[name] for name in names(extent)}
        return lambda values: value_of(extent, {t: values[c] for t, c in used.items()})

    def _keep(self, region: CRegion, values: dict[str, Any]) -> None:
        """Integers that later regions read are what this one leaves in them."""
        for variable in region.variables:
            if variable.kind is VariableKind.ITERATOR and variable.final is not None:
                table = {
                    v.tree_name: values[v.name]
                    for v in region.variables
                    if v.kind is VariableKind.INTEGER
                    or (v.kind is VariableKind.ITERATOR and v.tree_name)
                }
                values[variable.name] = value_of(variable.final, table)


@functools.cache
def _has_native_calls() -> bool:
    """Whether calls go to the native dispatcher first; asked when the first function is made."""
    return install_native_calls(CFunction)


def _constant_shape(variable: CVariable) -> tuple[int, ...]:
    """The extents of a variable of the file: numbers, or the first as its list has it."""
    known = [None if names(extent) else value_of(extent, {}) for extent in variable.shape]
    if known and known[0] is None:
        known[0] = open_extent(variable, known[1:])
    found = tuple(n for n in known if n is not None)
    if len(found) < len(known):
        raise UsageError(
            f"the extents of '{variable.name}' are not known in this file",
            hint="declare it with constant extents, or make it a parameter",
        )
    return found


def _home(variable: CVariable) -> VariableKind:
    """Where the value of a variable lies in a call: a loop variable that is read is an integer."""
    is_iterator = variable.kind is VariableKind.ITERATOR
    return VariableKind.INTEGER if is_iterator else variable.kind


def _variables(regions: tuple[CRegion, ...]) -> dict[str, CVariable]:
    """The variables that come from outside the regions, by name in C."""
    found: dict[str, CVariable] = {}
    for region in regions:
        given = {param.name for param in region.tree.params}
        for variable in region.variables:
            if variable.tree_name not in given:
                continue
            before = found.setdefault(variable.name, variable)
            if (_home(before), before.dtype) != (_home(variable), variable.dtype):
                # An integer that one region reads and another writes would need two homes.
                raise UsageError(
                    f"'{variable.name}' is {before.kind.value} in one region of "
                    f"'{region.function}' and {variable.kind.value} in another",
                    hint="one region, or two variables",
                )
    return found


def checked_array(
    name: str,
    value: Any,
    dtype: DType,
    shape: tuple[int | None, ...],
    *,
    on_device: bool = False,
) -> Array:
    """An array argument of the given type and extents, laid out as in C; None: any extent.

    Where `on_device`, an array of a device is looked at no further than its extents.
    """
    if on_device and not isinstance(value, np.ndarray):
        extents = tuple(getattr(value, "shape", ()))
        if extents == shape or _fits(extents, shape):
            return value  # type: ignore[no-any-return]
        wanted = "".join("[]" if n is None else f"[{n}]" for n in shape)
        told = "".join(f"[{n}]" for n in extents)
        raise UsageError(f"argument '{name}' has other extents", told, f"{dtype}{wanted}")
    if not isinstance(value, np.ndarray):
        raise UsageError(f"argument '{name}' is a NumPy array", found=type(value).__name__)
    if value.dtype != dtype.numpy:
        hint = f"{name}.astype('{dtype}')"
        raise DtypeError(f"argument '{name}' is of {dtype}", found=str(value.dtype), hint=hint)
    if value.shape != shape and not _fits(value.shape, shape):
        wanted = "".join("[]" if n is None else f"[{n}]" for n in shape)
        found = "".join(f"[{n}]" for n in value.shape)
        raise UsageError(f"argument '{name}' has other extents", found, f"{dtype}{wanted}")
    if not value.flags.c_contiguous or not value.flags.aligned:
        raise UsageError(
            f"argument '{name}' is not laid out as in C",
            found=f"strides {value.strides}",
            hint=f"np.ascontiguousarray({name})",
        )
    return value


def _fits(found: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    pairs = zip(shape, found, strict=False)
    return len(found) == len(shape) and all(n is None or n == m for n, m in pairs)


def known_functions(file: CFile, name: str | None) -> tuple[str, ...]:
    """The functions of a file that hold regions, or the one called `name`."""
    found = tuple(dict.fromkeys(region.function for region in file.regions))
    if name is None:
        return found
    if name not in found:
        raise UsageError(f"no function '{name}' with a region", hint=", ".join(found))
    return (name,)


# -------------------------------------------------------------------------------------------------
# Whether a C function is nothing but its regions: declarations around them, and no other code.
# The text between two regions is not ours to run. It is looked at as text, comments and directives
# left out: a declaration begins with a word and another word, or with words of C's own types.


# Comments, literals and directives, of which only their length counts.
_SKIPPED = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|^[ \t]*#(?:[^\n\\]|\\.)*",
    re.DOTALL | re.MULTILINE,
)
_DECLARATION = re.compile(
    r"(?:(?:static|const|volatile|register|auto|restrict|unsigned|signed|long|short|struct|enum)\s+)*"
    r"[A-Za-z_]\w*(?:\s+(?:const|volatile))*[\s*]+[A-Za-z_]\w*\s*(?:\[|=|,|$)",
    re.DOTALL,
)
_LIST = re.compile(r"(?<=[={,])\s*\{[^{};]*\}")  # of values, the innermost
_ASSIGNMENT = r"(?<![=!<>])=(?!=)"
# A declaration that changes another variable on the way: int k = n++, m = (n = 3);
_CHANGE = re.compile(
    rf"\+\+|--|[-+*/%&|^]=|<<=|>>=|{_ASSIGNMENT}[^,]*{_ASSIGNMENT}|\([^()]*{_ASSIGNMENT}"
)
_NO_TYPE = re.compile(r"(?:return|goto|case|else|do|break|continue|sizeof|typedef)\b")
_LINKAGE = re.compile(r"\bextern\s*\Z")  # extern "C" {, its string blanked


def require_only_regions(file: CFile, regions: tuple[CRegion, ...]) -> None:
    """Raise SourceError unless the function of these regions does nothing outside them."""
    text = _plain(file)
    start, end = _body(text, regions[0].outer_start)
    for first, last in _gaps(regions, start, end):
        offset = first
        for part in text[first:last].split(";"):
            word = part.strip()
            at = offset + len(part) - len(part.lstrip())
            offset += len(part) + 1
            if word and word != "return" and not _is_declaration(word):
                raise SourceError(_other_code(file, regions[0].function, at))


def _plain(file: CFile) -> str:
    """The text with everything that is no code blanked; one byte is one character."""
    return _SKIPPED.sub(_blank, file.source.decode("latin-1"))


def _blank(match: re.Match[str]) -> str:
    return "".join("\n" if c == "\n" else " " for c in match[0])


def _body(text: str, inside: int) -> tuple[int, int]:
    """The range between the outermost braces around a place."""
    depth, start = 0, 0
    for match in re.finditer(r"[{}]", text):
        if match[0] == "{":
            if depth == 0 and _LINKAGE.search(text, start, match.start()):
                continue
            if depth == 0:
                start = match.end()
            depth += 1
        else:
            depth = max(0, depth - 1)
            if depth == 0 and match.start() >= inside:
                return start, match.start()
    return start, len(text)


def _gaps(regions: tuple[CRegion, ...], start: int, end: int) -> list[tuple[int, int]]:
    edges = [start]
    for region in regions:
        edges += (region.outer_start, region.outer_end)
    return list(zip(edges[::2], [*edges[1::2], end], strict=True))


def _is_declaration(text: str) -> bool:
    if re.match(r"(?:_Static_assert|static_assert)\b", text):
        return True
    if not _DECLARATION.match(text) or _NO_TYPE.match(text) or _CHANGE.search(text):
        return False
    count = 1
    while count:
        text, count = _LIST.subn(" 0", text)
    return "{" not in text


def _other_code(file: CFile, function: str, at: int) -> Diagnostic:
    before = file.source[:at].decode(file.encoding, errors="replace")
    line = before.count("\n") + 1
    column = len(before) - before.rfind("\n")
    text = file.source.decode(file.encoding).split("\n")[line - 1].rstrip("\r")
    span = Span(file.name, line, column, line, max(len(text.rstrip()) + 1, column + 1), text)
    hint = "put it into a region or another function; 'loopwright cc' leaves it where it is"
    message = f"'{function}' is more than its regions"
    return Diagnostic(span, message, "LW150", hint=hint)
