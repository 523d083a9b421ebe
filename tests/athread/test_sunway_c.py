"""What Sunway's compilers take beyond C, and what is left alone."""

import pytest

from loopwright.runtime.athread_emulator.sunway_c import rewrite_sunway_c


def _splat(kind: str, value: str) -> str:
    return f"_Generic(({value}), {kind}: lw_same_{kind}, default: lw_splat_{kind})({value})"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('asm volatile("memb");', "((void)0);"),
        ('__asm__ __volatile__ ("memb\\n\\t" ::: "memory");', "athread_memory_barrier();"),
        ('asm volatile("rcsr %0, 2" : "=r"(cid));', "((cid) = lw_csr(2));"),
        ('asm volatile ("rcsr %0, 4":"=&r"(t[f(1, 2)])::"memory");', "((t[f(1, 2)]) = lw_csr(4));"),
        ('asm("rtc %0" : "=r"(now));', "((now) = athread_time_cycle());"),
        (
            'asm volatile ("putr %0,%1\\n"::"r"(v),"r"(dst));',
            "({ __typeof__(v) lw_v = (v); lw_send(1, &lw_v, sizeof lw_v, (dst)); });",
        ),
        (
            'asm volatile ("getc %0\\n":"=r"(v));',
            "({ __typeof__(v) lw_v; lw_receive(0, &lw_v, sizeof lw_v); (v) = lw_v; });",
        ),
        ('asm volatile("synr 0xff");', "athread_syn(ROW_SCOPE, 0xff);"),
        # Not Sunway's: the host's compiler says what it thinks of it.
        ('asm("vaddd %0, %1, %1" : "=r"(x));', 'asm("vaddd %0, %1, %1" : "=r"(x));'),
        ('int f(void) __asm__("__f64");', 'int f(void) __asm__("__f64");'),
        ("doublev4 v = 0;", f"doublev4 v = {_splat('doublev4', '0')};"),
        (
            "doublev4 a = x[i], b, c = g(1, 2);",
            f"doublev4 a = {_splat('doublev4', 'x[i]')}, b, c = {_splat('doublev4', 'g(1, 2)')};",
        ),
        ("doublev4 v = {1, 2, 3, 4};", "doublev4 v = {1, 2, 3, 4};"),
        ("s = (doublev4)p->x * w;", f"s = {_splat('doublev4', 'p->x')} * w;"),
        ("s = f((floatv4)-a[i].b(3)[2], y);", f"s = f({_splat('floatv4', '-a[i].b(3)[2]')}, y);"),
        ("void f(doublev4 a, doublev4 b);", "void f(doublev4 a, doublev4 b);"),
        ("n = sizeof(doublev4) * 2;", "n = sizeof(doublev4) * 2;"),
        ("v = (doublev4){0};", "v = (doublev4){0};"),
        ('puts("asm(memb) (doublev4)x");', 'puts("asm(memb) (doublev4)x");'),
    ],
)
def test_rewrites(before: str, after: str) -> None:
    assert rewrite_sunway_c(before) == after


def test_lines_stay_where_they_are() -> None:
    text = 'asm volatile(\n  "memb"\n);\ndoublev4 v =\n   0;\nx;'
    found = rewrite_sunway_c(text)
    assert found.count("\n") == text.count("\n")
    assert found.splitlines()[-1] == "x;"
