"""Entry points around a kernel: from array objects to pointers, for one thread and for a team.

    <entry>_call(launch, scratch, object...)       alone; its scratch memory starts at `scratch`
    <entry>_run(launch, team, thread, objects)     one thread of a team, objects in an array

An object is the address of a NumPy array object. Its first field after the object header is the
address of the first element: a stable part of NumPy's binary interface (PyArray_DATA reads it the
same way). Reading it in native code is what keeps a repeated call under a few microseconds;
`ndarray.ctypes.data` alone costs two.
"""

from __future__ import annotations

from loopwright.ir.team import ALONE_WORDS, IS_OPEN

__all__ = ["emit_entries", "entry_symbols"]

DATA_OFFSET = object.__basicsize__


def entry_symbols(entry: str) -> tuple[str, ...]:
    """The functions every LLVM module of ours exports."""
    return tuple(f"{entry}{suffix}" for suffix in ("_call", "_run", "_scratch", "_private"))


def emit_entries(entry: str, count: int, *, claims: bool = False) -> str:
    """LLVM text of the two entry points of a kernel with `count` array arguments.

    `claims`: its threads claim pieces of the work, so that the team need not be complete.
    """
    objects = "".join(f", ptr %o{k}" for k in range(count))
    call = [
        f"define void @{entry}_call(ptr %launch, ptr %scratch{objects}) nounwind {{",
        f"  %team = alloca i64, i64 {ALONE_WORDS}, align 128",
        "  store i64 1, ptr %team, align 8",
        "  %team1 = getelementptr i64, ptr %team, i64 1",
        "  store ptr %scratch, ptr %team1, align 8",
        f"  %shared = call i64 @{entry}_scratch(ptr %launch)",
        "  %private = getelementptr i8, ptr %scratch, i64 %shared",
        "  %team2 = getelementptr i64, ptr %team, i64 2",
        "  store ptr %private, ptr %team2, align 8",
    ]
    run = [
        f"define void @{entry}_run(ptr %launch, ptr %team, i64 %thread, ptr %objects) nounwind {{"
    ]
    if claims:
        run += [
            f"  %open = getelementptr i64, ptr %team, i64 {IS_OPEN}",
            "  store atomic i64 1, ptr %open monotonic, align 8",
        ]
    for k in range(count):
        run += [
            f"  %s{k} = getelementptr ptr, ptr %objects, i64 {k}",
            f"  %o{k} = load ptr, ptr %s{k}, align 8",
        ]
    data = [
        line
        for k in range(count)
        for line in (
            f"  %d{k} = getelementptr i8, ptr %o{k}, i64 {DATA_OFFSET}",
            f"  %p{k} = load ptr, ptr %d{k}, align 8",
        )
    ]
    pointers = "".join(f", ptr %p{k}" for k in range(count))
    for lines, thread in ((call, "0"), (run, "%thread")):
        lines += [
            *data,
            f"  call void @{entry}(ptr %launch, ptr %team, i64 {thread}{pointers})",
            "  ret void",
            "}",
        ]
    return "\n".join([*call, *run])
