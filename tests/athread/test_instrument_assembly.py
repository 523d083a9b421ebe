"""Assembly as compilers write it, led to the emulator: both instruction sets, both systems."""

from loopwright.runtime.athread_emulator.instrument_assembly import (
    BlockCost,
    Instrumented,
    instrument,
)

ARM = """\
\t.file 1 "a dir/slave.c"
\t.global\tf
\t.type\tf, %function
f:
\t.loc 1 6 25
\tbl\t__sanitizer_cov_trace_pc
.L3:
\t.loc 1 7 3
\tbl\t__sanitizer_cov_trace_pc
\tmov\tx0, x19
\tbl\t__tsan_read8
\tldr\td8, [x19], 8
\tfmul\td0, d8, d0
\tfadd\td9, d9, d0
\tfmul\tv1.2d, v1.2d, v3.2d
\tfdiv\td1, d1, d2
\tmov\tx1, 32
\tbl\t__tsan_write_range
\tbne\t.L3
\t.loc 1 9 1
\tbl\tathread_syn
\tbl\tmemcpy
\tret
\t.section\tlw_ldm,"aw"
\t.type\tbuf, %object
\t.size\tbuf, 1024
buf:
\t.zero\t1024
"""

X86 = """\
\t.file 1 "slave.c"
\t.globl\tf
\t.type\tf, @function
f:
\tsubq\t$8, %rsp
\t.loc 1 3 1
\tcall\t__sanitizer_cov_trace_pc@PLT
\tmovsd\t(%rbx), %xmm0
\tmulsd\t%xmm1, %xmm0
\taddpd\t%xmm1, %xmm0
\tvfmadd231pd\t%ymm1, %ymm0, %ymm2
\tcall\t__tsan_read4@PLT
\tcall\tathread_get@PLT
"""

APPLE = """\
\t.section\t__TEXT,__text,regular,pure_instructions
\t.globl\t_f
_f:
\tbl\t___sanitizer_cov_trace_pc
\tbl\t___asan_loadN_noabort
\tbl\t_athread_syn
"""


def _lines(found: Instrumented) -> list[str]:
    return [line.strip().replace("\t", " ") for line in found.text.splitlines()]


def test_accesses_and_blocks_on_arm() -> None:
    found = instrument(ARM, 70000, is_slave=True)
    lines = _lines(found)
    at = lines.index("bl lw_read8")
    assert lines[at - 2 : at] == ["movz w1, #4466", "movk w1, #1, lsl #16"]  # 70002
    assert lines[lines.index("bl lw_write_range") - 1] == "movk w2, #1, lsl #16"
    at = lines.index("bl athread_syn")
    assert lines[at - 2 : at] == ["adrp x17, lw_call_site", "str w16, [x17, #:lo12:lw_call_site]"]
    assert "bl lw_memcpy" in lines
    assert [(s.file, s.line) for s in found.sites] == [
        ("a dir/slave.c", n) for n in (6, 7, 7, 7, 9, 9)
    ]
    # One fused product and sum, half a vector of products, a division of 30 slots.
    assert found.sites[1].cost == BlockCost(4 + 2 + 4 * 30, 5)
    assert found.sites[0].cost == BlockCost()
    assert ".set slave_f, f" in lines
    assert lines[lines.index(".quad buf") + 1] == ".quad 1024"


def test_functions_of_the_host_keep_their_names() -> None:
    assert "slave_f" not in instrument(ARM, 1, is_slave=False).text


def test_accesses_and_blocks_on_x86() -> None:
    found = instrument(X86, 1, is_slave=True)
    lines = _lines(found)
    assert lines[lines.index("call lw_block") - 1] == "movl $1, %edi"
    assert lines[lines.index("call lw_read4") - 1] == "movl $2, %esi"
    assert lines[lines.index("call athread_get") - 1] == "movl $3, lw_call_site(%rip)"
    # A product, two sums of two lanes, four fused: slots are in quarters of a vector.
    assert found.sites[0].cost == BlockCost(4 + 2 + 4, 1 + 2 + 8)


def test_names_of_macos() -> None:
    lines = _lines(instrument(APPLE, 1, is_slave=True))
    assert lines[lines.index("bl _lw_block") - 1] == "movz w0, #1"
    assert lines[lines.index("bl _lw_read_range") - 1] == "movz w2, #2"
    assert "str w16, [x17, _lw_call_site@PAGEOFF]" in lines
    assert ".set _slave_f, _f" in lines


def test_a_loop_of_nothing_is_seen() -> None:
    found = instrument("\t.text\n.L2:\n\tb\t.L2\n", 1, is_slave=True)
    assert _lines(found)[1:5] == [".L2:", "movz w0, #1", "bl lw_block", "b .L2"]
