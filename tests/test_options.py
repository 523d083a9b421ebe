"""Options: what each variable accepts, what it refuses and in which words."""

import os
import sys
import threading
from pathlib import Path

import pytest

from loopwright import options
from loopwright.diagnostics import UsageError
from loopwright.options import Options, cache_dir, current, override, parse


def _parse(**variables: str) -> Options:
    return parse({f"LOOPWRIGHT_{name}": value for name, value in variables.items()})


def test_defaults() -> None:
    assert parse({"PATH": "/bin", "LOOPWRIGHT_CACHE": "", "LOOPWRIGHT_LOG": "  "}) == Options()


def test_every_variable() -> None:
    read = _parse(
        CACHE_DIR="/var/cache/lw",
        CACHE="0",
        CACHE_LIMIT="2g",
        CODE_LIMIT="300",
        NUM_THREADS=" 8 ",
        INTERPRET="1",
        BOUNDSCHECK="Yes",
        DUMP="llvm, schedule,,llvm,loops:Simplify",
        CPU="neoverse-n1",
        LOG="tune",
        COLOR="Never",
        CHECK="on",
        FULL_TRACEBACKS="true",
        COMPILE_SECONDS="90",
        STRICT="1",
    )
    assert read == Options(
        cache_dir="/var/cache/lw",
        cache=False,
        cache_limit=2 << 30,
        code_limit=300,
        num_threads=8,
        interpret=True,
        boundscheck=True,
        dump=("schedule", "llvm", "loops:simplify"),
        cpu="neoverse-n1",
        log=("tune",),
        color="never",
        check=True,
        full_tracebacks=True,
        compile_seconds=90,
        strict=True,
    )


FLAG = "1 or 0 (also true/false, yes/no, on/off)"
THREADS = "a whole number from 1 to 4096"
BYTES = "a number of bytes above 0, such as 500M or 2G"
REFUSED = (
    ("CACHE", "maybe", FLAG),
    ("INTERPRET", "2", FLAG),
    ("NUM_THREADS", "0", THREADS),
    ("NUM_THREADS", "-3", THREADS),
    ("NUM_THREADS", "1_0", THREADS),
    ("NUM_THREADS", "٣", THREADS),
    ("NUM_THREADS", "4097", THREADS),
    ("CACHE_LIMIT", "0", BYTES),
    ("CACHE_LIMIT", "G", BYTES),
    ("CODE_LIMIT", "-1", BYTES),
    ("CODE_LIMIT", "1.5G", BYTES),
    ("CODE_LIMIT", "5T", BYTES),
    ("CODE_LIMIT", "9" * 16, BYTES),
    ("NUM_THREADS", "9" * 50, THREADS),
    (
        "DUMP",
        "asm,ptx",
        "a comma-separated list of schedule, loops, llvm, asm, c, "
        "or loops:PASS for the loops after a pass",
    ),
    ("LOG", "all", "a comma-separated list of cache, plan, python, recompile, time, tune"),
    ("CPU", "../zen3", "a machine name such as zen3 or neoverse-n1"),
    ("COLOR", "red", "one of auto, always, never"),
    ("COMPILE_SECONDS", "0.5", "a whole number of seconds, 0 for no limit"),
    ("COMPILE_SECONDS", "-1", "a whole number of seconds, 0 for no limit"),
)


@pytest.mark.parametrize(("name", "value", "accepted"), REFUSED)
def test_refusals(name: str, value: str, accepted: str) -> None:
    with pytest.raises(UsageError) as caught:
        _parse(**{name: value})
    assert str(caught.value) == (
        f"LOOPWRIGHT_{name} has a value we cannot use\nnote: found {value!r}\ntry: {accepted}"
    )


def test_long_values_are_cut() -> None:
    with pytest.raises(UsageError) as caught:
        _parse(COLOR="x" * 100)
    assert caught.value.found == repr("x" * 57 + "...")


def test_unknown_variable_is_told() -> None:
    with pytest.warns(UserWarning, match=r"^LOOPWRIGHT_THREADS is not a Loopwright option") as told:
        assert _parse(THREADS="4") == Options()
    assert str(told[0].message) == (
        "LOOPWRIGHT_THREADS is not a Loopwright option and has no effect; the options are "
        "LOOPWRIGHT_CACHE_DIR, LOOPWRIGHT_CACHE, LOOPWRIGHT_CACHE_LIMIT, "
        "LOOPWRIGHT_CODE_LIMIT, LOOPWRIGHT_DATA_DIR, LOOPWRIGHT_RECORDS, "
        "LOOPWRIGHT_RACE, LOOPWRIGHT_RACE_COMPILER, LOOPWRIGHT_NUM_THREADS, LOOPWRIGHT_INTERPRET, "
        "LOOPWRIGHT_BOUNDSCHECK, LOOPWRIGHT_DUMP, LOOPWRIGHT_CPU, LOOPWRIGHT_LOG, "
        "LOOPWRIGHT_COLOR, LOOPWRIGHT_CHECK, LOOPWRIGHT_FULL_TRACEBACKS, "
        "LOOPWRIGHT_COMPILE_SECONDS, LOOPWRIGHT_STRICT"
    )


def test_current_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    before = current()
    with monkeypatch.context() as patch:
        patch.setenv("LOOPWRIGHT_NUM_THREADS", "3")
        assert current() is before
        assert options.reload().num_threads == 3
        assert current().num_threads == 3
    assert options.reload() == before


def test_override_reaches_other_threads_and_ends() -> None:
    before = current()
    seen: list[Options] = []
    with override(num_threads=5, cache=False) as inside:
        worker = threading.Thread(target=lambda: seen.append(current()))
        worker.start()
        worker.join()
        with override(num_threads=6):
            assert current().num_threads == 6
            assert current().cache is False
        assert current() is inside
    assert seen == [inside]
    assert current() is before


def test_override_ends_after_an_error() -> None:
    before = current()
    with pytest.raises(KeyError), override(check=False):
        raise KeyError
    assert current() is before


def test_override_refuses_unknown_fields() -> None:
    with pytest.raises(UsageError) as caught, override(threads=5):
        pass
    assert str(caught.value) == (
        "override() takes the fields of Options\n"
        "note: found threads\n"
        "try: one of cache_dir, cache, cache_limit, code_limit, data_dir, records, race, "
        "race_compiler, num_threads, interpret, boundscheck, dump, cpu, log, color, check, "
        "full_tracebacks, compile_seconds, strict"
    )


def test_cache_dir_of_our_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for value, place in (("~/kept", "kept"), ("near", "near")):
        with override(cache_dir=_parse(CACHE_DIR=value).cache_dir):
            assert cache_dir() == tmp_path / place


def test_cache_dir_of_the_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with override(cache_dir=None):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        assert cache_dir() == tmp_path / "xdg" / "loopwright"
        monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
        monkeypatch.setattr(sys, "platform", "linux")
        assert cache_dir() == tmp_path / ".cache" / "loopwright"
        monkeypatch.setattr(sys, "platform", "darwin")
        assert cache_dir() == tmp_path / "Library" / "Caches" / "loopwright"


def test_cache_dir_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError) as caught:
        _parse(CACHE_DIR="~nobody-of-this-name/cache")
    assert str(caught.value) == (
        "LOOPWRIGHT_CACHE_DIR: the home directory of this user is not known\n"
        "note: found '~nobody-of-this-name/cache'\n"
        "try: LOOPWRIGHT_CACHE_DIR=/some/directory"
    )


def test_tests_have_a_cache_of_their_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Under the temporary folder of all workers, if there are several."""
    base = tmp_path_factory.getbasetemp()
    assert cache_dir().parent == (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)
    assert current().check
