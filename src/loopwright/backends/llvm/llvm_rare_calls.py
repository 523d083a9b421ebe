"""Functions of the library for the few numbers that straight lines of arithmetic cannot do.

A number at a time it is a branch and a call. LLVM makes vectors of a loop with that branch where
the call has a variant for vectors with a mask: all lanes are asked whether any needs the call, and
only then it is made, lane by lane. The variants are put in place of their calls when loops have
become vectors (`runtime/llvm_engine`): called each time they would cost more than the arithmetic.
They are weak, because nothing names them before, and LLVM drops what is private and has no name.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.backends.llvm.llvm_arithmetic import select
from loopwright.backends.llvm.llvm_builder import Flag, FunctionBuilder, SSAValue
from loopwright.backends.llvm.llvm_memory import extract, gather

__all__ = ["any_of", "called_where"]

_PREFIX = "lw_rare_"
_LANES = (2, 4, 8, 16)
_LINKAGE, _PURE = "weak_odr hidden", "nounwind willreturn memory(none)"


def called_where(
    code: FunctionBuilder, is_rare: Flag, function: str, x: SSAValue, value: SSAValue
) -> SSAValue:
    """The library's `function` of x where `is_rare` holds, `value` elsewhere; lane by lane."""
    any_rare, lanes = any_of(code, [is_rare]), x.lanes
    before, rare, done = code.block, code.label("rare"), code.label("usual")
    code.effect(f"br i1 {any_rare}, label %{rare}, label %{done}")
    with code.scope():
        code.start(rare)
        if lanes == 1:
            found = _called(code, function, x)
        else:
            each = [_called(code, function, extract(code, x, lane)) for lane in range(lanes)]
            found = select(code, is_rare, gather(code, each), value)
        code.branch(done)
    code.start(done)
    text = code.emit(f"phi {value.type} [ {value.text}, %{before} ], [ {found.text}, %{rare} ]")
    return SSAValue(text, value.dtype, lanes)


def any_of(code: FunctionBuilder, flags: Sequence[Flag]) -> str:
    """Whether one of some flags, all of as many lanes, is set in any lane; i1."""
    found = flags[0].text
    for flag in flags[1:]:
        found = code.emit(f"or {flag.type} {found}, {flag.text}")
    lanes = flags[0].lanes
    if lanes == 1:
        return found
    return code.call("i1", f"llvm.vector.reduce.or.v{lanes}i1", Flag(found, lanes))


def _called(code: FunctionBuilder, function: str, x: SSAValue) -> SSAValue:
    """One call, by a function of ours: LLVM would make the library's own ahead of the branch."""
    name, kind = _PREFIX + function, x.type
    code.declarations[f"declare {kind} @{function}({kind})"] = None
    code.declarations[
        f"define {_LINKAGE} {kind} @{name}({kind} %x) noinline cold {_PURE} {{\n"
        f"  %y = call {kind} @{function}({kind} %x)\n"
        f"  ret {kind} %y\n}}"
    ] = None
    for lanes in _LANES:
        code.declarations[
            f"declare i1 @llvm.vector.reduce.or.v{lanes}i1({Flag('', lanes).type})"
        ] = None
        code.declarations[_variant(name, kind, lanes)] = None
    variants = ",".join(f"_ZGV_LLVM_M{lanes}v_{name}({name}_{lanes})" for lanes in _LANES)
    told = f'"vector-function-abi-variant"="{variants}"'
    return SSAValue(code.emit(f"call {kind} @{name}({kind} {x.text}) {told}"), x.dtype)


def _variant(name: str, kind: str, lanes: int) -> str:
    """The function of a vector: called lane by lane where any lane of the mask is set."""
    vector, mask = f"<{lanes} x {kind}>", f"<{lanes} x i1>"
    lines = [
        f"define {_LINKAGE} {vector} @{name}_{lanes}({vector} %x, {mask} %mask)"
        f" alwaysinline {_PURE} {{",
        "entry:",
        f"  %any = call i1 @llvm.vector.reduce.or.v{lanes}i1({mask} %mask)",
        "  br i1 %any, label %rare, label %done",
        "rare:",
    ]
    found = "poison"
    for k in range(lanes):
        lines += [
            f"  %x{k} = extractelement {vector} %x, i32 {k}",
            f"  %y{k} = call {kind} @{name}({kind} %x{k})",
            f"  %v{k} = insertelement {vector} {found}, {kind} %y{k}, i32 {k}",
        ]
        found = f"%v{k}"
    lines += [
        "  br label %done",
        "done:",
        f"  %found = phi {vector} [ poison, %entry ], [ {found}, %rare ]",
        f"  ret {vector} %found",
        "}",
    ]
    return "\n".join(lines)
