"""Assembly of an Athread source, made to call the emulator: accesses, blocks, places in the source.

The host's compiler puts calls before memory accesses (-fsanitize=thread) and into basic blocks
(-fsanitize-coverage=trace-pc). Their names are replaced by those of native/access.c, and each gets
the number of its site, whose file and line the debug information tells. Other calls store the
number of their site in `lw_call_site`.

    mov x0, x19                    mov x0, x19
    bl __tsan_read8         ->     movz w1, #17
                                   bl lw_read8

Floating-point instructions of a block are counted here, once, and added up when the block runs:
Sunway's CPE would need as many slots of its vector pipeline. Spills around the calls change nothing
in these counts; loads and stores are counted as they run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from loopwright.lazy_dataclass import dataclass

__all__ = ["BlockCost", "Instrumented", "Site", "instrument"]

DIVISION_SLOTS = 30  # of a vector division or square root, which is not pipelined (unchecked)

_VECTOR = 32  # bytes, to which variables of the LDM of this size are aligned

_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_CALL = re.compile(r"\s*(?:bl|callq?)\s+([\w.$]+)(?:@PLT)?\s*$")
_GLOBAL = re.compile(r"\s*\.glob[al]+\s+([\w.$]+)")
_FUNCTION = re.compile(r"\s*\.type\s+([\w.$]+),\s*[%@]function")
_SECTION = re.compile(r"\s*\.section\s+(?:__DATA,)?([\w.]+)|\s*\.(text|data|bss)\b")
_SIZE = re.compile(r"\s*\.size\s+([\w.$]+),\s*(\d+)\s*$")
_LABEL = re.compile(r"([\w.$]+):")
_X86_REGISTER = re.compile(r"%[er][a-ds][ipx]\b")
_SHORT_BRANCH = re.compile(r"\s+(tbn?z)\s+(\w+,\s*#?\d+),\s*(\S+)\s*$")
_INSTRUCTION = re.compile(r"\s+([a-z][\w.]*)\s+(\S.*)")
_ACCESS = re.compile(
    r"__tsan_(?:unaligned_)?(?:volatile_)?(?:unaligned_)?(read|write)(\d+)"
    r"|__asan_(load|store)(\d+)(?:_noabort)?"
)
_RANGE = re.compile(r"__tsan_(read|write)_range|__asan_(load|store)N(?:_noabort)?")
_BLOCK = "__sanitizer_cov_trace_pc"
# Functions of the library that touch the memory of the program, or give it some.
_LIBRARY = frozenset({
    "memcpy", "memmove", "memset", "malloc", "calloc", "realloc", "aligned_alloc",
    "posix_memalign", "free",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class BlockCost:
    """Floating-point work of one execution of a basic block."""

    quarter_slots: int = 0  # of the vector pipeline: 4 for a scalar or four lanes
    flops: int = 0


@dataclass(frozen=True, slots=True)
class Site:
    """A call in instrumented code, and what the block costs that it begins."""

    file: str
    line: int
    cost: BlockCost = BlockCost()


@dataclass(frozen=True, slots=True)
class Instrumented:
    """Assembly that calls the emulator."""

    text: str
    sites: tuple[Site, ...]  # numbered from the first one on
    functions: tuple[str, ...]  # that other files can call


def instrument(text: str, first_site: int, *, is_slave: bool) -> Instrumented:
    """The assembly with its calls led to the emulator; its sites are numbered from `first_site`.

    Functions of CPEs get the names by which the host knows them: `slave_f` beside `f`.
    """
    return _Instrumenter(text.splitlines(), first_site).run(is_slave)


class _Instrumenter:
    def __init__(self, lines: Sequence[str], first_site: int) -> None:
        self._lines = lines
        self._first = first_site
        self._is_apple = any(".section\t__TEXT" in line for line in lines[:20])
        self._is_arm = not any(map(_X86_REGISTER.search, lines))
        self._files: dict[str, str] = {}
        self._sites: list[Site] = []
        self._place = ("unknown", 0)
        self._block: int | None = None  # the site of the block that is being read
        self._counts = _Counts()
        self._out: list[str] = []

    def run(self, is_slave: bool) -> Instrumented:
        globals_: set[str] = set()
        functions: list[str] = []
        variables: list[tuple[str, int]] = []
        section = ".text"
        label: str | None = None  # with no instruction after it yet
        for line in self._lines:
            if (match := _SECTION.match(line)) is not None:
                section = match[1] or match[2]
            elif (match := _FILE.match(line)) is not None:
                self._files[match[1]] = match[3] or match[2]
            elif (match := _LOC.match(line)) is not None:
                self._place = (self._files.get(match[1], "unknown"), int(match[2]))
            elif (match := _GLOBAL.match(line)) is not None:
                globals_.add(match[1])
            elif (match := _FUNCTION.match(line)) is not None:
                functions.append(match[1])
            elif section == "__TEXT" and (match := _LABEL.match(line)) is not None:
                functions.append(match[1])  # Mach-O tells no types
            elif (match := _SIZE.match(line)) is not None and section == "lw_ldm":
                variables.append((match[1], int(match[2])))
                if int(match[2]) >= _VECTOR:  # as Sunway's compilers align arrays
                    self._out.append(f"\t.balign\t{_VECTOR}")
            elif (match := _CALL.match(line)) is not None:
                self._call(match[1])
                continue
            elif (match := _SHORT_BRANCH.match(line)) is not None:
                # It reaches 32 KiB, and the calls that come in between need more.
                label, past = None, f".Llw_past{len(self._out)}"
                other = "tbnz" if match[1] == "tbz" else "tbz"
                self._out += [f"\t{other}\t{match[2]}, {past}", f"\tb\t{match[3]}", f"{past}:"]
                continue
            elif (match := _INSTRUCTION.match(line)) is not None:
                if match[2] == label and match[1] in ("b", "jmp"):
                    self._hook("lw_block", 0)  # a loop of nothing, which the compiler leaves alone
                label = None
                self._counts.add(match[1], match[2])
            elif (match := _LABEL.match(line)) is not None:
                label = match[1]
            self._out.append(line)
        self._end_block()
        callable_ = tuple(name for name in functions if name in globals_)
        self._out += self._aliases(callable_) if is_slave else []
        self._out += _variable_table(variables)
        return Instrumented("\n".join([*self._out, ""]), tuple(self._sites), callable_)

    def _call(self, symbol: str) -> None:
        name = symbol.removeprefix("_") if self._is_apple else symbol
        if name == _BLOCK:
            self._end_block()
            self._block = len(self._sites)
            self._hook("lw_block", 0)
        elif (match := _ACCESS.fullmatch(name)) is not None:
            kind = "read" if (match[1] or match[3]) in ("read", "load") else "write"
            self._hook(f"lw_{kind}{match[2] or match[4]}", 1)
        elif (match := _RANGE.fullmatch(name)) is not None:
            kind = "read" if (match[1] or match[2]) in ("read", "load") else "write"
            self._hook(f"lw_{kind}_range", 2)
        else:
            plain = name.removeprefix("__tsan_")
            self._store_site()
            self._emit_call(f"lw_{plain}" if plain in _LIBRARY else name)

    def _site(self) -> int:
        self._sites.append(Site(*self._place))
        return self._first + len(self._sites) - 1

    def _hook(self, name: str, argument: int) -> None:
        """Call a function of access.c with the site as its argument of that number."""
        site = self._site()
        if self._is_arm:
            self._number(f"w{argument}", site)
        else:
            self._out.append(f"\tmovl\t${site}, %{('edi', 'esi', 'edx')[argument]}")
        self._emit_call(name)

    def _store_site(self) -> None:
        """Store the site, by registers that no call takes arguments in."""
        site = self._site()
        if not self._is_arm:
            name = "_lw_call_site" if self._is_apple else "lw_call_site"
            self._out.append(f"\tmovl\t${site}, {name}(%rip)")
            return
        self._number("w16", site)
        if self._is_apple:
            page, offset = "_lw_call_site@PAGE", "_lw_call_site@PAGEOFF"
        else:
            page, offset = "lw_call_site", "#:lo12:lw_call_site"
        self._out += [f"\tadrp\tx17, {page}", f"\tstr\tw16, [x17, {offset}]"]

    def _number(self, register: str, value: int) -> None:
        self._out.append(f"\tmovz\t{register}, #{value & 0xFFFF}")
        if value > 0xFFFF:
            self._out.append(f"\tmovk\t{register}, #{value >> 16}, lsl #16")

    def _emit_call(self, name: str) -> None:
        symbol = f"_{name}" if self._is_apple else name
        self._out.append(f"\t{'bl' if self._is_arm else 'call'}\t{symbol}")

    def _end_block(self) -> None:
        if self._block is not None:
            site = self._sites[self._block]
            self._sites[self._block] = Site(site.file, site.line, self._counts.cost())
        self._block = None
        self._counts = _Counts()

    def _aliases(self, functions: Sequence[str]) -> list[str]:
        made = []
        for symbol in functions:
            plain = symbol.removeprefix("_") if self._is_apple else symbol
            if plain.startswith("slave_"):
                continue
            alias = f"_slave_{plain}" if self._is_apple else f"slave_{plain}"
            made += [f"\t.globl\t{alias}", f"\t.set\t{alias}, {symbol}"]
        return made


def _variable_table(variables: Sequence[tuple[str, int]]) -> list[str]:
    """Data of `struct lw_variable`: where each variable of the LDM lies, its size and its name."""
    if not variables:
        return []
    lines = ['\t.section\tlw_variables,"aw"', "\t.balign\t8"]
    for number, (symbol, size) in enumerate(variables):
        lines += [f"\t.quad\t{symbol}", f"\t.quad\t{size}", f"\t.quad\t.Llw_name{number}"]
    lines.append("\t.data")
    for number, (symbol, _) in enumerate(variables):
        lines += [f".Llw_name{number}:", f'\t.asciz\t"{symbol}"']
    return lines


# -- floating-point instructions -------------------------------------------------------------------

_ARM = re.compile(
    r"f(n?m(?:add|sub)|ml[as]|n?mul|add|sub|abd|div|sqrt|max(?:nm)?|min(?:nm)?|cmpe?|neg|abs)"
)
_X86 = re.compile(r"v?(fn?m(?:add|sub)\d*|mul|add|sub|div|sqrt|max|min|u?comi)([sp])([sd])")
_LANES = re.compile(r"\.(\d+)[ds]")


class _Counts:
    """Floating-point instructions of a block, by kind; products and sums may be fused."""

    def __init__(self) -> None:
        self._products = [0, 0]  # of scalars, of vectors in lanes
        self._sums = [0, 0]
        self._others = [0, 0]
        self._divisions = [0, 0]
        self._flops = 0

    def add(self, mnemonic: str, operands: str) -> None:
        """Count an instruction, if it is one of floating-point numbers."""
        if (match := _ARM.fullmatch(mnemonic)) is not None:
            lanes = _LANES.search(operands)
            if not operands.startswith(("d", "s", "v")):
                return
            self._count(match[1], int(lanes[1]) if lanes is not None else 1, lanes is not None)
        elif (match := _X86.fullmatch(mnemonic)) is not None:
            is_vector = match[2] == "p"
            width = next((w for r, w in (("%zmm", 64), ("%ymm", 32)) if r in operands), 16)
            lanes_ = width // (4 if match[3] == "s" else 8) if is_vector else 1
            self._count(match[1], lanes_, is_vector)

    def _count(self, kind: str, lanes: int, is_vector: bool) -> None:
        if kind in ("cmp", "cmpe", "neg", "abs", "ucomi", "comi"):
            self._others[is_vector] += lanes
            return
        is_fused = re.match(r"f?n?m(add|sub|la|ls)", kind) is not None
        self._flops += 2 * lanes if is_fused else lanes
        if kind in ("mul", "nmul"):
            self._products[is_vector] += lanes
        elif kind in ("add", "sub"):
            self._sums[is_vector] += lanes
        elif kind in ("div", "sqrt"):
            self._divisions[is_vector] += lanes
        else:
            self._others[is_vector] += lanes

    def cost(self) -> BlockCost:
        """What the block costs where each product is fused with a sum as long as there are any."""
        slots = 0
        for is_vector in (False, True):
            fused = max(self._products[is_vector], self._sums[is_vector])
            lanes = fused + self._others[is_vector] + DIVISION_SLOTS * self._divisions[is_vector]
            slots += lanes if is_vector else 4 * lanes
        return BlockCost(slots, self._flops)
