"""Entry points in C around the function of a nest: those that LLVM's kernels have.

    <entry>_call(launch, scratch, object...)       alone
    <entry>_run(launch, team, thread, objects)     likewise, objects in an array
    <entry>_scratch, <entry>_private               bytes of memory that a call must bring: none

Objects are the addresses of array objects (backends/llvm/llvm_entry), whose first field is the
address of the first element. With these, an object file of a C compiler is loaded, bound and called
like one of LLVM's. The nest has no parallel loop, no table and no memory that a call brings.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.backends.c_text.c_syntax import INDEX

__all__ = ["c_entries"]

DATA_OFFSET = object.__basicsize__


def c_entries(entry: str, function: str, scalars: int, arrays: Sequence[str]) -> str:
    """C of the entry points of `function(scalars..., arrays...)`."""
    objects = "".join(f", char *o{k}" for k in range(len(arrays)))
    given = [f"launch[{k}]" for k in range(scalars)]
    given += [f"*(void **)(o{k} + {DATA_OFFSET})" for k in range(len(arrays))]
    passed = "".join(f", objects[{k}]" for k in range(len(arrays)))
    lines = (
        f"void {entry}_call(const {INDEX} *launch, void *scratch{objects})",
        "{",
        f"    {function}({', '.join(given)});",
        "}",
        f"void {entry}_run(const {INDEX} *launch, void *team, {INDEX} thread, char **objects)",
        "{",
        f"    {entry}_call(launch, 0{passed});",
        "}",
        *(
            f"{INDEX} {entry}_{part}(const {INDEX} *launch) {{ return 0; }}"
            for part in ("scratch", "private")
        ),
    )
    return "\n".join((*lines, ""))
