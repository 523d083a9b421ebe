"""Generated Athread code with one change each: the emulator finds it and names the line.

The text is that of real kernels under stored plans (`plans`, as `cc --dump-plan` writes them), so
that it stays the same whatever planners learn. A change is one replacement in one file. Functions
of the generated header are told of by the lines that call them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from athread.emulated import Emulated, Job
from athread.kernel_runs import call_of, has_bits_of
from athread.test_generated_kernels import program_named
from drawn import drawn
from loopwright.machines.load_mesh import load_mesh
from loopwright.runtime.athread_emulator.athread_run import AthreadFault
from loopwright.transform.plan import Plan
from needed_tools import needs_compiler

pytestmark = needs_compiler

PLANS = Path(__file__).parent / "plans"
SW = load_mesh("sw26010")
SLAVE, HEADER = "programs_slave.c", "programs_athread.h"
SIZES = {
    "gemm": {"ni": 20, "nj": 37, "nk": 19},
    "syrk": {"n": 37, "m": 20},
    "heat-3d": {"tsteps": 2, "n": 12},
}
GET_C = "lw_get(&C_box[0], &C[i_t * nj + j_t], C_box_by0, C_box_by1 * 8, (nj - C_box_by1) * 8);"
PUT_C = "lw_put(&C[i_t * nj + j_t], &C_box[0], C_box_by0, C_box_by1 * 8, (nj - C_box_by1) * 8);"
PUT_SYRK = "lw_put(&C[i_t * n + j_t], &C_box[0], C_box_by0, C_box_by1 * 8, (n - C_box_by1) * 8);"
PRODUCT = "C_box[(i_2 - i_t) * C_box_by1 + (j_1 - j_t)] +="
STENCIL = "B_box[(i - B_box_at0) * (B_box_by2 * 4) +"

# Kernel, file, old text, new text, what is told, and a part of the lines that may be named: the
# changed one, or, of a race and of a missing statement, those that it was to keep apart.
Bug = tuple[str, str, str, str, str, tuple[str, ...]]
BUGS: dict[str, Bug] = {
    "missing reset": (
        "gemm", HEADER, "    lw_reply = 0;\n    lw_parts = 0;", "    lw_parts = 0;",
        "was not reset|it has not waited for its reply", ("lw_get(", "lw_put(", "C_box["),
    ),
    "gap and block size swapped": (
        "gemm", HEADER, "(int)(rows * width), (void *)reply, 0, (int)gap,\n"
        "                rows == 1 ? 0 : (int)width);",
        "(int)(rows * width), (void *)reply, 0,\n"
        "                rows == 1 ? 0 : (int)width, (int)gap);",
        "no whole number of blocks|are block size and gap swapped", ("lw_get",),
    ),
    "overlapping put": (
        "gemm", SLAVE, PUT_C, PUT_C.replace("nj + j_t]", "nj]"),
        r"\(athread_put\), which CPE \d+ (writes|reads) at", (PUT_C[:12], GET_C[:12]),
    ),
    "a box put over a neighbour's elements": (
        "syrk", SLAVE, PUT_SYRK,
        PUT_SYRK.replace("C_box_by1 * 8, (n -", "(C_box_by1 + 1) * 8, (n - 1 -"),
        r"which CPE \d+ (writes|reads) at|beyond the (end of the|LDM)",
        ("lw_put(&C[", "lw_get(&C_box"),
    ),
    "LDM overflows": (
        "heat-3d", SLAVE, "double *const B_box = (double *)(lw_boxes + 37248);",
        "double *const B_box = ldm_malloc(32768);", "the LDM overflows by", ("ldm_malloc(32768)",),
    ),
    "a box beyond the LDM": (
        "gemm", SLAVE, "double *const A_box = (double *)(lw_boxes + 0);",
        "double *const A_box = (double *)(lw_boxes + 65536);",
        "go beyond the LDM|is not in the LDM", ("lw_get_ahead(&A_box[0]",),
    ),
    "missing barrier": (
        "heat-3d", SLAVE, "        lw_barrier();\n        for", "        for",
        "(writes at|put itself at) .* with no barrier", ("lw_get_part", "lw_put_part"),
    ),
    "unaligned address": (
        "gemm", SLAVE, "lw_get_ahead(&A_box[0], &A[", "lw_get_ahead(&A_box[0], 2 + (char *)&A[",
        "with the main memory address .*, which is no multiple of 4", ("2 + (char *)&A[",),
    ),
    "early read": (
        "heat-3d", SLAVE, "                        lw_end_parts();\n                    }\n"
        "                    const long B_box_at0",
        "                    }\n                    const long B_box_at0",
        r"reads \d+ bytes at lw_boxes.*, under transfer by the athread_get", ("A_box[", STENCIL),
    ),
    "missing wait": (
        "gemm", SLAVE, "                lw_wait_ahead();\n", "",
        "under transfer by the athread_get", ("A_box[", PRODUCT, "lw_get_ahead", "(k - "),
    ),
    "wrong count": (
        "heat-3d", SLAVE, "                        lw_end_parts();\n                    }\n"
        "                    const long B_box_at0",
        "                        lw_parts++, lw_end_parts();\n                    }\n"
        "                    const long B_box_at0",
        "waits for ever for 'lw_reply'", ("lw_parts++",),
    ),
    "count too low": (
        "heat-3d", SLAVE, "                        lw_end_parts();\n                    }\n"
        "                    const long B_box_at0",
        "                        lw_parts--, lw_end_parts();\n                    }\n"
        "                    const long B_box_at0",
        "under transfer by|in flight|was not reset",
        ("A_box[", STENCIL, "lw_parts--", "lw_get_part"),
    ),
    "wrong leading dimension": (
        "gemm", SLAVE, PUT_C, PUT_C.replace("i_t * nj", "i_t * ni"),
        r"\(athread_(put|get)\), which CPE \d+ (writes|reads) at", ("lw_put(&C[", "lw_get(&C_box"),
    ),
    "put before the work ends": (
        "gemm", SLAVE, GET_C, GET_C + " " + PUT_C.replace("lw_put", "lw_put_part"),
        "the source of the athread_put of .*, before it is done|under transfer|in flight",
        ("C_box[(i - i_t)", "*= beta", "lw_put_part(&C["),
    ),
    "missing fence": (
        "gemm", HEADER, "    LW_TIMED(dma, dma_wait(reply, count));\n#endif\n    lw_fence();",
        "    LW_TIMED(dma, dma_wait(reply, count));\n#endif",
        r"with no memory barrier \(memb\) since its reply was seen", ("lw_a", "C_box["),
    ),
    "source and target swapped": (
        "gemm", SLAVE, "lw_put(&C[i_t * nj + j_t], &C_box[0]",
        "lw_put(&C_box[0], &C[i_t * nj + j_t]", "is not in the LDM", ("lw_put(&C_box[0], &C[",),
    ),
    "a row too many": (
        "gemm", SLAVE, PUT_C, PUT_C.replace("C_box_by0,", "C_box_by0 + 1,"),
        r"which CPE \d+ (writes|reads) at|beyond the (end of the|LDM)",
        ("lw_put(&C[", "lw_get(&C_box"),
    ),
    "a barrier that some cores miss": (
        "heat-3d", SLAVE, "        lw_barrier();\n        for",
        "        if (lw_row) lw_barrier();\n        for",
        "no CPE can go on|with no barrier", ("lw_barrier", "lw_put_part", "lw_get_part"),
    ),
}  # fmt: skip


def job(name: str) -> tuple[Job, dict[str, np.ndarray]]:
    return call_of(name, SIZES[name])


@cache
def plan_of(name: str) -> Plan:
    return Plan.loads((PLANS / f"{name}.json").read_text(encoding="utf-8"))


def built(name: str, folder: Path, edit: Callable[[str, str], str] | None = None) -> Emulated:
    plan = plan_of(name)
    programs = {name: program_named(name)}
    return Emulated(programs, SW, (8, 8), folder, plans={name: plan}, edit=edit)


@pytest.mark.parametrize("name", drawn(SIZES, 3))
def test_without_a_change_kernels_are_right(name: str, tmp_path: Path) -> None:
    call, expected = job(name)
    built(name, tmp_path).run([call])
    assert all(has_bits_of(call[1][array], right) for array, right in expected.items())


@pytest.mark.parametrize("bug", BUGS)
def test_the_bug_is_found(bug: str, tmp_path: Path) -> None:
    name, file, old, new, told, lines = BUGS[bug]

    def changed(path: str, text: str) -> str:
        if path != file:
            return text
        assert old in text
        return text.replace(old, new, 1)

    with pytest.raises(AthreadFault) as raised:
        built(name, tmp_path, changed).run([job(name)[0]], seed=1)
    fault = raised.value
    assert re.search(told, fault.message), fault.message
    # The line is the mutated one, or one whose work the change has broken.
    assert Path(fault.file).name == SLAVE
    assert any(part in fault.text for part in lines), f"{fault.line}: {fault.text}"


def test_what_was_put_need_not_have_come_to_memory(tmp_path: Path) -> None:
    """A core that gets again what it has put: right on one queue, and found where asked for."""
    build = built("gemm", tmp_path, lambda _, text: text.replace(PUT_C, f"{PUT_C} {GET_C}"))
    call, expected = job("gemm")
    build.run([call], strict=False)
    assert has_bits_of(call[1]["C"], expected["C"])
    with pytest.raises(AthreadFault) as raised:
        build.run([job("gemm")[0]])
    line = f"{tmp_path / SLAVE}:{raised.value.line}"
    assert f"(athread_get), which it has put itself at {line}, with no bar" in raised.value.message


def test_a_barrier_of_requests_orders_puts_and_gets(tmp_path: Path) -> None:
    again = f"{PUT_C} lw_after_puts(); {GET_C}"
    build = built("gemm", tmp_path, lambda _, text: text.replace(PUT_C, again))
    call, expected = job("gemm")
    build.run([call])
    assert has_bits_of(call[1]["C"], expected["C"])


def test_what_was_put_is_read_directly_when_it_has_landed(tmp_path: Path) -> None:
    """A barrier of requests is for requests; where one behind it has ended, puts have landed."""
    place = PUT_C.partition("(&")[2].partition(",")[0]
    for ways, is_right in (("lw_after_puts();", False), ("lw_land(lw_argument);", True)):
        folder = tmp_path / str(is_right)
        folder.mkdir()
        again = f"{PUT_C} {ways} *(volatile double *)&{place};"
        build = built("gemm", folder, lambda _, text, new=again: text.replace(PUT_C, new))
        if is_right:
            build.run([job("gemm")[0]])
            continue
        with pytest.raises(AthreadFault, match=r"\(directly\), which it has put itself"):
            build.run([job("gemm")[0]])
