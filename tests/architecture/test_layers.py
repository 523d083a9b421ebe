"""The layers of the house: who may import whom, where, and which outside libraries."""

import ast
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import islpy
import pytest

import loopwright
from architecture.source_files import comments_of, nodes, python_files, remembered, text_of, tree_of

SOURCE = Path(loopwright.__file__).parent

# Top to bottom. A part imports parts of lower levels only, never a sibling of its own level.
LEVELS: tuple[tuple[str, ...], ...] = (
    ("__main__",),
    ("cli", "explore", "integrations"),
    ("__init__",),
    ("paths",),
    ("calls",),
    ("tuning",),
    ("pipeline",),
    ("targets",),
    ("validate", "sparse"),
    ("kernels",),
    ("planner",),
    ("transform", "lower"),
    ("frontends", "analysis", "backends", "runtime"),
    ("machines", "semirings"),
    ("ir",),
    ("faults",),
    ("log", "time_limit", "tracebacks"),
    ("options",),
    ("child_process",),
    ("clock", "diagnostics", "memo", "compilers", "tables", "undisturbed", "python_text"),
    ("lazy_dataclass",),
)
# Of parts that a level would allow: what analysis finds stands in the schedule that is lowered.
APART = {("lower", "analysis")}
LEVEL = {part: depth for depth, parts in enumerate(LEVELS) for part in parts}

# Outside library -> files that may import it; those in LAZY_ONLY must do so inside a function.
OUTSIDE: dict[str, tuple[str, ...]] = {
    "islpy": ("ir/islkit.py",),
    "llvmlite": ("backends/llvm/*.py", "runtime/llvm_engine.py", "machines/host.py"),
}
LAZY_ONLY = {("llvmlite", "machines/host.py")}

# Imports by name at run time would walk around this test; only the tables of names may do it.
DYNAMIC = {"__init__.py", "cli/__init__.py", "paths/__init__.py", "sparse/__init__.py"}

OUR_VARIABLE = re.compile(r"LOOPWRIGHT_[A-Z_]*")


@dataclass(frozen=True)
class Import:
    """One imported module, as a dotted name with relative imports resolved."""

    module: str
    line: int
    is_inside_function: bool


@dataclass(frozen=True)
class Module:
    """One parsed file of the package."""

    path: str  # relative to the package, with slashes
    name: str  # dotted, beginning with loopwright
    tree: ast.Module
    imports: tuple[Import, ...]
    comments: dict[int, str]  # line -> comment text; empty where no comment says "lazy:"

    @property
    def part(self) -> str:
        """The top-level part the file belongs to; the package's own file is `__init__`."""
        first = self.path.split("/")[0]
        return first.removesuffix(".py")


@remembered
def modules(root: Path) -> dict[str, Module]:
    """Return every module under the package directory `root`, by dotted name."""
    files = {}
    for path, file in python_files(root):
        parts = ["loopwright", *path.removesuffix(".py").split("/")]
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path, file
    found = {}
    for name, (path, file) in files.items():
        tree = tree_of(file)
        comments = comments_of(file) if "lazy:" in text_of(file) else {}
        imports = tuple(imported(name, path, tree, files.keys()))
        found[name] = Module(path, name, tree, imports, comments)
    return found


def imported(name: str, path: str, tree: ast.Module, known: Collection[str]) -> Iterator[Import]:
    """Yield what a module imports; `from package import name` means the module when it is one."""
    for node, inside in nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, inside)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = name.split(".")
                drop = node.level - path.endswith("__init__.py")
                base = ".".join([*up[: len(up) - drop], *([base] if base else [])])
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield Import(full if full in known else base, node.lineno, inside)


def part_of(module: str) -> str:
    """Return the top-level part of a dotted name of ours."""
    names = module.split(".")
    return names[1] if len(names) > 1 else "__init__"


def layer_breaches(root: Path) -> list[str]:
    """Return every import that goes up or sideways, or between parts that are kept apart."""
    known = modules(root)
    breaches = []
    for module in known.values():
        if module.part not in LEVEL:
            breaches.append(f"{module.path}: {module.part} has no level")
            continue
        for item in module.imports:
            other = part_of(item.module)
            if item.module.split(".")[0] != "loopwright" or other == module.part:
                continue
            is_up = LEVEL.get(other, -1) <= LEVEL[module.part]
            if is_up or (module.part, other) in APART:
                breaches.append(f"{module.path}:{item.line}: {module.part} imports {other}")
    return list(dict.fromkeys(breaches))


def placement_breaches(root: Path) -> list[str]:
    """Return every import inside a function without a comment that says why it is lazy."""
    known = modules(root)
    return [
        f"{module.path}:{item.line}: {item.module} imported inside a function, no 'lazy:' comment"
        for module in known.values()
        for item in module.imports
        if item.is_inside_function and not is_explained(module, item.line)
    ]


def is_explained(module: Module, line: int) -> bool:
    return any("lazy:" in module.comments.get(n, "") for n in (line - 1, line))


def outside_breaches(root: Path) -> list[str]:
    """Return every import of islpy or llvmlite outside its files, and every hidden import."""
    known = modules(root)
    breaches = []
    for module in known.values():
        for item in module.imports:
            library = item.module.split(".")[0]
            allowed = OUTSIDE.get(library)
            if allowed is None:
                continue
            if not any(fnmatch(module.path, pattern) for pattern in allowed):
                breaches.append(f"{module.path}:{item.line}: imports {library}")
            elif (library, module.path) in LAZY_ONLY and not item.is_inside_function:
                breaches.append(f"{module.path}:{item.line}: imports {library} at start")
        if module.path in DYNAMIC:
            continue
        for node, _ in nodes(module.tree):
            match node:
                case (
                    ast.Name(id="import_module" | "__import__")
                    | ast.Attribute(attr="import_module")
                ):
                    breaches.append(f"{module.path}:{node.lineno}: imports by name")
    return breaches


def cycles(root: Path) -> list[str]:
    """Return each set of modules that import one another, as text."""
    known = modules(root)
    edges = {
        name: sorted({item.module for item in module.imports} & known.keys() - {name})
        for name, module in known.items()
    }
    reach = {name: reachable(name, edges) for name in known}
    groups = {
        tuple(sorted({name} | {other for other in reach[name] if name in reach[other]}))
        for name in known
        if name in reach[name]
    }
    return [" <-> ".join(group) for group in sorted(groups)]


def reachable(start: str, edges: dict[str, list[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(edges[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += edges[name]
    return seen


def environment_breaches(root: Path) -> list[str]:
    """Return each name of our variables in a file that touches the environment."""
    breaches = []
    for module in modules(root).values():
        if module.path == "options.py":
            continue
        found = [node for node, _ in nodes(module.tree)]
        touches = any(
            (isinstance(n, ast.Attribute) and n.attr in ("environ", "getenv", "putenv"))
            or (isinstance(n, ast.ImportFrom) and n.module == "os")
            for n in found
        )
        breaches += [
            f"{module.path}:{n.lineno}: reads {n.value}"
            for n in found
            if touches
            and isinstance(n, ast.Constant)
            and isinstance(n.value, str)
            and OUR_VARIABLE.fullmatch(n.value)
        ]
    return breaches


# What takes addresses out of their owners, or makes functions of numbers: see runtime/address.
ADDRESSES = frozenset({
    "CFUNCTYPE", "PYFUNCTYPE", "addressof", "from_address", "byref", "pointer",
})  # fmt: skip


def address_breaches(root: Path) -> list[str]:
    """Return each place that could keep an address without its owner."""
    return [
        f"{module.path}:{node.lineno}: {node.attr} is for runtime/address.py"
        for module in modules(root).values()
        if module.path != "runtime/address.py"
        for node, _ in nodes(module.tree)
        if isinstance(node, ast.Attribute)
        and (is_data_address(node) or (node.attr in ADDRESSES and is_ctypes(node)))
    ]


def is_data_address(node: ast.Attribute) -> bool:
    """Say whether this tells where an array lies, or makes an array of a pointer."""
    return node.attr in ("ctypes", "__array_interface__", "__array_struct__", "as_array")


def is_ctypes(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "ctypes"


# Methods of islpy that call a function of Python: see ir/islkit. Lists of Python sort, too.
CALLING_BACK = re.compile(
    "foreach(_.*)?|every(_.*)?|map_.*_bottom_up|remove_map_if|as_polynomial_on_domain"
    "|set_(before|after|at)_each_.*|set_create_leaf|set_print_(for|user)"
    "|get_pieces|get_aggregate_domain"  # by way of functions that islpy has in Python
)
UNSEEN_CALLING_BACK = {"map", "sort"}


def callback_breaches(root: Path) -> list[str]:
    """Return each place that could hand isl a function, in which a signal would be handled."""
    known = modules(root)
    return [
        f"{module.path}:{node.lineno}: {node.attr} is for ir/islkit.py"
        for module in known.values()
        if module.path != "ir/islkit.py"
        and any(item.module.split(".")[0] == "islpy" for item in module.imports)
        for node, _ in nodes(module.tree)
        if isinstance(node, ast.Attribute) and CALLING_BACK.fullmatch(node.attr)
    ]


def test_methods_that_call_back_are_known() -> None:
    found = {
        name
        for kind in vars(islpy).values()
        if isinstance(kind, type)
        for name in dir(kind)
        if "Callable[" in (getattr(kind, name).__doc__ or "")
    }
    assert {name for name in found if not CALLING_BACK.fullmatch(name)} == UNSEEN_CALLING_BACK


Check = Callable[[Path], list[str]]
CHECKS: tuple[Check, ...] = (
    layer_breaches,
    placement_breaches,
    outside_breaches,
    cycles,
    environment_breaches,
    address_breaches,
    callback_breaches,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: getattr(check, "__name__", ""))
def test_house(check: Check) -> None:
    assert check(SOURCE) == []


def test_every_level_is_one_of_the_design() -> None:
    assert len(LEVEL) == sum(map(len, LEVELS))


# Each row: the files of a small house, the check, and what it must say.
FAULTY = (
    (
        {"ir/expr.py": "from loopwright.analysis import legality", "analysis/legality.py": ""},
        layer_breaches,
        ["ir/expr.py:1: ir imports analysis"],
    ),
    (
        {"lower/nest.py": "from loopwright.analysis import legality", "analysis/legality.py": ""},
        layer_breaches,
        ["lower/nest.py:1: lower imports analysis"],
    ),
    (
        {"planner/cost.py": "from .. import pipeline", "pipeline.py": ""},
        layer_breaches,
        ["planner/cost.py:1: planner imports pipeline"],
    ),
    (
        {"ir/expr.py": "if TYPE_CHECKING:\n    from loopwright import einsum"},
        layer_breaches,
        ["ir/expr.py:2: ir imports __init__"],
    ),
    ({"shed.py": ""}, layer_breaches, ["shed.py: shed has no level"]),
    (
        {"ir/expr.py": "def f():\n    import json\n"},
        placement_breaches,
        ["ir/expr.py:2: json imported inside a function, no 'lazy:' comment"],
    ),
    ({"ir/expr.py": "import islpy as isl"}, outside_breaches, ["ir/expr.py:1: imports islpy"]),
    (
        {"backends/c_text/c_printer.py": "from llvmlite import ir"},
        outside_breaches,
        ["backends/c_text/c_printer.py:1: imports llvmlite"],
    ),
    (
        {"machines/host.py": "import llvmlite.binding"},
        outside_breaches,
        ["machines/host.py:1: imports llvmlite at start"],
    ),
    (
        {"runtime/gpu.py": "import importlib\nx = importlib.import_module('islpy')"},
        outside_breaches,
        ["runtime/gpu.py:2: imports by name"],
    ),
    (
        {"ir/a.py": "from . import b", "ir/b.py": "from .c import x", "ir/c.py": "from . import a"},
        cycles,
        ["loopwright.ir.a <-> loopwright.ir.b <-> loopwright.ir.c"],
    ),
    (
        {"calls/a.py": "place = array.ctypes.data", "runtime/address.py": "x = a.ctypes.data"},
        address_breaches,
        ["calls/a.py:1: ctypes is for runtime/address.py"],
    ),
    (
        {"calls/a.py": "memory = np.ctypeslib.as_array(place, (8,))"},
        address_breaches,
        ["calls/a.py:1: as_array is for runtime/address.py"],
    ),
    (
        {"analysis/a.py": "import islpy\nx.foreach_set(lambda part: 0)\ny.sort()\nz.get_pieces()"},
        callback_breaches,
        [
            "analysis/a.py:2: foreach_set is for ir/islkit.py",
            "analysis/a.py:4: get_pieces is for ir/islkit.py",
        ],
    ),
    (
        {"runtime/disk_cache.py": "import os\nname = 'LOOPWRIGHT_CACHE'\nos.environ.get(name)"},
        environment_breaches,
        ["runtime/disk_cache.py:2: reads LOOPWRIGHT_CACHE"],
    ),
)


@pytest.mark.parametrize(("files", "check", "told"), FAULTY)
def test_breach_is_seen(
    tmp_path: Path, files: dict[str, str], check: Check, told: list[str]
) -> None:
    write(tmp_path, files)
    assert check(tmp_path) == told


def test_sound_house_passes(tmp_path: Path) -> None:
    files = {
        "__init__.py": "from .pipeline import compile",
        "__main__.py": "from loopwright.cli import main",
        "cli/__init__.py": "import importlib\nimport loopwright\nimportlib.import_module(x)",
        "pipeline.py": "from loopwright.lower import nest\nfrom loopwright import options",
        "lower/nest.py": "from loopwright.ir import expr\nfrom ..diagnostics import Span",
        "ir/islkit.py": "import islpy as isl",
        "ir/expr.py": "def f():\n    # lazy: slow\n    import json\n    import ast  # lazy: slow",
        "machines/host.py": "def f():\n    import llvmlite  # lazy: slow",
        "machines/load.py": "from loopwright.ir import machine",
        "ir/machine.py": "",
        "runtime/disk_cache.py": "import os\nos.environ['HOME']\nsay('set LOOPWRIGHT_CACHE=0')",
        "options.py": "import os\nfrom .diagnostics import UsageError\nos.environ['LOOPWRIGHT_X']",
        "diagnostics.py": "",
    }
    write(tmp_path, files)
    assert [check(tmp_path) for check in CHECKS] == [[]] * len(CHECKS)


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
